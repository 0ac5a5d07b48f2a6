/**
 * The five invariants of the design, asked of a system that runs: while it is being disturbed where that can be asked, and
 * once it has been left alone and everything has been settled.
 */
import { PROGRAM_LEVELS } from '../../gpu-agent/engine/order/policies/levels/levels.ts'
import { ORPHANED_CALL_MS } from '../../src/core/program/program-state.ts'
import type { Fleet } from './fleet.ts'
import {
  differences,
  type LedgerBook,
  type LedgerLease,
  type ListedCall,
  type ListedProgram,
  programKey,
  readProgram,
  type Tenant,
  unsettled,
} from './ledger.ts'

/** The engines' β: W / T at which a waiting call comes first, where service is modelled. */
const PROMOTION_BETA = PROGRAM_LEVELS.modelled.promotion_ratio
/** Beyond it: calls that were promoted before, seats that are taken, and a host that was stopped meanwhile. */
const WAIT_SLACK_S = 30
const SETTLE_TIMEOUT_MS = 60_000
const POLL_MS = 250

export interface KnownProgram {
  tenant: Tenant
  program: string
}

const us = (seconds: number): number => Math.round(seconds * 1e6)

/**
 * Conservation while calls run: the table may not know of a service yet, but never of one that no engine wrote. The table is
 * read first, so the ledgers can only have grown since. Asked soon after a program's calls, since an actor that is evicted
 * loads its sums anew. Null: the control plane is down.
 */
export async function neverAhead(
  fleet: Fleet,
  book: LedgerBook,
  programs: readonly KnownProgram[],
): Promise<string[] | null> {
  let reads: Awaited<ReturnType<typeof readProgram>>[]
  try {
    reads = await Promise.all(programs.map(({ tenant, program }) => readProgram(fleet, tenant, program)))
  } catch {
    return null
  }
  const ledgers = book.readOf(new Set(programs.map(({ tenant, program }) => programKey(tenant.tenant, program))))
  return programs.flatMap(({ tenant, program }, index) => {
    const own = ledgers.get(programKey(tenant.tenant, program)) ?? []
    const written = own.reduce((sum, lease) => sum + lease.modelled_us, 0)
    const known = us(reads[index]?.summary.service_modelled_s ?? 0)
    return known > written ? [`${program}: ${known} µs in the table, ${written} µs in the ledgers`] : []
  })
}

export type Violations = Record<
  'conservation' | 'one_stream' | 'isolation' | 'no_starvation' | 'shares' | 'no_leaks' | 'budgets',
  string[]
>

export function noViolations(): Violations {
  return { conservation: [], one_stream: [], isolation: [], no_starvation: [], shares: [], no_leaks: [], budgets: [] }
}

