/**
 * How many calls this isolate has served, by dialect and outcome, and how many records it refused. A Worker runs in many
 * isolates, which come and go, and a scrape reaches one of them. So these counts mean something only where there is one
 * isolate (self-hosting). Actors and agents report the totals of a deployment.
 */
import type { Outcome } from '../protocol/index.ts'

const OUTCOMES: readonly Outcome[] = ['completed', 'cancelled', 'failed']

const counts = new Map<string, number>()
let records_unproven = 0
let records_lowered = 0

export function countCall(dialect: string, outcome: Outcome): void {
  const key = `${dialect} ${outcome}`
  counts.set(key, (counts.get(key) ?? 0) + 1)
}

/** For every outcome, zero included. */
export function countedCalls(dialects: readonly string[]): { dialect: string; outcome: Outcome; calls: number }[] {
  return dialects.flatMap((dialect) =>
    OUTCOMES.map((outcome) => ({ dialect, outcome, calls: counts.get(`${dialect} ${outcome}`) ?? 0 })),
  )
}

/** Records that named a lease which was never granted (lease-proof.ts): an agent's mistake or an attack. */
export function countUnprovenRecords(records: number): void {
  records_unproven += records
}

/** Records that stated more than their calls can have used (core/call/lease-terms.ts). */
export function countLoweredRecords(records: number): void {
  records_lowered += records
}

export function countedLoweredRecords(): number {
  return records_lowered
}

export function countedUnprovenRecords(): number {
  return records_unproven
}
