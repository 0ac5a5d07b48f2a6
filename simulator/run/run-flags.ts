/** The flags of `npm run simulate -- run`: what they mean, and what is refused. */

import { readFlags } from '../../cli/flags.ts'
import {
  type LatencyProfile,
  PROFILE_NAMES,
  profileOf,
} from '../../gpu-agent/engine/backends/emulated/profiles/index.ts'
import { notQueued } from '../../gpu-agent/engine/order/policies/index.ts'
import { parseLimit } from '../../gpu-agent/engine/queue/limits/limit-spec.ts'
import { BALANCER_DEFAULT, BALANCER_NAMES } from '../../src/core/pool/balancers/index.ts'
import { SHARDS_MAX } from '../../src/core/pool/pool-shards.ts'
import { SHORT_PROMPT_TOKENS } from '../../src/core/pool/pool-types.ts'
import { STATUS_LOAD_INTERVAL_MS } from '../../src/protocol/link.ts'
import { SWAP_KERNEL_NAMES, withSwapKernel } from '../engines/swap-kernels.ts'
import { POLICY_NAMES, type PolicyTuning, weighsMemory } from '../policies/index.ts'
import type { TenantConfig } from '../simulation.ts'
import { WORKLOAD_NAMES } from '../workloads/index.ts'
import type { ProviderConfig } from '../world/sim-provider.ts'
import { FlagError, inputFile, integer, list, number, oneOf, outputFile } from './flag-values.ts'
import { forecastOf, given, MEMORY_OPTIONS, memoryTuning } from './memory-flags.ts'
import { FRONT_NAMES, pointsOf } from './play-plan.ts'
import { parseFleets, parseRtt } from './region-flags.ts'
import type { RunPlan } from './run-plan.ts'

