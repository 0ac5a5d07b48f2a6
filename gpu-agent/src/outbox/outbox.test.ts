import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { ClassSketch } from '../../../src/core/classes/class-sketch.ts'
import { CallRecord, type ClassData, type TicketClaims } from '../../../src/protocol/index.ts'
import { KNOWN_CLASSES_MAX } from '../classes/known-classes.ts'
import { ERRORS } from '../data-plane/stream-errors.ts'
import type { AgentEvent } from '../events.ts'
import { claimsOf } from '../testing/control-plane-stand-in.ts'
import { temporaryFolder } from '../testing/harness.ts'
import { lostCallsOf } from './lost-calls.ts'
import { LEASE_MEMORY_MS, type Outbox, type OutboxOptions, openOutbox, PRUNE_LEASES_PER_BATCH } from './outbox.ts'
import { OUTBOX_FILE } from './outbox-database.ts'
import { endWithoutService, recordOf } from './record.ts'

interface Opened {
  outbox: Outbox
  recovered: readonly CallRecord[]
  events: AgentEvent[]
  clock: { ms: number }
  data_dir: string
}

function open(options: Partial<OutboxOptions> = {}, clock = { ms: 1_000_000 }): Opened {
  const data_dir = options.data_dir ?? temporaryFolder()
  const events: AgentEvent[] = []
  const fatal = (message: string): never => {
    throw new Error(message)
  }
  const opening = openOutbox({ data_dir, wall_ms: () => clock.ms, report: (e) => events.push(e), fatal, ...options })
  if (opening.status !== 'open') throw new Error(opening.message)
  let closed = false
  const { outbox } = opening
  const close = outbox.close.bind(outbox)
  outbox.close = () => {
    if (!closed) close()
    closed = true
  }
  onTestFinished(() => outbox.close())
  return { outbox, recovered: opening.recovered, events, clock, data_dir }
}

function ticket(lease: string): TicketClaims {
  return { ...claimsOf({ lease }), v: 2, iat: 0, exp: 60 }
}

function row(lease: string, step: number, wall_us: number) {
  return { epoch: 'epoch-1', step, lease, wall_us, modelled_us: wall_us * 2, computed_tokens: 4, sampled_tokens: 1 }
}

async function opened(outbox: Outbox, lease: string): Promise<void> {
  const opening = outbox.openLease(ticket(lease))
  if (opening.status !== 'opened') throw new Error(opening.status)
  await opening.committed
}

function failed(lease: string, service_us = 0): CallRecord {
  const record = recordOf(ticket(lease), endWithoutService('failed', ERRORS.engine_failed), 5)
  return { ...record, service_wall_us: service_us, service_modelled_us: service_us * 2 }
}

function rowsOnDisk(data_dir: string, table: string): number {
  const db = new Database(join(data_dir, OUTBOX_FILE), { readonly: true })
  try {
    return (db.prepare(`select count(*) n from ${table}`).get() as { n: number }).n
  } finally {
    db.close()
  }
}

test('a reader who sees a record on disk sees every ledger row that was written before it', async () => {
  const { outbox, data_dir, events } = open()
  const lease = 'one'
  await opened(outbox, lease)
  for (let step = 1; step <= 100; step += 1) outbox.ledger([row(lease, step, 10)])
  const record = failed(lease, 1000)
  const recorded = outbox.record(record)
  expect(rowsOnDisk(data_dir, 'records')).toBe(0)
  await recorded
  expect(rowsOnDisk(data_dir, 'ledger')).toBe(100)
  expect(outbox.unacknowledged(0, 10).map((stored) => stored.record)).toEqual([record])
  expect(events).toEqual([])
})

test('a lease that a former process left open fails with the sum of its rows on disk, once', async () => {
  const first = open()
  await opened(first.outbox, 'lost')
  await opened(first.outbox, 'unstarted')
  await opened(first.outbox, 'done')
  first.outbox.promptTokens('lost', 12)
  for (const [step, wall_us] of [7, 11, 13].entries()) first.outbox.ledger([row('lost', step, wall_us)])
  await first.outbox.record(failed('done'))
  first.outbox.close()
  const second = open({ data_dir: first.data_dir })
  expect(second.recovered.map((record) => CallRecord.parse(record))).toEqual(second.recovered)
  const [lost, unstarted] = [...second.recovered].sort((a, b) => a.lease.localeCompare(b.lease))
  const failure = { outcome: 'failed', error_code: 'agent_restarted' }
  const service = { service_wall_us: 31, service_modelled_us: 62, output_tokens: 3, prompt_tokens: 12 }
  expect(lost).toMatchObject({ lease: 'lost', ...failure, ...service })
  expect(unstarted).toMatchObject({ lease: 'unstarted', ...failure, service_wall_us: 0, prompt_tokens: 0 })
  expect(second.outbox.depth).toBe(3)
  second.outbox.close()
  const third = open({ data_dir: first.data_dir })
  expect(third.recovered).toEqual([])
  expect(third.outbox.depth).toBe(3)
  expect(third.outbox.openLease(ticket('lost')).status).toBe('used')
})

