/**
 * Sums over a program's settled leases, kept incrementally. Invariant: at any moment they equal the sums over the leases
 * themselves, in integers. A lease contributes only when settled, and once.
 */

import { addSums, type MeasuredSums, measuredSums, NOTHING_MEASURED } from '../../protocol/index.ts'
import { orderingServiceUs, type ServiceReading } from '../call/service.ts'
import type { LeaseRow } from './program-state.ts'

export interface ProgramTotals extends MeasuredSums {
  service_us: number
}

export function noTotals(): ProgramTotals {
  return { service_us: 0, ...measuredSums(NOTHING_MEASURED) }
}

/** As they are shown and stored. Beyond 2^53 a number is no longer exact, and no schema takes it. */
export function boundedTotals(totals: Readonly<ProgramTotals>): ProgramTotals {
  const entries = Object.entries(totals) as [keyof ProgramTotals, number][]
  return Object.fromEntries(entries.map(([name, sum]) => [name, bounded(sum)])) as unknown as ProgramTotals
}

export function bounded(sum: number): number {
  return Math.min(sum, Number.MAX_SAFE_INTEGER)
}

/** Adds a settled lease's contribution, or takes it away with `sign` −1 before the lease changes. */
export function addLease(totals: ProgramTotals, lease: LeaseRow, reading: ServiceReading, sign: 1 | -1 = 1): void {
  if (lease.state !== 'settled') return
  totals.service_us += sign * orderingServiceUs(lease, reading, lease.speed_factor)
  addSums(totals, lease, sign)
}

/** Service of one call in the ordering reading: all its settled leases, wasted ones included. */
export function callServiceUs(leases: readonly LeaseRow[], reading: ServiceReading): number {
  let service_us = 0
  for (const lease of leases) {
    if (lease.state === 'settled') service_us += orderingServiceUs(lease, reading, lease.speed_factor)
  }
  return bounded(service_us)
}
