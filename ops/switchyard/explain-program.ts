/** Says in sentences what a program does, and why its call went where it went and waited as long as it did. */
import { z } from 'zod'

const Lease = z.object({
  engine: z.string(),
  region: z.string(),
  reason: z.string().nullable(),
  state: z.enum(['open', 'lost', 'settled']),
  error_code: z.string().nullable(),
  wait_s: z.number(),
  first_token_s: z.number().nullable(),
})

/** What an engine did with a context while a tool ran. A control plane of an earlier version does not tell. */
const Kv = z.object({ handling: z.string(), reason: z.string() }).nullable().default(null)

export const ExplainedCall = z.object({
  id: z.string(),
  thread: z.string(),
  parents: z.array(z.string()),
  source: z.string().nullable(),
  model: z.string(),
  state: z.enum(['open', 'ended']),
  outcome: z.string().nullable(),
  finish_reason: z.string().nullable(),
  error_code: z.string().nullable(),
  opened_at: z.string(),
  rank: z.number().nullable(),
  expected_remaining_tokens: z.number().nullable(),
  tools: z.array(z.object({ name: z.string(), returned: z.boolean() })),
  tool_s: z.number().nullable(),
  expected_tool_s: z.number().nullable(),
  kv: Kv,
  prompt_tokens: z.number(),
  cached_tokens: z.number(),
  output_tokens: z.number(),
  service_s: z.number(),
  wait_s: z.number(),
  preemptions: z.number(),
  recomputed_tokens: z.number(),
  swapped_in_tokens: z.number(),
  leases: z.array(Lease),
})
export type ExplainedCall = z.infer<typeof ExplainedCall>

export const ExplainedProgram = z.object({
  id: z.string(),
  state: z.enum(['running', 'ended']),
  app: z.string().nullable(),
  class: z.string(),
  regions: z.array(z.string()).nullable(),
  end_reason: z.enum(['explicit', 'stale']).nullable(),
  activity: z.enum(['reasoning', 'acting']).nullable(),
  tools: z.array(
    z.object({ name: z.string().nullable(), since: z.string(), expected_s: z.number().nullable(), kv: Kv }),
  ),
  calls: z.number(),
  open_calls: z.number(),
  service_s: z.number(),
  wait_s: z.number(),
  prompt_tokens: z.number(),
  cached_tokens: z.number(),
})
export type ExplainedProgram = z.infer<typeof ExplainedProgram>

/** docs/api.md has the same reasons. */
const REASONS: Readonly<Record<string, string>> = {
  least_used: 'that engine was the least used',
  pin_created: 'the program had no engine yet: the least used one became its own',
  pinned: 'that engine holds the program’s context',
  pin_gone: 'the engine with the program’s context is gone, draining, silent or was started again',
  pin_overloaded: 'waiting at the engine with the program’s context would have cost more than computing it again',
  spilled: 'the nearest region was too full',
  replaced: 'another engine failed before its first token',
  snapshot: 'the pool did not answer, and what was last known of it decided',
}

const SOURCES: Readonly<Record<string, string>> = {
  header: 'a header of the call names the program',
  metadata: 'a field of its metadata names the program',
  body: 'a field of its body names the program',
  trace: 'it has the program’s trace id',
  conversation: 'its messages go on from the program’s',
  answer: 'its messages go on from an answer that the program got',
}

const HANDLED: Readonly<Record<string, string>> = {
  preserve: 'stays in the engine’s memory',
  discard: 'is discarded',
  swap: 'is moved to host memory',
}

const HANDLED_WHY: Readonly<Record<string, string>> = {
  least_waste: 'that wastes the least memory',
  only_choice: 'its policy does nothing else',
  not_foreseen: 'nothing says how long the tool takes, so this is decided again as it lasts',
}

/** `call`: null if the program has made none. `now_ms`: the wall clock. One sentence an item. */
export function explain(program: ExplainedProgram, call: ExplainedCall | null, now_ms: number): string[] {
  const sentences = [doing(program, now_ms), attained(program)]
  if (call === null) return sentences
  sentences.push(belongs(call), ...call.leases.flatMap((lease) => wentTo(lease)))
  if (call.leases.length === 0) sentences.push('No engine has taken it yet: it waits for one, or was refused.')
  sentences.push(...waited(call), ...cached(call), ...disturbed(call), ...ended(call))
  return sentences
}