test('a lease whose engine outlives the agent stays open, with its sums, until its one record comes', async () => {
  const first = open()
  await opened(first.outbox, 'one')
  await opened(first.outbox, 'other')
  first.outbox.promptTokens('one', 9)
  first.outbox.ledger([row('one', 1, 10), row('one', 4, 20)])
  first.outbox.close()
  const stays_open = ({ lease }: TicketClaims): boolean => lease === 'one'
  const { data_dir, events } = first
  const opening = openOutbox({
    data_dir,
    wall_ms: () => 7,
    report: (e) => events.push(e),
    fatal: expect.fail,
    stays_open,
  })
  if (opening.status !== 'open') throw new Error(opening.message)
  const { outbox, recovered, left_open } = opening
  onTestFinished(() => outbox.close())
  expect(recovered.map(({ lease }) => lease)).toEqual(['other'])
  const sums = { wall_us: 30, modelled_us: 60, computed_tokens: 8, sampled_tokens: 2 }
  expect(left_open).toMatchObject([{ claims: { lease: 'one' }, prompt_tokens: 9, sums, last_step: 4 }])
  expect(outbox.openLease(ticket('one')).status).toBe('used')
  outbox.ledger([row('one', 5, 1)])
  expect(outbox.sumsOf('one')).toMatchObject({ wall_us: 31, modelled_us: 62 })
  const recorded: CallRecord[] = []
  const report = (event: AgentEvent): void => void events.push(event)
  const context = { outbox, wall_ms: () => 8, report, recorded: (record: CallRecord) => recorded.push(record) }
  const [lost] = lostCallsOf(ticket('one').engine, left_open, context)
  await lost?.ended(null)
  expect(outbox.unacknowledged(0, 10).map(({ record }) => record.lease)).toEqual(['other', 'one'])
  expect(recorded).toMatchObject([
    { lease: 'one', outcome: 'failed', error_code: 'agent_restarted', service_wall_us: 31, prompt_tokens: 9 },
  ])
  expect(events).toEqual([{ event: 'recovered', leases: 1 }])
  expect(lostCallsOf('another-engine', left_open, context)).toEqual([])
})

test('a lease is opened once, also before the first opening is on disk', async () => {
  const { outbox, data_dir } = open()
  const first = outbox.openLease(ticket('one'))
  expect(outbox.openLease(ticket('one')).status).toBe('used')
  expect(rowsOnDisk(data_dir, 'leases')).toBe(0)
  if (first.status === 'opened') await first.committed
  expect(rowsOnDisk(data_dir, 'leases')).toBe(1)
  expect(outbox.openLease(ticket('one')).status).toBe('used')
})

test('records stay, in order, until they are acknowledged; an acknowledgement counts once', async () => {
  const { outbox, data_dir } = open()
  for (const lease of ['a', 'b', 'c']) {
    await opened(outbox, lease)
    await outbox.record(failed(lease))
  }
  await Promise.all([outbox.acknowledge(['b', 'unknown']), outbox.acknowledge(['b'])])
  expect(outbox.depth).toBe(2)
  const left = outbox.unacknowledged(0, 10)
  expect(left.map(({ record }) => record.lease)).toEqual(['a', 'c'])
  expect(outbox.unacknowledged(left[0]?.seq ?? 0, 10).map(({ record }) => record.lease)).toEqual(['c'])
  expect(outbox.unacknowledged(0, 1).map(({ record }) => record.lease)).toEqual(['a'])
  outbox.close()
  expect(open({ data_dir }).outbox.depth).toBe(2)
})

test('a measurement that differs from the ledger, a row twice and a row outside of its lease are reported', async () => {
  const { outbox, events } = open()
  await opened(outbox, 'one')
  outbox.ledger([row('one', 1, 10), row('one', 1, 10), row('unknown', 1, 10)])
  await outbox.record(failed('one', 21))
  const what = events.map((event) =>
    event.event === 'ledger_mismatch' ? `${event.lease}: ${event.what}` : event.event,
  )
  expect(what.sort()).toEqual([
    'one: measured 21/42 us, ledger 20/40 us',
    'one: step 1 written twice',
    'unknown: row outside of its lease',
  ])
})

test('only what is acknowledged and old is pruned, and no lease before its ticket is dead', async () => {
  const { outbox, clock, data_dir } = open({ retention_ms: 0 })
  const leases = Array.from({ length: PRUNE_LEASES_PER_BATCH + 5 }, (_, n) => `lease-${n}`)
  for (const lease of [...leases, 'unacknowledged']) {
    await opened(outbox, lease)
    outbox.ledger([row(lease, 1, 0)])
    await outbox.record(failed(lease))
  }
  await outbox.acknowledge(leases)
  clock.ms += LEASE_MEMORY_MS
  outbox.prune()
  await outbox.acknowledge([])
  expect(rowsOnDisk(data_dir, 'leases')).toBe(leases.length + 1)
  clock.ms += 1
  outbox.prune()
  while (rowsOnDisk(data_dir, 'leases') > 1) await new Promise((resolve) => setTimeout(resolve, 5))
  for (const table of ['leases', 'ledger', 'records']) expect(rowsOnDisk(data_dir, table)).toBe(1)
  expect(outbox.openLease(ticket('unacknowledged')).status).toBe('used')
})

