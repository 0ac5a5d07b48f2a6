/**
 * What a call is delayed at fixed rates, by the size of its prompt and by where the state lies. The same arrivals go directly to the
 * agent, through the bare Worker, and through Switchyard, in turn in every round, so that what else the machine does falls on
 * all of them. What a lane adds is the difference to the direct lane of the same round; told are the median over the rounds and
 * their range.
 */
import { benchLanes, closedRun, openRun, type Run } from './calls.ts'
import { INFERENCE_CONTEXT_TOKENS } from './inference.ts'
import { type CallShape, PROGRAMS_AT_ONCE } from './lanes.ts'
import { BadAnswer, poisson } from './load.ts'
import { median, round } from './measure.ts'
import type { StateHome } from './state-folder.ts'
import type { BenchSystem } from './system.ts'

/** Room for prompts of PROMPT_KB_MAX at the emulated engine's four bytes a token. */
export const RATES_CONTEXT_TOKENS = INFERENCE_CONTEXT_TOKENS
export const PROMPT_KB_MAX = 300
export const CALLS_PER_S_MAX = 2_000
const OUTPUT_TOKENS = 4
const WARM_UP_S = 2
const WARM_UP_CONNECTIONS = 8
/** Counted seconds of an open load for each second of --seconds. */
const SECONDS_FACTOR = 2
/** Before them, and so many programs' worth of calls besides: all programs are new at first, and what that costs must be over. */
const UNCOUNTED_S = 3
const UNCOUNTED_PROGRAMS = 2 * PROGRAMS_AT_ONCE
/** Between two loads: records come to rest, and the processors with them. */
const REST_S = 1

export interface RateRun extends Run {
  state: StateHome
  prompt_kb: number
  calls_per_s_offered: number
}

/** Milliseconds; each the median over the rounds, and the range. */
interface Spread {
  median: number
  least: number
  most: number
}

export interface RateCell {
  state: StateHome
  prompt_kb: number
  calls_per_s_offered: number
  lane: string
  /** Rounds in which the lane answered every call, and the direct one too. Where it is 0 there are no figures. */
  rounds: number
  added_p50_ms: Spread | null
  added_p99_ms: Spread | null
  /** In the process between generator and agent, per call. */
  workerd_cpu_us: number | null
}

export interface RatesReport {
  cells: RateCell[]
  direct: DirectCell[]
  runs: RateRun[]
  failed: FailedRun[]
}

type Place = Pick<RateRun, 'state' | 'prompt_kb' | 'calls_per_s_offered'>

/** Generator's, agent's and engine's own latencies. Medians over the rounds; null: each failed. */
interface DirectCell extends Place {
  p50_ms: number | null
  p99_ms: number | null
  /** How late the generator sent its calls: where it is much, the machine is too slow for the rate. */
  late_p99_ms: number | null
}

/** A load in which a call was refused, or too many were under way. */
interface FailedRun extends Place {
  lane: string
  round: number
  reason: string
}

export interface RatesOptions {
  states: readonly StateHome[]
  prompts_kb: readonly number[]
  rates: readonly number[]
  rounds: number
  seconds: number
  note: (line: string) => void
}

type WithState = <T>(state: StateHome, work: (system: BenchSystem) => Promise<T>) => Promise<T>

export async function measureRates(within: WithState, options: RatesOptions): Promise<RatesReport> {
  const { states, prompts_kb, rates } = options
  const runs: RateRun[] = []
  const failed: FailedRun[] = []
  const told = progress(options)
  for (const state of states) await within(state, (system) => stateRuns(system, state, options, { runs, failed }, told))
  const places = states.flatMap((state) =>
    prompts_kb.flatMap((prompt_kb) => rates.map((calls_per_s_offered) => ({ state, prompt_kb, calls_per_s_offered }))),
  )
  return {
    cells: places.flatMap((place) => cellsOf(place, runs)),
    direct: places.map((place) => {
      const own = runsAt(place, runs).filter(({ lane }) => lane === 'direct')
      const of = (key: 'p50_ms' | 'p99_ms' | 'late_p99_ms') =>
        own.length === 0 ? null : median(own.map((run) => run[key]))
      return { ...place, p50_ms: of('p50_ms'), p99_ms: of('p99_ms'), late_p99_ms: of('late_p99_ms') }
    }),
    runs,
    failed,
  }
}

