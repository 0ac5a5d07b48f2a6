/**
 * From which end on `learned` is as good as if it had known the class from the start: when nothing is known at first, and when
 * programs become others under the same label. Both runs of a pair have the same programs and arrivals, and differ in knowledge
 * alone. Programs are grouped by how many had ended when they arrived.
 */
import type { Goal, Panel, Scope, Table } from '../../figure.ts'
import { seriesColor } from '../../plots/colors.ts'
import { lineChart } from '../../plots/line-chart.ts'
import { ifPlayed, type Runs } from '../../runs/run-chains.ts'
import type { EachProgram } from '../../runs/run-outcome.ts'
import type { RunChange, RunSpec } from '../../runs/run-spec.ts'
import { type Interval, interval } from '../../statistics/interval.ts'
import { withInterval } from '../../statistics/words.ts'
import { HISTORY } from '../learned.ts'
import { LONG, type Load, SHORT_AND_LONG, specOf } from './load.ts'

const WINDOW_ENDS = 100
const WINDOWS_MAX = 6
/** Of fewer programs a mean says little. */
const WINDOW_PROGRAMS_MIN = 20
const WITHIN = 1.1
const COLD_ENDS_MAX = 200
const DRIFT_ENDS_MAX = 300

interface Pair {
  name: string
  load: Load
  learning: RunChange
  knowing: RunChange
  /** Programs that count; left out: all. */
  of?: string
  ends_max: number
}

const EACH = { each_program: true } as const
const WARM = { ...EACH, history: HISTORY } as const

function drift(first: 'bfcl' | 'sharegpt', then: 'bfcl' | 'sharegpt', rate: number, programs: number): Pair {
  return {
    name: `${first}, then ${then}`,
    load: {
      name: `${first}, then ${then}`,
      played: { workload: first, programs: 200, rate, more: { workload: then, programs, order: 'after' } },
    },
    learning: { ...WARM, history_of: [first], clients: [{ client: { label: first } }] },
    knowing: WARM,
    of: then,
    ends_max: DRIFT_ENDS_MAX,
  }
}

const PAIRS: readonly Pair[] = [
  {
    name: 'cold, bfcl',
    load: { name: 'bfcl, load 2', played: { workload: 'bfcl', programs: 900, rate: 1.66 } },
    ...{ learning: EACH, knowing: WARM, ends_max: COLD_ENDS_MAX },
  },
  {
    name: `cold, ${SHORT_AND_LONG.name}`,
    load: SHORT_AND_LONG,
    ...{ learning: EACH, knowing: WARM, ends_max: COLD_ENDS_MAX },
  },
  drift('bfcl', LONG, 2.1, 900),
  drift(LONG, 'bfcl', 1.66, 700),
]

export function recoverySpecs(scope: Scope): RunSpec[] {
  return PAIRS.flatMap(({ load, learning, knowing }) =>
    scope.seeds.flatMap((seed) => [learning, knowing].map((change) => specOf(load, 'learned', seed, scope, change))),
  )
}

/**
 * The mean of the programs that arrived after 0 to 99, 100 to 199, … had ended in the first run, ÷ the mean of the same
 * programs in the second. Windows of few programs are left out, and so are those after them.
 */
export function recovery(
  learning: readonly EachProgram[],
  knowing: readonly EachProgram[],
  of?: string,
): { windows: number[]; all: number } {
  const counted = learning.flatMap((program, at) =>
    of === undefined || program.workload === of ? [{ program, known: knowing[at] as EachProgram }] : [],
  )
  const ends_s = counted.map(({ program: { arrived_s, response_s } }) => arrived_s + response_s).sort((a, b) => a - b)
  const sum = (latencies: readonly EachProgram[]) =>
    latencies.reduce((total, { token_latency_ms }) => total + token_latency_ms, 0)
  const all = sum(counted.map(({ program }) => program)) / sum(counted.map(({ known }) => known))
  const windows: { learning: number; knowing: number; programs: number }[] = []
  let ended = 0
  for (const { program, known } of counted) {
    while (ended < ends_s.length && (ends_s[ended] as number) <= program.arrived_s) ended += 1
    const at = Math.floor(ended / WINDOW_ENDS)
    windows[at] ??= { learning: 0, knowing: 0, programs: 0 }
    windows[at].learning += program.token_latency_ms
    windows[at].knowing += known.token_latency_ms
    windows[at].programs += 1
  }
  const few = Array.from(windows, (window) => window ?? { programs: 0 }).findIndex(
    ({ programs }) => programs < WINDOW_PROGRAMS_MIN,
  )
  const told = windows.slice(0, Math.min(WINDOWS_MAX, few < 0 ? windows.length : few))
  return { windows: told.map((window) => window.learning / window.knowing), all }
}

