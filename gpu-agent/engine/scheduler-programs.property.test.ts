/** Over random programs (DAGs of calls on a closed loop): what must hold of every schedule and of its decisions. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { DEFAULT_SERVICE_RATES } from '../../src/core/call/service.ts'
import { TenantShares } from '../../src/core/pool/tenant-shares.ts'
import { stepDurationUs } from './backends/emulated/emulated-backend.ts'
import { TINY } from './backends/emulated/profiles/index.ts'
import { createPolicy, POLICY_NAMES, type PolicyName } from './order/policies/index.ts'
import type { SchedulerConfig } from './scheduler-config.ts'
import { engineCall, testConfig, tokens } from './testing/calls.ts'
import { type Program, runPrograms, UNIT_STEPS, UNIT_US } from './testing/programs.ts'
import { type VirtualEvent, virtualRun } from './testing/virtual-run.ts'
import type { Measurement, StepPlan } from './types.ts'

const QUEUES = { levels: 4, first_quantum_us: 3_000, quantum_ratio: 2, promotion_ratio: 6 }

const dag = fc
  .array(
    fc.record({
      output_tokens: fc.integer({ min: 1, max: 12 }),
      prompt_tokens: fc.integer({ min: 1, max: 40 }),
      gap_us: fc.constantFrom(0, 0, 700, 5_000),
      /** Of the calls before it, by remainder. */
      parents: fc.array(fc.nat(), { maxLength: 2 }),
    }),
    { minLength: 1, maxLength: 7 },
  )
  .map((calls) =>
    calls.map(({ parents, ...call }, index) => ({
      ...call,
      parents: index === 0 ? [] : [...new Set(parents.map((parent) => parent % index))],
    })),
  )
const workload = fc
  .array(fc.record({ at_us: fc.nat(20_000), tenant: fc.nat(2), calls: dag }), { minLength: 1, maxLength: 7 })
  .map((list) =>
    list.map(
      ({ at_us, tenant, calls }, program): Program => ({
        id: `p${program}`,
        at_us,
        given: { tenant: `tenant ${tenant}`, cache_salt: `salt ${tenant}` },
        calls: calls.map(({ prompt_tokens, ...call }, index) => ({
          ...call,
          prompt: [...tokens(20, tenant), ...tokens(prompt_tokens, 100 + program * 10 + index)],
        })),
      }),
    ),
  )

const settings = fc.record({
  policy: fc.constantFrom(...POLICY_NAMES),
  ordering: fc.constantFrom('modelled' as const, 'wall' as const),
  seats: fc.integer({ min: 1, max: 4 }),
  spare_slots: fc.integer({ min: 0, max: 3 }),
  steps_per_decision: fc.constantFrom(1, 1, 4),
  standby: fc.constantFrom('in_order' as const, 'resident_first' as const),
  swaps: fc.boolean(),
  copies_prefixes: fc.boolean(),
  hold_kv: fc.boolean(),
})
type Settings = typeof settings extends fc.Arbitrary<infer S> ? S : never

function policyOf(name: PolicyName) {
  if (name === 'fcfs' || name === 'fcfs-program') return createPolicy({ name })
  return createPolicy(name === 'rr' ? { name, quantum_us: 2_000 } : { name, ...QUEUES })
}

/** A fresh config, since policies and shares have state. */
function configOf({ policy, spare_slots, swaps, ...rest }: Settings): SchedulerConfig {
  const costs = { save_us_per_token: 1, restore_us_per_token: 1, base_us: 20 }
  return testConfig({
    ...rest,
    policy: policyOf(policy),
    shares: new TenantShares(),
    slots: rest.seats + spare_slots,
    slot_tokens_max: 96,
    block_tokens: 8,
    capacity_blocks: 30,
    shares_interval_us: 2_000,
    swap: swaps ? { costs, recompute_us_per_token: 50, image_tokens_max: 150 } : null,
  })
}

/** As the control plane bounds it (src/core/call/lease-terms.ts). */
function expectPossible({ preemptions, prompt_tokens, output_tokens, ...kv }: Measurement): void {
  const tokens_max = (preemptions + output_tokens) * (prompt_tokens + output_tokens)
  const { swapped_out_tokens, swapped_in_tokens, recomputed_tokens } = kv
  for (const tokens of [swapped_out_tokens, swapped_in_tokens, recomputed_tokens])
    expect(tokens).toBeLessThanOrEqual(tokens_max)
}

/** What the plan's operations add to its step. */
function movingUs(plan: StepPlan): number {
  return stepDurationUs(TINY, plan) - stepDurationUs(TINY, { ...plan, operations: [] })
}