export const RUN_HELP = `Plays programs on simulated engines, on the scheduler, balancer and process table that serve traffic.

  npm run simulate -- run --workload mixed --policy fcfs,plas --rate 0.5,1 --programs 500

Lists separated by commas give a run for every combination of policy, rate, balancer, number of engines and seed. Runs use all cores.

What is played
  --workload NAME          ${WORKLOAD_NAMES.join(', ')}
  --trace FILE,…           programs of your own (docs/traces.md), in equal shares of the files
  --programs 500           how many (other ones for each seed)
  --rate 1,2,3             programs per second
  --arrivals poisson       or gamma:CV (CV 1 is Poisson, more is burstier), trace (each program's arrival_seconds, --rate
                           times as fast), burst (all at the start)
  --seed 1,2,3             of programs, arrivals and places (default 1)
  --tenants NAME:WEIGHT:SHARE,…   tenants with their weight and their share of the programs (default one)

Scheduling
  --policy plas            ${POLICY_NAMES.join(', ')}
                           (srpt and wsrpt know what is still to come: references, not for service)
  --service modelled       the reading that orders calls: modelled (own share of work, as engines that serve) or wall (step
                           time, as in the paper)
  --ties call              of mlfq and rr: calls of a level by arrival (call, the paper) or by their program's sequence (program)
  --beta 8                 wait over service at which a call is promoted
  --first-quantum-s 1 --levels 8 --quantum-ratio 2   of plas, atlas and mlfq (defaults by reading)
  --rr-quantum-s 0.2       a turn of rr
  --steps-per-decision 1   N: seats are taken and given at every Nth step
  --front engine,queue     engine: engines order calls themselves, as vLLM with our plug-in; queue: the agent's queue does, before
                           engines that serve first come, first served, as stock vLLM (docs/any-engine.md)
  --standby in-order       who gets a seat that falls free in between: the call that is next in order, or (resident-first)
                           the next one whose KV is on the engine, if there is one
  --decision-us 20         the scheduler's own time per decision (npm run bench:engine measures it)
  --forecast learned       what lamps, learned-memory and infercept are told of a call before it runs: learned (from programs that
                           ended, as in service), oracle (the truth) or none
  --forecast-error 0.1     of the oracle: the standard deviation of what is added, as a part of the true value
  --handling HANDLING,…    those of preserve, discard and swap that such a policy chooses from (default: as its name has it)
  --hidden-swaps on        off: contexts are moved at once, however long a step waits for them
  --revise on              off: a preserved context is kept, however long its tool takes (at most 5 minutes)
  --starvation-iterations 100   of lamps and learned-memory: iterations for which a call waits before it goes to the head
  --starvation until-completion   it stays there until its program ends, or (at-promotion) until it has run for an iteration
  --refresh-tokens 10      a running call is scored again once in so many tokens
  --rank memory-over-time  or first-come: the handling of lamps without its order
  --history FILE|N         what policies that learn have seen before: a trace, or N programs drawn with another seed
                           (default none; where no policy of the run learns, the output says so)
  --label workload         the class that such a policy sees: workload, or none

Engines
  --profile a100-8b        ${PROFILE_NAMES.join(', ')},
                           or a JSON file (npm run calibrate makes one)
  --engines 1,2,4          in one region (default 1); or --regions us:2,eu:2, programs starting where engines are
  --rtt us-eu:80,…         round trips between regions in ms (default 0)
  --balancer cost-aware    ${BALANCER_NAMES.join(', ')}
                           (cost-aware serves traffic; locality is Autellix's Algorithm 2)
  --short-prompt-tokens 2048   locality sends prompts of at most so many tokens to the least used engine
  --shards 1               of each region's pool (docs/scale.md)
  --report-ms ${STATUS_LOAD_INTERVAL_MS}          an engine reports a changed queue at most so often
  --max-seqs 128           seats: calls in one step (vLLM's max_num_seqs; 128 is the paper's setting, vLLM's default 256)
  --context-tokens N       longest prompt and output of a call together, at most the KV memory (default: the profile's);
                           a workload with a longer call is refused before the run
  --prefix-cache on        off: every call's prompt is computed in full
  --chunked-prefill on     off: a step computes whole prompts or decodes, never both
  --hold-kv on             off: any call that waits may take the KV of a program whose tool runs; of policies that queue programs
  --swap-tokens N          KV tokens that fit outside the engine (default: as many as in it; 0: evicted KV is recomputed)
  --swap-kernel NAME       how KV is moved, of a100-8b: ${SWAP_KERNEL_NAMES.join(', ')}
                           (docs/kv-swap.md; default: at the profile's costs)

A hosted API in place of engines (docs/any-engine.md)
  --quota LIMIT,…          its limits, as requests=60/min,tokens=200k/min; --engines 1,2,4: so many times as much
  --quota-counts reserved  reserved: prompt and the most that a call may write; used: the prompt, and output as it is written
  --quota-shape bucket     bucket: refilled evenly; window: fixed windows
  --ttft-ms 300 --tokens-per-s 80   of each call, however many there are

Output
  --json FILE              all figures; everything but sim_wall_s depends on the flags alone
  --plot FILE.svg          program token latency by rate, a line for each policy and balancer
  --threads N              simulations at a time (default: one for each core)
  --steps single           take every step by itself; the results are the same
  --help`

export interface RunOutputs {
  json: string | null
  plot: string | null
  threads: number | null
}

export type RunFlags = { ok: true; plan: RunPlan; outputs: RunOutputs } | { ok: false; reason: string }

/** More simulations than this in one command are a mistake in a list. */
const RUNS_MAX = 10_000
export const PROGRAMS_MAX = 1_000_000
/** Slots are at most 1,024. */
const SEQS_MAX = 1024
/** A pool takes an engine that it has not heard of for 3 s for silent. */
const REPORT_MS_MAX = 3000

const STANDBY = { 'in-order': 'in_order', 'resident-first': 'resident_first' } as const

