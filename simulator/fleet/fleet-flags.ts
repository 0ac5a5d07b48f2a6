/** The flags of `npm run simulate -- plan` and `-- quota`: those of `run`, a target, and how much of what is searched. */
import { readFlags } from '../../cli/flags.ts'
import { FlagError, integer, list, number, outputFile } from '../run/flag-values.ts'
import { parseEngines } from '../run/region-flags.ts'
import { PROGRAMS_MAX, RUN_OPTIONS, readRunPlan } from '../run/run-flags.ts'
import type { RunPlan } from '../run/run-plan.ts'
import type { EngineRange } from './fewest-engines.ts'
import type { Target } from './fleet-search.ts'
import type { FleetQuestion } from './fleet-verdict.ts'

export const PLAN_HELP = `How many engines a workload needs: the fewest that meet a target, for each profile, policy and balancer, and what they cost.

  npm run simulate -- plan --trace FILE --p95-ms 60 --engines 1..16 --gpu-cost 2.5
  npm run simulate -- plan --workload mixed --rate 4 --p95-s 60 --profile a100-8b,a100-70b-tp4 --policy fcfs,plas

Offline applications of several models are planned with --application FILE (npm run simulate -- plan --application --help).

The target: one of them
  --p95-ms X          95 % of programs take at most X ms for each token that they generate (program token latency)
  --p95-s X           95 % of programs have ended X seconds after they began
                      Over several seeds, their mean counts

Engines
  --engines 1..64     how many engines to try, in one region
  --profile a100-8b   one or more, separated by commas
  --gpu-cost X        price of a GPU per hour, in your currency: the table and the plot's caption then have costs

What is played is said by the flags of run (npm run simulate -- run --help), --engines, --regions and --rtt apart. Lists of
policies and balancers are compared. With --trace alone, programs arrive as the trace says, all of them, and --seed is 1.
Otherwise --rate (default 1), --arrivals and --programs (default 500) hold, and --seed is 1,2,3.

Output
  --json FILE         every size that was played
  --plot FILE.svg     the p95 against the number of engines
  --help`

const RANGE_DEFAULT = '1..64'
const GPU_COST_MAX = 1e6
const TARGET_MAX = 1e9

const { regions: _, rtt: __, arrivals, programs, rate, seed, ...OTHERS } = RUN_OPTIONS
const TEXT = { type: 'string' } as const
const OPTIONS = {
  ...OTHERS,
  ...{ arrivals: TEXT, programs: TEXT, rate: TEXT, seed: TEXT },
  ...{ 'p95-ms': TEXT, 'p95-s': TEXT, 'gpu-cost': TEXT },
} as const
const { engines: _engines, 'gpu-cost': _cost, ...OF_QUOTA } = OPTIONS
const QUOTA_OPTIONS = { ...OF_QUOTA, times: TEXT } as const

type Flags = ReturnType<typeof readFlags<typeof OPTIONS>>
type Values = Extract<Flags, { ok: true }>['values']

export interface FleetPlan extends FleetQuestion {
  /** One for each profile. Their fleets are not played. */
  plans: readonly RunPlan[]
  outputs: { json: string | null; plot: string | null; threads: number | null }
}

export type FleetFlags = { ok: true; plan: FleetPlan } | { ok: false; reason: string }

/** `help` has been looked for already. */
export function parseFleetFlags(argv: readonly string[]): FleetFlags {
  return planned(readFlags('simulate -- plan', argv, OPTIONS), '--engines')
}

/** Multiples of a provider's limits take the place of engines. */
export function parseQuotaFlags(argv: readonly string[]): FleetFlags {
  const flags = readFlags('simulate -- quota', argv, QUOTA_OPTIONS)
  if (!flags.ok) return flags
  const { times, ...values } = flags.values
  return planned({ ok: true, values: times === undefined ? values : { ...values, engines: times } }, '--times')
}

/** `sizes`: the flag of how many from and to. */
function planned(flags: Flags, sizes: string): FleetFlags {
  if (!flags.ok) return flags
  try {
    return { ok: true, plan: planOf(flags.values, sizes) }
  } catch (error) {
    if (error instanceof FlagError) return { ok: false, reason: error.message }
    throw error
  }
}

function planOf({ engines = RANGE_DEFAULT, ...values }: Values, sizes: string): FleetPlan {
  const { threads, json, plot } = values
  const gpu_cost = values['gpu-cost']
  const played = { ...values, ...arrivalsOf(values) }
  return {
    plans: list(values.profile, (profile) => readRunPlan({ ...played, profile })),
    target: targetOf(values),
    range: rangeOf(engines, sizes),
    gpu_cost: gpu_cost === undefined ? null : number('--gpu-cost', gpu_cost, { above: 0, max: GPU_COST_MAX }),
    outputs: {
      json: outputFile('--json', json),
      plot: outputFile('--plot', plot),
      threads: threads === undefined ? null : integer('--threads', threads, 1, 1024),
    },
  }
}

function arrivalsOf({ trace, rate: given_rate, ...values }: Omit<Values, 'engines'>) {
  const as_traced = trace !== undefined && given_rate === undefined && (values.arrivals ?? 'trace') === 'trace'
  return {
    arrivals: values.arrivals ?? (as_traced ? 'trace' : arrivals.default),
    programs: values.programs ?? (as_traced ? `${PROGRAMS_MAX}` : programs.default),
    rate: given_rate ?? rate.default,
    seed: values.seed ?? (as_traced ? seed.default : '1,2,3'),
  }
}

function targetOf({ 'p95-ms': ms, 'p95-s': s }: Pick<Values, 'p95-ms' | 'p95-s'>): Target {
  if ((ms === undefined) === (s === undefined)) {
    throw new FlagError('say what is to be met: --p95-ms (milliseconds a token) or --p95-s (seconds a program)')
  }
  return ms === undefined
    ? { measure: 'program_s', at_most: number('--p95-s', s ?? '', { above: 0, max: TARGET_MAX }) }
    : { measure: 'ms_per_token', at_most: number('--p95-ms', ms, { above: 0, max: TARGET_MAX }) }
}

function rangeOf(text: string, flag: string): EngineRange {
  const [from = '', to = from, ...rest] = text.split('..')
  if (rest.length > 0) throw new FlagError(`${flag} takes FROM..TO, such as ${RANGE_DEFAULT}, not ${text}`)
  const [min, max] = [parseEngines(from, flag), parseEngines(to, flag)]
  if (min > max) throw new FlagError(`${flag} ${text} ends before it begins`)
  return { min, max }
}
