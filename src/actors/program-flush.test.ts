import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { OPENING_DELAY_MS, type OpeningWrite } from './opening-write.ts'
import { ProgramFlush } from './program-flush.ts'
import { RunTable } from './run-table.ts'

const STALE_AFTER_MS = 60_000
const OPENING = { tenant: 'tenant', program: 'program', app: null, class: 'tenant', metadata: null } as const

beforeEach(() => {
  vi.useFakeTimers({ now: 1_000 })
})
afterEach(() => {
  vi.useRealTimers()
})

/** A flush over a real run table. `storage` refuses as long as it is told to. */
function world(opening_write: OpeningWrite) {
  const seen = {
    writes: [] as number[],
    alarms: [] as number[],
    refuses: false,
    notifier: { due_ms: Number.POSITIVE_INFINITY },
  }
  const runs: RunTable = new RunTable(
    () => flush.soon(),
    () => ({ calls: [], leases: [] }),
  )
  const flush: ProgramFlush = new ProgramFlush({
    runs,
    storage: {
      write: async () => {
        if (seen.refuses) throw new Error('storage refuses')
        seen.writes.push(Date.now())
      },
      forget: async () => {},
    },
    residency: { due_ms: Number.POSITIVE_INFINITY, isHeld: false },
    retry: { dueMs: (now_ms) => now_ms },
    classes: { due_ms: Number.POSITIVE_INFINITY, isEmpty: true },
    notifier: seen.notifier,
    stale_after_ms: STALE_AFTER_MS,
    opening_write,
    setAlarm: async (at_ms) => {
      seen.alarms.push(at_ms)
    },
    flushed: () => {},
  })
  const open = () => runs.open({ ...OPENING, run: 'r', reading: 'modelled', now_ms: Date.now() })
  return { seen, runs, flush, open }
}

describe('with an alarm', () => {
  it('a change sets one alarm, and the alarm writes it', async () => {
    const { seen, flush, open } = world('alarm')
    const changed_at_ms = Date.now()
    open()
    await vi.advanceTimersByTimeAsync(OPENING_DELAY_MS.alarm)
    expect(seen.writes).toEqual([])
    expect(seen.alarms).toEqual([changed_at_ms + OPENING_DELAY_MS.alarm])
    flush.alarmFired()
    await flush.due()
    expect(seen.writes).toEqual([changed_at_ms + OPENING_DELAY_MS.alarm])
  })

  it('a message to the tenant that waits has an alarm too', async () => {
    const { seen, flush, open } = world('alarm')
    open()
    await flush.now()
    expect(seen.alarms).toEqual([Date.now() + STALE_AFTER_MS])
    seen.notifier.due_ms = Date.now() + 2_000
    await flush.now()
    expect(seen.alarms).toEqual([Date.now() + STALE_AFTER_MS, Date.now() + 2_000])
  })
})

describe('the alarm that follows one', () => {
  /** When it is set for, after calls at these times. */
  async function nextAlarm(opening_write: OpeningWrite, calls_ms: readonly number[]): Promise<number> {
    const { seen, flush, open } = world(opening_write)
    const began_ms = Date.now()
    open()
    await flush.now()
    for (const at_ms of calls_ms) {
      vi.setSystemTime(began_ms + at_ms)
      flush.called(Date.now())
    }
    vi.setSystemTime(began_ms + OPENING_DELAY_MS[opening_write])
    flush.alarmFired()
    await flush.resetAlarm()
    return (seen.alarms.at(-1) ?? 0) - Date.now()
  }

  it('is the next call’s where calls follow each other quickly', async () => {
    expect(await nextAlarm('alarm', [1_000, 4_000])).toBe(OPENING_DELAY_MS.alarm)
  })

  it('stays where it is set when messages wait too, and is set at once for what must not wait', async () => {
    const { seen, flush, open } = world('alarm')
    for (const _ of [1, 2]) flush.called(Date.now())
    open()
    await vi.advanceTimersByTimeAsync(OPENING_DELAY_MS.alarm - 2_000)
    for (const _ of [1, 2]) flush.called(Date.now())
    await vi.advanceTimersByTimeAsync(2_000)
    flush.alarmFired()
    seen.notifier.due_ms = Date.now() + 1_000
    await flush.now()
    const set = seen.alarms.length
    await flush.resetAlarm()
    flush.soon()
    await vi.advanceTimersByTimeAsync(1_000)
    await flush.now()
    expect(seen.alarms.slice(set - 1)).toEqual([Date.now() - 1_000 + OPENING_DELAY_MS.alarm])
    flush.atOnce()
    await vi.advanceTimersByTimeAsync(0)
    expect(seen.alarms.at(-1)).toBe(1)
  })

  it.each<[string, OpeningWrite, number[]]>([
    ['of a single call', 'alarm', [1_000]],
    ['of calls that are far apart', 'alarm', [-5_000, 4_000]],
    ['of calls that have stopped', 'alarm', [-2_000, -1_000]],
    ['where a timer writes openings', 'timer', [1_000, 4_000]],
  ])('is for the stale program, %s', async (_, opening_write, calls_ms) => {
    expect(await nextAlarm(opening_write, calls_ms)).toBe(STALE_AFTER_MS - OPENING_DELAY_MS[opening_write])
  })
})

describe('with a timer', () => {
  it('a change is written when the timer runs out, and the alarm waits for the stale program alone', async () => {
    const { seen, open } = world('timer')
    const changed_at_ms = Date.now()
    open()
    await vi.advanceTimersByTimeAsync(OPENING_DELAY_MS.timer - 1)
    expect(seen).toMatchObject({ writes: [], alarms: [] })
    await vi.advanceTimersByTimeAsync(1)
    expect(seen.writes).toEqual([changed_at_ms + OPENING_DELAY_MS.timer])
    expect(seen.alarms).toEqual([changed_at_ms + STALE_AFTER_MS])
  })

  it('a flush before that leaves nothing to write', async () => {
    const { seen, flush, open } = world('timer')
    open()
    await flush.now()
    await vi.advanceTimersByTimeAsync(2 * OPENING_DELAY_MS.timer)
    expect(seen.writes).toHaveLength(1)
  })

  it('what must not wait is written in the next event', async () => {
    const { seen, flush, open } = world('timer')
    const changed_at_ms = Date.now()
    open()
    flush.atOnce()
    await vi.advanceTimersByTimeAsync(0)
    expect(seen.writes).toEqual([changed_at_ms])
  })

  it('storage that refuses is asked again later, not at every change', async () => {
    const { seen, flush, open } = world('timer')
    seen.refuses = true
    open()
    await vi.advanceTimersByTimeAsync(OPENING_DELAY_MS.timer)
    seen.refuses = false
    flush.atOnce()
    await vi.advanceTimersByTimeAsync(0)
    expect(seen.writes).toEqual([])
    await vi.advanceTimersByTimeAsync(OPENING_DELAY_MS.timer)
    expect(seen.writes).toHaveLength(1)
  })
})