const TEXT = { type: 'string' } as const
export const RUN_OPTIONS = {
  workload: TEXT,
  trace: TEXT,
  programs: { ...TEXT, default: '500' },
  rate: { ...TEXT, default: '1' },
  arrivals: { ...TEXT, default: 'poisson' },
  seed: { ...TEXT, default: '1' },
  tenants: { ...TEXT, default: 'tenant:1:1' },
  policy: { ...TEXT, default: 'plas' },
  service: { ...TEXT, default: 'modelled' },
  ties: { ...TEXT, default: 'call' },
  beta: TEXT,
  'first-quantum-s': TEXT,
  levels: TEXT,
  'quantum-ratio': TEXT,
  'rr-quantum-s': TEXT,
  'steps-per-decision': { ...TEXT, default: '1' },
  standby: { ...TEXT, default: 'in-order' },
  'decision-us': { ...TEXT, default: '20' },
  front: TEXT,
  quota: TEXT,
  'quota-counts': { ...TEXT, default: 'reserved' },
  'quota-shape': { ...TEXT, default: 'bucket' },
  'ttft-ms': { ...TEXT, default: '300' },
  'tokens-per-s': { ...TEXT, default: '80' },
  ...MEMORY_OPTIONS,
  history: { ...TEXT, default: 'none' },
  label: { ...TEXT, default: 'workload' },
  profile: { ...TEXT, default: 'a100-8b' },
  engines: TEXT,
  regions: TEXT,
  rtt: TEXT,
  balancer: { ...TEXT, default: BALANCER_DEFAULT },
  'short-prompt-tokens': { ...TEXT, default: `${SHORT_PROMPT_TOKENS}` },
  shards: { ...TEXT, default: '1' },
  'report-ms': { ...TEXT, default: String(STATUS_LOAD_INTERVAL_MS) },
  'max-seqs': { ...TEXT, default: '128' },
  'context-tokens': TEXT,
  'prefix-cache': { ...TEXT, default: 'on' },
  'chunked-prefill': { ...TEXT, default: 'on' },
  'hold-kv': { ...TEXT, default: 'on' },
  'swap-tokens': TEXT,
  'swap-kernel': TEXT,
  json: TEXT,
  plot: TEXT,
  threads: TEXT,
  steps: { ...TEXT, default: 'jump' },
  help: { type: 'boolean', short: 'h', default: false },
} as const

type Values = Extract<ReturnType<typeof readFlags<typeof RUN_OPTIONS>>, { ok: true }>['values']

/** `help` has been looked for already. */
export function parseRunFlags(argv: readonly string[]): RunFlags {
  const flags = readFlags('simulate -- run', argv, RUN_OPTIONS)
  if (!flags.ok) return flags
  try {
    const plan = readRunPlan(flags.values)
    const runs = pointsOf(plan).length
    if (runs > RUNS_MAX) throw new FlagError(`that would be ${runs} runs; at most ${RUNS_MAX} go into one command`)
    const { threads } = flags.values
    const json = outputFile('--json', flags.values.json)
    const plot = outputFile('--plot', flags.values.plot)
    const given_threads = threads === undefined ? null : integer('--threads', threads, 1, 1024)
    return { ok: true, plan, outputs: { json, plot, threads: given_threads } }
  } catch (error) {
    if (error instanceof FlagError) return { ok: false, reason: error.message }
    throw error
  }
}

