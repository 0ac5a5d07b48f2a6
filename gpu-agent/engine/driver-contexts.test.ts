/** What the driver does with contexts of programs whose tools run while no call is open. */
import { expect, test } from 'vitest'
import { EngineDriver } from './driver.ts'
import { createPolicy } from './order/policies/index.ts'
import type { EngineMemory } from './order/policy.ts'
import { engineCall, testScheduler, tokens } from './testing/calls.ts'
import { forecastOf } from './testing/forecasts.ts'
import { GatedBackend } from './testing/gated-backend.ts'

const TOOL_US = 2_000_000
/** A context is swapped rather than preserved for such a tool. */
const MEMORY: EngineMemory = {
  costs: {
    forward: { base_us: 0, free_tokens: 0, per_token_us: 100, per_pair_us: 0 },
    swap: { base_us: 0, free_tokens: 0, per_token_us: 10, per_pair_us: 0 },
    kv_bytes_per_token: 1,
  },
  step_us: 1_000,
  other_tokens: 0,
}
const SWAP = {
  costs: { save_us_per_token: 10, restore_us_per_token: 10, base_us: 0 },
  recompute_us_per_token: 100,
  image_tokens_max: 1_000,
}

function setUp(policy: 'infercept' | 'plas') {
  const memory = { memory: MEMORY, swap: SWAP }
  const scheduler = testScheduler({ ...memory, policy: createPolicy({ name: policy }, memory), hold_kv: false })
  const backend = new GatedBackend(scheduler.config)
  const time = { us: 0 }
  const sleeps: { run: () => void; delay_ms: number; cancelled: boolean }[] = []
  const driver = new EngineDriver({
    ...{ epoch: 'epoch', scheduler, backend, clock: () => time.us },
    ...{ onLedger() {}, onStatus() {} },
    onBroken: (error) => {
      throw error
    },
    timer: (run, delay_ms) => {
      const sleep = { run, delay_ms, cancelled: false }
      sleeps.push(sleep)
      return () => {
        sleep.cancelled = true
      }
    },
  })
  const call = (lease: string, added: number) =>
    new Promise<void>((resolve) => {
      const own = { lease, program: 'p', sequence: [0, 0] as const, prompt: tokens(added), max_output_tokens: 1 }
      driver.submit(engineCall({ ...own, forecast: forecastOf(1, TOOL_US) }), { token() {}, ended: () => resolve() })
    })
  const step = async () => {
    const { plan, release } = await backend.next()
    time.us += 100
    release()
    return plan
  }
  /** The wait for what is due next: the other timers watch steps. */
  const asleep = async () => {
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve))
    return sleeps.findLast(({ cancelled }) => !cancelled)
  }
  return { driver, backend, time, call, step, asleep, sleeps }
}

test('a context is moved out at once, back shortly before its tool returns, and is there for the call', async () => {
  const { driver, time, call, step, asleep } = setUp('infercept')
  const first = call('one', 30)
  expect((await step()).work).toHaveLength(1)
  await first
  expect(await step()).toMatchObject({ work: [], operations: [{ op: 'save', tokens: 30 }] })
  const sleep = await asleep()
  expect(sleep?.delay_ms).toBeGreaterThan(1_900)
  expect(sleep?.delay_ms).toBeLessThan(2_000)
  expect(driver.tools).toMatchObject({ swap: { decided: 1 }, away: 1, prefetched: 0 })
  time.us += 1_999_000
  sleep?.run()
  expect(await step()).toMatchObject({ work: [], operations: [{ op: 'restore', tokens: 30 }] })
  expect(driver.tools).toMatchObject({ prefetched: 1 })

  const second = call('two', 40)
  const { work } = await step()
  expect(work).toMatchObject([{ from: 30, to: 40 }])
  await second
  expect(driver.tools).toMatchObject({ swap: { returned: 1, context_tokens: 30, cached_tokens: 30 } })
  expect((await step()).operations.map(({ op }) => op)).toEqual(['save'])
  const last = await asleep()
  const stopped = driver.stop()
  expect(last?.cancelled).toBe(true)
  await stopped
})

test('under a policy that handles no contexts it sleeps until a call comes', async () => {
  const { driver, backend, call, step, asleep } = setUp('plas')
  const only = call('one', 30)
  await step()
  await only
  expect(await asleep()).toBeUndefined()
  expect([backend.pending, driver.tools]).toEqual([0, null])
  await driver.stop()
})
