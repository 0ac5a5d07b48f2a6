/**
 * Finds leases of a program that never reached their agents: their Worker died on the way. Each open lease counts against
 * what a program may have open, so they are not left to their timeout alone. When the actor is in use and a lease has been
 * open for LEASE_ASKED_MS, its agent is asked through its pool, off the call path.
 */
import type { ProgramEntry } from '../core/program/program-entry.ts'
import type { OpenLeaseRef } from '../core/program/program-state.ts'
import { LEASE_ASKED_MS } from '../core/program/program-state.ts'
import { logFailure } from '../platform/log.ts'
import type { PoolRpc } from './contracts.ts'

interface Surroundings {
  pool(region: string, model: string): PoolRpc
  waitUntil(work: Promise<void>): void
  /** Agents do not have these leases of the run open. */
  lost(run: string, leases: readonly string[]): void
}

export class LostLeases {
  readonly #around: Surroundings
  /** Of the run that was looked at last. */
  #run = ''
  #asked_ms = Number.NEGATIVE_INFINITY

  constructor(around: Surroundings) {
    this.#around = around
  }

  /** Asks at most once per LEASE_ASKED_MS. Returns at once. */
  look(entry: ProgramEntry, now_ms: number): void {
    if (entry.run === this.#run && now_ms - this.#asked_ms < LEASE_ASKED_MS) return
    const old = entry.leasesToAskFor(now_ms)
    if (old.length === 0) return
    this.#run = entry.run
    this.#asked_ms = now_ms
    const byPool = Map.groupBy(old, ({ region, model }) => JSON.stringify([region, model]))
    for (const leases of byPool.values()) this.#around.waitUntil(this.#ask(entry.run, leases))
  }

  async #ask(run: string, leases: readonly OpenLeaseRef[]): Promise<void> {
    const [{ region, model }] = leases as [OpenLeaseRef]
    try {
      const named = leases.map(({ lease, agent }) => ({ lease, agent }))
      const lost = await this.#around.pool(region, model).askForLost(named)
      if (lost.length > 0) this.#around.lost(run, lost)
    } catch (error) {
      logFailure('leases_not_asked_for', error, { region, model })
    }
  }
}
