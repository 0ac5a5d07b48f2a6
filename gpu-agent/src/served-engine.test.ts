import { expect, test } from 'vitest'
import { FRAME_BYTES_MAX, ID_CHARS_MAX, LEASES_SEEN_MAX, Status } from '../../src/protocol/index.ts'
import { LEASES_SEEN_PER_STATUS_MAX, ServedEngine, takeStatuses } from './served-engine.ts'
import { ScriptedFront } from './testing/scripted-front.ts'

function engineOf(id: string): ServedEngine {
  return new ServedEngine(id, new ScriptedFront(id, { ledger() {}, status() {}, epoch() {} }))
}

test('each lease is told once, over as many statuses as it takes', () => {
  const engines = [engineOf('e0'), engineOf('e1')]
  const told: string[] = []
  for (const engine of engines) {
    for (let n = 0; n < LEASES_SEEN_PER_STATUS_MAX; n += 1) engine.callBegan(`${engine.id}-${n}`, 0)
  }
  for (const expected of [LEASES_SEEN_PER_STATUS_MAX, LEASES_SEEN_PER_STATUS_MAX, 0]) {
    const leases = takeStatuses(engines).flatMap((status) => status.leases_seen)
    expect(leases).toHaveLength(expected)
    told.push(...leases)
  }
  expect(new Set(told).size).toBe(2 * LEASES_SEEN_PER_STATUS_MAX)
})

test('the fullest status that can be is valid and fits a frame', () => {
  const engine = engineOf('e0')
  for (let n = 0; n < LEASES_SEEN_PER_STATUS_MAX; n += 1) engine.callBegan(String(n).padStart(ID_CHARS_MAX, '0'), 0)
  const status = { type: 'status', seq: 1, engines: takeStatuses([engine]) }
  expect(Status.safeParse(status).success).toBe(true)
  expect(JSON.stringify(status).length).toBeLessThan(FRAME_BYTES_MAX)
})

test('what a pool does not take for long is bounded: the oldest leases are forgotten', () => {
  const engine = engineOf('e0')
  for (let n = 0; n <= LEASES_SEEN_MAX; n += 1) engine.callBegan(`l${n}`, 0)
  const { leases_seen } = engine.takeStatus(LEASES_SEEN_MAX + 1)
  expect(leases_seen).toHaveLength(LEASES_SEEN_MAX)
  expect(leases_seen[0]).toBe('l1')
})

test('offline calls are told apart while they are open, where online calls take their seats', () => {
  const front = new ScriptedFront('e0', { ledger() {}, status() {}, epoch() {} })
  const engine = new ServedEngine('e0', front)
  engine.callBegan('l0', 0)
  engine.callBegan('l1', 3)
  expect(engine.takeStatus(2).offline).toBeUndefined()
  front.preempts_offline = true
  expect(engine.takeStatus(2).offline).toBe(3)
  engine.callEnded(0)
  expect(engine.takeStatus(2).offline).toBe(3)
  engine.callEnded(3)
  expect(engine.takeStatus(2).offline).toBeUndefined()
})

test('a state is new until a status has told it', () => {
  const front = new ScriptedFront('e0', { ledger() {}, status() {}, epoch() {} })
  const engine = new ServedEngine('e0', front)
  const changes: readonly (() => void)[] = [
    () => undefined,
    () => engine.hold(true),
    () => engine.hold(false),
    () => {
      front.state = 'down'
    },
    () => void engine.drain(),
  ]
  const found = changes.map((change) => {
    change()
    const { hasNewState } = engine
    engine.takeStatus(1)
    return hasNewState
  })
  // Down is down, drained or not.
  expect(found).toEqual([true, true, true, true, false])
  engine.callBegan('l0', 0)
  expect(engine.hasNewState).toBe(false)
})

test('an engine that drains says so, and one that is down stays down', () => {
  const front = new ScriptedFront('e0', { ledger() {}, status() {}, epoch() {} })
  const engine = new ServedEngine('e0', front)
  expect(engine.state).toBe('ready')
  void engine.drain()
  expect(engine.takeStatus(1).state).toBe('draining')
  front.state = 'down'
  expect(engine.state).toBe('down')
})

test('a front under another name is refused', () => {
  expect(() => new ServedEngine('e1', new ScriptedFront('e0', { ledger() {}, status() {}, epoch() {} }))).toThrow('e0')
})
