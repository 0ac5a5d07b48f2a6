/**
 * What the golden traces play: each policy under tenants that share seats, and each bound and option of the seating at least
 * once. Small on purpose: a trace is read by people when it changes.
 */
import type { PolicyConfig } from '../../gpu-agent/engine/order/policies/index.ts'
import type { EngineMemory } from '../../gpu-agent/engine/order/policy.ts'
import { engineCall } from '../../gpu-agent/engine/testing/calls.ts'
import { type Program, type ProgramCall, runPrograms } from '../../gpu-agent/engine/testing/programs.ts'
import { type VirtualEvent, virtualRun } from '../../gpu-agent/engine/testing/virtual-run.ts'
import type { ToldClass } from '../../gpu-agent/src/fronts/vllm/channel/class-teller.ts'
import { seededRandom } from '../../simulator/random.ts'
import type { CallForecast } from '../../src/core/call/forecast.ts'
import type { IndexTable } from '../../src/core/classes/index-table.ts'
import type { Scenario, TracedPolicy } from './record-trace.ts'

const LEVELS = { levels: 4, first_quantum_us: 3_000, quantum_ratio: 2, promotion_ratio: 8 }
const ROOMY = {
  seats: 4,
  slots: 24,
  slot_tokens_max: 256,
  block_tokens: 8,
  capacity_blocks: 512,
  max_step_tokens: 64,
  prefill_chunk_tokens: 24,
  shares_interval_us: 2_000,
}
/** Calls are evicted and recomputed, and seated ones find no room. */
const SCARCE = { ...ROOMY, slots: 6, capacity_blocks: 16, slot_tokens_max: 96 }

/** Calls that lost their seats hold their KV in slots, or are swapped out. */
const STANDBY = { ...ROOMY, steps_per_decision: 6, standby: 'resident_first', ordering: 'wall' } as const
const SWAPPING = {
  ...SCARCE,
  swap: {
    costs: { save_us_per_token: 1, restore_us_per_token: 1, base_us: 2 },
    recompute_us_per_token: 50,
    image_tokens_max: 120,
  },
}

/** Programs that bring their sequence. */
const BY_PROGRAM: readonly PolicyConfig[] = [
  { name: 'fcfs-program' },
  { name: 'rr', quantum_us: 2_000, ties: 'program' },
  { name: 'mlfq', ...LEVELS, ties: 'program' },
  { name: 'plas', ...LEVELS },
]

const SMALL: readonly PolicyConfig[] = [
  { name: 'fcfs' },
  { name: 'rr', quantum_us: 2_000 },
  { name: 'mlfq', ...LEVELS },
  { name: 'plas', ...LEVELS },
  { name: 'atlas', ...LEVELS },
]

/** Contexts of some dozen tokens: what becomes of them differs with the tool. */
const MEMORY: EngineMemory = {
  costs: {
    forward: { base_us: 900, free_tokens: 4, per_token_us: 40, per_pair_us: 0.5 },
    swap: { base_us: 30, free_tokens: 0, per_token_us: 9, per_pair_us: 0 },
    kv_bytes_per_token: 1_024,
  },
  step_us: 1_100,
  other_tokens: 60,
}

const MEMORY_POLICIES: readonly TracedPolicy[] = [
  { name: 'lamps' },
  { name: 'lamps', refresh_tokens: 2, starvation_iterations: 4, starvation: 'at_promotion' },
  { name: 'learned-memory', refresh_tokens: 3, starvation_iterations: 12 },
  { name: 'infercept' },
  { name: 'vllm-preserve' },
  { name: 'vllm-discard' },
]

/** Programs that end soon. */
const SHORT: IndexTable = {
  steps: [
    {
      from_tokens: 0,
      lines: [
        [6.25, 1.5],
        [9, 1.1],
      ],
      remaining_tokens: 6,
      median_tokens: 5.5,
    },
    { from_tokens: 4, lines: [[3.75, 1.3]], remaining_tokens: 4, median_tokens: 7 },
    {
      from_tokens: 9,
      lines: [
        [40.5, 2.6],
        [64, 1.9],
      ],
      remaining_tokens: 30,
      median_tokens: 25,
    },
  ],
  prompt_tokens_per_output_token: 0.75,
  call_tokens: 2.4,
  call_share: 0.6,
}
/** Programs that go on, and are nearer to their end with each token. */
const LONG: IndexTable = {
  steps: [
    {
      from_tokens: 0,
      lines: [
        [900, 4.5],
        [1_200.5, 3.25],
        [2_000, 2],
      ],
      remaining_tokens: 60,
      median_tokens: 55,
    },
    { from_tokens: 6, lines: [[600, 4]], remaining_tokens: 50, median_tokens: 56 },
    {
      from_tokens: 20,
      lines: [
        [150.125, 3.5],
        [170, 3],
      ],
      remaining_tokens: 35,
      median_tokens: 58,
    },
    { from_tokens: 45, lines: [[20, 3.125]], remaining_tokens: 10, median_tokens: 60 },
  ],
  prompt_tokens_per_output_token: 2.125,
  call_tokens: 6.7,
  call_share: 1,
}
/** Read again soon. */
const QUICK: IndexTable = { ...SHORT, steps: SHORT.steps.map((step) => ({ ...step, median_tokens: 1 })) }
/** As a class turns out to be whose programs have become long. */
const DRIFTED: IndexTable = { ...LONG, prompt_tokens_per_output_token: 1.5, call_tokens: 9, call_share: 0 }

