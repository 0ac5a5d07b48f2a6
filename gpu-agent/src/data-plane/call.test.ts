import { expect, test } from 'vitest'
import type { CallRecord, StreamError } from '../../../src/protocol/index.ts'
import type { AgentEvent } from '../events.ts'
import { ServedEngine } from '../served-engine.ts'
import { claimsOf } from '../testing/control-plane-stand-in.ts'
import { type ScriptedCall, ScriptedFront } from '../testing/scripted-front.ts'
import { Call, type CallContext } from './call.ts'
import { AgentMetrics } from './metrics.ts'
import { ERRORS } from './stream-errors.ts'

/** A call whose disk commits when the test says so; `log` has what happened, in order. */
function openCall(forecasts: CallContext['forecasts'] = null, claims: { offline?: true } = {}) {
  const log: string[] = []
  const records: CallRecord[] = []
  const events: AgentEvent[] = []
  const commits: (() => void)[] = []
  const front = new ScriptedFront('a-e0', { ledger() {}, status() {}, epoch() {} })
  let served: ScriptedCall | null = null
  front.onCall = (call) => {
    served = call
    log.push('served')
  }
  const engine = new ServedEngine('a-e0', front)
  const call = new Call({ ...claimsOf(), ...claims, v: 2, iat: 0, exp: 0 }, engine, {
    outbox: {
      openLease: () => ({ status: 'used' }),
      promptTokens: () => log.push('prompt tokens'),
      record: (record) => {
        records.push(record)
        return new Promise((resolve) => commits.push(resolve))
      },
    },
    metrics: new AgentMetrics({
      classes: () => ({ known: 0, ends: 0 }),
      open_calls: () => 0,
      outbox_depth: () => 0,
      links: () => [],
      engines: () => [],
      spans_dropped: () => 0,
    }),
    spans: null,
    report: (event) => events.push(event),
    wall_ms: () => 77,
    clock: () => 0,
    disk_wait_ms: 50,
    recorded: () => log.push('recorded'),
    forecasts,
  })
  const stream = {
    accepted: () => void log.push('accepted'),
    chunk: () => log.push('chunk') > 0,
    finish: () => void log.push('finish'),
    refuse: (error: StreamError) => void log.push(`refuse ${error.error.code}`),
  }
  const start = (body: object = {}): ScriptedCall => {
    call.start('chat', body, stream)
    if (served === null) throw new Error('not served')
    return served
  }
  const commit = async (): Promise<void> => {
    for (const resolve of commits) resolve()
    await call.settled
  }
  return { call, stream, start, commit, log, records, events, front, engine }
}

test('an offline call is told with its choices from its start to its end, also when it is refused', () => {
  for (const end of ['end', 'refuse'] as const) {
    const { start, engine, front } = openCall(null, { offline: true })
    front.preempts_offline = true
    const call = start({ n: 3 })
    expect(engine.takeStatus(1)).toMatchObject({ offline: 3 })
    if (end === 'end') call.accept().end()
    else call.sink.refused(ERRORS.engine_failed)
    expect(engine.takeStatus(1).offline).toBeUndefined()
  }
})

test('the client sees the end only when the record is on disk', async () => {
  const { start, commit, log, records } = openCall()
  start().accept().step().chunk({}).end()
  await new Promise((resolve) => setImmediate(resolve))
  expect(records).toHaveLength(1)
  expect(log).toEqual(['served', 'prompt tokens', 'accepted', 'chunk'])
  await commit()
  expect(log.slice(4)).toEqual(['recorded', 'finish'])
  expect(records[0]).toMatchObject({ outcome: 'completed', error_code: null, ended_at_ms: 77, service_wall_us: 1000 })
})

const NAMED = { choices: [{ index: 0, delta: { tool_calls: [{ index: 0, function: { name: 'search' } }] } }] }

