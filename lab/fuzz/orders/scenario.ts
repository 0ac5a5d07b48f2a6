/**
 * Random scenarios of an order of programs, as fast-check draws and shrinks them. Calls are named by an index into those that
 * are open, so that a scenario stays one however events are left out of it.
 */
import fc from 'fast-check'
import { HANDLINGS } from '../../../gpu-agent/engine/memory/handling/waste.ts'
import { SERVED_IN_ORDER } from '../../../gpu-agent/engine/order/policies/infercept/infercept.ts'
import type { EngineMemory } from '../../../gpu-agent/engine/order/policy.ts'
import type { Standby } from '../../../gpu-agent/engine/order/seating.ts'
import type { ToldClass } from '../../../gpu-agent/src/fronts/vllm/channel/class-teller.ts'
import type { CallForecast } from '../../../src/core/call/forecast.ts'
import type { ServiceRates, ServiceReading } from '../../../src/core/call/service.ts'
import type { IndexTable } from '../../../src/core/classes/index-table.ts'
import { OBJECTIVES, type Objective } from '../../../src/protocol/objective.ts'
import type { TracedPolicy } from '../../golden/record-trace.ts'

export interface Limits {
  shares_interval_us: number
  steps_per_decision: number
  preemptions_per_decision_max: number
  standby: Standby
}

/** What a ticket says, relative to what is true of the program when the call arrives. */
export interface Ticket {
  /** So many of the program's ended calls have not been heard of. */
  late_calls: number
  /** Settled on other engines. */
  elsewhere_settled_us: number
  open_elsewhere_us: number
  critical_path_us: number
  wait_us: number
  output_tokens: number
}

export interface Work {
  uncached: number
  cached: number
  output: number
  ends: boolean
  /** Prompt tokens resident after the step, as a share of the prompt; null: as before. */
  resident: number | null
}

export type OrderEvent =
  | {
      do: 'arrive'
      tenant: number
      program: number
      class: number
      /** Absent: as the policy is set. */
      objective?: Objective
      /** Absent: it is online. */
      offline?: boolean
      forecast?: CallForecast
      ticket: Ticket
      prompt_tokens: number
      resident: number
    }
  | { do: 'resident'; call: number; resident: number; on_device: number }
  /** A decision, and a step of some of the calls that it seats, or of others: vLLM runs a step ahead. */
  | { do: 'step'; wall_us: number; work: readonly Work[]; others: boolean }
  | { do: 'decide' }
  | { do: 'end'; call: number }
  | { do: 'reconfigure'; policy: TracedPolicy; limits: Limits }
  | { do: 'classes'; told: readonly ToldClass[] }

export interface FuzzScenario {
  ordering: ServiceReading
  rates: ServiceRates
  seats: number
  policy: TracedPolicy
  memory: EngineMemory
  limits: Limits
  /** By program: its sequence, or null for one that has none. */
  sequences: readonly ([number, number] | null)[]
  events: readonly { after_us: number; event: OrderEvent }[]
}

export const PROGRAMS = 5
const TENANTS = 3
const CLASSES = 3
const EVENTS_MAX = 60

const share = fc.constantFrom(0, 0.3, 0.5, 1)
const ties = fc.constantFrom('call' as const, 'program' as const)
/** Small and large, so that levels are crossed and sums leave 32 bits. */
const service_us = fc.oneof(
  { weight: 3, arbitrary: fc.constant(0) },
  { weight: 4, arbitrary: fc.nat(40_000) },
  { weight: 1, arbitrary: fc.nat(2 ** 40) },
)

const levels = fc.record(
  {
    levels: fc.integer({ min: 1, max: 6 }),
    first_quantum_us: fc.oneof(fc.integer({ min: 1, max: 20_000 }), fc.constantFrom(0.5, 1_234.5)),
    quantum_ratio: fc.constantFrom(1, 1.5, 2, 3.25),
    promotion_ratio: fc.constantFrom(0.1, 1, 2.5, 8, 100),
    preemption_levels_min: fc.constantFrom(0, 1, 2),
  },
  // What is left out has the default, which is one in both languages.
  { requiredKeys: [] },
)

const prefill = fc.record(
  { prefill_us_per_token: fc.constantFrom(0, 3, 72, 300), resident_weight: fc.constantFrom(0, 0.5, 2, 3.7) },
  { requiredKeys: [] },
)

