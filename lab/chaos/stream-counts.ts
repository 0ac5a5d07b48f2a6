/**
 * What became of the streams of a run: how many were broken after their first event, how many of them ended whole, and how
 * long it took until the next token came. That an engine went on with an answer is read from the engines' own records.
 */
import { quantile } from '../../simulator/statistics.ts'
import { APIS, type Api } from './apis.ts'
import type { ClientEnd } from './client.ts'
import type { LedgerBook } from './ledger.ts'

/** Of the broken streams, so many are to end whole. */
export const WHOLE_SHARE_GOAL = 0.999

export interface StreamEnd {
  api: Api
  call: string | null
  end: ClientEnd['end']
  /** Null: it ended whole, or its client left. */
  why: string | null
  events: number
  /** Null: its client reads slowly. */
  longest_gap_ms: number | null
  /** The control plane ended under it, which no stream outlives. */
  with_control_plane: boolean
}

export interface StreamCounts {
  streams: number
  /** Their engine, or the way to it, failed after their first event. */
  broken: number
  /** Of these, whole in the end. */
  completed: number
  completed_share: number
  /** An engine went on with what another one had begun. */
  resumed: number
  resumed_again: number
  by_api: Record<Api, { streams: number; broken: number; completed: number }>
  next_token_p50_ms: number
  next_token_p99_ms: number
  /** Broken ones that did not end whole, by the reason. */
  lost: Record<string, number>
  /** No stream began, by status and code. */
  refused: Record<string, number>
  left_by_client: number
  ended_with_control_plane: number
  wrong_words: number
}

export function streamEnd(
  api: Api,
  ended: ClientEnd,
  { is_slow = false, with_control_plane = false }: { is_slow?: boolean; with_control_plane?: boolean } = {},
): StreamEnd {
  const { call, end, flow } = ended
  const longest_gap_ms = is_slow ? null : flow.longest_gap_ms
  return { api, call, end, why: reasonOf(ended), events: flow.events, longest_gap_ms, with_control_plane }
}

function reasonOf(ended: ClientEnd): string | null {
  switch (ended.end) {
    case 'completed':
    case 'left':
      return null
    case 'refused':
      return `${ended.status} ${ended.code}`
    case 'error_event':
      return `error event: ${ended.code}`
    case 'broken':
      return `connection: ${ended.reason}`
    case 'half_truth':
      return `wrong: ${ended.reason}`
  }
}

/** How many leases of each call went on with what another engine had begun. */
export function resumedCalls(book: LedgerBook): Map<string, number> {
  const resumed = new Map<string, number>()
  for (const { call, record } of book.read()) {
    if ((record?.resumed_tokens ?? 0) > 0) resumed.set(call, (resumed.get(call) ?? 0) + 1)
  }
  return resumed
}

export function countStreams(ends: readonly StreamEnd[], resumed: ReadonlyMap<string, number>): StreamCounts {
  const hasGoneOn = ({ call }: StreamEnd): boolean => call !== null && resumed.has(call)
  const judged = ends.filter(
    ({ end, with_control_plane }) => end !== 'left' && end !== 'refused' && !with_control_plane,
  )
  // One that ended otherwise after its first event was broken too, whether or not another engine took it.
  const broken = judged.filter((one) => hasGoneOn(one) || (one.end !== 'completed' && one.events > 0))
  const whole = broken.filter(({ end }) => end === 'completed')
  const gaps = whole.flatMap(({ longest_gap_ms: gap_ms }) => (gap_ms === null ? [] : [gap_ms]))
  const gap = (share: number): number => (gaps.length === 0 ? 0 : Math.round(quantile(gaps, share)))
  const of = (api: Api) => {
    const own = (some: readonly StreamEnd[]): number => some.filter((one) => one.api === api).length
    return { streams: own(ends), broken: own(broken), completed: own(whole) }
  }
  return {
    ...{ streams: ends.length, broken: broken.length, completed: whole.length },
    completed_share: broken.length === 0 ? 1 : whole.length / broken.length,
    resumed: ends.filter(hasGoneOn).length,
    resumed_again: ends.filter(({ call }) => call !== null && (resumed.get(call) ?? 0) > 1).length,
    by_api: Object.fromEntries(APIS.map((api) => [api, of(api)])) as StreamCounts['by_api'],
    ...{ next_token_p50_ms: gap(0.5), next_token_p99_ms: gap(0.99) },
    lost: counted(broken.filter(({ end }) => end !== 'completed')),
    refused: counted(ends.filter(({ end }) => end === 'refused')),
    left_by_client: ends.filter(({ end }) => end === 'left').length,
    ended_with_control_plane: ends.filter(({ with_control_plane }) => with_control_plane).length,
    wrong_words: ends.filter(({ end }) => end === 'half_truth').length,
  }
}

function counted(ends: readonly StreamEnd[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { why } of ends) counts[why ?? 'none'] = (counts[why ?? 'none'] ?? 0) + 1
  return counts
}