function doing({ id, state, activity, end_reason, class: of_class, app, ...rest }: ExplainedProgram, now_ms: number) {
  const who = `Program ${id} (${app === null ? 'no app' : `app ${app}`}, class ${of_class})`
  if (state === 'ended') {
    const why = end_reason === 'stale' ? 'it made no call for too long' : 'it was asked to'
    return `${who} has ended: ${why}.`
  }
  if (activity === null) return `${who} has made no call.`
  if (activity === 'reasoning') return `${who} has ${count(rest.open_calls, 'open call')}.`
  const [tool] = rest.tools
  if (tool === undefined) return `${who} is between calls.`
  const since = seconds((now_ms - Date.parse(tool.since)) / 1000)
  const expected = tool.expected_s === null ? 'how long it takes is not known' : `expected: ${seconds(tool.expected_s)}`
  return `${who} waits for ${tool.name === null ? 'a tool or a person' : `its tool ${tool.name}`}, for ${since} now (${expected}).${handled(tool.kv)}`
}

function attained({ calls, service_s, wait_s, prompt_tokens, cached_tokens, regions }: ExplainedProgram): string {
  const share = prompt_tokens === 0 ? '' : `, ${percent(cached_tokens, prompt_tokens)} of its prompts were in a cache`
  const held = regions === null ? '' : ` It is held to ${regions.join(', ')}.`
  return `In ${count(calls, 'call')} it has attained ${seconds(service_s)} of service and waited ${seconds(wait_s)}${share}.${held}`
}

function belongs(call: ExplainedCall): string {
  const source = call.source === null ? undefined : SOURCES[call.source]
  const place =
    call.parents.length === 0 ? `begins thread ${call.thread}` : `goes on from ${call.parents.join(' and ')}`
  return `Call ${call.id} for ${call.model} came at ${call.opened_at} and ${place}${source === undefined ? '' : `: ${source}`}.`
}

function wentTo({ engine, region, reason, state, error_code }: ExplainedCall['leases'][number]): string[] {
  const why = reason === null ? '' : `, because ${REASONS[reason] ?? `of ${reason}`}`
  const sentence = `It was sent to engine ${engine} in ${region}${why}.`
  if (state !== 'lost') return [sentence]
  return [sentence, `That engine did not serve it (${error_code ?? 'no reason was told'}).`]
}

function waited({ state, wait_s, service_s, rank, expected_remaining_tokens, leases }: ExplainedCall): string[] {
  if (leases.length === 0) return []
  const order =
    rank === null
      ? ''
      : ` Its rank there was ${rank} (lower goes first), with ${Math.round(expected_remaining_tokens ?? 0)} output tokens of its program expected from there on.`
  if (state === 'open') return [`It is open: how long it waits is known when it ends.${order}`]
  const first = leases.at(-1)?.first_token_s ?? null
  const until = first === null ? '' : `, its first token came after ${seconds(first)}`
  return [`It waited ${seconds(wait_s)} and was served for ${seconds(service_s)}${until}.${order}`]
}

function cached({ state, prompt_tokens, cached_tokens }: ExplainedCall): string[] {
  if (state === 'open' || prompt_tokens === 0) return []
  return [
    `${cached_tokens} of its ${prompt_tokens} prompt tokens (${percent(cached_tokens, prompt_tokens)}) were in the engine’s cache.`,
  ]
}

function disturbed({ preemptions, recomputed_tokens, swapped_in_tokens }: ExplainedCall): string[] {
  if (preemptions === 0) return []
  const kv =
    recomputed_tokens + swapped_in_tokens === 0
      ? 'its context stayed'
      : `${swapped_in_tokens} tokens of its context were brought back and ${recomputed_tokens} were computed again`
  return [`It gave its seat up ${preemptions === 1 ? 'once' : `${preemptions} times`}: ${kv}.`]
}

function ended(call: ExplainedCall): string[] {
  if (call.state === 'open') return []
  const { outcome, error_code, finish_reason, output_tokens, tools, tool_s, expected_tool_s } = call
  const why = error_code ?? finish_reason
  const sentence = `It ended as ${outcome ?? 'unknown'}${why === null ? '' : ` (${why})`} with ${count(output_tokens, 'output token')}.`
  if (tools.length === 0) return [`${sentence}${handled(call.kv)}`]
  const names = tools.map(({ name }) => name).join(', ')
  const took = tool_s === null ? 'has not returned' : `took ${seconds(tool_s)}`
  const expected = expected_tool_s === null ? '' : `, ${seconds(expected_tool_s)} were expected`
  return [sentence, `It asked for ${names}, which ${took}${expected}.${handled(call.kv)}`]
}

/** A sentence after another one, or nothing. */
function handled(kv: ExplainedCall['kv']): string {
  if (kv === null) return ''
  return ` Until the next call its context ${HANDLED[kv.handling] ?? kv.handling}: ${HANDLED_WHY[kv.reason] ?? kv.reason}.`
}

function count(number: number, of: string): string {
  return `${number} ${of}${number === 1 ? '' : 's'}`
}

function seconds(s: number): string {
  return s >= 100 ? `${Math.round(s)} s` : `${s.toFixed(s >= 10 ? 1 : 2)} s`
}

function percent(part: number, whole: number): string {
  return `${Math.round((100 * part) / whole)} %`
}