/** Throws FlagError. */
export function readRunPlan(values: Values): RunPlan {
  const own = readProfile(values.profile)
  const profile = {
    ...swapping(own, values['swap-kernel']),
    slot_tokens_max: contextOf(values['context-tokens'], own),
  }
  const fleets = parseFleets(values.regions, values.engines)
  const policies = list(values.policy, (name) => oneOf('--policy', name, POLICY_NAMES))
  const { fronts, provider } = frontsOf(values, policies)
  return {
    workload: workloadOf(values),
    programs: integer('--programs', values.programs, 1, PROGRAMS_MAX),
    arrivals: arrivalsOf(values.arrivals),
    ...{ policies, fronts, provider },
    rates: list(values.rate, (rate) => number('--rate', rate, { above: 0, max: 1e6 })),
    balancers: list(values.balancer, (name) => oneOf('--balancer', name, BALANCER_NAMES)),
    short_prompt_tokens: integer('--short-prompt-tokens', values['short-prompt-tokens'], 0, 2 ** 31),
    seeds: list(values.seed, (seed) => integer('--seed', seed, 0, 2 ** 31)),
    profile,
    profile_context_tokens: own.slot_tokens_max,
    engine: engineOf(values, profile),
    tuning: { ...tuningOf(values), ...memoryTuning(values) },
    forecast: forecastOf(values),
    reading: oneOf('--service', values.service, ['wall', 'modelled'] as const),
    fleets,
    rtt_us: parseRtt(values.rtt, fleets[0] ?? []),
    report_us: Math.round(number('--report-ms', values['report-ms'], { above: 0, max: REPORT_MS_MAX }) * 1000),
    shards: integer('--shards', values.shards, 1, SHARDS_MAX),
    tenants: list(values.tenants, tenantOf),
    label: oneOf('--label', values.label, ['workload', 'none'] as const),
    history: historyOf(values.history),
    jump: oneOf('--steps', values.steps, ['jump', 'single'] as const) === 'jump',
  }
}

function frontsOf(values: Values, policies: RunPlan['policies']): Pick<RunPlan, 'fronts' | 'provider'> {
  const provider = values.quota === undefined ? null : providerOf(values.quota, values)
  if (provider !== null && values.front !== undefined) {
    throw new FlagError("before a hosted API the agent's queue orders calls: leave --front out")
  }
  const front_names = list(values.front ?? 'engine', (front) => oneOf('--front', front, FRONT_NAMES))
  const fronts = provider === null ? front_names : (['queue'] as const)
  const unfit = fronts.includes('queue') ? policies.find((policy) => weighsMemory(policy)) : undefined
  if (unfit !== undefined) throw new FlagError(notQueued(unfit) ?? `--policy ${unfit} does not go with --front queue`)
  return { fronts, provider }
}

function providerOf(text: string, values: Values): ProviderConfig {
  const limits = list(text, (limit) => {
    const spec = parseLimit(limit)
    if (typeof spec === 'string') throw new FlagError(`--quota ${limit}: ${spec}`)
    return spec
  })
  return {
    limits,
    shape: oneOf('--quota-shape', values['quota-shape'], ['bucket', 'window'] as const),
    counts: oneOf('--quota-counts', values['quota-counts'], ['reserved', 'used'] as const),
    ttft_us: Math.round(number('--ttft-ms', values['ttft-ms'], { above: 0, max: 1e6 }) * 1000),
    us_per_token: 1e6 / number('--tokens-per-s', values['tokens-per-s'], { above: 0, max: 1e6 }),
  }
}

function workloadOf({ workload, trace }: Values): RunPlan['workload'] {
  if (workload !== undefined && trace !== undefined) throw new FlagError('--workload and --trace exclude each other')
  if (trace === undefined) {
    return { kind: 'drawn', name: oneOf('--workload', workload ?? 'mixed', WORKLOAD_NAMES) }
  }
  return { kind: 'traces', files: list(trace, (file) => inputFile('--trace', file)) }
}

function arrivalsOf(text: string): RunPlan['arrivals'] {
  if (text.startsWith('gamma:')) {
    return { kind: 'gamma', cv: number('--arrivals gamma', text.slice('gamma:'.length), { above: 0, max: 100 }) }
  }
  const kinds = ['poisson', 'trace', 'burst'] as const
  const kind = kinds.find((one) => one === text)
  if (kind === undefined) throw new FlagError(`--arrivals is poisson, gamma:CV, trace or burst, not ${text}`)
  return { kind }
}

