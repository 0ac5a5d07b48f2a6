/**
 * Streams whose agents and engines are killed under them, one after the other without a pause, over every API that streams.
 * Each client checks every word of its answer (client.ts). What happened to which call is read from the engines' own records.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { seededRandom } from '../../simulator/random.ts'
import { APIS, type Api, bodyOf, PATHS, readAnswer } from './apis.ts'
import { clientCall } from './client.ts'
import { Fleet, type FleetAgent } from './fleet.ts'
import { LedgerBook } from './ledger.ts'
import { countStreams, resumedCalls, type StreamCounts, type StreamEnd, streamEnd } from './stream-counts.ts'
import { BREAKS, type Break, type EngineKind, engineKind, engineProcess, type StreamEngine } from './stream-engines.ts'

/** After an agent is back, so that streams reach it. */
const CALM_MS = { min: 100, max: 900 }
/** A host without power is noticed by its silence. */
const POWER_OUT_MS = 8000
/** A vLLM starts in a minute on an idle machine. */
const READY_TIMEOUT_MS = 600_000
/** An agent that is asked to end ends its vLLM. */
const VLLM_END_S = 30

export interface BrokenStreamsReport extends StreamCounts {
  engine: StreamEngine
  breaks: Record<Break, number>
  seconds: number
}

export interface BrokenStreamsOptions {
  engine: StreamEngine
  /** So many broken streams, then it ends. */
  broken: number
  /** Null: as many as suit the engines. */
  at_once: number | null
  seed: number
  note: (broken: number, streams: number) => void
}

export async function breakStreams({
  engine,
  broken,
  at_once,
  seed,
  note,
}: BrokenStreamsOptions): Promise<BrokenStreamsReport> {
  const random = seededRandom(seed)
  const between = ({ min, max }: { min: number; max: number }): number => Math.floor(min + random() * (max - min + 1))
  const kind = await engineKind(engine)
  const { agents, agent_flags, model } = kind
  const fleet = await Fleet.start({
    ...{ regions: ['us-east'], agents_per_region: agents, engines_per_agent: 1, model, agent_flags },
    ...{ ready_timeout_ms: READY_TIMEOUT_MS, guard_grace_s: engine === 'vllm' ? VLLM_END_S : 0 },
  })
  const ends: StreamEnd[] = []
  const breaks = Object.fromEntries(BREAKS.map((one) => [one, 0])) as Record<Break, number>
  const book = new LedgerBook(fleet)
  let is_over = false
  try {
    const unbroken = await unbrokenAnswers(fleet, kind)
    const started_ms = performance.now()
    const client = async (at: number): Promise<void> => {
      while (!is_over) {
        const api = APIS[(at + ends.length) % APIS.length] ?? 'chat'
        const { output_tokens } = kind
        const prompts = kind.prompts?.(api) ?? []
        const prompt = prompts[Math.floor(random() * prompts.length)] ?? `Break ${randomUUID()}.`
        ends.push(await streamed(fleet, api, prompt, between(output_tokens), unbroken.get(api)?.get(prompt)))
      }
    }
    const clients = Array.from({ length: at_once ?? kind.at_once }, (_, at) => client(at))
    let counted = 0
    for (let at = 0; counted < broken; at++) {
      const agent = fleet.agents[at % agents] as FleetAgent
      const how = kind.breaks[at % kind.breaks.length] ?? 'kill'
      await breakAgent(agent, how, () => engineProcess(engine, agent.child.pid ?? 0, fleet.place.agent(agent.id)))
      breaks[how] += 1
      await sleep(between(CALM_MS))
      counted = resumedCalls(book).size
      note(counted, ends.length)
    }
    is_over = true
    await Promise.all(clients)
    const seconds = Math.round((performance.now() - started_ms) / 1000)
    return { engine, ...countStreams(ends, resumedCalls(book)), breaks, seconds }
  } finally {
    is_over = true
    await fleet.remove()
  }
}

/** By API and prompt, as the client has them. */
async function unbrokenAnswers(fleet: Fleet, kind: EngineKind): Promise<ReadonlyMap<Api, ReadonlyMap<string, string>>> {
  const answers = new Map<Api, Map<string, string>>()
  for (const api of APIS) {
    const ofApi = new Map<string, string>()
    answers.set(api, ofApi)
    for (const prompt of kind.prompts?.(api) ?? []) {
      const asked = { model: kind.model, prompt, output_tokens: kind.output_tokens.max, stream: false }
      const response = await fleet.fetch(PATHS[api], { method: 'POST', body: JSON.stringify(bodyOf(api, asked)) })
      const text = await response.text()
      const answer = response.ok ? readAnswer(api, JSON.parse(text) as object) : null
      if (answer === null) throw new Error(`No unbroken answer: ${response.status} ${text}`)
      ofApi.set(prompt, answer.text)
    }
  }
  return answers
}

async function breakAgent(
  { child, dataWire, linkWire }: FleetAgent,
  how: Break,
  engineProcessOf: () => number | null,
): Promise<void> {
  if (how === 'cut') {
    dataWire.set('cut')
    await sleep(50)
    dataWire.set('open')
    return
  }
  if (how === 'engine') {
    const pid = engineProcessOf()
    if (pid !== null) process.kill(pid, 'SIGKILL')
    return
  }
  if (how === 'power') {
    // Frozen first: not one packet tells that the process has gone.
    dataWire.set('frozen')
    linkWire.set('frozen')
  }
  await child.end('SIGKILL')
  if (how === 'power') {
    await sleep(POWER_OUT_MS)
    dataWire.set('open')
    linkWire.set('open')
  }
  await child.start()
}

async function streamed(
  fleet: Fleet,
  api: Api,
  prompt: string,
  output_tokens: number,
  expected: string | undefined,
): Promise<StreamEnd> {
  const { url, secrets, model } = fleet
  const call = { url, api_key: secrets.apiKey, model, program: null, stream: true }
  // A real model may end its answer before its limit.
  const judged = expected === undefined ? {} : { expected, may_be_cut: true }
  return streamEnd(api, await clientCall({ ...call, api, prompt, output_tokens, ...judged }))
}
