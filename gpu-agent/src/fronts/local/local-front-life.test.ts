/** What ends before its answer does: a call that is cancelled, an engine that breaks, is drained, or does not start. */
import { beforeEach, expect, test } from 'vitest'
import { dispatched, user } from '../testing/dispatched.ts'
import { RecordingSink } from '../testing/recording-sink.ts'
import { resetScript, script, seen, startFront } from './testing/scripted-front.ts'

beforeEach(resetScript)

test('cancel ends a call as cancelled, with the reason, and others go on', async () => {
  script.answer = 'x'.repeat(60)
  const front = await startFront()
  const { epoch } = front.describe()
  const [first, second] = [new RecordingSink(), new RecordingSink()]
  const call = dispatched(epoch, { messages: user('Hi') })
  const reason = {
    error: { message: 'left', type: 't', param: null, code: 'client_gone' },
    status: 499,
    retryable: false,
  }
  first.onChunk = () => front.cancel(call.claims.lease, reason)
  front.serve(call, first)
  front.serve(dispatched(epoch, { messages: user('Hi') }), second)
  front.cancel('unknown', null)
  await Promise.all([first.over, second.over])
  expect(first.end).toMatchObject({ outcome: 'cancelled', finish_reason: null, error: reason, last_chunks: [] })
  expect(second.end).toMatchObject({ outcome: 'completed' })
  await front.stop()
})

test('a backend that breaks fails open calls and is replaced under another epoch', async () => {
  const front = await startFront()
  const { epoch } = front.describe()
  script.breaks = true
  script.failing_starts = 2
  const sinks = [new RecordingSink(), new RecordingSink()]
  for (const sink of sinks) front.serve(dispatched(epoch, { messages: user('Hi') }), sink)
  await Promise.all(sinks.map((sink) => sink.over))
  for (const { end } of sinks) {
    expect(end).toMatchObject({ outcome: 'failed', error: { retryable: true, error: { code: 'engine_failed' } } })
  }
  await expect.poll(() => front.status().state).toBe('down')
  const down = new RecordingSink()
  front.serve(dispatched(epoch, { messages: user('Hi') }), down)
  expect(down.error).toMatchObject({ status: 503, retryable: true, error: { code: 'engine_down' } })

  script.breaks = false
  await expect.poll(() => seen.epochs.length).toBe(1)
  expect(seen.starts).toBe(4)
  expect(front.describe().epoch).toBe(seen.epochs[0])
  expect(seen.epochs[0]).not.toBe(epoch)
  expect(front.status().state).toBe('ready')
  const stale = new RecordingSink()
  front.serve(dispatched(epoch, { messages: user('Hi') }), stale)
  expect(stale.error).toMatchObject({ retryable: true, error: { code: 'epoch_gone' } })
  const again = new RecordingSink()
  front.serve(dispatched(front.describe().epoch, { messages: user('Hi') }), again)
  await again.over
  expect(again.text).toBe('Hello')
  await front.stop()
})

test('drain refuses further calls and waits for those under way', async () => {
  const front = await startFront()
  const { epoch } = front.describe()
  const open = new RecordingSink()
  front.serve(dispatched(epoch, { messages: user('Hi') }), open)
  const drained = front.drain()
  const late = new RecordingSink()
  front.serve(dispatched(epoch, { messages: user('Hi') }), late)
  expect(late.error).toMatchObject({ status: 503, retryable: true, error: { code: 'draining' } })
  await drained
  expect(open.end).toMatchObject({ outcome: 'completed' })
  expect(front.status().state).toBe('draining')
  await front.stop()
})

test('a first engine that cannot be started rejects', async () => {
  script.failing_starts = 1
  await expect(startFront()).rejects.toThrow('no engine')
})