function readProfile(name_or_file: string): LatencyProfile {
  try {
    return profileOf(name_or_file)
  } catch (error) {
    if (error instanceof RangeError) throw new FlagError(`--profile: ${error.message}`)
    throw error
  }
}

function swapping(profile: LatencyProfile, kernel: string | undefined): LatencyProfile {
  if (kernel === undefined) return profile
  const name = oneOf('--swap-kernel', kernel, SWAP_KERNEL_NAMES)
  try {
    return withSwapKernel(profile, name)
  } catch (error) {
    if (error instanceof RangeError) throw new FlagError(`--swap-kernel: ${error.message}`)
    throw error
  }
}

function contextOf(
  text: string | undefined,
  { slot_tokens_max, capacity_blocks, block_tokens }: LatencyProfile,
): number {
  return text === undefined ? slot_tokens_max : integer('--context-tokens', text, 1, capacity_blocks * block_tokens)
}

function engineOf(values: Values, profile: LatencyProfile): RunPlan['engine'] {
  const on = (flag: 'prefix-cache' | 'chunked-prefill' | 'hold-kv') =>
    oneOf(`--${flag}`, values[flag], ['on', 'off'] as const) === 'on'
  const swap_tokens =
    values['swap-tokens'] === undefined
      ? profile.capacity_blocks * profile.block_tokens
      : integer('--swap-tokens', values['swap-tokens'], 0, 1e12)
  return {
    max_seqs: integer('--max-seqs', values['max-seqs'], 1, SEQS_MAX),
    prefix_cache: on('prefix-cache'),
    chunked_prefill: on('chunked-prefill'),
    steps_per_decision: integer('--steps-per-decision', values['steps-per-decision'], 1, 10_000),
    hold_kv: on('hold-kv'),
    standby: STANDBY[oneOf('--standby', values.standby, ['in-order', 'resident-first'] as const)],
    swap_tokens: swap_tokens === 0 ? null : swap_tokens,
    decision_us: integer('--decision-us', values['decision-us'], 0, 1e9),
  }
}

function tuningOf(values: Values): PolicyTuning {
  const ties = oneOf('--ties', values.ties, ['call', 'program'] as const)
  const us = (flag: 'first-quantum-s' | 'rr-quantum-s') => {
    const text = values[flag]
    return text === undefined ? undefined : Math.round(number(`--${flag}`, text, { above: 1e-6, max: 1e6 }) * 1e6)
  }
  const ratio = (flag: 'beta' | 'quantum-ratio', above: number) => {
    const text = values[flag]
    return text === undefined ? undefined : number(`--${flag}`, text, { above, max: 1e9 })
  }
  const levels = {
    promotion_ratio: ratio('beta', 0),
    first_quantum_us: us('first-quantum-s'),
    levels: values.levels === undefined ? undefined : integer('--levels', values.levels, 1, 64),
    quantum_ratio: ratio('quantum-ratio', 0.999999),
  }
  const rr_quantum_us = us('rr-quantum-s')
  return {
    levels: given(levels),
    ...(rr_quantum_us === undefined ? {} : { rr_quantum_us }),
    ties,
  }
}

function tenantOf(text: string): TenantConfig {
  const [name = '', weight = '1', share = '1', ...rest] = text.split(':')
  if (name === '' || rest.length > 0) throw new FlagError(`--tenants takes NAME:WEIGHT:SHARE, not ${text}`)
  return {
    name,
    weight: number(`--tenants ${name}: its weight`, weight, { above: 0, max: 1e6 }),
    share: number(`--tenants ${name}: its share`, share, { above: 0, max: 1e6 }),
  }
}

function historyOf(text: string): RunPlan['history'] {
  if (text === 'none') return null
  if (/^\d+$/.test(text)) return integer('--history', text, 1, PROGRAMS_MAX)
  return inputFile('--history (a number of programs, or a trace)', text)
}
