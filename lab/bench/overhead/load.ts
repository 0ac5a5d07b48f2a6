/**
 * Closed and open loads over one lane. Closed: so many connections, each sends its next call when the last one has ended;
 * its rate is what the lane can take. Open: calls come by a Poisson process, independent of the lane, and a call's latency
 * counts from the moment at which it was due, so a generator or a lane that falls behind cannot hide it.
 */
import { seededRandom } from '../../../simulator/random.ts'
import { type Answered, HttpConnection } from './http-connection.ts'

/** Where calls go, and the bytes of the `index`-th. */
export interface Lane {
  name: string
  host: string
  port: number
  /** Makes what calls of the next load need (tickets live a minute); not measured. */
  prepare: (calls: number) => Promise<void>
  request: (index: number) => Buffer
  /** Of each answer. */
  output_tokens: number
}

/** Open connections of an open load; past it the load fails: the lane does not keep up. */
const CONNECTIONS_MAX = 1_500
const TICK_MS = 1

export interface LoadResult {
  /** Counted and sent. */
  calls: number
  sent: number
  seconds: number
  calls_per_s: number
  events_per_s: number
  latencies_ms: number[]
  ttft_ms: number[]
  /** Between two reads of a stream that have events. */
  gaps_ms: number[]
  heads: string[]
  /** How late calls were sent, 99th percentile of open loads. */
  late_ms: number[]
}

export class BadAnswer extends Error {}

function check(lane: Lane, answer: Answered): void {
  if (answer.status !== 200) throw new BadAnswer(`${lane.name} answered ${answer.status}: ${answer.refusal}`)
  if (!answer.done) throw new BadAnswer(`${lane.name} ended a stream without [DONE]`)
}

/**
 * The lane must be prepared for `calls_max`. Calls that are sent in the first `warm_up_s` are not counted: in them every program
 * is new, so that a short load would make more programs per call than one that lasts.
 */
export async function closedLoad(
  lane: Lane,
  connections: number,
  seconds: number,
  calls_max: number,
  warm_up_s = 0,
): Promise<LoadResult> {
  const result = emptyResult()
  const started_ms = performance.now()
  const counted_from_ms = started_ms + warm_up_s * 1000
  const until_ms = counted_from_ms + seconds * 1000
  let next = 0
  const worker = async (): Promise<void> => {
    const connection = await HttpConnection.open(lane.host, lane.port)
    try {
      while (performance.now() < until_ms && next < calls_max) {
        const sent_ms = performance.now()
        const answer = await connection.send(lane.request(next++))
        check(lane, answer)
        result.sent += 1
        if (sent_ms >= counted_from_ms) took(result, answer, answer.total_ms)
      }
    } finally {
      connection.close()
    }
  }
  await Promise.all(Array.from({ length: connections }, worker))
  return rated(result, (performance.now() - counted_from_ms) / 1000)
}

/**
 * `due`: times of arrival from `poisson`; the lane must be prepared for them. Calls due before `counted_from_ms` are sent and
 * not counted: in them every program is new, which is no load that lasts.
 */
export async function openLoad(lane: Lane, due: readonly number[], counted_from_ms: number): Promise<LoadResult> {
  const result = emptyResult()
  const idle: HttpConnection[] = []
  const under_way = new Set<Promise<void>>()
  let open = 0
  let failure: unknown = null
  const started_ms = performance.now()
  const call = async (index: number, due_ms: number): Promise<void> => {
    let connection = idle.pop()
    if (connection?.isFresh === false) {
      // Those below it have been idle for longer.
      for (const old of [connection, ...idle]) old.close()
      open -= idle.length + 1
      idle.length = 0
      connection = undefined
    }
    if (connection === undefined) {
      open += 1
      if (open > CONNECTIONS_MAX)
        throw new BadAnswer(`${lane.name} does not keep up: ${CONNECTIONS_MAX} calls are under way`)
      connection = await HttpConnection.open(lane.host, lane.port)
    }
    const late_ms = performance.now() - started_ms - due_ms
    const answer = await connection.send(lane.request(index))
    check(lane, answer)
    idle.push(connection)
    result.sent += 1
    if (due_ms < counted_from_ms) return
    took(result, answer, performance.now() - started_ms - due_ms)
    result.late_ms.push(late_ms)
  }
  for (let index = 0; index < due.length && failure === null; ) {
    const now_ms = performance.now() - started_ms
    for (; index < due.length && (due[index] ?? 0) <= now_ms; index++) {
      const calling = call(index, due[index] ?? 0).catch((error: unknown) => {
        failure ??= error
      })
      under_way.add(calling)
      void calling.then(() => under_way.delete(calling))
    }
    await new Promise((resolve) => setTimeout(resolve, TICK_MS))
  }
  await Promise.all(under_way)
  for (const connection of idle) connection.close()
  if (failure !== null) throw failure
  return rated(result, (performance.now() - started_ms - counted_from_ms) / 1000)
}

/** Times of arrival, milliseconds. */
export function poisson(calls_per_s: number, seconds: number, seed: number): number[] {
  const random = seededRandom(seed)
  const due: number[] = []
  for (let at_ms = 0; at_ms < seconds * 1000; at_ms += (-Math.log(1 - random()) * 1000) / calls_per_s) due.push(at_ms)
  return due
}

function took(result: LoadResult, answer: Answered, latency_ms: number): void {
  result.calls += 1
  result.events_per_s += answer.events
  result.latencies_ms.push(latency_ms)
  result.ttft_ms.push(answer.ttft_ms)
  for (const gap_ms of answer.gaps_ms) result.gaps_ms.push(gap_ms)
  result.heads.push(answer.head)
}

function emptyResult(): LoadResult {
  return {
    ...{ calls: 0, sent: 0, seconds: 0, calls_per_s: 0, events_per_s: 0 },
    ...{ latencies_ms: [], ttft_ms: [], gaps_ms: [], heads: [], late_ms: [] },
  }
}

function rated(result: LoadResult, seconds: number): LoadResult {
  return { ...result, seconds, calls_per_s: result.calls / seconds, events_per_s: result.events_per_s / seconds }
}
