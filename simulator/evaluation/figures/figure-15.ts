/** Figure 15: the rate that an SLO allows against the number of engines. */
import { mean } from '../../statistics.ts'
import type { Figure, Panel, Scope } from '../figure.ts'
import { seriesColor } from '../plots/colors.ts'
import { lineChart } from '../plots/line-chart.ts'
import type { Runs } from '../runs/run-chains.ts'
import { type Interval, interval } from '../statistics/interval.ts'
import { throughputAt } from '../statistics/read-off.ts'
import { figure, percent, withInterval } from '../statistics/words.ts'
import { systemOf } from '../systems.ts'
import { HISTORY } from './learned.ts'
import { type Sweep, sweepChain, sweepCurves, sweepSpec } from './sweep.ts'

const ENGINES = [1, 2, 4, 8] as const
const RATES_PER_ENGINE = [0.5, 1, 1.5, 2, 3, 4] as const
const SLOS = [30, 50, 75, 100] as const
const ARRIVALS_S = 60
const QUICK_ARRIVALS_S = 20
/** Rate per engine, relative to the fewest engines. */
const LINEAR_MIN = 0.9

/** The learned order begins warm. */
const SYSTEMS = ['plas', 'learned'] as const
type PlayedSystem = (typeof SYSTEMS)[number]

function sweep(system: PlayedSystem, engines: number, { quick }: Scope): Sweep {
  return {
    workload: 'sharegpt',
    system,
    programs: (rate) => Math.round(rate * (quick ? QUICK_ARRIVALS_S : ARRIVALS_S)),
    rates: RATES_PER_ENGINE.filter((_, at) => !quick || at % 2 === 1).map((rate) =>
      Number((rate * engines).toPrecision(3)),
    ),
    change: { regions: [{ name: 'region', engines }], ...(system === 'learned' ? { history: HISTORY } : {}) },
  }
}

/** Null: the SLO is met at every rate played, or at none. */
function rateWithin(system: PlayedSystem, engines: number, slo_ms: number, runs: Runs, scope: Scope): Interval | null {
  const rates = sweepCurves(sweep(system, engines, scope), runs, scope).map((curve) => throughputAt(curve, slo_ms))
  return rates.every(({ kind }) => kind === 'at') ? interval(rates.map(({ rate }) => rate)) : null
}

/** At the lowest rate. */
function cachedShare(system: PlayedSystem, engines: number, runs: Runs, scope: Scope): number {
  const own = sweep(system, engines, scope)
  const outcomes = scope.seeds.map((seed) => runs.need(sweepSpec(own, own.rates[0] as number, seed)))
  return mean(outcomes.map(({ cached_tokens, prompt_tokens }) => cached_tokens / prompt_tokens))
}

export const FIGURE_15: Figure = {
  id: '15',
  title: 'Scaling with engines',
  paper: 'At an equal SLO the rate grows linearly with the number of engines.',
  setup: `Chats, PLAS and the learned order (${HISTORY} programs ended before), the cost-aware balancer, one region of a100-8b engines; arrivals for ${ARRIVALS_S} s, so that every size sees the same load per engine for the same time.`,
  chains: (scope) =>
    SYSTEMS.flatMap((system) => ENGINES.map((engines) => sweepChain(sweep(system, engines, scope), scope))),
  read: (runs, scope) => {
    const all = SYSTEMS.map((system) => readSystem(system, runs, scope))
    const [plas] = all as [SystemRead, ...SystemRead[]]
    return {
      panels: all.map(panel),
      shows: all.flatMap((read) => inWords(read, runs, scope)),
      losses: all.flatMap(losses),
      paper: [
        {
          claim: 'Rate per engine at the most engines ÷ at the fewest, mean over SLOs',
          paper: 1,
          ours:
            plas.slos.length === 0
              ? null
              : { mean: mean(plas.slos.map(({ share }) => share)), half_width: null, samples: plas.slos.length },
          unit: '×',
        },
      ],
    }
  },
}

interface SloRead {
  slo_ms: number
  points: { x: number; y: Interval }[]
  /** Fewest and most engines that were read. */
  from: number
  to: number
  /** Rate per engine at the most, relative to the fewest. */
  share: number
}

interface SystemRead {
  system: PlayedSystem
  slos: SloRead[]
}

function readSystem(system: PlayedSystem, runs: Runs, scope: Scope): SystemRead {
  const slos = SLOS.flatMap((slo_ms) => {
    const points = ENGINES.flatMap((engines) => {
      const rate = rateWithin(system, engines, slo_ms, runs, scope)
      return rate === null ? [] : [{ x: engines, y: rate }]
    })
    const [first, last] = [points[0], points.at(-1)]
    if (first === undefined || last === undefined || first === last) return []
    const share = last.y.mean / last.x / (first.y.mean / first.x)
    return [{ slo_ms, points, from: first.x, to: last.x, share }]
  })
  return { system, slos }
}

function panel({ system, slos }: SystemRead): Panel {
  const { label } = systemOf(system)
  return {
    name: system === 'plas' ? 'rate' : `rate-${system}`,
    alt: `Highest rate within an SLO against the number of engines, ${label}.`,
    svg: lineChart({
      ...{ title: `Rate within an SLO, ${label}`, x: 'engines', y: 'programs per second' },
      lines: slos.map(({ slo_ms, points }, at) => ({
        name: `${slo_ms} ms per token`,
        color: seriesColor(at),
        points,
      })),
    }),
  }
}

function inWords({ system, slos }: SystemRead, runs: Runs, scope: Scope): string[] {
  const { label } = systemOf(system)
  const cached = ENGINES.map(
    (engines) => `${percent(cachedShare(system, engines, runs, scope))} of prompt tokens are cached on ${engines}`,
  )
  return [
    ...slos.map(
      ({ slo_ms, points, from, to, share }) =>
        `${label} within ${slo_ms} ms per token: ${points.map(({ x, y }) => `${withInterval(y)}/s on ${x}`).join(', ')}. ` +
        `From ${from} to ${to} engines the rate per engine becomes ${figure(share)}×.`,
    ),
    `${label} at the lowest rate: ${cached.join(', ')}.`,
  ]
}

function losses({ system, slos }: SystemRead): string[] {
  return slos
    .filter(({ share }) => share < LINEAR_MIN)
    .map(
      ({ slo_ms, to, share }) =>
        `${systemOf(system).label} at ${slo_ms} ms, ${to} engines serve only ${figure(share)}× as much per engine: more than 10 % off linear.`,
    )
}
