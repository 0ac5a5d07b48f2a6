/**
 * Streams whose agents are killed under them, one after the other without a pause, over every API that streams. Each client
 * checks every word of its answer (expected-text.ts). What happened to which call is read from the engines' own records.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { seededRandom } from '../../simulator/random.ts'
import { quantile } from '../../simulator/statistics.ts'
import { SseSplitter } from '../../src/core/wire/sse.ts'
import { DONE } from '../../src/protocol/stream.ts'
import { expectedCompletion, expectedText } from './expected-text.ts'
import { Fleet, type FleetAgent } from './fleet.ts'
import { LedgerBook } from './ledger.ts'

export const APIS = ['chat', 'completions', 'messages', 'responses'] as const
export type Api = (typeof APIS)[number]
export const BREAKS = ['kill', 'power', 'cut'] as const
export type Break = (typeof BREAKS)[number]

const MODEL = 'emulated-8b'
const AGENTS = 3
/** Fewer than a default answer has, so exact. */
const OUTPUT_TOKENS = { min: 80, max: 250 }
/** After an agent is back, so that streams reach it. */
const CALM_MS = { min: 100, max: 900 }
/** A host without power is noticed by its silence. */
const POWER_OUT_MS = 8000

const PATHS: Readonly<Record<Api, string>> = {
  chat: '/v1/chat/completions',
  completions: '/v1/completions',
  messages: '/v1/messages',
  responses: '/v1/responses',
}

interface StreamEnd {
  api: Api
  call: string | null
  end: 'completed' | 'error_event' | 'broken' | 'refused' | 'half_truth'
  why: string | null
  /** Between two data events. */
  longest_gap_ms: number
  /** Data events, the last included. */
  events: number
}

export interface BrokenStreamsReport {
  streams: number
  /** Their engine died after their first data event. */
  broken: number
  completed: number
  completed_share: number
  by_api: Record<Api, { broken: number; completed: number }>
  breaks: Record<Break, number>
  /** Broken again after they went on. */
  broken_twice: number
  next_token_p50_ms: number
  next_token_p99_ms: number
  /** Ends of any stream that are no whole answer, by kind and reason. */
  others: Record<string, number>
  wrong_words: number
  seconds: number
}

export interface BrokenStreamsOptions {
  /** So many broken streams, then it ends. */
  broken: number
  at_once: number
  seed: number
  note: (broken: number, streams: number) => void
}

export async function breakStreams({
  broken,
  at_once,
  seed,
  note,
}: BrokenStreamsOptions): Promise<BrokenStreamsReport> {
  const random = seededRandom(seed)
  const between = ({ min, max }: { min: number; max: number }): number => Math.floor(min + random() * (max - min + 1))
  const fleet = await Fleet.start({
    ...{ regions: ['us-east'], agents_per_region: AGENTS, engines_per_agent: 1, model: MODEL },
    agent_flags: { seats: 128, slots: 256 },
  })
  const started_ms = performance.now()
  const ends: StreamEnd[] = []
  const breaks: Record<Break, number> = { kill: 0, power: 0, cut: 0 }
  const book = new LedgerBook(fleet)
  let is_over = false
  try {
    const client = async (at: number): Promise<void> => {
      while (!is_over)
        ends.push(await streamed(fleet, APIS[(at + ends.length) % APIS.length] ?? 'chat', between(OUTPUT_TOKENS)))
    }
    const clients = Array.from({ length: at_once }, (_, at) => client(at))
    let counted = 0
    for (let at = 0; counted < broken; at++) {
      const agent = fleet.agents[at % AGENTS] as FleetAgent
      const kind: Break = at % 24 === 23 ? 'power' : at % 6 === 5 ? 'cut' : 'kill'
      await breakAgent(agent, kind)
      breaks[kind] += 1
      await sleep(between(CALM_MS))
      counted = resumedCalls(book).size
      note(counted, ends.length)
    }
    is_over = true
    await Promise.all(clients)
    return reported(ends, resumedCalls(book), breaks, (performance.now() - started_ms) / 1000)
  } finally {
    is_over = true
    await fleet.remove()
  }
}

async function breakAgent({ child, dataWire, linkWire }: FleetAgent, kind: Break): Promise<void> {
  if (kind === 'cut') {
    dataWire.set('cut')
    await sleep(50)
    dataWire.set('open')
    return
  }
  if (kind === 'power') {
    // Frozen first: not one packet tells that the process has gone.
    dataWire.set('frozen')
    linkWire.set('frozen')
  }
  await child.end('SIGKILL')
  if (kind === 'power') {
    await sleep(POWER_OUT_MS)
    dataWire.set('open')
    linkWire.set('open')
  }
  await child.start()
}

/** How many leases of each call went on with what another engine had begun. */
function resumedCalls(book: LedgerBook): Map<string, number> {
  const resumed = new Map<string, number>()
  for (const { call, record } of book.read()) {
    if ((record?.resumed_tokens ?? 0) > 0) resumed.set(call, (resumed.get(call) ?? 0) + 1)
  }
  return resumed
}

