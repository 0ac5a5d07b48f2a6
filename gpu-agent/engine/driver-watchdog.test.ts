import { describe, expect, it } from 'vitest'
import { EngineDriver, type Timer } from './driver.ts'
import { engineCall, testScheduler } from './testing/calls.ts'
import { GatedBackend } from './testing/gated-backend.ts'

function setUp() {
  const scheduler = testScheduler()
  const backend = new GatedBackend(scheduler.config)
  const broken: unknown[] = []
  const ends: unknown[] = []
  /** Timers that run; the test lets them fire. */
  const timers = new Map<number, { run: () => void; delay_ms: number }>()
  let id = 0
  const timer: Timer = (run, delay_ms) => {
    const own = id++
    timers.set(own, { run, delay_ms })
    return () => timers.delete(own)
  }
  const driver = new EngineDriver({
    ...{ epoch: 'epoch', scheduler, backend, clock: () => 1000, step_timeout_ms: 5000, timer },
    ...{ onLedger: () => {}, onStatus: () => {}, onBroken: (error) => broken.push(error) },
  })
  const submit = (lease: string) =>
    driver.submit(engineCall({ lease, max_output_tokens: 2 }), {
      token: () => {},
      ended: (reason, _measurement, failure) => ends.push([lease, reason, failure]),
    })
  return { driver, backend, broken, ends, timers, submit }
}
async function settle(): Promise<void> {
  for (let index = 0; index < 5; index++) await new Promise((resolve) => setImmediate(resolve))
}

describe('the watchdog', () => {
  it('breaks the engine when a step does not come back: calls fail, the owner is told once', async () => {
    const { backend, broken, ends, timers, submit, driver } = setUp()
    submit('a')
    const step = await backend.next()
    expect([...timers.values()].map(({ delay_ms }) => delay_ms)).toEqual([5000])
    for (const { run } of timers.values()) run()
    await settle()
    expect(ends).toEqual([['a', 'failed', 'engine_lost']])
    expect(broken).toMatchObject([{ message: 'a step did not end within 5000 ms' }])
    expect(submit('b')).toMatchObject({ ok: false, code: 'engine_down' })
    step.fail(new Error('late'))
    await settle()
    expect(broken).toHaveLength(1)
    await driver.stop()
    expect(backend.disposed).toBe(true)
  })

  it('watches each step by itself, and nothing between', async () => {
    const { backend, ends, timers, submit } = setUp()
    submit('a')
    for (let index = 0; index < 2; index++) {
      const step = await backend.next()
      expect(timers.size).toBe(1)
      step.release()
      await new Promise((resolve) => setImmediate(resolve))
    }
    await settle()
    expect(ends).toEqual([['a', 'length', null]])
    expect(timers.size).toBe(0)
  })
})
