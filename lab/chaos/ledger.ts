/**
 * Conservation, from both of its ends: what the engines wrote step by step on the agents' disks, and what the process
 * table tells its tenants. What preemptions did to KV is compared with the agents' records. Both are read as they stand; `differences` is empty when every microsecond is there once.
 */
import { existsSync } from 'node:fs'
import Database from 'better-sqlite3'
import type { CallRecord, TicketClaims } from '../../src/protocol/index.ts'

/** Agents and where their outboxes lie. */
export interface Outboxes {
  agents: readonly { id: string; outbox: string }[]
}

/** A control plane, asked with a tenant's key. */
export interface Listing {
  fetch(route: string, init: { apiKey: string }): Promise<Response>
}

export interface LedgerLease {
  lease: string
  call: string
  tenant: string
  program: string
  cache_salt: string
  agent: string
  arrived_at_ms: number
  wall_us: number
  modelled_us: number
  record: CallRecord | null
}

/** Tells programs of the same name apart. */
export function programKey(tenant: string, program: string): string {
  return JSON.stringify([tenant, program])
}

/** Leases of all agents, with the sum of the rows that their engines wrote. */
export function readLedgers(outboxes: Outboxes): LedgerLease[] {
  return new LedgerBook(outboxes).read()
}

interface LedgerRow {
  position: number
  lease: string
  claims: string
  arrived_at_ms: number
  record: string | null
  wall_us: number
  modelled_us: number
}

/**
 * What the engines wrote over a whole run. A lease that has its record does not change any more, so it is read once. An agent
 * deletes acknowledged leases after an hour; they stay in the book.
 */
export class LedgerBook {
  readonly #outboxes: Outboxes
  /** With a record, by `programKey` and lease. */
  readonly #recorded = new Map<string, Map<string, LedgerLease>>()
  /** By agent: up to this position every lease has its record. */
  readonly #read_to = new Map<string, number>()

  constructor(outboxes: Outboxes) {
    this.#outboxes = outboxes
  }

