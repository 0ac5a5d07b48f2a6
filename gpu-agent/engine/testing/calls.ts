/** Builders for tests: calls, schedulers, and the plainest shares. */
import { createPolicy } from '../policies/index.ts'
import { Scheduler } from '../scheduler.ts'
import { type SchedulerConfig, type SeatShares, schedulerConfig } from '../scheduler-config.ts'
import type { EngineCall } from '../types.ts'

/** `count` tokens that no other `stream` shares. */
export function tokens(count: number, stream = 0): number[] {
  return Array.from({ length: count }, (_, index) => stream * 1_000_000 + index)
}

export function engineCall(given: Partial<EngineCall> & { lease: string }): EngineCall {
  const program = given.program ?? `program of ${given.lease}`
  return {
    tenant: 'tenant',
    tenant_weight: 1,
    program,
    thread: 'thread',
    attained_service_us: 0,
    critical_path_us: 0,
    program_wait_us: 0,
    cache_salt: `salt of ${given.tenant ?? 'tenant'}`,
    prompt: tokens(10),
    max_output_tokens: 5,
    sampling: { temperature: 0, top_p: 1, seed: 0 },
    ...given,
  }
}

/** Seats by weighted attained service, one at a time to whoever has the least; no decay. Deterministic and work-conserving. */
export class PlainShares implements SeatShares {
  readonly #service_us = new Map<string, number>()

  charge(tenant: string, service_us: number): void {
    this.#service_us.set(tenant, (this.#service_us.get(tenant) ?? 0) + service_us)
  }

  allocate(demand: ReadonlyMap<string, { calls: number; weight: number }>, seats: number): Map<string, number> {
    const given = new Map(Array.from(demand.keys(), (tenant) => [tenant, 0]))
    for (let seat = 0; seat < seats; seat++) {
      let least: string | null = null
      let least_us = Number.POSITIVE_INFINITY
      for (const [tenant, { calls, weight }] of demand) {
        const seats_given = given.get(tenant) ?? 0
        const service_us = ((this.#service_us.get(tenant) ?? 0) + seats_given * 1000) / weight
        if (seats_given < calls && service_us < least_us) {
          least = tenant
          least_us = service_us
        }
      }
      if (least === null) break
      given.set(least, (given.get(least) ?? 0) + 1)
    }
    return given
  }
}

/** A small scheduler; every limit can be overridden. */
export function testConfig(given: Partial<SchedulerConfig> = {}): SchedulerConfig {
  return schedulerConfig({
    epoch: 'epoch',
    policy: createPolicy({ name: 'fcfs' }),
    shares: new PlainShares(),
    seats: 2,
    slots: 4,
    slot_tokens_max: 256,
    block_tokens: 16,
    capacity_blocks: 64,
    max_step_tokens: 64,
    prefill_chunk_tokens: 32,
    ...given,
  })
}

export function testScheduler(given: Partial<SchedulerConfig> = {}): Scheduler {
  return new Scheduler(testConfig(given))
}