describe('any schedule of programs', () => {
  it('ends every call, within seats, slots, KV and images', () => {
    let swapped_in_tokens = 0
    let copies = 0
    const held = { returned: 0, expired: 0, held_back: 0 }
    fc.assert(
      fc.property(settings, workload, (given, programs) => {
        const run = runPrograms(configOf(given), programs)
        const { contexts, begun, returned, given_up, expired, held_back } = run.scheduler.holds
        expect(begun).toBe(contexts + returned + given_up + expired)
        held.returned += returned
        held.expired += expired
        held.held_back += held_back
        expect(run.ended.size).toBe(programs.reduce((sum, { calls }) => sum + calls.length, 0))
        expect(run.scheduler.status()).toMatchObject({ waiting: 0, running: 0, kv_used_tokens: 0, image_tokens: 0 })
        for (const { measurement } of run.ended.values()) {
          swapped_in_tokens += measurement.swapped_in_tokens
          expectPossible(measurement)
        }
        const moving_us = run.plans.reduce((sum, plan) => sum + movingUs(plan), 0)
        const swap_us = [...run.ended.values()].reduce((sum, { measurement }) => sum + measurement.swap_us, 0)
        // No call is cancelled, so each image is of a call that ends later. Each call rounds.
        expect(Math.abs(swap_us - moving_us)).toBeLessThanOrEqual(run.ended.size)
        for (const { operations } of run.plans) copies += operations.filter(({ op }) => op === 'copy').length
      }),
      { numRuns: 200 },
    )
    // The runs reached what they are about.
    expect(swapped_in_tokens).toBeGreaterThan(0)
    expect(copies).toBeGreaterThan(0)
    for (const count of Object.values(held)) expect(count).toBeGreaterThan(0)
  })

  it('charges each call of a step the step’s time, and tenants what their calls are charged', () => {
    fc.assert(
      fc.property(settings, workload, (given, programs) => {
        const charged = new Map<string, number>()
        const shares = new TenantShares()
        const config = configOf(given)
        config.shares = {
          allocate: (...demand) => shares.allocate(...demand),
          charge: (tenant, service_us, now_us) => {
            charged.set(tenant, (charged.get(tenant) ?? 0) + service_us)
            shares.charge(tenant, service_us, now_us)
          },
        }
        const run = runPrograms(config, programs)
        for (const plan of run.plans) {
          const rows = run.ledger.filter((row) => row.step === plan.step)
          expect(rows.map(({ lease }) => lease)).toEqual(plan.work.map(({ lease }) => lease))
          for (const row of rows) expect(row.wall_us).toBe(stepDurationUs(TINY, plan))
        }
        const tenantOf = new Map(programs.map(({ id, given: call }) => [id, call?.tenant as string]))
        const rows_us = new Map<string, number>()
        for (const row of run.ledger) {
          const tenant = tenantOf.get(row.lease.slice(0, row.lease.lastIndexOf('/'))) as string
          rows_us.set(tenant, (rows_us.get(tenant) ?? 0) + (given.ordering === 'wall' ? row.wall_us : row.modelled_us))
        }
        expect(charged).toEqual(new Map([...rows_us].filter(([, service_us]) => service_us > 0)))
      }),
      { numRuns: 60 },
    )
  })

  it('makes the same decisions when the events of a run are replayed', () => {
    fc.assert(
      fc.property(settings, workload, (given, programs) => {
        const run = runPrograms(configOf(given), programs)
        const replay = virtualRun(configOf(given), run.events)
        expect(replay.plans).toEqual(run.plans)
        expect(replay.ledger).toEqual(run.ledger)
      }),
      { numRuns: 100 },
    )
  })

  it('makes no decision that depends on what comes later', () => {
    fc.assert(
      fc.property(settings, workload, workload, fc.nat(40_000), (given, programs, others, from_us) => {
        const { events } = runPrograms(configOf(given), programs)
        const renamed = others.map((program) => ({ ...program, id: `other ${program.id}` }))
        const later = runPrograms(configOf(given), renamed).events.map((event) => ({
          ...event,
          at_us: event.at_us + from_us,
        }))
        const past = events.filter(({ at_us }) => at_us < from_us)
        const one = virtualRun(configOf(given), [...past, ...events.filter(({ at_us }) => at_us >= from_us)])
        const other = virtualRun(configOf(given), [...past, ...later])
        const before = (run: typeof one) => run.plans.filter((_, index) => (run.planned_us[index] as number) < from_us)
        expect(before(other)).toEqual(before(one))
      }),
      { numRuns: 100 },
    )
  })
})

