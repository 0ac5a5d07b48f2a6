/**
 * Differential fuzzing: random scenarios through the TypeScript order and the Python one, which must decide alike. A mismatch
 * is shrunk to a small scenario, which its seed and path play again.
 */
import fc from 'fast-check'
import { play } from './play.ts'
import type { Answer } from './python-order.ts'
import { type FuzzScenario, scenarios } from './scenario.ts'

/** The order that a trace is replayed on. */
export interface OtherOrder {
  replay(trace: readonly string[]): Promise<Answer>
}

export interface FuzzBudget {
  seed: number
  /** Play this one again: of a mismatch. */
  path?: string | undefined
  runs_max: number
  seconds_max: number
}

export interface Mismatch {
  path: string
  scenario: FuzzScenario
  /** What the other order says of it. */
  reason: string
  trace: string[]
}

export interface FuzzReport {
  seed: number
  runs: number
  lines: number
  seconds: number
  mismatch: Mismatch | null
}

/** Shrinking ends after so long with the smallest scenario found. */
const SHRINK_SECONDS_MAX = 60

export async function fuzz(budget: FuzzBudget, other: OtherOrder, onRun: (runs: number) => void): Promise<FuzzReport> {
  const { seed, runs_max, seconds_max } = budget
  const started = performance.now()
  let runs = 0
  let lines = 0
  const agree = fc.asyncProperty(scenarios, async (scenario) => {
    const trace = play(scenario)
    const answer = await other.replay(trace)
    runs += 1
    lines += trace.length
    onRun(runs)
    if (!answer.ok) throw new Error(answer.mismatch)
  })
  const found =
    budget.path === undefined
      ? await fc.check(agree, { seed, numRuns: runs_max, endOnFailure: true, ...limit(seconds_max) })
      : null
  const path = found?.counterexamplePath ?? budget.path ?? null
  const report = { seed, runs, lines, seconds: (performance.now() - started) / 1000 }
  if (path === null) return { ...report, mismatch: null }
  const shrunk = await fc.check(agree, { seed, path, ...limit(SHRINK_SECONDS_MAX) })
  const scenario = (shrunk.counterexample ?? found?.counterexample)?.[0]
  if (scenario === undefined) return { ...report, mismatch: null }
  const trace = play(scenario)
  const answer = await other.replay(trace)
  const reason = answer.ok ? 'not seen again: one of the orders is not a function of its input' : answer.mismatch
  return { ...report, mismatch: { path: shrunk.counterexamplePath ?? path, scenario, reason, trace } }
}

function limit(seconds: number): { interruptAfterTimeLimit: number; markInterruptAsFailure: false } {
  return { interruptAfterTimeLimit: seconds * 1000, markInterruptAsFailure: false }
}

/** For people. `command`: what plays it again. */
export function describeMismatch({ scenario, reason, trace }: Mismatch, command: string): string {
  const { events, ...rest } = scenario
  return [
    'The TypeScript order and the Python order decide differently.',
    `  ${reason.replaceAll('\n', '\n  ')}`,
    `Scenario: ${JSON.stringify(rest)}`,
    ...events.map((event) => `  ${JSON.stringify(event)}`),
    'Trace of the TypeScript order:',
    ...trace.map((line) => `  ${line}`),
    `Play it again: ${command}`,
  ].join('\n')
}