export const SCENARIOS: readonly Scenario[] = [
  ...SMALL.flatMap((policy, index): Scenario[] => [
    {
      name: `${policy.name}-tenants`,
      policy,
      config: { ...ROOMY, ordering: index % 2 === 0 ? 'modelled' : 'wall' },
      play: openLoad({ seed: 100 + index, calls: 28, tenants: 3 }),
    },
    {
      name: `${policy.name}-programs`,
      policy,
      config: { ...ROOMY, seats: 3, ordering: index % 2 === 0 ? 'wall' : 'modelled' },
      play: programLoad(200 + index, 7),
    },
  ]),
  ...BY_PROGRAM.map(
    (policy, index): Scenario => ({
      name: `${policy.name}-sequences`,
      policy,
      config: { ...ROOMY, seats: 3, ordering: index % 2 === 0 ? 'wall' : 'modelled' },
      play: openLoad({ seed: 400 + index, calls: 30, tenants: 2, sequences: true }),
    }),
  ),
  ...MEMORY_POLICIES.map(
    (policy, index): Scenario => ({
      name: `${policy.name}-forecasts${index === 1 ? '-starving' : ''}`,
      policy,
      memory: MEMORY,
      config: { ...(index % 2 === 0 ? ROOMY : SCARCE), seats: 3, ordering: index % 3 === 0 ? 'wall' : 'modelled' },
      play: openLoad({ seed: 600 + index, calls: 30, tenants: 2, sequences: true, classes: true, forecasts: true }),
      changes:
        policy.name === 'learned-memory'
          ? [{ at_us: 2_000, classes: [known('t0', 'p0', SHORT, 'response'), known('t1', 'p1', LONG, 'response')] }]
          : [],
    }),
  ),
  {
    name: 'plas-to-lamps',
    policy: { name: 'plas', ...LEVELS },
    memory: MEMORY,
    config: { ...ROOMY, seats: 3 },
    play: openLoad({ seed: 610, calls: 28, tenants: 2, sequences: true, forecasts: true }),
    changes: [
      { at_us: 6_000, policy: { name: 'lamps', starvation_iterations: 6 } },
      { at_us: 15_000, policy: { name: 'vllm-discard' } },
    ],
  },
  {
    name: 'plas-one-level',
    policy: { name: 'plas', ...LEVELS, levels: 1 },
    config: ROOMY,
    play: openLoad({ seed: 301, calls: 24, tenants: 1 }),
  },
  {
    name: 'plas-defaults',
    policy: { name: 'plas' },
    config: { ...ROOMY, shares_interval_us: 100_000 },
    play: openLoad({ seed: 302, calls: 20, tenants: 2 }),
  },
  {
    name: 'plas-weights',
    policy: { name: 'plas', ...LEVELS },
    config: { ...ROOMY, seats: 2 },
    play: openLoad({ seed: 701, calls: 36, tenants: 2, sequences: true, weights: true }),
  },
  {
    name: 'lamps-weights',
    policy: { name: 'lamps', starvation_iterations: 40 },
    memory: MEMORY,
    config: { ...ROOMY, seats: 2 },
    play: openLoad({ seed: 702, calls: 30, tenants: 2, sequences: true, forecasts: true, weights: true }),
  },
  {
    name: 'plas-offline',
    policy: { name: 'plas', ...LEVELS },
    config: ROOMY,
    play: openLoad({ seed: 601, calls: 36, tenants: 3, offline: true }),
  },
  {
    name: 'mlfq-offline-multi-step',
    policy: { name: 'mlfq', ...LEVELS },
    config: { ...STANDBY, steps_per_decision: 4 },
    play: openLoad({ seed: 602, calls: 36, tenants: 3, offline: true }),
  },
  {
    name: 'plas-multi-step',
    policy: { name: 'plas', ...LEVELS },
    config: { ...ROOMY, steps_per_decision: 5, ordering: 'wall' },
    play: openLoad({ seed: 303, calls: 30, tenants: 2 }),
  },
  {
    name: 'plas-hysteresis-and-cap',
    policy: { name: 'plas', ...LEVELS, preemption_levels_min: 2 },
    config: { ...ROOMY, preemptions_per_decision_max: 1 },
    play: openLoad({ seed: 304, calls: 30, tenants: 1 }),
  },
  {
    name: 'atlas-multi-step',
    policy: { name: 'atlas', ...LEVELS },
    config: { ...ROOMY, steps_per_decision: 3, ordering: 'wall' },
    play: openLoad({ seed: 306, calls: 30, tenants: 2 }),
  },
  {
    name: 'plas-agents',
    policy: { name: 'plas', ...LEVELS, first_quantum_us: 50_000 },
    config: { ...ROOMY, seats: 3 },
    play: agentLoad(305),
  },
  {
    name: 'plas-waves',
    policy: { name: 'plas', ...LEVELS, first_quantum_us: 50_000 },
    config: { ...ROOMY, seats: 3 },
    play: waveLoad(309),
  },
  {
    name: 'plas-scarce-memory',
    policy: { name: 'plas', ...LEVELS },
    config: SCARCE,
    play: openLoad({ seed: 307, calls: 26, tenants: 2 }),
  },
  {
    name: 'plas-standby',
    policy: { name: 'plas', ...LEVELS },
    config: STANDBY,
    play: openLoad({ seed: 310, calls: 40, tenants: 2 }),
  },
  {
    name: 'plas-standby-prefixes',
    policy: { name: 'plas', ...LEVELS },
    config: { ...STANDBY, seats: 3, copies_prefixes: true },
    play: openLoad({ seed: 311, calls: 40, tenants: 1, stem_tokens: 24 }),
  },
  {
    name: 'mlfq-standby-swap',
    policy: { name: 'mlfq', ...LEVELS },
    config: { ...SWAPPING, ...STANDBY, slots: 6, capacity_blocks: 16, slot_tokens_max: 96 },
    play: openLoad({ seed: 312, calls: 40, tenants: 2 }),
  },
  {
    name: 'mlfq-starving',
    policy: { name: 'mlfq', ...LEVELS, promotion_ratio: 2 },
    config: { ...ROOMY, seats: 1, ordering: 'wall' },
    play: openLoad({ seed: 308, calls: 16, tenants: 1 }),
  },
  ...learnedScenarios(),
]