describe('no starvation', () => {
  const flood = fc.record({
    output_tokens: fc.integer({ min: 1, max: 4 }),
    load: fc.double({ min: 0.95, max: 1.1, noNaN: true }),
  })

  /**
   * With one tenant, room for all and service in wall time. A call that waits in a level below Q1 is promoted once
   * W_p + W_c ≥ β (T_p + T_c), so after β (T_p + T_c) of waiting at most; those that come to Q1 after it are behind it;
   * each of the at most n before it keeps a seat until it has spent one quantum of Q1, overdrawn by less than a step.
   */
  it.each(['plas', 'atlas', 'mlfq'] as const)('beyond β under %s', (name) => {
    const { promotion_ratio, first_quantum_us } = QUEUES
    fc.assert(
      fc.property(workload, flood, fc.integer({ min: 1, max: 2 }), (programs, { output_tokens, load }, seats) => {
        // Beside the programs, short ones that come one by one and about fill the seats: each has received nothing.
        const short_us = output_tokens * (TINY.base_us + seats * TINY.per_sequence_us)
        const short = Array.from({ length: 150 }, (_, index): Program => {
          const at_us = Math.round((index * short_us) / (seats * load))
          return { id: `short ${index}`, at_us, calls: [{ output_tokens, prompt: [index] }] }
        })
        const one_tenant = [...programs.map((program) => ({ ...program, given: {} })), ...short]
        const sizes = { seats, slots: 64, slot_tokens_max: 96, capacity_blocks: 1024, max_step_tokens: 4096 }
        const config = testConfig({
          ...sizes,
          ordering: 'wall',
          policy: createPolicy({ name, ...QUEUES }, { reading: 'wall' }),
        })
        const run = runPrograms(config, one_tenant)
        const open_calls_max = Math.max(...run.open_calls)
        const step_us_max = Math.max(...run.plans.map((plan) => stepDurationUs(TINY, plan)))
        const turns_us = (open_calls_max * (first_quantum_us + step_us_max)) / seats + 2 * step_us_max
        const started = new Map(
          run.events.flatMap((e) => (e.do === 'submit' ? [[e.call.lease, e.at_us] as const] : [])),
        )
        const attained = new Map(
          run.events.flatMap((e) => (e.do === 'submit' ? [[e.call.lease, e.call] as const] : [])),
        )
        const last_us = new Map(started)
        const received_us = new Map<string, number>()
        for (const [index, plan] of run.plans.entries()) {
          const at_us = run.planned_us[index] as number
          for (const { lease } of plan.work) {
            const call = attained.get(lease)
            const of_program = name === 'mlfq' ? lease : (call?.program ?? '')
            // The call's prompt counts as service that it is about to receive.
            const prompt_us = (call?.prompt.length ?? 0) * DEFAULT_SERVICE_RATES.prefill_us_per_token
            const service_us = (received_us.get(of_program) ?? 0) + (name === 'mlfq' ? 0 : prompt_us)
            const waited_us = at_us - (last_us.get(lease) as number)
            expect(waited_us).toBeLessThanOrEqual(promotion_ratio * service_us + turns_us)
            received_us.set(of_program, (received_us.get(of_program) ?? 0) + stepDurationUs(TINY, plan))
            last_us.set(lease, at_us + stepDurationUs(TINY, plan))
          }
        }
      }),
      { numRuns: 100 },
    )
  })
})

describe('two tenants', () => {
  /** What the taker says of its calls: the truth, that each is a program, or that none depends on another. */
  type Claim = 'honest' | 'minted' | 'parents denied'

  /** `taker` has work for all seats throughout; `other` is a chain of calls beside it. */
  function run(name: PolicyName, claim: Claim) {
    const taker: VirtualEvent[] = Array.from({ length: 40 }, (_, index) => ({
      at_us: 0,
      do: 'submit',
      call: engineCall({
        lease: `taker/${index}`,
        tenant: 'taker',
        program: claim === 'minted' ? `fresh ${index}` : 'taker',
        prompt: [index],
        max_output_tokens: 6,
        settled_service_us: claim === 'minted' ? 0 : index * 10 * UNIT_US,
        critical_path_us: claim === 'honest' ? index * 10 * UNIT_US : 0,
      }),
    }))
    const other: VirtualEvent[] = Array.from({ length: 10 }, (_, index) => ({
      at_us: index * 7 * UNIT_US,
      do: 'submit',
      call: engineCall({
        lease: `other/${index}`,
        tenant: 'other',
        program: 'other',
        prompt: [1000 + index],
        max_output_tokens: 6,
        settled_service_us: index * 6 * UNIT_US,
        critical_path_us: index * 6 * UNIT_US,
        program_wait_us: index * UNIT_US,
      }),
    }))
    const policy = policyOf(name)
    const config = testConfig({ policy, seats: 3, slots: 64, capacity_blocks: 1024, ordering: 'wall' })
    return virtualRun(config, [...taker, ...other], { profile: UNIT_STEPS })
  }

  const claims: [PolicyName, Claim][] = POLICY_NAMES.flatMap((name): [PolicyName, Claim][] => [
    [name, 'minted'],
    [name, 'parents denied'],
  ])

  it.each(claims)('under %s, with calls %s, one takes nothing from the other', (name, claim) => {
    const honest = run(name, 'honest')
    const claimed = run(name, claim)
    for (let index = 0; index < 10; index++) {
      const waitOf = ({ ended }: typeof honest) => ended.get(`other/${index}`)?.measurement.wait_us
      expect(waitOf(claimed)).toBe(waitOf(honest))
    }
    // Both always have work while the other's calls are open; how the taker's last calls end is its own affair.
    const steps = honest.plans.findLastIndex(({ work }) => work.some(({ lease }) => lease.startsWith('other')))
    expect(steps).toBeGreaterThan(50)
    const seatsOf = ({ plans }: typeof honest) =>
      plans.slice(0, steps).map(({ work }) => work.filter(({ lease }) => lease.startsWith('taker')).length)
    expect(seatsOf(claimed)).toEqual(seatsOf(honest))
  })
})
