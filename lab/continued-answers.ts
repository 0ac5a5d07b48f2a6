/**
 * How exactly a real server goes on with answers: greedy answers are broken at random positions and sent on by the agent's own
 * front, and each result is compared with the unbroken answer.
 *
 *   node lab/continued-answers.ts --url http://127.0.0.1:8080 [--other URL] [--answers 40] [--tokens 64] [--seed 1] [--json FILE]
 *
 * `--other`: another server of the same model goes on, which has nothing of the answer in its cache.
 */
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { createFront } from '../gpu-agent/src/fronts/create-front.ts'
import type { EngineFront } from '../gpu-agent/src/fronts/engine-front.ts'
import { dispatched, user } from '../gpu-agent/src/fronts/testing/dispatched.ts'
import { RecordingSink } from '../gpu-agent/src/fronts/testing/recording-sink.ts'
import { seededRandom } from '../simulator/random.ts'
import { AnswerSoFar } from '../src/core/call/answer-so-far.ts'
import { eventId, type Resume } from '../src/protocol/index.ts'

const TOPICS = [
  ...['the sea', 'a lighthouse', 'baking bread', 'the moon', 'a small robot', 'winter in a city', 'how rivers form'],
  ...[
    'a game of chess',
    'a garden',
    'trains',
    'the history of paper',
    'fixing a bicycle',
    'rain',
    'fruits and colours',
  ],
  ...['sorting numbers in Python', 'music', 'volcanoes', 'a letter to a friend', 'bees', 'life in a desert'],
]
const FORMS = ['Write about', 'Make a list about', 'Explain to a child:', 'Ask five questions about']

const { values } = parseArgs({
  options: {
    url: { type: 'string' },
    other: { type: 'string' },
    answers: { type: 'string', default: '40' },
    tokens: { type: 'string', default: '64' },
    seed: { type: 'string', default: '1' },
    json: { type: 'string' },
  },
})
const { url, other = url } = values
if (url === undefined || other === undefined) throw new Error('--url says where the server is')

async function attached(id: string, base: string): Promise<EngineFront> {
  const server = {
    ...{ url: base.replace(/\/(v1\/?)?$/, ''), key_variable: null, api_key: null, further_keys: [], kind: null },
    ...{ models: null, model: '', kv_tokens: null, probe: true, start_limit_ms: 60_000, limits: [] },
  }
  const models = (await (await fetch(`${server.url}/v1/models`)).json()) as { data: { id: string }[] }
  server.model = models.data[0]?.id ?? ''
  const options = { engine: 'openai', id, model_id: 'm', policy: 'fcfs', server } as const
  const events = { ledger: () => undefined, status: () => undefined, epoch: () => undefined }
  return createFront(options, events, undefined, undefined, {
    ...{ leaving: new AbortController().signal, lost: [] },
    report: (event) => {
      if (event.event === 'server_attached') console.log(JSON.stringify({ kind: event.kind, ...event.behaviour }))
    },
  })
}

async function answer(front: EngineFront, body: Record<string, unknown>, resume?: Resume): Promise<RecordingSink> {
  const sink = new RecordingSink()
  // Salts of their own keep vLLM from finding one's prefix for the other.
  const cache_salt = resume === undefined ? 'unbroken' : 'continued'
  const call = dispatched(front.describe().epoch, body, { cache_salt })
  front.serve(resume === undefined ? call : { ...call, resume }, sink)
  await sink.over
  return sink
}

function brokenAt({ chunks, tokens }: RecordingSink, at: number): Resume | null {
  const so_far = new AnswerSoFar()
  for (const [index, chunk] of chunks.slice(0, at).entries())
    so_far.add(JSON.stringify(chunk), eventId(tokens[index] ?? []))
  return so_far.resume()
}

const fronts = [await attached('first', url), await attached('other', other)] as const
const random = seededRandom(Number(values.seed))
const answers = Number(values.answers)
const counts = { same: 0, different: 0, refused: 0, wrong_usage: 0 }
const first_difference: { tokens_delivered: number; characters_after_break: number }[] = []
const reasons = new Map<string, number>()
for (let nth = 0; nth < answers; nth++) {
  const form = FORMS[Math.floor(nth / TOPICS.length) % FORMS.length]
  const messages = user(`${form} ${TOPICS[nth % TOPICS.length]}.`)
  const body = { messages, temperature: 0, max_tokens: Number(values.tokens), stream_options: { include_usage: true } }
  const whole = await answer(fronts[0], body)
  const at = 1 + Math.floor(random() * (whole.chunks.length - 1))
  const resume = brokenAt(whole, at)
  const rest = resume === null ? null : await answer(fronts[1], body, resume)
  if (resume === null || rest === null || rest.end?.outcome !== 'completed') {
    const reason = rest?.error?.error.message ?? rest?.end?.error?.error.message ?? 'it cannot be resumed'
    reasons.set(reason, (reasons.get(reason) ?? 0) + 1)
    counts.refused += 1
    continue
  }
  const text = resume.content + rest.text
  if (text === whole.text && rest.end.finish_reason === whole.end?.finish_reason) {
    counts.same += 1
    if (usageOf(rest) !== usageOf(whole)) counts.wrong_usage += 1
    continue
  }
  counts.different += 1
  const differs = text.split('').findIndex((one, index) => one !== whole.text[index])
  const characters_after_break =
    (differs === -1 ? Math.min(text.length, whole.text.length) : differs) - resume.content.length
  first_difference.push({ tokens_delivered: resume.output_tokens ?? resume.tokens.length, characters_after_break })
}
for (const front of fronts) await front.stop()
const report = { answers, ...counts, same_share: counts.same / answers, first_difference, refusals: [...reasons] }
console.log(JSON.stringify(report, null, 2))
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(report, null, 2)}\n`)

function usageOf({ end }: RecordingSink): string {
  const { usage } = (end?.last_chunks.at(-1) ?? {}) as { usage?: Record<string, unknown> }
  return `${usage?.prompt_tokens} ${usage?.completion_tokens}`
}