const learned = fc.record(
  {
    objective: fc.constantFrom(...OBJECTIVES),
    promotion_ratio: fc.constantFrom(0.1, 1, 8, 100),
    promoted_quantum_us: fc.constantFrom(0, 700, 2_000.5, 5_000),
    age_octaves: fc.integer({ min: 0, max: 3 }),
    age_scale: fc.constantFrom(1e-6, 0.01, 0.3, 1, 50),
    prefill_us_per_token: fc.constantFrom(0, 72.5, 300),
  },
  { requiredKeys: [] },
)

/** From less than a token to many, with and without a fraction. */
const figure = fc.oneof(fc.double({ min: 0.01, max: 100, noNaN: true }), fc.double({ min: 1, max: 1e6, noNaN: true }))

const step = fc.record({
  /** More than the step before. */
  tokens: fc.oneof(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 300 })),
  lines: fc.array(fc.tuple(figure, figure), { minLength: 1, maxLength: 4 }),
  remaining_tokens: figure,
  median_tokens: figure,
})

const table: fc.Arbitrary<IndexTable> = fc
  .record({
    list: fc.array(step, { minLength: 1, maxLength: 6 }),
    prompt_tokens_per_output_token: fc.oneof(fc.constant(0), fc.double({ min: 0, max: 50, noNaN: true })),
    call_tokens: fc.oneof(fc.constantFrom(0, 1, 2.5), fc.double({ min: 0, max: 60, noNaN: true })),
    call_share: fc.oneof(fc.constantFrom(0, 1), fc.double({ min: 0, max: 1, noNaN: true })),
  })
  .map(({ list, ...others }) => {
    let from_tokens = 0
    const steps = list.map(({ tokens, ...rest }, index) => {
      from_tokens += index === 0 ? 0 : tokens
      return { from_tokens, ...rest }
    })
    return { steps, ...others }
  })

const told: fc.Arbitrary<ToldClass> = fc
  .record({
    tenant: fc.nat(TENANTS - 1),
    class: fc.nat(CLASSES - 1),
    objective: fc.constantFrom(...OBJECTIVES),
    table,
  })
  .map(({ tenant, class: number, ...others }) => ({ tenant: `t${tenant}`, class: `c${number}`, ...others }))

const lamps = fc.record(
  {
    refresh_tokens: fc.integer({ min: 1, max: 12 }),
    starvation_iterations: fc.constantFrom(1, 3, 8, 100),
    starvation: fc.constantFrom('until_completion' as const, 'at_promotion' as const),
    order: fc.constantFrom('memory_over_time' as const, 'memory_over_time' as const, 'first_come' as const),
    handling: fc.record({ allowed: fc.subarray([...HANDLINGS], { minLength: 1 }) }),
  },
  { requiredKeys: [] },
)

const curve = fc.record({
  base_us: fc.constantFrom(0, 30, 6_000),
  free_tokens: fc.constantFrom(0, 32),
  per_token_us: fc.constantFrom(0.25, 5.2, 125),
  per_pair_us: fc.constantFrom(0, 0.0078125),
})

const memory: fc.Arbitrary<EngineMemory> = fc.record({
  costs: fc.record({
    forward: curve,
    swap: fc.option(curve, { freq: 4 }),
    kv_bytes_per_token: fc.constantFrom(1_024, 458_752),
  }),
  step_us: fc.constantFrom(1_000, 20_000.5),
  other_tokens: fc.constantFrom(0, 700, 300_000),
})

const duration_us = fc.constantFrom(90, 85_000, 700_000.5, 28_600_000)
const tool = fc
  .record({ probability: fc.constantFrom(0, 0.125, 0.3, 0.5), duration_us })
  .map((given) => ({ name: 'tool', ...given, duration_p90_us: given.duration_us, answer_tokens: 0 }))

const forecast: fc.Arbitrary<CallForecast> = fc.record({
  output_tokens: fc.constantFrom(0, 1, 7.5, 40, 600),
  ends: fc.constant(0),
  tool: fc.option(tool, { freq: 3 }),
  alternatives: fc.array(tool, { maxLength: 3 }),
  confidence: fc.constantFrom(0, 0.5, 0.7, 1),
})

