/** What tests of ProgramActors do to them: look into their storage, take D1 away, mix up what they are sent. */
import { runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import type { ProgramFlush } from '../../src/actors/program-flush.ts'
import type { CallRecord } from '../../src/protocol/index.ts'
import { programStub } from './fixtures.ts'

/** What a change has left for the alarm is written, as if its time had come. */
export async function flushed(program: string): Promise<void> {
  const stub = programStub(program)
  await runInDurableObject(stub, (instance) => (instance as unknown as { flush: ProgramFlush }).flush.now())
}

/** As versions stored them before a call and its leases were one row. */
export function storeLeasesApart({ storage: { sql } }: DurableObjectState): void {
  sql.exec('CREATE TABLE IF NOT EXISTS leases (run text, lease text, row text, PRIMARY KEY (run, lease)) WITHOUT ROWID')
  sql.exec(`INSERT INTO leases SELECT run, lease.value ->> 'lease', lease.value FROM calls, json_each(leases) AS lease`)
  sql.exec('UPDATE calls SET leases = NULL')
}

export function storedTables(state: DurableObjectState): string[] {
  const rows = state.storage.sql.exec<{ name: string }>("SELECT name FROM sqlite_master WHERE type = 'table'").toArray()
  return rows.map(({ name }) => name).filter((name) => !name.startsWith('_cf'))
}

/** Until the object is evicted. */
export async function breakD1(program: string): Promise<void> {
  const down = () => {
    throw new Error('D1 is down')
  }
  await replaceD1(program, { prepare: down, batch: down })
}

export async function replaceD1(program: string, DB: { prepare: unknown; batch: unknown }): Promise<void> {
  await replaceBindings(programStub(program), { DB })
}

/** Until the object is evicted. */
export async function replaceBindings(stub: DurableObjectStub, bindings: object): Promise<void> {
  await runInDurableObject(stub, (instance) => {
    Object.defineProperty(instance, 'env', { value: { ...env, ...bindings }, configurable: true })
  })
}

export function sums(records: readonly CallRecord[]) {
  const sum = (figure: (record: CallRecord) => number) => records.reduce((total, record) => total + figure(record), 0)
  return {
    service_us: sum((record) => record.service_modelled_us),
    service_wall_us: sum((record) => record.service_wall_us),
    service_modelled_us: sum((record) => record.service_modelled_us),
    wait_us: sum((record) => record.wait_us),
    output_tokens: sum((record) => record.output_tokens),
    calls: records.length,
    open_calls: 0,
  }
}

/** A fixed permutation, so that a failure repeats. */
export function shuffled<T>(items: readonly T[]): T[] {
  const result = [...items]
  let state = 12_345
  for (let i = result.length - 1; i > 0; i--) {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31
    const j = state % (i + 1)
    ;[result[i], result[j]] = [result[j] as T, result[i] as T]
  }
  return result
}

export function batches<T>(items: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, i) => items.slice(i * size, (i + 1) * size))
}
