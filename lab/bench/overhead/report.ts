/** The report of `bench:overhead`: its JSON, and tables for people. */
import { textTable } from '../../../cli/table.ts'
import type { CallsReport, Run } from './calls.ts'
import type { InferenceReport } from './inference.ts'
import type { MemoryReport } from './memory.ts'
import type { PagesReport, PagesRun } from './pages.ts'
import type { PeersReport } from './peers.ts'
import type { RateCell, RatesReport } from './rates.ts'
import type { StreamingReport } from './streaming.ts'
import type { WorkersReport } from './workers.ts'

export interface Report {
  machine: { cpu: string; cores: number; node: string; at: string }
  calls?: CallsReport
  rates?: RatesReport
  streaming?: StreamingReport
  memory?: MemoryReport
  inference?: InferenceReport
  pages?: PagesReport
  peers?: PeersReport
  workers?: WorkersReport
}

/** `evicted_growth`: what an allocator's resident set scatters by. */
const GOALS = {
  peak_ratio_to_bare: 0.6,
  added_p50_ms: 3,
  added_p99_ms: 10,
  ratio_to_direct: 0.6,
  evicted_growth: 1.05,
  rates_added_p50_ms: 3,
  rates_added_p99_to_bare: 1.5,
  /** What a prompt of 200 kB costs more than one of 1 kB. */
  rates_long_prompt_cpu_us: 300,
  pages_peak_ratio: 0.97,
  pages_added_p50_ms: 0.2,
  inference_cpu_us: [
    [50, 300],
    [200, 1000],
  ],
} as const

const RUN_COLUMNS = [
  'lane',
  'round',
  'connections',
  'calls_per_s',
  'p50_ms',
  'p95_ms',
  'p99_ms',
  'ttft_p50_ms',
  'late_p99_ms',
  'generator_cpu_us',
  'workerd_cpu_us',
  'agent_cpu_us',
  'rest_s',
] as const satisfies (keyof Run)[]

export function printReport({ calls, rates, streaming, memory, inference, pages, peers, workers }: Report): void {
  if (calls !== undefined) printCalls(calls)
  if (rates !== undefined) printRates(rates)
  if (streaming !== undefined) {
    const keys = ['tokens_per_s', 'tokens_per_event', 'workerd_cpu_us_per_token', 'ttft_p50_ms', 'itl_p50_ms'] as const
    table('Streams, every run', streaming.runs, ['step_ms', 'lane', 'round', ...keys, 'itl_p99_ms'])
    for (const figures of streaming.figures) {
      figuresOf({ ...figures })
      const what = `streaming over direct, a token each ${figures.step_ms} ms`
      judge(what, figures.ratio_to_direct >= GOALS.ratio_to_direct, `≥ ${GOALS.ratio_to_direct}`)
    }
  }
  if (memory !== undefined) printMemory(memory)
  if (inference !== undefined) {
    const keys = ['prompt_kb', 'named_cpu_us', 'inferred_cpu_us', 'added_cpu_us', 'hash_us'] as const
    table('Program inference, per call', inference.rows, [...keys, 'named_p50_ms', 'inferred_p50_ms'])
    for (const [prompt_kb, goal_us] of GOALS.inference_cpu_us) {
      const added = inference.rows.find((row) => row.prompt_kb === prompt_kb)?.added_cpu_us ?? Number.POSITIVE_INFINITY
      judge(`CPU of inference at ${prompt_kb} kB`, added <= goal_us, `≤ ${goal_us} µs`)
    }
  }
  if (pages !== undefined) {
    const { runs, ...figures } = pages
    const keys = ['load', 'calls_per_s', 'p50_ms', 'p99_ms', 'workerd_cpu_us'] as const satisfies (keyof PagesRun)[]
    table('Open pages, every run', runs, ['pages', 'round', ...keys])
    figuresOf({ ...figures })
    const { pages_peak_ratio, pages_added_p50_ms } = GOALS
    judge('peak with pages open', figures.peak_ratio >= pages_peak_ratio, `≥ ${pages_peak_ratio}`)
    judge('p50 added by open pages', figures.added_p50_ms <= pages_added_p50_ms, `≤ ${pages_added_p50_ms} ms`)
  }
  if (workers !== undefined) {
    const cpu = ['calls_per_s', 'all_cpu_us', 'busiest_cpu_us', 'balancer_cpu_us'] as const
    const keys = [...cpu, 'open_p50_ms', 'open_p99_ms'] as const
    table('Processes of the control plane, every run', workers.runs, ['workers', 'round', ...keys])
    table('Processes of the control plane', workers.by_workers, ['workers', ...keys, 'calls_per_core_s'])
  }
  if (peers !== undefined) {
    table('Other gateways, every run', peers.runs, RUN_COLUMNS)
    const keys = ['lane', 'peak_calls_per_s', 'added_p50_ms', 'added_p99_ms', 'tokens_per_s', 'resident_bytes'] as const
    table('Other gateways beside Switchyard', peers.peers, keys)
  }
}

