import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { ProgramEntry } from '../core/program/program-entry.ts'
import type { ProgramListed, TenantRpc } from './contracts.ts'
import { OPENING_DELAY_MS, type OpeningWrite } from './opening-write.ts'
import { TenantNotifier } from './tenant-notifier.ts'

beforeEach(() => {
  vi.useFakeTimers({ now: 1_000_000 })
  vi.spyOn(console, 'error').mockImplementation(() => {})
})
afterEach(() => {
  vi.restoreAllMocks()
  vi.useRealTimers()
})

function world(by: OpeningWrite) {
  const told: { at_ms: number; calls: number }[] = []
  const tenant = {
    refuses: false,
    async programFlushed({ calls }: ProgramListed) {
      if (tenant.refuses) throw new Error('the tenant refuses')
      told.push({ at_ms: Date.now(), calls })
    },
    programEnded: async () => null,
  }
  const notifier = new TenantNotifier(() => tenant as unknown as TenantRpc, by)
  const opening = { tenant: 't', program: 'p', run: 'r', app: null, class: 'c', metadata: null } as const
  const entry = ProgramEntry.open({ ...opening, reading: 'modelled', now_ms: Date.now() })
  let calls = 0
  const call = () => {
    calls += 1
    entry.admit({ call: `call-${calls}`, thread: null, parents: null, model: 'm', now_ms: Date.now() })
    notifier.changed(entry, null)
  }
  return { notifier, entry, tenant, told, call }
}

describe.each<OpeningWrite>(['timer', 'alarm'])('by %s', (by) => {
  it('the first message goes at once', async () => {
    const { told, call } = world(by)
    const at_ms = Date.now()
    call()
    await vi.advanceTimersByTimeAsync(0)
    expect(told).toEqual([{ at_ms, calls: 1 }])
  })

  it('a clock that was set back puts nothing off', async () => {
    const { notifier, told, call } = world(by)
    call()
    await vi.advanceTimersByTimeAsync(100)
    vi.setSystemTime(Date.now() - 60 * 60_000)
    call()
    const later_ms = Date.now() + 20_000
    expect(by === 'timer' || notifier.due_ms <= later_ms).toBe(true)
    await vi.advanceTimersByTimeAsync(20_000)
    if (by === 'alarm') await notifier.due(Date.now())
    expect(told.map(({ calls }) => calls)).toEqual([1, 2])
  })

  it('a message that failed goes again by itself', async () => {
    const { told, tenant, call } = world(by)
    tenant.refuses = true
    call()
    await vi.advanceTimersByTimeAsync(0)
    tenant.refuses = false
    await vi.advanceTimersByTimeAsync(60_000)
    expect(told.map(({ calls }) => calls)).toEqual([1])
  })
})

it('by timer, what changed since is told together', async () => {
  const { notifier, told, call } = world('timer')
  call()
  await vi.advanceTimersByTimeAsync(100)
  call()
  call()
  expect(notifier.due_ms).toBe(Number.POSITIVE_INFINITY)
  await vi.advanceTimersByTimeAsync(2_000)
  expect(told.map(({ calls }) => calls)).toEqual([1, 3])
})

describe('by alarm', () => {
  it('what changed since waits for the alarm, and keeps no timer', async () => {
    const { notifier, told, call } = world('alarm')
    call()
    await vi.advanceTimersByTimeAsync(100)
    const next_ms = Date.now() - 100 + OPENING_DELAY_MS.alarm
    expect(notifier.due_ms).toBe(Number.POSITIVE_INFINITY)
    call()
    call()
    expect(vi.getTimerCount()).toBe(0)
    expect(notifier.due_ms).toBe(Date.now() + OPENING_DELAY_MS.alarm)
    await notifier.due(next_ms - 1)
    expect(told).toHaveLength(1)
    // An alarm for something else is early enough.
    await notifier.due(next_ms)
    expect(told.map(({ calls }) => calls)).toEqual([1, 3])
    expect(notifier.due_ms).toBe(Number.POSITIVE_INFINITY)
  })

  it('the older a program is, the more rarely it is told of', async () => {
    const { notifier, told, call } = world('alarm')
    const started_ms = Date.now()
    for (let second = 0; second < 120; second++) {
      call()
      await vi.advanceTimersByTimeAsync(1_000)
      await notifier.due(Date.now())
    }
    const after_s = told.map(({ at_ms }) => (at_ms - started_ms) / 1_000)
    expect(after_s).toEqual([0, 8, 16, 24, 36, 52, 68, 84, 100, 116])
  })

  it('a run that ended is not told as one that runs', async () => {
    const { notifier, entry, told, call } = world('alarm')
    call()
    await vi.advanceTimersByTimeAsync(100)
    call()
    entry.end(Date.now(), 'explicit')
    await notifier.ended(entry, null, null)
    expect(notifier.due_ms).toBe(Number.POSITIVE_INFINITY)
    await notifier.due(Date.now() + 60_000)
    expect(told).toHaveLength(1)
  })
})
