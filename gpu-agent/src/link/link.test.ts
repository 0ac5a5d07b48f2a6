import { expect, onTestFinished, test } from 'vitest'
import { CLOSE, FRAME_BYTES_MAX, type Handle, type Hello, type Status } from '../../../src/protocol/index.ts'
import { type ControlPlaneStandIn, TOKEN } from '../testing/control-plane-stand-in.ts'
import { startControlPlane, until } from '../testing/harness.ts'
import { Link, type LinkOptions, type LinkTimes } from './link.ts'

const WAITING = { waits: true, waited_us: 5, before: 1, order: 'in order of arrival' }
const FAST: Partial<LinkTimes> = {
  status_ms: 10,
  load_ms: 1,
  status_min_ms: 1,
  backoff: { min_ms: 2, max_ms: 4 },
  refused_backoff: { min_ms: 2, max_ms: 4 },
}

interface Seen {
  link: Link
  lost: string[]
  drained: (readonly string[])[]
  undrained: (readonly string[])[]
  dismissed: { count: number }
  cancelled: (readonly string[])[]
  handled: Handle[]
  ignored: { count: number }
  epoch: { value: string }
}

function startLink(control: ControlPlaneStandIn, options: Partial<LinkOptions> = {}): Seen {
  const lost: string[] = []
  const drained: (readonly string[])[] = []
  const undrained: (readonly string[])[] = []
  const dismissed = { count: 0 }
  const cancelled: (readonly string[])[] = []
  const handled: Handle[] = []
  const ignored = { count: 0 }
  const epoch = { value: 'epoch-1' }
  const engine = (): Hello['engines'][number] => ({
    id: 'a-e0',
    epoch: epoch.value,
    kind: 'emulated',
    model: 'test-model',
    seats: 1,
    kv_capacity_tokens: 1,
    context_tokens_max: 1,
    prefill_tokens_per_s: null,
    speed_factor: 1,
  })
  const status = (): Status['engines'][number] => ({
    id: 'a-e0',
    epoch: epoch.value,
    state: 'ready',
    waiting: 0,
    running: 0,
    queued_tokens: 0,
    kv_used_tokens: 0,
    leases_seen: [],
    bytes_per_token: null,
  })
  const link = new Link({
    control_url: control.url,
    region: 'here & there',
    model: 'test-model',
    token: TOKEN,
    hello: () => ({
      type: 'hello',
      protocol: { min: 2, max: 2 },
      agent: 'a',
      region: 'here & there',
      model: 'test-model',
      url: 'http://127.0.0.1:1',
      engines: [engine()],
      now_ms: 1,
    }),
    statuses: () => [status()],
    onWelcome: async () => ({ ok: true }),
    onClock: () => undefined,
    wall_ms: () => 5,
    onDrain: (engines) => drained.push(engines),
    onUndrain: (engines) => undrained.push(engines),
    onDismissed: () => {
      dismissed.count += 1
    },
    onCancel: (leases) => cancelled.push(leases),
    onClasses: () => undefined,
    onHandle: (handle) => handled.push(handle),
    onReplay: ({ program }) => ({ status: 'replayed', calls: [{ status: 'unknown', id: program, reason: 'open' }] }),
    onPositions: async (leases) => leases.map((lease) => ({ lease, ...WAITING })),
    isOpen: (lease) => lease.startsWith('open'),
    onIgnored: () => {
      ignored.count += 1
    },
    onLinked: () => {},
    onLost: (reason) => lost.push(reason),
    onRefused: () => {},
    random: () => 0,
    ...options,
    times: { ...FAST, ...options.times },
  })
  onTestFinished(() => link.stop())
  link.start()
  return { link, lost, drained, undrained, dismissed, cancelled, handled, ignored, epoch }
}

test('says hello first, then statuses without being asked, numbered without gaps', async () => {
  const control = await startControlPlane()
  const { link } = startLink(control)
  await control.until(() => control.statuses.length >= 4)
  expect(link.linked).toBe(true)
  expect(control.hellos).toHaveLength(1)
  expect(new URLSearchParams(control.link_urls[0]?.split('?')[1]).get('region')).toBe('here & there')
  expect(control.statuses.slice(0, 4).map(({ seq }) => seq)).toEqual([1, 2, 3, 4])
})