async function stateRuns(
  system: BenchSystem,
  state: StateHome,
  { prompts_kb, rates, rounds, seconds, note }: RatesOptions,
  { runs, failed }: Pick<RatesReport, 'runs' | 'failed'>,
  told: () => string,
): Promise<void> {
  const sizes = await Promise.all(
    prompts_kb.map(async (prompt_kb) => {
      const shape: CallShape = { output_tokens: OUTPUT_TOKENS, prompt_kb }
      return { prompt_kb, lanes: await benchLanes(system, shape) }
    }),
  )
  for (const { lanes } of sizes) {
    for (const lane of lanes) await closedRun(system, lane, WARM_UP_CONNECTIONS, WARM_UP_S)
  }
  for (let at = 1; at <= rounds; at++) {
    for (const { prompt_kb, lanes } of sizes) {
      for (const rate of rates) {
        const uncounted_s = uncountedS(rate)
        const due = poisson(rate, SECONDS_FACTOR * seconds + uncounted_s, at)
        for (const lane of lanes) {
          const { name } = lane.lane
          const what = `${told()}: state ${state}, ${prompt_kb} kB, ${rate} calls/s, ${name}`
          const place = { state, prompt_kb, calls_per_s_offered: rate, lane: name, round: at }
          try {
            const { measured } = await openRun(system, lane, due, uncounted_s)
            runs.push({ ...place, connections: null, offered_calls_per_s: rate, ...measured })
            note(`${what}: p50 ${measured.p50_ms} ms, p99 ${measured.p99_ms} ms`)
          } catch (error) {
            if (!(error instanceof BadAnswer)) throw error
            failed.push({ ...place, reason: error.message })
            note(`${what}: failed, ${error.message}`)
          }
        }
      }
    }
  }
}

function uncountedS(rate: number): number {
  return UNCOUNTED_S + UNCOUNTED_PROGRAMS / rate
}

function runsAt(place: Place, runs: readonly RateRun[]): RateRun[] {
  return runs.filter(
    (run) =>
      run.state === place.state &&
      run.prompt_kb === place.prompt_kb &&
      run.calls_per_s_offered === place.calls_per_s_offered,
  )
}

function cellsOf(place: Place, all: readonly RateRun[]): RateCell[] {
  const here = runsAt(place, all)
  const direct = new Map(here.filter(({ lane }) => lane === 'direct').map((run) => [run.round, run]))
  return ['bare', 'bare_stored', 'switchyard'].map((lane) => {
    const own = here.filter((run) => run.lane === lane && direct.has(run.round))
    const added = (key: 'p50_ms' | 'p99_ms') => own.map((run) => run[key] - (direct.get(run.round)?.[key] ?? 0))
    const cell = { ...place, lane, rounds: own.length }
    if (own.length === 0) return { ...cell, added_p50_ms: null, added_p99_ms: null, workerd_cpu_us: null }
    return {
      ...cell,
      added_p50_ms: spread(added('p50_ms')),
      added_p99_ms: spread(added('p99_ms')),
      workerd_cpu_us: Math.round(median(own.map((run) => run.workerd_cpu_us))),
    }
  })
}

function spread(values: readonly number[]): Spread {
  return { median: median(values), least: round(Math.min(...values)), most: round(Math.max(...values)) }
}

/** `12 of 240, about 31 min left`. */
function progress({ states, prompts_kb, rates, rounds, seconds }: RatesOptions): () => string {
  const lanes = 4
  const loads = lanes * rounds * rates.length * prompts_kb.length * states.length
  const uncounted_s = rates.reduce((sum, rate) => sum + uncountedS(rate), 0) / rates.length
  const load_s = SECONDS_FACTOR * seconds + uncounted_s + REST_S
  let begun = 0
  return () => {
    const left_min = Math.ceil(((loads - begun) * load_s) / 60)
    begun += 1
    return `${begun} of ${loads}, about ${left_min} min left`
  }
}