function learnedScenarios(): Scenario[] {
  return [
    {
      name: 'learned-tenants',
      policy: { name: 'learned' },
      config: { ...ROOMY, ordering: 'modelled' },
      play: openLoad({ seed: 501, calls: 30, tenants: 2, sequences: true, classes: true }),
      changes: [{ at_us: 0, classes: [known('t0', 'p0', SHORT), known('t0', 'p1', LONG), known('t1', 'p2', LONG)] }],
    },
    {
      name: 'learned-response',
      policy: { name: 'learned', objective: 'response' },
      config: { ...ROOMY, ordering: 'wall' },
      play: openLoad({ seed: 502, calls: 26, tenants: 2, sequences: true, classes: true }),
      changes: [
        {
          at_us: 2_000,
          classes: [known('t0', 'p0', SHORT, 'response'), known('t0', 'p1', LONG, 'response'), known('t1', 'p0', LONG)],
        },
      ],
    },
    {
      name: 'learned-objectives',
      policy: { name: 'learned' },
      config: { ...ROOMY },
      play: openLoad({ seed: 509, calls: 26, tenants: 2, sequences: true, classes: true, objectives: true }),
      changes: [
        {
          at_us: 2_000,
          classes: [
            known('t0', 'p0', SHORT),
            known('t1', 'p0', LONG, 'response'),
            known('t1', 'p1', SHORT, 'response'),
          ],
        },
      ],
    },
    {
      name: 'learned-weights',
      policy: { name: 'learned' },
      config: { ...ROOMY, seats: 2 },
      play: openLoad({ seed: 510, calls: 36, tenants: 2, sequences: true, classes: true, weights: true }),
      changes: [{ at_us: 0, classes: [known('t0', 'p0', SHORT), known('t0', 'p1', LONG), known('t1', 'p2', LONG)] }],
    },
    {
      name: 'learned-prior',
      policy: { name: 'learned' },
      config: { ...ROOMY, seats: 3 },
      play: waveLoad(503),
    },
    {
      name: 'learned-waves',
      policy: { name: 'learned', promotion_ratio: 3 },
      config: { ...ROOMY, seats: 3 },
      play: waveLoad(504),
      changes: [{ at_us: 0, classes: [known('tenant', 'class', SHORT)] }],
    },
    {
      name: 'learned-ageing',
      policy: { name: 'learned', promotion_ratio: 5, age_octaves: 1, age_scale: 0.05 },
      config: { ...ROOMY, seats: 2, ordering: 'wall' },
      play: openLoad({ seed: 505, calls: 30, tenants: 2, sequences: true, classes: true }),
      changes: [{ at_us: 0, classes: [known('t0', 'p0', SHORT), known('t0', 'p1', LONG), known('t1', 'p1', SHORT)] }],
    },
    {
      name: 'learned-drift',
      policy: { name: 'learned', age_octaves: 2, age_scale: 0.5 },
      config: { ...ROOMY, seats: 3 },
      play: programLoad(506, 9),
      changes: [
        { at_us: 1_500, classes: [known('tenant', 'class', SHORT)] },
        { at_us: 6_000, classes: [known('tenant', 'class', DRIFTED)] },
      ],
    },
    {
      name: 'learned-read-again',
      policy: { name: 'learned' },
      config: { ...ROOMY, seats: 2 },
      play: openLoad({ seed: 511, calls: 36, tenants: 1, sequences: true, classes: true }),
      changes: [
        { at_us: 0, classes: [known('t0', 'p0', QUICK), known('t0', 'p1', QUICK), known('t0', 'p2', QUICK)] },
        { at_us: 4_000, classes: [known('t0', 'p0', LONG), known('t0', 'p1', SHORT)] },
        { at_us: 12_000, classes: [known('t0', 'p2', LONG)] },
      ],
    },
    {
      name: 'learned-scarce-memory',
      policy: { name: 'learned' },
      config: SCARCE,
      play: openLoad({ seed: 507, calls: 26, tenants: 2, sequences: true, classes: true }),
      changes: [{ at_us: 0, classes: [known('t0', 'p0', SHORT), known('t0', 'p1', LONG), known('t1', 'p3', LONG)] }],
    },
    {
      name: 'plas-to-learned',
      policy: { name: 'plas', ...LEVELS },
      config: { ...ROOMY, seats: 3 },
      play: openLoad({ seed: 508, calls: 30, tenants: 2, sequences: true, classes: true }),
      changes: [
        { at_us: 0, classes: [known('t0', 'p0', SHORT), known('t0', 'p1', LONG)] },
        { at_us: 8_000, policy: { name: 'learned', age_octaves: 1 }, classes: [known('t1', 'p0', SHORT)] },
        { at_us: 16_000, policy: { name: 'plas', ...LEVELS } },
      ],
    },
  ]
}