test('a change is told at once, but a thousand changes are one status', async () => {
  const control = await startControlPlane()
  const { link } = startLink(control, { times: { status_ms: 60_000, load_ms: 5 } })
  await control.until(() => control.statuses.length === 1)
  for (let n = 0; n < 1000; n += 1) link.changed('load')
  await control.until(() => control.statuses.length === 2)
  link.changed('load')
  await control.until(() => control.statuses.length === 3)
  expect(control.statuses.map(({ seq }) => seq)).toEqual([1, 2, 3])
})

test('a changed load waits its turn, and a changed state takes the waiting load along at once', async () => {
  const control = await startControlPlane()
  const { link } = startLink(control, { times: { status_ms: 60_000, load_ms: 60_000, status_min_ms: 1 } })
  await control.until(() => control.statuses.length === 1)
  link.changed('load')
  control.down({ type: 'ask', id: 1, leases: ['open-1'] })
  await control.until(() => control.opens.length === 1)
  expect(control.statuses).toHaveLength(1)
  link.changed('state')
  link.changed('load')
  await control.until(() => control.statuses.length === 2)
  control.down({ type: 'ask', id: 2, leases: ['open-2'] })
  await control.until(() => control.opens.length === 2)
  expect(control.statuses).toHaveLength(2)
})

test('comes back after the control plane was away, with a hello and numbers of its own', async () => {
  const control = await startControlPlane()
  const { link, lost } = startLink(control)
  for (let round = 1; round <= 3; round += 1) {
    await control.until(() => control.hellos.length === round && control.statuses.length > 0)
    control.statuses.length = 0
    control.sockets.at(-1)?.terminate()
    await until(() => lost.length === round)
  }
  await control.until(() => control.statuses.length > 0)
  expect(control.statuses[0]?.seq).toBe(1)
  await until(() => link.linked)
})

test('a changed engine is described again on the same link', async () => {
  const control = await startControlPlane()
  const { link, epoch } = startLink(control)
  await control.until(() => control.statuses.length > 0)
  epoch.value = 'epoch-2'
  link.describeAgain()
  await control.until(() => control.hellos.length === 2)
  expect(control.hellos[1]?.engines[0]?.epoch).toBe('epoch-2')
  expect(control.sockets).toHaveLength(1)
})

test('drain, undrain and cancel reach the agent; messages that it does not know are counted and harmless', async () => {
  const control = await startControlPlane()
  const { drained, undrained, cancelled, ignored, link } = startLink(control)
  await control.until(() => control.statuses.length > 0)
  control.down({ type: 'classes', sketches: [] })
  control.down({ type: 'cancel', leases: 'not a list' })
  control.down({ type: 'drain', engines: ['a-e0'] })
  control.down({ type: 'undrain', engines: [] })
  control.down({ type: 'cancel', leases: ['l1', 'l2'] })
  await until(() => cancelled.length === 1)
  expect(drained).toEqual([['a-e0']])
  expect(undrained).toEqual([[]])
  expect(cancelled).toEqual([['l1', 'l2']])
  expect(ignored.count).toBe(2)
  expect(link.linked).toBe(true)
})

test('says which of the leases that the pool asks for are open', async () => {
  const control = await startControlPlane()
  startLink(control)
  await control.until(() => control.statuses.length > 0)
  control.down({ type: 'ask', id: 7, leases: ['open-1', 'gone', 'open-2'] })
  await control.until(() => control.opens.length > 0)
  expect(control.opens).toEqual([{ type: 'open', id: 7, leases: ['open-1', 'open-2'] }])
})

test('answers what a program’s calls would have waited under first come, first served', async () => {
  const control = await startControlPlane()
  startLink(control)
  await control.until(() => control.statuses.length > 0)
  control.down({ type: 'replay', id: 3, engine: 'a-e0', tenant: 't', program: 'p', run: 'r' })
  await control.until(() => control.replays.length > 0)
  const calls = [{ status: 'unknown', id: 'p', reason: 'open' }]
  expect(control.replays).toEqual([{ type: 'replayed', id: 3, replay: { status: 'replayed', calls } }])
})

