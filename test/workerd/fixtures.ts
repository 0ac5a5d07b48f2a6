/** Two tenants, two regions, one model, one agent per region; requests, calls and records to drive the control plane with. */
import { env, exports } from 'cloudflare:workers'
import type { AdmitRequest, LeaseOpened } from '../../src/actors/contracts.ts'
import { programActor } from '../../src/actors/stubs.ts'
import type { LeaseTerms } from '../../src/core/call/lease-terms.ts'
import type { CallRecord, Hello, Status } from '../../src/protocol/index.ts'
import { leaseProof } from '../../src/relay/lease-proof.ts'
import { type Provision, provisionStatements } from '../../src/store/provision.ts'

export const MODEL = 'test-model'
export const KEY_A = `sk-sy-${'a'.repeat(40)}`
export const KEY_B = `sk-sy-${'b'.repeat(40)}`
export const TOKEN_EAST = `sya-${'e'.repeat(40)}`
export const TOKEN_WEST = `sya-${'w'.repeat(40)}`
export const ORIGIN = 'https://switchyard.test'

export const PROVISION: Provision = {
  created_at_ms: 1_700_000_000_000,
  tenants: [
    { id: 'tenant-a', name: 'A', weight: 1 },
    { id: 'tenant-b', name: 'B', weight: 2 },
  ],
  keys: [
    { key: KEY_A, tenant: 'tenant-a', name: 'test' },
    { key: KEY_B, tenant: 'tenant-b', name: 'test' },
  ],
  regions: [
    { id: 'us-east', location_hint: 'enam', latitude: 39, longitude: -77 },
    { id: 'eu-west', location_hint: 'weur', latitude: 53, longitude: -6 },
  ],
  models: [{ id: MODEL, ordering_service: 'modelled', context_tokens_max: 8192, bytes_per_token: 4 }],
  agents: [
    { id: 'agent-east', region: 'us-east', token: TOKEN_EAST },
    { id: 'agent-west', region: 'eu-west', token: TOKEN_WEST },
  ],
}

export async function provision(): Promise<void> {
  const statements = await provisionStatements(env.KEY_PEPPER, PROVISION)
  await env.DB.batch(statements.map(({ sql, params }) => env.DB.prepare(sql).bind(...params)))
}

export function request(method: string, path: string, key: string | null, body?: unknown): Promise<Response> {
  const headers = new Headers({ 'content-type': 'application/json' })
  if (key !== null) headers.set('authorization', `Bearer ${key}`)
  const init = body === undefined ? { method, headers } : { method, headers, body: JSON.stringify(body) }
  return exports.default.fetch(new Request(`${ORIGIN}${path}`, init))
}

export async function json<T = Record<string, unknown>>(response: Promise<Response>): Promise<T> {
  return (await response).json() as Promise<T>
}

export function programStub(program: string, tenant = 'tenant-a') {
  return env.PROGRAM.getByName(JSON.stringify([tenant, program]))
}

export function admission(program: string, call: string, change: Partial<AdmitRequest> = {}): AdmitRequest {
  return {
    ...{ tenant: 'tenant-a', program, call, thread: null, parents: null, model: MODEL },
    ...{ app: null, class: 'tenant', metadata: null, now_ms: Date.now() },
    ...change,
  }
}

export function leaseOf(run: string, call: string, lease = `lease-${call}`): LeaseOpened {
  return {
    ...{ run, call, lease, agent: 'agent-east', engine: 'agent-east-e0', epoch: 'epoch-1' },
    ...{ region: 'us-east', model: MODEL, reason: 'least_used' as const, speed_factor: 1, pin: false },
    now_ms: Date.now(),
  }
}

export function recordOf(program: string, run: string, call: string, change: Partial<CallRecord> = {}): CallRecord {
  return {
    v: 1,
    lease: `lease-${call}`,
    ...{ call, tenant: 'tenant-a', program, run, thread: 'thread-1', class: 'tenant' },
    ...{ agent: 'agent-east', engine: 'agent-east-e0', epoch: 'epoch-1', region: 'us-east', model: MODEL },
    ...{ outcome: 'completed', finish_reason: 'stop', error_code: null, resumed_tokens: 0 },
    ...{ prompt_tokens: 10, cached_tokens: 4, output_tokens: 5, preemptions: 2 },
    ...{ swapped_out_tokens: 12, swapped_in_tokens: 8, recomputed_tokens: 3, swap_us: 60 },
    ...{ service_wall_us: 2_000, service_modelled_us: 1_000, wait_us: 300, first_token_us: 400, duration_us: 2_300 },
    ended_at_ms: Date.now(),
    ...change,
  }
}

const TERMS: LeaseTerms = {
  ...{
    granted_at_ms: 0,
    speed_factor: 1,
    prompt_tokens_max: 8192,
    output_tokens_max: 8192,
    sequences_max: 1,
    key: null,
    reason: null,
  },
}

/** The record as an agent sends it that was given this lease; one that has a proof already keeps it. */
export async function proven(record: CallRecord, terms: Partial<LeaseTerms> = {}): Promise<CallRecord> {
  return { lease_proof: await leaseProof(record, { ...TERMS, ...terms }, env.TICKET_SECRET), ...record }
}

/** Admits and leases one call; returns its run. */
export async function openCall(program: string, call: string, tenant = 'tenant-a'): Promise<string> {
  const actor = programActor(env, tenant, program)
  const reply = await actor.admit(admission(program, call, { tenant }))
  if (reply.status !== 'admitted') throw new Error(reply.message)
  await actor.leaseOpened(leaseOf(reply.run, call))
  return reply.run
}

export function helloOf(change: Partial<Hello> = {}): Hello {
  return {
    type: 'hello',
    protocol: { min: 2, max: 2 },
    ...{ agent: 'agent-east', region: 'us-east', model: MODEL, url: 'http://127.0.0.1:9000' },
    engines: [
      {
        ...{ id: 'agent-east-e0', epoch: 'epoch-1', kind: 'emulated', model: MODEL, seats: 4 },
        ...{ kv_capacity_tokens: 10_000, context_tokens_max: 8192, prefill_tokens_per_s: null, speed_factor: 1 },
      },
    ],
    now_ms: Date.now(),
    ...change,
  }
}

export function statusOf(seq: number, change: Partial<Status['engines'][number]> = {}): Status {
  const engine = {
    ...{ id: 'agent-east-e0', epoch: 'epoch-1', state: 'ready' as const, waiting: 0, running: 0 },
    ...{ queued_tokens: 0, kv_used_tokens: 0, leases_seen: [], bytes_per_token: null },
  }
  return { type: 'status', seq, engines: [{ ...engine, ...change }] }
}

/** A tenant's tables of the leases that count, the oldest first. */
export function countedTables(sql: SqlStorage): string[] {
  const names = sql.exec<{ name: string }>("SELECT name FROM sqlite_master WHERE name GLOB 'counted_[0-9]*' ORDER BY 1")
  return names.toArray().map(({ name }) => name)
}

/** As if so many days had gone by since. The object that has read their names must be lost after it. */
export function ageCountedLeases(sql: SqlStorage, days: number): void {
  for (const name of countedTables(sql)) {
    const since_ms = Number(name.slice('counted_'.length)) - days * 24 * 60 * 60 * 1000
    sql.exec(`ALTER TABLE ${name} RENAME TO counted_${since_ms}`)
  }
  sql.exec('UPDATE counted_leases SET day = day - ?', days)
}