function printCalls({ closed, open, stages, ...figures }: CallsReport): void {
  table('Closed loads, every run', closed, RUN_COLUMNS)
  table('Open loads at half of the peak, every run', open, RUN_COLUMNS)
  table('Stages (Server-Timing) in the open loads', stages, ['stage', 'mean_ms', 'share'])
  figuresOf({ ...figures })
  const { peak_ratio_to_bare, added_p50_ms, added_p99_ms } = GOALS
  judge('peak over bare', figures.peak_ratio_to_bare >= peak_ratio_to_bare, `≥ ${peak_ratio_to_bare}`)
  judge('added p50', figures.added_p50_ms <= added_p50_ms, `≤ ${added_p50_ms} ms`)
  judge('added p99', figures.added_p99_ms <= added_p99_ms, `≤ ${added_p99_ms} ms`)
}

/** Goals for p50 hold for the shortest and the longest prompt; a lane that failed in every round meets none. */
function printRates({ cells, direct, failed }: RatesReport): void {
  const told = (spread: RateCell['added_p50_ms']) =>
    spread === null ? 'failed' : `${spread.median} (${spread.least} to ${spread.most})`
  const place = ['state', 'prompt_kb', 'calls_per_s_offered'] as const
  table('Sent directly, medians', direct, [...place, 'p50_ms', 'p99_ms', 'late_p99_ms'])
  const rows = cells.map((cell) => ({
    ...cell,
    added_p50: told(cell.added_p50_ms),
    added_p99: told(cell.added_p99_ms),
  }))
  const keys = [...place, 'lane', 'rounds', 'added_p50', 'added_p99'] as const
  table('Added to that, ms, median over the rounds (range)', rows, [...keys, 'workerd_cpu_us'])
  if (failed.length > 0) table('Loads that failed', failed, [...place, 'lane', 'round', 'reason'])
  const at = (place: RateCell, lane: string, prompt_kb = place.prompt_kb) =>
    cells.find(
      (cell) =>
        cell.lane === lane &&
        cell.state === place.state &&
        cell.prompt_kb === prompt_kb &&
        cell.calls_per_s_offered === place.calls_per_s_offered,
    )
  for (const cell of cells.filter(({ lane }) => lane === 'switchyard')) {
    const where = `state ${cell.state}, ${cell.prompt_kb} kB, ${cell.calls_per_s_offered} calls/s`
    const { rates_added_p50_ms, rates_added_p99_to_bare, rates_long_prompt_cpu_us } = GOALS
    const p50 = cell.added_p50_ms?.median ?? Number.POSITIVE_INFINITY
    if (cell.prompt_kb !== 50) judge(`added p50, ${where}`, p50 <= rates_added_p50_ms, `≤ ${rates_added_p50_ms} ms`)
    const p99 = cell.added_p99_ms?.median ?? Number.POSITIVE_INFINITY
    const bare = at(cell, 'bare')?.added_p99_ms?.median
    const goal = `≤ ${rates_added_p99_to_bare} × the bare Worker's`
    if (bare !== undefined) judge(`added p99, ${where}`, p99 <= rates_added_p99_to_bare * bare, goal)
    const short_us = at(cell, 'switchyard', 1)?.workerd_cpu_us ?? null
    if (cell.prompt_kb === 200 && short_us !== null && cell.workerd_cpu_us !== null) {
      const more_us = cell.workerd_cpu_us - short_us
      judge(
        `CPU of 200 kB over 1 kB, ${where}: ${more_us} µs`,
        more_us <= rates_long_prompt_cpu_us,
        `≤ ${rates_long_prompt_cpu_us} µs`,
      )
    }
  }
}

function printMemory({ lanes, waves }: MemoryReport): void {
  const keys = ['lane', 'wave', 'programs', 'seconds', 'resident_bytes', 'evicted_bytes'] as const
  table('Memory of workerd, every wave', waves, keys)
  const sums = ['lane', 'before_bytes', 'bytes_per_resident_program', 'evicted_growth'] as const
  table('Memory of workerd', lanes, [...sums, 'evicted_growth_bytes_per_program'])
  const { evicted_growth } = GOALS
  const met = lanes.some((one) => one.lane === 'switchyard' && one.evicted_growth <= evicted_growth)
  judge('memory after eviction flat, last wave over first', met, `≤ ${evicted_growth}`)
}

function judge(what: string, met: boolean, goal: string): void {
  console.log(`Goal, ${what} ${goal}: ${met ? 'met' : 'missed'}`)
}

function figuresOf(figures: Readonly<Record<string, number>>): void {
  console.log(
    `\n${textTable(
      [
        { title: 'figure', cell: ([name]: [string, number]) => name },
        { title: 'value', cell: ([, value]: [string, number]) => String(value), align: 'right' },
      ],
      Object.entries(figures),
    )}`,
  )
}

function table<T extends object>(title: string, rows: readonly T[], keys: readonly (keyof T & string)[]): void {
  const columns = keys.map((key) => ({ title: key, cell: (row: T) => String(row[key] ?? ''), align: 'right' as const }))
  console.log(`\n${title}\n${textTable(columns, rows)}`)
}
