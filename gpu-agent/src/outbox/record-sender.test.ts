import { expect, onTestFinished, test } from 'vitest'
import { type CallRecord, RECORDS_PER_BATCH_MAX } from '../../../src/protocol/index.ts'
import { ERRORS } from '../data-plane/stream-errors.ts'
import type { AgentEvent } from '../events.ts'
import { type ControlPlaneStandIn, claimsOf, TOKEN } from '../testing/control-plane-stand-in.ts'
import { startControlPlane } from '../testing/harness.ts'
import type { StoredRecord } from './outbox.ts'
import { endWithoutService, recordOf } from './record.ts'
import { ACK_BYTES_MAX, BATCHES_IN_FLIGHT_MAX, RecordSender, type RecordSenderOptions } from './record-sender.ts'

const FAST = { min_ms: 2, max_ms: 4 }

/** The two methods of the outbox that the sender uses, over an array. */
class Stored {
  records: StoredRecord[] = []
  acknowledged: string[] = []
  #seq = 0

  add(count: number, program?: string): string[] {
    const of = program === undefined ? {} : { program }
    const added: CallRecord[] = Array.from({ length: count }, () =>
      recordOf({ ...claimsOf(), ...of, v: 2, iat: 0, exp: 0 }, endWithoutService('failed', ERRORS.engine_failed), 0),
    )
    for (const record of added) {
      this.#seq += 1
      this.records.push({ seq: this.#seq, record })
    }
    return added.map(({ lease }) => lease)
  }

  unacknowledged(after: number, limit: number): StoredRecord[] {
    return this.records.filter(({ seq }) => seq > after).slice(0, limit)
  }

  async acknowledge(leases: readonly string[]): Promise<void> {
    this.acknowledged.push(...leases)
    this.records = this.records.filter(({ record }) => !leases.includes(record.lease))
  }
}

function startSender(control: ControlPlaneStandIn, options: Partial<RecordSenderOptions> = {}) {
  const stored = new Stored()
  const events: AgentEvent[] = []
  const sender = new RecordSender({
    control_url: control.url,
    agent: 'a',
    token: TOKEN,
    outbox: stored,
    metrics: { batchSent: () => {} },
    report: (event) => events.push(event),
    random: () => 0,
    coalesce_ms: 1,
    pace_ms: 1,
    backoff: FAST,
    refused_backoff: FAST,
    ...options,
  })
  onTestFinished(() => sender.stop())
  return { stored, events, sender }
}

async function empty(stored: Stored): Promise<void> {
  while (stored.records.length > 0) await new Promise((resolve) => setTimeout(resolve, 2))
}

const all = (leases: readonly { lease: string }[]) => ({
  status: 200,
  body: { acknowledged: leases.map(({ lease }) => lease) },
})

test('what lies in the outbox at the start is sent in order, in batches at the limit', async () => {
  const control = await startControlPlane()
  const { stored, sender } = startSender(control)
  const leases = stored.add(RECORDS_PER_BATCH_MAX + 1)
  sender.start()
  await empty(stored)
  expect(control.batches.map((batch) => batch.length)).toEqual([RECORDS_PER_BATCH_MAX, 1])
  expect(control.records.map(({ lease }) => lease)).toEqual(leases)
})

test('a record is sent when it is committed, without waiting for anything else', async () => {
  const control = await startControlPlane()
  const { stored, sender } = startSender(control)
  sender.start()
  for (let n = 0; n < 3; n += 1) {
    stored.add(1)
    sender.notify()
    await empty(stored)
  }
  expect(control.batches.map((batch) => batch.length)).toEqual([1, 1, 1])
})

test('records that come soon after a batch share the next one', async () => {
  const control = await startControlPlane()
  const { stored, sender } = startSender(control, { pace_ms: 400 })
  sender.start()
  stored.add(1)
  sender.notify()
  await empty(stored)
  for (let n = 0; n < 5; n += 1) {
    stored.add(1)
    sender.notify()
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  await empty(stored)
  expect(control.batches.map((batch) => batch.length)).toEqual([1, 5])
})

test(`at most ${BATCHES_IN_FLIGHT_MAX} batches are on their way, and none has a program of another`, async () => {
  const control = await startControlPlane()
  const { stored, sender } = startSender(control)
  const open = new Map<string, () => void>()
  control.answer = async ({ records }) => {
    const program = records[0]?.program as string
    expect(records.every((record) => record.program === program)).toBe(true)
    expect(open.has(program)).toBe(false)
    await new Promise<void>((resolve) => open.set(program, resolve))
    open.delete(program)
    return all(records)
  }
  const programs = Array.from({ length: BATCHES_IN_FLIGHT_MAX + 1 }, (_, n) => `p${n}`)
  sender.start()
  const until = async (reached: () => boolean) => {
    while (!reached()) await new Promise((resolve) => setTimeout(resolve, 2))
  }
  for (const [n, program] of programs.slice(0, BATCHES_IN_FLIGHT_MAX).entries()) {
    stored.add(1, program)
    sender.notify()
    await until(() => open.size === n + 1)
  }
  // Its program has a record on its way; and so it waits, and so does what is behind it.
  stored.add(1, 'p0')
  stored.add(1, 'p4')
  sender.notify()
  open.get('p1')?.()
  await until(() => stored.acknowledged.length === 1)
  await new Promise((resolve) => setTimeout(resolve, 20))
  expect([...open.keys()]).toEqual(['p0', 'p2', 'p3'])
  control.answer = ({ records }) => all(records)
  for (const answer of open.values()) answer()
  await empty(stored)
  expect(new Set(stored.acknowledged).size).toBe(stored.acknowledged.length)
})

test('a batch that fails while others are on their way comes again, and no record is lost or counted twice', async () => {
  const control = await startControlPlane()
  const { stored, sender } = startSender(control)
  let sent = 0
  control.answer = async ({ records }) => {
    sent += 1
    const fails = sent % 3 === 1
    await new Promise((resolve) => setTimeout(resolve, fails ? 5 : 1))
    return fails ? { status: 500, body: {} } : all(records)
  }
  const leases: string[] = []
  sender.start()
  for (let n = 0; n < 60; n += 1) {
    leases.push(...stored.add(1, `p${n % 20}`))
    sender.notify()
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  await empty(stored)
  expect(stored.acknowledged.toSorted()).toEqual(leases.toSorted())
})

test('a control plane that fails, hangs up, answers nonsense or half: every record is acknowledged in the end', async () => {
  const control = await startControlPlane()
  const { stored, events, sender } = startSender(control)
  const answers = [
    () => ({ status: 500, body: {} }),
    () => ({ status: 429, body: {} }),
    () => ({ status: 200, body: 'nonsense' }),
    () => ({ status: 200, body: { acknowledged: ['another-lease'] } }),
    // Valid, were it not for its length.
    (leases: readonly CallRecord[]) => ({ status: 200, body: { ...all(leases).body, pad: 'x'.repeat(ACK_BYTES_MAX) } }),
    (leases: readonly CallRecord[]) => all(leases.filter((_, n) => n % 2 === 1).toReversed()),
    (leases: readonly CallRecord[]) => all([...leases, ...leases].slice(0, RECORDS_PER_BATCH_MAX)),
  ]
  control.answer = ({ records }) => (answers.shift() ?? all)(records)
  const leases = stored.add(5)
  sender.start()
  await empty(stored)
  expect(answers).toEqual([])
  expect(stored.acknowledged).toHaveLength(leases.length)
  expect([...stored.acknowledged].sort()).toEqual([...leases].sort())
  expect(events).toContainEqual(expect.objectContaining({ event: 'records_delayed', reason: 'status 500' }))
})

test('a record of a lease that was never granted is reported and not sent again', async () => {
  const control = await startControlPlane()
  const { stored, events, sender } = startSender(control)
  const [forged] = stored.add(3)
  control.answer = ({ records }) => {
    const leases = records.map(({ lease }) => lease)
    return { status: 200, body: { acknowledged: leases.filter((lease) => lease !== forged), refused: [forged] } }
  }
  sender.start()
  await empty(stored)
  expect(control.batches).toHaveLength(1)
  expect(events).toContainEqual({ event: 'record_unproven', lease: forged })
})

test('a record whose program does not answer is passed by those behind it and comes again', async () => {
  const control = await startControlPlane()
  const { stored, sender } = startSender(control)
  const [stuck] = stored.add(1)
  let stuck_seen = 0
  control.answer = ({ records }) => {
    if (records.some(({ lease }) => lease === stuck)) stuck_seen += 1
    return all(records.filter(({ lease }) => lease !== stuck || stored.acknowledged.length === 20))
  }
  sender.start()
  for (let n = 0; n < 20; n += 1) {
    stored.add(1)
    sender.notify()
    while (stored.records.length > 1) await new Promise((resolve) => setTimeout(resolve, 2))
  }
  await empty(stored)
  expect(stored.acknowledged.at(-1)).toBe(stuck)
  expect(stuck_seen).toBeGreaterThan(1)
})

test('one record that the control plane cannot read does not hold up the others and is not dropped', async () => {
  const control = await startControlPlane()
  const { stored, events, sender } = startSender(control)
  const leases = stored.add(9)
  const bad = leases[4]
  control.answer = ({ records }) =>
    records.some(({ lease }) => lease === bad) ? { status: 400, body: {} } : all(records)
  sender.start()
  while (stored.acknowledged.length < 8) await new Promise((resolve) => setTimeout(resolve, 2))
  expect(stored.records.map(({ record }) => record.lease)).toEqual([bad])
  while (!events.some(({ event }) => event === 'record_rejected'))
    await new Promise((resolve) => setTimeout(resolve, 2))
  expect(events).toContainEqual({ event: 'record_rejected', lease: bad, status: 400 })
  control.answer = ({ records }) => all(records)
  await empty(stored)
})

test.each([
  ['fails', async () => ({ status: 500, body: {} })],
  ['hangs', async () => new Promise<never>(() => undefined)],
])('one record at which the control plane %s does not hold up the others and is not dropped', async (_, fault) => {
  const control = await startControlPlane()
  const { stored, sender } = startSender(control, { send_timeout_ms: 300 })
  const leases = stored.add(9)
  const bad = leases[4]
  control.answer = async ({ records }) => (records.some(({ lease }) => lease === bad) ? fault() : all(records))
  sender.start()
  while (stored.acknowledged.length < 8) await new Promise((resolve) => setTimeout(resolve, 2))
  expect(stored.records.map(({ record }) => record.lease)).toEqual([bad])
  control.answer = ({ records }) => all(records)
  await empty(stored)
})

test('an agent that is refused says so, keeps its records and goes on when it is let in', async () => {
  const control = await startControlPlane()
  const { stored, events, sender } = startSender(control)
  stored.add(2)
  control.answer = () => ({ status: 401, body: { error: 'revoked' } })
  sender.start()
  while (events.length < 2) await new Promise((resolve) => setTimeout(resolve, 2))
  expect(events[0]).toMatchObject({ event: 'records_refused', status: 401, message: '{"error":"revoked"}' })
  expect(JSON.stringify(events)).not.toContain(TOKEN)
  expect(stored.records).toHaveLength(2)
  control.answer = ({ records }) => all(records)
  await empty(stored)
})

test('a control plane that is not there is waited for, and stopping does not wait for it', async () => {
  const control = await startControlPlane()
  const gone = await startControlPlane()
  const { port } = new URL(gone.url)
  await gone.stop()
  const { stored, events, sender } = startSender(control, { control_url: `http://127.0.0.1:${port}` })
  stored.add(1)
  sender.start()
  while (events.length === 0) await new Promise((resolve) => setTimeout(resolve, 2))
  expect(events[0]).toMatchObject({ event: 'records_delayed' })
  await sender.stop()
  expect(stored.records).toHaveLength(1)
})
