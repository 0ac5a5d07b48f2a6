/**
 * What the plug-in adds over the agent's queue: the same order in the engine, and in the agent before an engine that serves first
 * come, first served (world/fronts.ts). The paper has no queue before an engine.
 */
import type { Figure, Scope } from '../figure.ts'
import { seriesColor } from '../plots/colors.ts'
import { lineChart } from '../plots/line-chart.ts'
import type { RunOutcome } from '../runs/run-outcome.ts'
import { type RunSpec, runSpec } from '../runs/run-spec.ts'
import { isAbove, isBelow } from '../statistics/interval.ts'
import { figure, withInterval } from '../statistics/words.ts'
import { type Knob, knobChain, knobMetric, knobRatio } from './ablation-runs.ts'

const SEATS = 16
const HISTORY = 200

interface Load {
  name: string
  title: string
  workload: RunSpec['workload']
  kv_share: number
  programs: number
  quick_programs: number
  rates: readonly number[]
}

const LOADS: readonly Load[] = [
  {
    ...{ name: 'chats', title: 'chats whose contexts all fit', workload: 'sharegpt', kv_share: 1 },
    ...{ programs: 100, quick_programs: 30, rates: [1, 2, 3] },
  },
  {
    ...{ name: 'tools', title: 'chains with tools, a tenth of the KV memory', workload: 'bfcl', kv_share: 0.1 },
    ...{ programs: 60, quick_programs: 20, rates: [0.5, 1, 2] },
  },
]

const ARMS = [
  { name: 'FCFS, engine alone', system: 'vllm-opt', color: seriesColor(6), queued: false },
  { name: 'FCFS, queue', system: 'vllm-opt', color: seriesColor(6), queued: true },
  { name: 'PLAS, queue', system: 'plas', color: seriesColor(0), queued: true },
  { name: 'PLAS, plug-in', system: 'plas', color: seriesColor(0), queued: false },
  { name: 'learned, queue', system: 'learned', color: seriesColor(1), queued: true },
  { name: 'learned, plug-in', system: 'learned', color: seriesColor(1), queued: false },
] as const
type Arm = (typeof ARMS)[number]

const METRICS: readonly { name: string; y: string; of: (outcome: RunOutcome) => number }[] = [
  { name: 'latency', y: 'ms per token, mean', of: ({ token_latency_ms }) => token_latency_ms.mean },
  { name: 'first-token', y: "s to a program's first token, mean", of: ({ ttft_s }) => ttft_s.mean },
]

function knob(load: Load, { system, queued }: Arm, { quick }: Scope): Knob<number> {
  return (rate, seed) =>
    runSpec({
      ...{ workload: load.workload, programs: quick ? load.quick_programs : load.programs, seed, rate, system },
      ...{ max_seqs: SEATS, kv_share: load.kv_share, steps_per_decision: 1, history: HISTORY },
      ...(queued ? { front: 'queue' } : {}),
    })
}

export const PLUGIN: Figure = {
  id: 'plugin',
  title: 'What the plug-in adds over the queue',
  paper: null,
  setup: `One a100-8b engine with ${SEATS} seats in overload. *Plug-in*: the engine orders calls itself, at every step. *Queue*: the agent's queue orders them, before an engine that serves first come, first served and yields no seat. ${LOADS.map(({ name, title, programs, quick_programs }) => `${name}: ${title}, ${programs} programs (quick: ${quick_programs})`).join('; ')}. learned has seen ${HISTORY} programs.`,
  every_seed: true,
  chains: (scope) => LOADS.flatMap((load) => ARMS.map((arm) => knobChain(knob(load, arm, scope), load.rates, scope))),
  read: (runs, scope) => {
    const metric = (load: Load, arm: Arm, rate: number, of: (outcome: RunOutcome) => number) =>
      knobMetric(runs, knob(load, arm, scope), rate, of, scope)
    const ratio = (load: Load, [arm, base]: readonly [Arm, Arm], rate: number) =>
      knobRatio<Arm>(
        runs,
        (one, seed) => knob(load, one, scope)(rate, seed),
        [arm, base],
        ({ token_latency_ms }) => token_latency_ms.mean,
        scope,
      )
    const [alone, queue_fcfs, queue_plas, plugin_plas, queue_learned, plugin_learned] = ARMS
    const added = LOADS.flatMap((load) => {
      const rate = load.rates.at(-1) as number
      return [
        { load, rate, policy: 'PLAS', by: ratio(load, [plugin_plas, queue_plas], rate) },
        { load, rate, policy: 'learned', by: ratio(load, [plugin_learned, queue_learned], rate) },
      ]
    })
    const overhead = LOADS.map((load) => ({ load, by: ratio(load, [queue_fcfs, alone], load.rates.at(-1) as number) }))
    return {
      panels: LOADS.flatMap((load) =>
        METRICS.map(({ name, y, of }) => ({
          name: `${load.name}-${name}`,
          alt: `${y} of ${load.title} by the rate of programs, for each order in the engine and in the agent's queue.`,
          svg: lineChart({
            ...{ title: load.title, x: 'programs per second', y: `${y}`, y_log: true },
            lines: ARMS.map((arm) => ({
              ...{ name: arm.name, color: arm.color, dashed: arm.queued },
              points: load.rates.map((rate) => ({ x: rate, y: metric(load, arm, rate, of) })),
            })),
          }),
        })),
      ),
      tables: LOADS.flatMap((load) =>
        METRICS.map(({ y, of }) => ({
          title: `${load.title}: ${y}`,
          columns: ['', ...load.rates.map((rate) => `${rate} programs/s`)],
          rows: ARMS.map((arm) => [arm.name, ...load.rates.map((rate) => withInterval(metric(load, arm, rate, of)))]),
        })),
      ),
      shows: [
        ...added.map(
          ({ load, rate, policy, by }) =>
            `${policy} in the engine has ${withInterval(by)} of the latency of ${policy} in the queue on ${load.name} at ${rate} programs per second.`,
        ),
        ...overhead.map(
          ({ load, by }) => `The queue itself, under FCFS, costs a factor of ${withInterval(by)} on ${load.name}.`,
        ),
      ],
      losses: [
        ...added
          .filter(({ by }) => isAbove(by, 1))
          .map(
            ({ load, rate, policy, by }) =>
              `On ${load.name} at ${rate} programs per second the queue is better than the plug-in under ${policy}: the plug-in has ${figure(by.mean)} of its latency.`,
          ),
        ...overhead
          .filter(({ by }) => isBelow(by, 0.98))
          .map(({ load, by }) => `FCFS is better with the queue before it on ${load.name} (${figure(by.mean)}).`),
      ],
    }
  },
}