function known(tenant: string, name: string, table: IndexTable, objective: ToldClass['objective'] = 'token_latency') {
  return { tenant, class: name, objective, table }
}

interface OpenLoad {
  /** Calls have forecasts, all but a few. */
  forecasts?: boolean
  seed: number
  calls: number
  tenants: number
  /** Programs have sequences, in another order than their calls arrive. */
  sequences?: boolean
  /** Programs have classes, and have had output before they came here. */
  classes?: boolean
  /** The second tenant has an objective of its own. */
  objectives?: boolean
  /** Half of the calls are of batches. */
  offline?: boolean
  /** Programs weigh differently within their tenant. */
  weights?: boolean
  /** Tokens that the prompts of a program begin with. */
  stem_tokens?: number
}

/** Calls of several programs and tenants that come independently of one another; some are cancelled or finished early. */
function openLoad({
  seed,
  calls,
  tenants,
  sequences = false,
  classes = false,
  objectives = false,
  offline = false,
  stem_tokens = 0,
  forecasts = false,
  weights = false,
}: OpenLoad): Scenario['play'] {
  const below = generator(seed)
  const events: VirtualEvent[] = []
  for (let index = 0; index < calls; index++) {
    const tenant = below(tenants)
    const at_us = below(20_000)
    const program = below(4)
    const stem = Array.from({ length: stem_tokens }, (_, token) => 10_000 * (program + 1) + token)
    const lease = `c${index}`
    const call = engineCall({
      lease,
      tenant: `t${tenant}`,
      tenant_weight: 1 + tenant,
      program: `t${tenant}/p${program}`,
      sequence: sequences ? [9 - (program >> 1), program] : null,
      ...(classes ? { class: `p${program}`, program_output_tokens: below(2) * below(40) } : {}),
      ...(forecasts && below(6) > 0 ? { forecast: forecastOf(below) } : {}),
      ...(objectives && tenant === 1 ? { objective: 'response' as const } : {}),
      ...(offline && below(2) === 0 ? { offline: true } : {}),
      ...(weights ? { program_weight: [0.3, 1, 2.5, 100][program] ?? 1 } : {}),
      prompt: [seed, tenant, ...stem, ...Array.from({ length: 1 + below(40) }, (_, token) => index * 100 + token)],
      max_output_tokens: 1 + below(14),
      settled_service_us: below(2) * below(30_000),
      critical_path_us: below(2) * below(15_000),
      program_wait_us: below(3) * below(60_000),
    })
    events.push({ at_us, do: 'submit', call })
    if (below(5) === 0) events.push({ at_us: at_us + below(12_000), do: below(2) ? 'cancel' : 'finish', lease })
  }
  return (config, order) => void virtualRun(config, events, { order })
}