test('past the number of acknowledged records that are kept the oldest go before their time', async () => {
  const { outbox, clock, data_dir } = open({ acknowledged_records_max: 2 })
  for (const lease of ['a', 'b', 'c']) {
    await opened(outbox, lease)
    await outbox.record(failed(lease))
    await outbox.acknowledge([lease])
    clock.ms += 1
    if (lease === 'b') clock.ms += LEASE_MEMORY_MS
    outbox.prune()
    await outbox.acknowledge([])
    expect(rowsOnDisk(data_dir, 'records')).toBe(lease === 'a' ? 1 : 2)
  }
  expect(outbox.openLease(ticket('a')).status).toBe('opened')
  expect(outbox.openLease(ticket('b')).status).toBe('used')
})

test('at the bound of unacknowledged records no lease is opened, one below it is', async () => {
  const { outbox } = open({ unacknowledged_records_max: 2 })
  await opened(outbox, 'a')
  await outbox.record(failed('a'))
  await opened(outbox, 'b')
  expect(outbox.openLease(ticket('c')).status).toBe('full')
  await outbox.acknowledge(['a'])
  expect(outbox.openLease(ticket('c')).status).toBe('opened')
})

test('a data directory in use, a damaged file and an unusable place are told apart', async () => {
  const { data_dir, outbox } = open()
  const options = { wall_ms: () => 0, report: () => {}, fatal: () => {} }
  const second = openOutbox({ ...options, data_dir })
  expect(second).toMatchObject({ status: 'locked', message: expect.stringContaining('--data-dir') })
  outbox.close()
  expect(openOutbox({ ...options, data_dir }).status === 'open').toBe(true)
  const damaged = temporaryFolder()
  writeFileSync(join(damaged, OUTBOX_FILE), 'this is no database, but it is long enough to look like one'.repeat(100))
  expect(openOutbox({ ...options, data_dir: damaged })).toMatchObject({ status: 'corrupt' })
  const file = join(temporaryFolder(), 'file')
  writeFileSync(file, '')
  expect(openOutbox({ ...options, data_dir: file })).toMatchObject({ status: 'unusable' })
})

test('property: for all interleavings before a crash, records on disk equal the ledger on disk', async () => {
  const step = fc.record({ lease: fc.nat(3), act: fc.constantFrom('row', 'row', 'row', 'end'), wall_us: fc.nat(999) })
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const first = open()
      const sums = new Map<string, number>()
      const ended = new Set<string>()
      for (const [n, { lease: index, act, wall_us }] of steps.entries()) {
        const lease = `lease-${index}`
        if (ended.has(lease)) continue
        if (!sums.has(lease)) await opened(first.outbox, lease)
        const sum = sums.get(lease) ?? 0
        sums.set(lease, sum)
        if (act === 'end') {
          ended.add(lease)
          await first.outbox.record(failed(lease, sum))
        } else {
          sums.set(lease, sum + wall_us)
          first.outbox.ledger([row(lease, n, wall_us)])
        }
      }
      first.outbox.close()
      const second = open({ data_dir: first.data_dir })
      const records = second.outbox.unacknowledged(0, 100).map(({ record }) => record)
      expect(new Map(records.map((record) => [record.lease, record.service_wall_us]))).toEqual(sums)
      expect(records.filter((record) => record.error_code === 'agent_restarted')).toHaveLength(sums.size - ended.size)
      second.outbox.close()
    }),
    { numRuns: 20 },
  )
})

test('what is known of classes is kept, the latest of each, up to a bound', async () => {
  const { outbox, data_dir } = open()
  const known = (name: string, ends: number): ClassData => ({
    tenant: 'a',
    class: name,
    sketch: { ...new ClassSketch().data(), ends },
  })
  outbox.keepClasses(Array.from({ length: KNOWN_CLASSES_MAX }, (_, at) => known(`${at}`, 1)))
  outbox.keepClasses([known('0', 2), known('one more', 1)])
  await opened(outbox, 'commits')
  const kept = outbox.keptClasses()
  expect(kept).toHaveLength(KNOWN_CLASSES_MAX)
  expect(kept[0]).toEqual(known('2', 1))
  expect(kept.slice(-2)).toEqual([known('0', 2), known('one more', 1)])
  outbox.close()

  const db = new Database(join(data_dir, OUTBOX_FILE))
  db.prepare(`update classes set sketch = '{"ends":-1}' where class = '5'`).run()
  db.close()
  const { outbox: again } = open({ data_dir })
  expect(again.keptClasses()).toEqual(kept.filter(({ class: name }) => name !== '5'))
})