  read(): LedgerLease[] {
    const open = this.#update()
    return [...open, ...this.#recorded.values().flatMap((leases) => leases.values())]
  }

  /** Those of the named programs (`programKey`), by program. */
  readOf(programs: ReadonlySet<string>): Map<string, LedgerLease[]> {
    const open = this.#update()
    return new Map(
      programs.values().map((key) => {
        const own = open.filter(({ tenant, program }) => programKey(tenant, program) === key)
        return [key, [...own, ...(this.#recorded.get(key)?.values() ?? [])]]
      }),
    )
  }

  /** Reads what the agents have written since. Returns the leases without a record. */
  #update(): LedgerLease[] {
    return this.#outboxes.agents.flatMap(({ id, outbox }) => (existsSync(outbox) ? this.#readAgent(id, outbox) : []))
  }

  #readAgent(agent: string, outbox: string): LedgerLease[] {
    const open: LedgerLease[] = []
    for (const { position, claims, record, ...row } of rowsAfter(outbox, this.#read_to.get(agent) ?? 0)) {
      const { call, tenant, program, cache_salt } = JSON.parse(claims) as TicketClaims
      const parsed = record === null ? null : (JSON.parse(record) as CallRecord)
      const lease = { ...row, call, tenant, program, cache_salt, agent, record: parsed }
      if (parsed === null) open.push(lease)
      else this.#keep(lease)
      if (open.length === 0) this.#read_to.set(agent, position)
    }
    return open
  }

  #keep(lease: LedgerLease): void {
    const key = programKey(lease.tenant, lease.program)
    const leases = this.#recorded.get(key) ?? new Map<string, LedgerLease>()
    this.#recorded.set(key, leases.set(lease.lease, lease))
  }
}

function rowsAfter(outbox: string, position: number): LedgerRow[] {
  const database = new Database(outbox, { readonly: true })
  try {
    return database
      .prepare(
        `select leases.rowid as position, leases.lease, leases.claims, leases.arrived_at_ms, records.record,
                coalesce((select sum(wall_us) from ledger where ledger.lease = leases.lease), 0) as wall_us,
                coalesce((select sum(modelled_us) from ledger where ledger.lease = leases.lease), 0) as modelled_us
         from leases left join records on records.lease = leases.lease
         where leases.rowid > ? order by leases.rowid`,
      )
      .all(position) as LedgerRow[]
  } finally {
    database.close()
  }
}

/** Leases without a record, and records that no control plane has acknowledged. */
export function unsettled({ agents }: Outboxes): { open_leases: number; unacknowledged: number } {
  let open_leases = 0
  let unacknowledged = 0
  for (const { outbox } of agents) {
    if (!existsSync(outbox)) continue
    const database = new Database(outbox, { readonly: true })
    const count = (sql: string): number => (database.prepare(sql).get() as { n: number }).n
    open_leases += count("select count(*) as n from leases where state = 'open'")
    unacknowledged += count('select count(*) as n from records where acknowledged_at_ms is null')
    database.close()
  }
  return { open_leases, unacknowledged }
}

export interface ListedLease {
  id: string
  engine: string
  region: string
  reason: string | null
  state: string
  error_code: string | null
  service_wall_s: number
  service_modelled_s: number
  wait_s: number
  swapped_out_tokens: number
  swapped_in_tokens: number
  recomputed_tokens: number
  swap_s: number
}
export interface ListedCall {
  id: string
  opened_at: string
  state: string
  outcome: string | null
  error_code: string | null
  leases: ListedLease[]
}
export interface ListedProgram {
  state: string
  run: string
  calls: number
  open_calls: number
  service_wall_s: number
  service_modelled_s: number
  swapped_out_tokens: number
  swapped_in_tokens: number
  recomputed_tokens: number
  swap_s: number
  /** Null: it has none. */
  budget: Record<'calls' | 'tokens', BudgetStanding | null> | null
}

interface BudgetStanding {
  limit: number
  used: number
  reserved: number
}

export interface Tenant {
  tenant: string
  apiKey: string
}

export async function readProgram(
  control: Listing,
  { apiKey }: Tenant,
  program: string,
): Promise<{ summary: ListedProgram; calls: ListedCall[] } | null> {
  const route = `/v1/programs/${encodeURIComponent(program)}`
  const answer = await control.fetch(route, { apiKey })
  if (answer.status === 404) {
    await answer.body?.cancel()
    return null
  }
  if (!answer.ok) throw new Error(`${route}: ${answer.status} ${await answer.text()}`)
  const summary = (await answer.json()) as ListedProgram
  const calls: ListedCall[] = []
  let cursor: string | null = null
  do {
    const query: string = cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`
    const page = await control.fetch(`${route}/calls?limit=100${query}`, { apiKey })
    if (!page.ok) throw new Error(`${route}/calls: ${page.status} ${await page.text()}`)
    const { data, next_cursor } = (await page.json()) as { data: ListedCall[]; next_cursor: string | null }
    calls.push(...data)
    cursor = next_cursor
  } while (cursor !== null)
  return { summary, calls }
}

const us = (seconds: number): number => Math.round(seconds * 1e6)
const KV_TOKENS = ['swapped_out_tokens', 'swapped_in_tokens', 'recomputed_tokens'] as const

/** Where the process table's entry of one program and the engines' ledgers disagree. */
export function differences(
  program: string,
  own: readonly LedgerLease[],
  read: { summary: ListedProgram; calls: readonly ListedCall[] },
): string[] {
  const found: string[] = []
  const say = (what: string, table: number, ledger: number, unit = 'µs'): void => {
    if (table === ledger) return
    found.push(`${program}: ${what} is ${table} ${unit} in the table and ${ledger} ${unit} in the ledgers`)
  }
  const sum = (of: (lease: LedgerLease) => number): number => own.reduce((total, lease) => total + of(lease), 0)
  const wall = sum((lease) => lease.wall_us)
  const modelled = sum((lease) => lease.modelled_us)
  say('wall service', us(read.summary.service_wall_s), wall)
  say('modelled service', us(read.summary.service_modelled_s), modelled)
  const listed = new Map<string, ListedLease>()
  for (const lease of read.calls.flatMap((call) => call.leases)) {
    if (listed.has(lease.id)) found.push(`${program}: lease ${lease.id} stands twice`)
    listed.set(lease.id, lease)
  }
  for (const lease of own) {
    const entry = listed.get(lease.lease)
    if (entry === undefined) {
      found.push(`${program}: lease ${lease.lease} of ${lease.agent} is not in the table`)
      continue
    }
    say(`wall service of lease ${lease.lease}`, us(entry.service_wall_s), lease.wall_us)
    say(`modelled service of lease ${lease.lease}`, us(entry.service_modelled_s), lease.modelled_us)
    for (const field of KV_TOKENS) say(`${field} of lease ${lease.lease}`, entry[field], lease.record?.[field] ?? 0, '')
    say(`swap of lease ${lease.lease}`, us(entry.swap_s), lease.record?.swap_us ?? 0)
  }
  for (const field of KV_TOKENS)
    say(
      field,
      read.summary[field],
      sum((lease) => lease.record?.[field] ?? 0),
      '',
    )
  say(
    'swap',
    us(read.summary.swap_s),
    sum((lease) => lease.record?.swap_us ?? 0),
  )
  return found
}