function reported(
  ends: readonly StreamEnd[],
  resumed: ReadonlyMap<string, number>,
  breaks: Record<Break, number>,
  seconds: number,
): BrokenStreamsReport {
  // One that ended with an error after its first event was broken too, whether or not another engine took it.
  const broken = ends.filter(({ call, end, events }) => {
    return (call !== null && resumed.has(call)) || (end !== 'completed' && end !== 'refused' && events > 0)
  })
  const whole = broken.filter(({ end }) => end === 'completed')
  const gaps = whole.map(({ longest_gap_ms }) => longest_gap_ms)
  const others: Record<string, number> = {}
  for (const { end, why } of ends)
    if (end !== 'completed') others[`${end}: ${why}`] = (others[`${end}: ${why}`] ?? 0) + 1
  const ofApi = (api: Api) => ({
    broken: broken.filter((one) => one.api === api).length,
    completed: whole.filter((one) => one.api === api).length,
  })
  return {
    ...{ streams: ends.length, broken: broken.length, completed: whole.length },
    completed_share: broken.length === 0 ? 1 : whole.length / broken.length,
    by_api: {
      chat: ofApi('chat'),
      completions: ofApi('completions'),
      messages: ofApi('messages'),
      responses: ofApi('responses'),
    },
    breaks,
    broken_twice: [...resumed.values()].filter((times) => times > 1).length,
    next_token_p50_ms: gaps.length === 0 ? 0 : Math.round(quantile(gaps, 0.5)),
    next_token_p99_ms: gaps.length === 0 ? 0 : Math.round(quantile(gaps, 0.99)),
    others,
    wrong_words: ends.filter(({ end }) => end === 'half_truth').length,
    seconds: Math.round(seconds),
  }
}

async function streamed(fleet: Fleet, api: Api, output_tokens: number): Promise<StreamEnd> {
  const prompt = `Break ${randomUUID()}.`
  const seen: StreamEnd = { api, call: null, end: 'broken', why: null, longest_gap_ms: 0, events: 0 }
  let text = ''
  let is_done = false
  try {
    const response = await fetch(`${fleet.url}${PATHS[api]}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${fleet.secrets.apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify(bodyOf(api, prompt, output_tokens)),
    })
    seen.call = response.headers.get('x-call-id')
    if (response.status !== 200 || response.body === null) {
      return { ...seen, end: 'refused', why: `${response.status} ${(await response.text()).slice(0, 120)}` }
    }
    const splitter = new SseSplitter()
    let last_ms: number | null = null
    for await (const bytes of response.body) {
      for (const frame of splitter.frames(bytes)) {
        if (frame.kind === 'comment') continue
        if (frame.data === DONE) {
          is_done = true
          continue
        }
        const event = readEvent(api, JSON.parse(frame.data))
        if (event.error !== null) return { ...seen, end: 'error_event', why: event.error }
        is_done ||= event.ends
        text += event.text
        if (event.text === '') continue
        const now_ms = performance.now()
        if (last_ms !== null) seen.longest_gap_ms = Math.max(seen.longest_gap_ms, now_ms - last_ms)
        last_ms = now_ms
        seen.events += 1
      }
    }
  } catch (error) {
    return { ...seen, end: 'broken', why: error instanceof Error ? error.message : String(error) }
  }
  if (!is_done) return { ...seen, end: 'half_truth', why: 'no mark of its end' }
  const expected =
    api === 'completions' ? expectedCompletion(prompt, output_tokens) : expectedText(prompt, output_tokens)
  return text === expected ? { ...seen, end: 'completed' } : { ...seen, end: 'half_truth', why: 'other words' }
}

function bodyOf(api: Api, prompt: string, max_tokens: number): object {
  const common = { model: MODEL, stream: true, temperature: 0 }
  const messages = [{ role: 'user', content: prompt }]
  if (api === 'completions') return { ...common, prompt, max_tokens }
  if (api === 'responses') return { ...common, input: prompt, max_output_tokens: max_tokens, store: false }
  return { ...common, messages, max_tokens }
}

interface ReadEvent {
  text: string
  error: string | null
  ends: boolean
}

function readEvent(api: Api, event: unknown): ReadEvent {
  const { type, error, choices, delta } = event as {
    type?: string
    error?: { code?: string | null; message?: string }
    choices?: { delta?: { content?: string | null }; text?: string }[]
    delta?: string | { text?: string }
  }
  if (error != null || type === 'response.failed') {
    return { text: '', error: error?.code ?? error?.message ?? 'failed', ends: false }
  }
  const ends = type === 'message_stop' || type === 'response.completed' || type === 'response.incomplete'
  if (api === 'messages') return { text: typeof delta === 'object' ? (delta.text ?? '') : '', error: null, ends }
  if (api === 'responses') {
    const is_text = type === 'response.output_text.delta' && typeof delta === 'string'
    return { text: is_text ? delta : '', error: null, ends }
  }
  const [choice] = choices ?? []
  return { text: choice?.delta?.content ?? choice?.text ?? '', error: null, ends: false }
}
