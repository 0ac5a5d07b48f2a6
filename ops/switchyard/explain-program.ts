/** Says in sentences what a program does, and why a call went to its engine and waited as long as it did. */
import { type FcfsWaits, notEstimated } from '../../src/protocol/fcfs-waits.ts'
import type { LivePosition } from '../../src/protocol/live.ts'
import { leaseReason, type ShownCall, type ShownProgram } from '../../src/protocol/shown-program.ts'

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
export function explain(program: ShownProgram, call: ShownCall | null, now_ms: number): string[] {
  const sentences = [doing(program, now_ms), attained(program)]
  if (call === null) return sentences
  sentences.push(belongs(call), ...call.leases.flatMap((lease) => wentTo(lease)))
  if (call.leases.length === 0) sentences.push('No engine has taken it yet: it waits for one, or was refused.')
  sentences.push(...waited(call), ...cached(call), ...disturbed(call), ...ended(call))
  return sentences
}

/** What its calls would have waited under first come, first served. */
export function explainFcfs(waits: FcfsWaits): string[] {
  const { wait_s, fcfs_wait_s, estimated_calls, calls } = waits
  const least = calls.some(({ at_least }) => at_least) ? 'at least ' : 'about '
  const estimated = `Under first come, first served ${count(estimated_calls, 'call')} would have waited ${least}${seconds(fcfs_wait_s)} instead of ${seconds(wait_s)}. That is an estimate: the last arrivals of its engines, replayed in that order. It has the waits for a seat and for room in the KV cache, and not those for an engine’s next step.`
  const unknown = notEstimated(waits).map((sentence) => `Not estimated: ${sentence}`)
  return estimated_calls === 0 ? unknown : [estimated, ...unknown]
}

function doing({ id, state, activity, end_reason, class: of_class, app, ...rest }: ShownProgram, now_ms: number) {
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

function attained(program: ShownProgram): string {
  const { calls, service_s, wait_s, prompt_tokens, cached_tokens, regions, weight } = program
  const share = prompt_tokens === 0 ? '' : `, ${percent(cached_tokens, prompt_tokens)} of its prompts were in a cache`
  const held = regions === null ? '' : ` It is held to ${regions.join(', ')}.`
  const weighs = weight === null || weight === 1 ? '' : ` It weighs ${weight} among the tenant’s own programs.`
  return `In ${count(calls, 'call')} it has attained ${seconds(service_s)} of service and waited ${seconds(wait_s)}${share}.${held}${weighs}`
}

function belongs(call: ShownCall): string {
  const source = call.source === null ? undefined : SOURCES[call.source]
  const place =
    call.parents.length === 0 ? `begins thread ${call.thread}` : `goes on from ${call.parents.join(' and ')}`
  return `Call ${call.id} for ${call.model} came at ${call.opened_at} and ${place}${source === undefined ? '' : `: ${source}`}.`
}

function wentTo({ engine, region, reason, state, error_code, ...lease }: ShownCall['leases'][number]): string[] {
  const why = reason === null ? '' : `, because ${leaseReason(reason)?.because ?? `of ${reason}`}`
  const sentences = [`It was sent to engine ${engine} in ${region}${why}.`]
  if (lease.resumed_tokens > 0) sentences.push(wentOn(lease))
  if (state !== 'lost') return sentences
  return [...sentences, `That engine did not serve it (${error_code ?? 'no reason was told'}).`]
}

/** What an engine that failed had done is done again, and charged once. */
function wentOn({
  prompt_tokens,
  cached_tokens,
  resumed_tokens,
}: Pick<ShownCall['leases'][number], 'prompt_tokens' | 'cached_tokens' | 'resumed_tokens'>): string {
  const again = count(prompt_tokens - cached_tokens + resumed_tokens, 'token')
  return `There the answer went on behind ${count(resumed_tokens, 'token')} of another engine: ${again} had to be computed again. Prompt and answer are charged once.`
}

function waited(call: ShownCall): string[] {
  const { state, wait_s, service_s, rank, expected_remaining_tokens, leases, position } = call
  if (leases.length === 0) return []
  if (position !== null) return [stands(position)]
  const order = rank === null ? '' : ` ${ranked(rank, expected_remaining_tokens)}`
  if (state === 'open') return [`It is open: how long it waits is known when it ends.${order}`]
  const first = leases.at(-1)?.first_token_s ?? null
  const until = first === null ? '' : `, its first token came after ${seconds(first)}`
  return [`It waited ${seconds(wait_s)}${waitedWhere(call)} and was served for ${seconds(service_s)}${until}.${order}`]
}

/** For a table. */
export function positionText({ waits, waited_s, before, order }: LivePosition): string {
  return `${waits ? `waits ${seconds(waited_s)}, ${before} first` : 'in a seat'}; ${order}`
}

/** Where an open call is in its engine's order at this moment. */
function stands({ waits, waited_s, before, order }: LivePosition): string {
  const so_far = `${waits ? 'It waits for a seat' : 'It has a seat'}, and has waited ${seconds(waited_s)} so far.`
  const first =
    before === 0
      ? 'No other call of the tenant goes'
      : `${count(before, 'call')} of the tenant ${before === 1 ? 'goes' : 'go'}`
  return `${so_far} ${first} before it there. Its order: ${order}.`
}

function waitedWhere({ queue_wait_s, server_wait_s }: ShownCall): string {
  if (queue_wait_s === null || server_wait_s === null) return ''
  return ` (${seconds(queue_wait_s)} in the agent’s queue, ${seconds(server_wait_s)} at the server)`
}

function ranked(rank: number, expected_remaining_tokens: number | null): string {
  if (expected_remaining_tokens === null)
    return `It came into level Q${rank + 1} there, by the service before it: Q1 goes first.`
  return `Its rank there was ${rank} (lower goes first), with ${Math.round(expected_remaining_tokens)} output tokens of its program expected from there on.`
}

function cached({ state, prompt_tokens, cached_tokens }: ShownCall): string[] {
  if (state === 'open' || prompt_tokens === 0) return []
  return [
    `${cached_tokens} of its ${prompt_tokens} prompt tokens (${percent(cached_tokens, prompt_tokens)}) were in the engine’s cache.`,
  ]
}

function disturbed({ preemptions, recomputed_tokens, swapped_in_tokens }: ShownCall): string[] {
  if (preemptions === 0) return []
  const kv =
    recomputed_tokens + swapped_in_tokens === 0
      ? 'its context stayed'
      : `${swapped_in_tokens} tokens of its context were brought back and ${recomputed_tokens} were computed again`
  return [`It gave its seat up ${preemptions === 1 ? 'once' : `${preemptions} times`}: ${kv}.`]
}

function ended(call: ShownCall): string[] {
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
function handled(kv: ShownCall['kv']): string {
  if (kv === null) return ''
  return ` Until the next call its context ${HANDLED[kv.handling] ?? kv.handling}: ${HANDLED_WHY[kv.reason] ?? kv.reason}.`
}

export function count(number: number, of: string): string {
  return `${number} ${of}${number === 1 ? '' : 's'}`
}

function seconds(s: number): string {
  return s >= 100 ? `${Math.round(s)} s` : `${s.toFixed(s >= 10 ? 1 : 2)} s`
}

function percent(part: number, whole: number): string {
  return `${Math.round((100 * part) / whole)} %`
}
