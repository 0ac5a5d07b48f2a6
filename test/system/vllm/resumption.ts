/**
 * Answers that another engine began, on a real vLLM: the agent is asked as a Worker asks it, with the first tokens of an
 * unbroken answer, and gives the rest of that answer. In float32 greedy output is exact. Text, JSON by a schema, a stop string
 * and a call of a tool, each broken at several places.
 */
import path from 'node:path'
import { expect, it } from 'vitest'
import { lastClaims, signedFor } from '../../../lab/chaos/tickets.ts'
import { loadSecrets } from '../../../ops/system/secrets.ts'
import { AnswerSoFar } from '../../../src/core/call/answer-so-far.ts'
import { SseSplitter } from '../../../src/core/wire/sse.ts'
import { DONE, RESUME_FIELD, type Resume } from '../../../src/protocol/index.ts'
import { eventually } from '../support/system.ts'
import type { RunningVllm } from './running-vllm.ts'

type Json = Record<string, unknown>

const LOOK = {
  type: 'function',
  function: {
    name: 'look_up',
    description: 'Looks a word up.',
    parameters: { type: 'object', properties: { word: { type: 'string' } }, required: ['word'] },
  },
}
const FRUIT = {
  type: 'object',
  properties: { colour: { type: 'string', enum: ['red', 'green', 'yellow'] }, sweet: { type: 'boolean' } },
  required: ['colour', 'sweet'],
  additionalProperties: false,
}

const CASES: [string, Json][] = [
  ['text', { content: 'Count from one to ten in words.', max_tokens: 40 }],
  ['a stop string', { content: 'What is the capital of France?', max_tokens: 40, stop: ['Paris'] }],
  [
    'JSON by a schema',
    {
      ...{ content: 'Describe a fruit as JSON.', max_tokens: 80 },
      response_format: { type: 'json_schema', json_schema: { name: 'fruit', strict: true, schema: FRUIT } },
    },
  ],
  ['a call of a tool', { content: 'Look up the word salt.', max_tokens: 80, tools: [LOOK], tool_choice: 'required' }],
]

interface Event {
  data: string
  id: string | null
}

/** Events up to [DONE]; an error is one too. */
async function asked(running: RunningVllm, body: Json, resume: Resume | null): Promise<Event[]> {
  const { system } = running
  const [agent] = system.agents
  const used = agent === undefined ? null : lastClaims(agent)
  if (agent === undefined || used === null) throw new Error('the agent has served no call yet')
  const secrets = await loadSecrets(path.join(system.dataDir, 'secrets.json'), [agent.id])
  const call = crypto.randomUUID()
  const { lease_proof: _, resumes: __, ...claims } = used
  const granted = { ...claims, call: 'resumed', lease: crypto.randomUUID(), program: call, run: call }
  const ticket = await signedFor(secrets, agent.id, resume === null ? granted : { ...granted, resumes: true })
  const url = system.dev.agents.find(({ id }) => id === agent.id)?.url
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${ticket}`, 'content-type': 'application/json' },
    body: JSON.stringify(resume === null ? body : { ...body, [RESUME_FIELD]: resume }),
  })
  if (response.status !== 200) throw new Error(await response.text())
  const events: Event[] = []
  for (const frame of new SseSplitter().frames(new Uint8Array(await response.arrayBuffer()))) {
    if (frame.kind === 'event') events.push({ data: frame.data, id: frame.id ?? null })
  }
  expect(events.at(-1)?.data).toBe(DONE)
  return events.slice(0, -1)
}

/** What a client makes of events, however they cut the text. */
function read(events: readonly Event[]) {
  const answer = new AnswerSoFar()
  for (const { data } of events) answer.add(data)
  const chunks = events.map(({ data }) => JSON.parse(data) as { choices: Json[]; usage?: Json | null })
  const choices = chunks.flatMap((chunk) => chunk.choices as { delta: Json; finish_reason: string | null }[])
  const { prompt_tokens, completion_tokens } = chunks.at(-1)?.usage ?? {}
  return {
    ...{ content: answer.content, tools: answer.tools },
    roles: choices.filter(({ delta }) => delta.role !== undefined).length,
    finishes: choices.flatMap(({ finish_reason }) => finish_reason ?? []),
    usage: { prompt_tokens, completion_tokens },
  }
}

function brokenAfter(events: readonly Event[]): Resume {
  const answer = new AnswerSoFar()
  for (const { data, id } of events) answer.add(data, id)
  return answer.resume() ?? expect.fail('it cannot be resumed')
}

export function resumption(running: () => RunningVllm): void {
  it.each(CASES)('%s goes on wherever it breaks, as if it had not', async (_, { content, ...asks }) => {
    const { model } = running().system.dev
    const messages = [{ role: 'user', content }]
    const body = { model, messages, temperature: 0, stream: true, stream_options: { include_usage: true }, ...asks }
    // Text that comes within 40 ms is one event, so how many a short answer has depends on the machine.
    const events = await eventually('the answer comes in more than two events', async () => {
      const one = await asked(running(), body, null)
      return one.filter(({ id }) => id !== null).length > 2 ? one : undefined
    })
    const whole = read(events)
    expect(whole.finishes).toHaveLength(1)
    // The last two are the finish reason and the usage.
    const ends = events.length - 2
    for (const after of new Set([1, 2, Math.floor(ends / 2), ends - 1, ends])) {
      const before = events.slice(0, after)
      const rest = await asked(running(), body, brokenAfter(before))
      expect(read([...before, ...rest]), `after ${after} of ${ends} events`).toEqual(whole)
      // The engine that went on fails too.
      const twice = [...before, ...rest.slice(0, Math.floor((rest.length - 2) / 2))]
      const last = await asked(running(), body, brokenAfter(twice))
      expect(read([...twice, ...last]), `after ${after} of ${ends} events, and again`).toEqual(whole)
    }
  })

  it('calls that count by their own output are sent on to another engine', async () => {
    const { model } = running().system.dev
    const body = {
      model,
      messages: [{ role: 'user', content: 'Hi' }],
      max_tokens: 8,
      presence_penalty: 1,
      stream: true,
    }
    const resume = { content: 'He', reasoning: '', tool_calls: [], tokens: [1], created_s: 0, system_fingerprint: null }
    await expect(asked(running(), body, resume)).rejects.toThrow('"code":"cannot_resume"')
  })
}