/** Of a call, with up to three tools; from a calculator to a person. */
function forecastOf(below: (bound: number) => number): CallForecast {
  const tools = Array.from({ length: below(4) }, () => {
    const duration_us = [90, 4_000, 60_000, 3_000_000][below(4)] as number
    return {
      name: 'tool',
      probability: below(9) / 16,
      ...{ duration_us, duration_p90_us: 2 * duration_us, answer_tokens: 9 },
    }
  })
  const [tool = null, ...alternatives] = tools
  return { output_tokens: below(30) / 2, ends: 0, tool, alternatives, confidence: below(11) / 10 }
}

/** Programs whose calls follow one another: chains with short and long gaps, and trees of a wave of calls and a last one. */
function programLoad(seed: number, programs: number): Scenario['play'] {
  const below = generator(seed)
  const list = Array.from({ length: programs }, (_, index): Program => {
    const length = 1 + below(6)
    const gap_us = 100 + below(3) * 700
    const chain = Array.from({ length }, (): ProgramCall => ({ output_tokens: 1 + below(8), gap_us }))
    const wave = Array.from({ length: 1 + below(4) }, (): ProgramCall => ({ output_tokens: 2 + below(8), parents: [] }))
    const tree = [...wave, { output_tokens: 4, parents: wave.map((_, call) => call), gap_us }]
    return { id: String.fromCharCode(97 + index), at_us: below(6_000), calls: index % 3 === 2 ? tree : chain }
  })
  return (config, order) => void runPrograms(config, list, { order })
}

/** Agents whose short calls follow at gaps about what a preemption costs, beside long calls that take every seat left to them. */
function agentLoad(seed: number): Scenario['play'] {
  const below = generator(seed)
  const agents = ['a', 'b', 'c'].map((id): Program => {
    const calls = Array.from({ length: 14 }, () => ({
      output_tokens: 1 + below(2),
      gap_us: [150, 900, 1_900][below(3)] as number,
    }))
    return { id, at_us: below(500), calls }
  })
  const long = ['w', 'x', 'y', 'z'].map((id): Program => {
    return {
      id,
      at_us: below(3_000),
      calls: [{ output_tokens: 25 + below(20) }],
      given: { settled_service_us: 1e9, critical_path_us: 1e9 },
    }
  })
  return (config, order) => void runPrograms(config, [...agents, ...long], { order })
}

/** Agents that send waves of calls, each after the last, beside long calls that come now and then: seats are short and spare by turns. */
function waveLoad(seed: number): Scenario['play'] {
  const below = generator(seed)
  const agents = ['a', 'b'].map((id): Program => {
    const calls: ProgramCall[] = []
    for (let wave = 0; wave < 9; wave++) {
      const parents = calls.slice(-2).map((_, index, last) => calls.length - last.length + index)
      const gap_us = [150, 900, 1_900][below(3)] as number
      for (let index = 0; index <= below(2); index++)
        calls.push({ output_tokens: 1 + below(2), parents, gap_us: gap_us + index * 300 })
    }
    return { id, at_us: below(500), calls }
  })
  const long = Array.from({ length: 9 }, (_, index): Program => {
    const id = String.fromCharCode(112 + index)
    return {
      id,
      at_us: below(22_000),
      calls: [{ output_tokens: 3 + below(6) }],
      given: { settled_service_us: 1e9, critical_path_us: 1e9 },
    }
  })
  return (config, order) => void runPrograms(config, [...agents, ...long], { order })
}

/** Whole numbers below `bound`, the same ones for the same seed: a draw's 32 bits, modulo the bound. */
export function generator(seed: number): (bound: number) => number {
  const random = seededRandom(seed)
  return (bound) => (random() * 2 ** 32) % bound
}