/** Waits until every lease has its acknowledged record; says what has not. */
export async function settled(fleet: Fleet): Promise<string[]> {
  const deadline_ms = performance.now() + SETTLE_TIMEOUT_MS
  for (;;) {
    const { open_leases, unacknowledged } = unsettled(fleet)
    if (open_leases + unacknowledged === 0) return []
    if (performance.now() > deadline_ms)
      return [`${open_leases} leases have no record, ${unacknowledged} records are not acknowledged`]
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
}

/** At the end, of everything: `completed` are the calls that clients saw whole, by tenant and program. */
export async function checkAll(
  fleet: Fleet,
  book: LedgerBook,
  programs: readonly KnownProgram[],
  completed: ReadonlyMap<string, ReadonlySet<string>>,
  found: Violations,
  onChecked: (done: number) => void,
): Promise<{ leases_not_arrived: number }> {
  const ledgers = Map.groupBy(book.read(), ({ tenant, program }) => programKey(tenant, program))
  const owners = new Map<string, string>()
  let done = 0
  let leases_not_arrived = 0
  for (const { tenant, program } of programs) {
    const key = programKey(tenant.tenant, program)
    const own = ledgers.get(key) ?? []
    const read = await readAtRest(fleet, tenant, program)
    if (read === null) {
      if (own.length > 0) found.conservation.push(`${key}: ${own.length} leases, and the table has no such program`)
    } else {
      found.conservation.push(...differences(key, own, read))
      found.one_stream.push(...seenOnce(key, completed.get(key) ?? new Set(), read.calls))
      found.isolation.push(...ownOnly(key, own, read.calls, owners))
      found.no_leaks.push(...leaks(key, read, own))
      found.budgets.push(...overspent(key, read.summary, completed.get(key)?.size ?? 0))
      leases_not_arrived += notArrived(own, read.calls)
    }
    found.no_starvation.push(...waits(key, own))
    done += 1
    onChecked(done)
  }
  found.isolation.push(...foreignCaches(ledgers))
  return { leases_not_arrived }
}

/**
 * Being read makes an actor ask for leases that its control plane left open when it died, so its calls may end between the
 * two questions of a read. Then it is read again.
 */
async function readAtRest(fleet: Fleet, tenant: Tenant, program: string): ReturnType<typeof readProgram> {
  const read = await readProgram(fleet, tenant, program)
  if (read === null || read.summary.open_calls === openCalls(read.calls)) return read
  return readProgram(fleet, tenant, program)
}

function openCalls(calls: readonly ListedCall[]): number {
  return calls.filter(({ state }) => state === 'open').length
}

/** What a client saw whole stands there once, and as completed. */
function seenOnce(key: string, completed: ReadonlySet<string>, calls: readonly ListedCall[]): string[] {
  const found: string[] = []
  for (const id of completed) {
    const entries = calls.filter((call) => call.id === id)
    if (entries.length !== 1) found.push(`${key}: call ${id} was seen whole and stands ${entries.length} times`)
    else if (entries[0]?.outcome !== 'completed')
      found.push(`${key}: call ${id} was seen whole and stands as ${entries[0]?.outcome}`)
  }
  return found
}

/** A tenant sees its own calls and leases; no id belongs to two tenants. */
function ownOnly(
  key: string,
  own: readonly LedgerLease[],
  calls: readonly ListedCall[],
  owners: Map<string, string>,
): string[] {
  const found: string[] = []
  const known = new Map(own.map(({ lease, call }) => [lease, call]))
  for (const call of calls) {
    for (const lease of call.leases) {
      const of = known.get(lease.id)
      if (of !== undefined && of !== call.id) found.push(`${key}: lease ${lease.id} stands at another call`)
    }
    const owner = owners.get(call.id)
    if (owner !== undefined && owner !== key) found.push(`${key}: call ${call.id} is shown to ${owner} as well`)
    owners.set(call.id, key)
  }
  return found
}

/** Engines share KV between calls of one salt: no two tenants have the same. */
function foreignCaches(ledgers: ReadonlyMap<string, readonly LedgerLease[]>): string[] {
  const found: string[] = []
  const salts = new Map<string, string>()
  for (const leases of ledgers.values()) {
    for (const { tenant, cache_salt } of leases) {
      const owner = salts.get(cache_salt) ?? tenant
      if (owner !== tenant) found.push(`tenants ${owner} and ${tenant} share a cache salt`)
      salts.set(cache_salt, owner)
    }
  }
  return found
}

/** `seen`: calls that clients saw whole. Each counts, and what counts is within the budget. */
function overspent(key: string, { budget }: ListedProgram, seen: number): string[] {
  const found: string[] = []
  for (const [kind, standing] of Object.entries({ calls: budget?.calls, tokens: budget?.tokens })) {
    if (standing == null) continue
    const { limit, used, reserved } = standing
    if (used + reserved > limit) found.push(`${key}: ${used} ${kind} and ${reserved} reserved, of ${limit}`)
  }
  const counted = budget?.calls?.used
  if (counted !== undefined && seen > counted) {
    found.push(`${key}: ${seen} calls were seen whole, and ${counted} count for its budget`)
  }
  return found
}

/** The bound that follows from promotion at W / T ≥ β, with what may come between promotion and a seat. */
function waits(key: string, own: readonly LedgerLease[]): string[] {
  const service_us = own.reduce((sum, lease) => sum + lease.modelled_us, 0)
  const bound_us = PROMOTION_BETA * service_us + WAIT_SLACK_S * 1e6
  return own.flatMap(({ lease, record }) =>
    record !== null && record.wait_us > bound_us
      ? [`${key}: lease ${lease} waited ${record.wait_us / 1e6} s; its program was served ${service_us / 1e6} s`]
      : [],
  )
}

/** Open leases that no agent ever saw: their Worker died on the way. The table gives them up after ORPHANED_LEASE_MS. */
function notArrived(own: readonly LedgerLease[], calls: readonly ListedCall[]): number {
  const arrived = new Set(own.map(({ lease }) => lease))
  return calls.flatMap(({ leases }) => leases).filter(({ id, state }) => state === 'open' && !arrived.has(id)).length
}

/** Nothing is open that no engine holds, but what waits for the time after which it is given up. */
function leaks(
  key: string,
  { summary, calls }: { summary: ListedProgram; calls: readonly ListedCall[] },
  own: readonly LedgerLease[],
): string[] {
  const arrived = new Set(own.map(({ lease }) => lease))
  const found: string[] = []
  for (const call of calls) {
    for (const lease of call.leases) {
      if (lease.state === 'open' && arrived.has(lease.id))
        found.push(`${key}: lease ${lease.id} is open and has a record`)
    }
    const may_be_given_up =
      call.leases.some(({ state }) => state === 'open') || Date.now() - Date.parse(call.opened_at) < ORPHANED_CALL_MS
    if (call.state === 'open' && !may_be_given_up) found.push(`${key}: call ${call.id} is open without a lease`)
  }
  if (summary.open_calls !== openCalls(calls)) found.push(`${key}: ${summary.open_calls} calls are counted as open`)
  return found
}