test('the record of a completed call says which tools its answer asked for, and how long they are expected to take', async () => {
  const forecast = { output_tokens: 9, ends: 0.1, tool: null, confidence: 0.5 }
  const { start, commit, records } = openCall({ of: () => forecast, toolUs: (_, names) => 1000 * names.length })
  const served = start()
  expect(served.call.forecast).toEqual(forecast)
  served.accept().step().chunk(NAMED).end()
  await commit()
  expect(records[0]).toMatchObject({ tools: ['search'], expected_tool_us: 1000 })
})

test('without forecasts it says which tools, and of a call that did not complete it says nothing', async () => {
  const told = openCall()
  const served = told.start()
  expect(served.call).not.toHaveProperty('forecast')
  served.accept().step().chunk({}).end()
  await told.commit()
  expect(told.records[0]).toMatchObject({ tools: [] })
  expect(told.records[0]).not.toHaveProperty('expected_tool_us')
  const cut = openCall()
  cut.start().accept().step().chunk(NAMED).end({ outcome: 'cancelled' })
  await cut.commit()
  expect(cut.records[0]).not.toHaveProperty('tools')
})

test('a client does not wait for a disk that takes nothing: its call fails, and the record is written later', async () => {
  const { start, commit, log, call, records } = openCall()
  start().accept().step().chunk({}).end()
  await call.settled
  expect(log.slice(4)).toEqual(['refuse agent_disk_full'])
  await commit()
  expect(log.slice(5)).toEqual(['recorded'])
  expect(records).toHaveLength(1)
})

test('a call whose client left before it was queued never reaches its engine', async () => {
  const { call, stream, commit, log, records, front } = openCall()
  call.cancel(ERRORS.client_gone)
  call.start('chat', {}, stream)
  await commit()
  expect(front.calls.size).toBe(0)
  expect(log).not.toContain('served')
  expect(records).toEqual([expect.objectContaining({ outcome: 'cancelled', error_code: 'client_gone' })])
})

test('a call that lost its engine before it was queued failed, and was not cancelled by anybody', async () => {
  const { call, stream, commit, records } = openCall()
  call.cancel(ERRORS.agent_draining)
  call.start('chat', {}, stream)
  await commit()
  expect(records).toEqual([expect.objectContaining({ outcome: 'failed', error_code: 'agent_draining' })])
})

test('only the first cancel counts, and none after the end', async () => {
  const { call, start, commit, records, front } = openCall()
  front.ends_cancelled = false
  const served = start().accept()
  call.cancel(ERRORS.program_ended)
  call.cancel(ERRORS.client_gone)
  expect(served.cancelled).toEqual(ERRORS.program_ended)
  served.end({ outcome: 'cancelled' })
  call.cancel(ERRORS.client_gone)
  await commit()
  expect(records).toEqual([expect.objectContaining({ outcome: 'cancelled', error_code: 'program_ended' })])
})

test('a call that completes while it is being cancelled has completed', async () => {
  const { call, start, commit, records, front } = openCall()
  front.ends_cancelled = false
  const served = start().accept()
  call.cancel(ERRORS.client_gone)
  served.end()
  await commit()
  expect(records).toEqual([expect.objectContaining({ outcome: 'completed', error_code: null })])
})

test('what a front says after the end is reported and changes nothing', async () => {
  const { start, commit, records, events, log } = openCall()
  const { sink } = start().accept()
  sink.refused(ERRORS.engine_failed)
  sink.chunk({})
  sink.accepted(1)
  sink.refused(ERRORS.engine_failed)
  await commit()
  expect(records).toHaveLength(1)
  expect(log).not.toContain('chunk')
  expect(events.map((event) => event.event === 'front_misbehaved' && event.what)).toEqual([
    'chunk after the end',
    'accepted after the end',
    'refused after the end',
  ])
})

test('an error code longer than a record takes is cut to its bound', async () => {
  const { start, commit, records } = openCall()
  const code = 'x'.repeat(65)
  const error = { ...ERRORS.engine_failed, error: { ...ERRORS.engine_failed.error, code } }
  start().end({ outcome: 'failed', error })
  await commit()
  expect(records[0]?.error_code).toBe('x'.repeat(64))
})