test('frames that are no JSON, binary or over the limit end the link, and it comes back', async () => {
  const control = await startControlPlane()
  const { lost, ignored } = startLink(control)
  const frames: [string | Buffer, RegExp][] = [
    ['{', /not JSON/],
    [Buffer.from('{}'), /not JSON/],
    [JSON.stringify({ type: 'x'.repeat(FRAME_BYTES_MAX) }), /max payload/i],
  ]
  for (const [n, [frame, reason]] of frames.entries()) {
    await control.until(() => control.hellos.length === n + 1)
    control.sockets.at(-1)?.send(frame)
    await until(() => lost.length === n + 1)
    expect(lost[n]).toMatch(reason)
  }
  await control.until(() => control.hellos.length === frames.length + 1)
  const fits = JSON.stringify({ type: '' })
  control.sockets.at(-1)?.send(JSON.stringify({ type: 'x'.repeat(FRAME_BYTES_MAX - fits.length) }))
  await until(() => ignored.count === 1)
  expect(lost).toHaveLength(frames.length)
})

test('a link that is refused, closed for good or never welcomed is tried again', async () => {
  const control = await startControlPlane()
  control.refuse_link = 401
  const { lost, link } = startLink(control, { times: { welcome_ms: 5 } })
  await until(() => lost.length >= 2)
  expect(lost[0]).toBe('status 401')
  control.refuse_link = null
  control.welcome = null
  await until(() => lost.at(-1) === 'no welcome')
  control.welcome = async () => {
    control.sockets.at(-1)?.close(CLOSE.replaced, 'another link')
    return control.makeWelcome()
  }
  await until(() => lost.at(-1) === `closed with ${CLOSE.replaced} another link`)
  control.welcome = () => control.makeWelcome()
  await until(() => link.linked)
})

test("the API's reason is told, and that it is lasting once it was given three times in a row", async () => {
  const control = await startControlPlane()
  control.refuse_link = 403
  control.refusal_body = JSON.stringify({ error: { message: 'The agent "a" was removed.', code: 'agent_removed' } })
  const refused: string[] = []
  const { lost, link } = startLink(control, {
    onRefused: (reason) => {
      refused.push(reason)
      control.refuse_link = null
    },
  })
  await until(() => refused.length > 0)
  const reason = 'status 403 agent_removed: The agent "a" was removed.'
  expect(lost).toEqual([reason, reason, reason])
  expect(refused).toEqual([reason])
  await until(() => link.linked)
  expect(link.refused).toBe(false)
})

test.each([
  ['a page of a proxy', 404, '<html>'],
  ['an endless one', 404, 'x'.repeat(100_000)],
  ['an error that passes', 503, JSON.stringify({ error: { message: 'busy', code: 'overloaded' } })],
])('%s is no lasting refusal', async (_, status, body) => {
  const control = await startControlPlane()
  control.refuse_link = status
  control.refusal_body = body
  const { lost, link } = startLink(control)
  await until(() => lost.length >= 5)
  expect(lost[0]).toMatch(new RegExp(`^status ${status}`))
  expect(link.refused).toBe(false)
})

test('a welcome that cannot be used ends the link', async () => {
  const control = await startControlPlane()
  const { lost } = startLink(control, { onWelcome: async () => ({ ok: false, message: 'a short key' }) })
  await until(() => lost.length > 0)
  expect(lost[0]).toBe('a short key')
})

test('a pool that has gone silent is given up; one that only answers pings is not', async () => {
  const control = await startControlPlane()
  const { lost } = startLink(control, { times: { silent_ms: 600 } })
  await control.until(() => control.statuses.length > 5)
  expect(lost).toEqual([])
  const socket = control.sockets.at(-1)
  // A socket that reads nothing sends no pong.
  socket?.pause()
  await until(() => lost.length > 0)
  expect(lost[0]).toBe('silent')
})

test('answers where leases are in their engines’ orders', async () => {
  const control = await startControlPlane()
  startLink(control)
  await control.until(() => control.statuses.length > 0)
  control.down({ type: 'positions', id: 4, leases: ['l'] })
  await control.until(() => control.positions.length > 0)
  expect(control.positions).toEqual([{ type: 'positions', id: 4, positions: [{ lease: 'l', ...WAITING }] }])
})