const policy: fc.Arbitrary<TracedPolicy> = fc.oneof(
  fc.constantFrom({ name: 'fcfs' as const }, { name: 'fcfs-program' as const }),
  fc.record({ name: fc.constant('rr' as const), quantum_us: fc.constantFrom(1, 700, 2_000.5, 20_000), ties }),
  fc.tuple(levels, ties).map(([given, how]) => ({ name: 'mlfq' as const, ...given, ties: how })),
  {
    weight: 3,
    arbitrary: fc.tuple(levels, prefill).map(([given, cost]) => ({ name: 'plas' as const, ...given, ...cost })),
  },
  {
    weight: 2,
    arbitrary: fc.tuple(levels, prefill).map(([given, cost]) => ({ name: 'atlas' as const, ...given, ...cost })),
  },
  { weight: 3, arbitrary: learned.map((given) => ({ name: 'learned' as const, ...given })) },
  {
    weight: 3,
    arbitrary: fc
      .tuple(fc.constantFrom('lamps' as const, 'learned-memory' as const), lamps)
      .map(([name, given]) => ({ name, ...given })),
  },
  fc.constantFrom(...SERVED_IN_ORDER.map((name) => ({ name }))),
)

const limits: fc.Arbitrary<Limits> = fc.record({
  shares_interval_us: fc.constantFrom(500, 2_000, 100_000),
  steps_per_decision: fc.constantFrom(1, 1, 2, 5),
  preemptions_per_decision_max: fc.integer({ min: 1, max: 5 }),
  standby: fc.constantFrom<Standby>('in_order', 'resident_first'),
})

const ticket: fc.Arbitrary<Ticket> = fc.record({
  late_calls: fc.nat(3),
  elsewhere_settled_us: service_us,
  open_elsewhere_us: service_us,
  critical_path_us: service_us,
  wait_us: service_us,
  output_tokens: fc.nat(200),
})

const work: fc.Arbitrary<Work> = fc.record({
  uncached: fc.oneof(fc.constant(0), fc.nat(60)),
  cached: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.nat(60)),
  output: fc.constantFrom(0, 1, 1, 1, 4),
  ends: fc.constantFrom(false, false, false, false, true),
  resident: fc.option(share, { freq: 2 }),
})

const event: fc.Arbitrary<OrderEvent> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record(
      {
        do: fc.constant('arrive' as const),
        tenant: fc.nat(TENANTS - 1),
        program: fc.nat(PROGRAMS - 1),
        class: fc.nat(CLASSES - 1),
        objective: fc.constantFrom(...OBJECTIVES),
        offline: fc.boolean(),
        forecast,
        ticket,
        prompt_tokens: fc.oneof(fc.nat(80), fc.nat(9_000)),
        resident: share,
      },
      { requiredKeys: ['do', 'tenant', 'program', 'class', 'ticket', 'prompt_tokens', 'resident'] },
    ),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('step' as const),
      wall_us: fc.nat(3_000),
      work: fc.array(work, { minLength: 1, maxLength: 6 }),
      others: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('resident' as const),
      call: fc.nat(20),
      resident: share,
      on_device: fc.constantFrom(1, 1, 0, 0.5),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('decide' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('end' as const), call: fc.nat(20) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('reconfigure' as const), policy, limits }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('classes' as const),
      told: fc.array(told, { minLength: 1, maxLength: 4 }),
    }),
  },
)

const sequence = fc.option(
  fc.tuple(fc.integer({ min: 0, max: 3 }), fc.constantFrom(0, 1, 4_294_967_295)) as fc.Arbitrary<[number, number]>,
  { freq: 3 },
)

export const scenarios: fc.Arbitrary<FuzzScenario> = fc.record({
  ordering: fc.constantFrom<ServiceReading>('modelled', 'wall'),
  rates: fc.record({
    prefill_us_per_token: fc.constantFrom(0, 3, 125),
    decode_us_per_token: fc.constantFrom(1, 500),
    cached_us_per_token: fc.constantFrom(0, 1),
  }),
  seats: fc.integer({ min: 1, max: 5 }),
  policy,
  memory,
  limits,
  sequences: fc.array(sequence, { minLength: PROGRAMS, maxLength: PROGRAMS }),
  events: fc.array(
    fc.record({
      after_us: fc.oneof({ weight: 4, arbitrary: fc.nat(2_000) }, { weight: 1, arbitrary: fc.nat(200_000) }),
      event,
    }),
    { minLength: 1, maxLength: EVENTS_MAX, size: 'max' },
  ),
})