/** After so many ends every window is within a tenth. Null: not in what was played. */
export function recoveredAfter(windows: readonly Interval[]): number | null {
  let from = windows.length
  while (from > 0 && (windows[from - 1] as Interval).mean <= WITHIN) from -= 1
  return from === windows.length ? null : from * WINDOW_ENDS
}

interface Recovered {
  pair: Pair
  windows: Interval[]
  /** Of all programs that count. */
  all: Interval
}

function read(pair: Pair, runs: Runs, scope: Scope): Recovered {
  const each = (change: RunChange, seed: number) =>
    runs.need(specOf(pair.load, 'learned', seed, scope, change)).each_program ?? []
  const by_seed = scope.seeds.map((seed) => recovery(each(pair.learning, seed), each(pair.knowing, seed), pair.of))
  const count = Math.min(...by_seed.map(({ windows }) => windows.length))
  const windows = Array.from({ length: count }, (_, at) => interval(by_seed.map((seed) => seed.windows[at] as number)))
  return { pair, windows, all: interval(by_seed.map((seed) => seed.all)) }
}

export function readRecovery(
  runs: Runs,
  scope: Scope,
): { panels: Panel[]; table: Table; shows: string[]; goals: Goal[] } {
  const all = PAIRS.flatMap((pair) => ifPlayed(() => read(pair, runs, scope)) ?? [])
  return {
    panels: all.length === 0 ? [] : [panel(all)],
    table: table(all),
    shows: all.map(
      ({ pair, windows, all: of_all }) =>
        `${pair.name}: ${windows.length === 0 ? 'too few programs to say' : windows.map(withInterval).join(', ')} times as with knowledge, ${WINDOW_ENDS} ends each; ${withInterval(of_all)} over all programs.`,
    ),
    goals: all.map(goal),
  }
}

function panel(all: readonly Recovered[]): Panel {
  return {
    name: 'recovery',
    alt: `Mean program token latency ÷ that with knowledge, by how many programs had ended before, for ${all.map(({ pair }) => pair.name).join('; ')}.`,
    svg: lineChart({
      ...{ title: 'Learning a class', x: 'programs that had ended', y: 'mean latency ÷ with knowledge' },
      lines: all
        .filter(({ windows }) => windows.length > 0)
        .map(({ pair, windows }, at) => ({
          ...{ name: pair.name, color: seriesColor(at) },
          points: windows.map((y, window) => ({ x: (window + 0.5) * WINDOW_ENDS, y })),
        })),
      marks: [1, WITHIN],
    }),
  }
}

function table(all: readonly Recovered[]): Table {
  const windows = Array.from({ length: WINDOWS_MAX }, (_, at) => at)
  return {
    title: `Mean program token latency ÷ that with knowledge, by how many programs had ended when they arrived`,
    columns: ['programs', ...windows.map((at) => `${at * WINDOW_ENDS} to ${(at + 1) * WINDOW_ENDS - 1}`), 'all'],
    rows: all.map(({ pair, windows: own, all: of_all }) => [
      pair.name,
      ...windows.map((at) => (own[at] === undefined ? '' : withInterval(own[at]))),
      withInterval(of_all),
    ]),
  }
}

function goal({ pair, windows }: Recovered): Goal {
  const after = recoveredAfter(windows)
  const played = windows.length * WINDOW_ENDS
  return {
    goal: `Learned: ends until within 10 % of a run with knowledge (${pair.name})`,
    target: `≤ ${pair.ends_max}`,
    ours: played === 0 ? 'too few programs' : after === null ? `not within ${played} ends` : `${after}`,
    met: played <= (after ?? pair.ends_max) ? null : after !== null && after <= pair.ends_max,
  }
}
