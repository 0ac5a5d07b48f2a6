/** A program's budget holds although its actor dies, goes stale, or is too slow to say what is left. */
import { abortAllDurableObjects, evictDurableObject, runDurableObjectAlarm } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { programActor } from '../../src/actors/stubs.ts'
import { residencyOf } from '../../src/store/residency.ts'
import { lastEnded } from './archive-tools.ts'
import { admission, programStub, provision, recordOf } from './fixtures.ts'

const TENANT = 'tenant-a'
const WANTS = { most: { calls: 1, tokens: 100, service_us: 1_000, cost_nanos: 0 }, least_tokens: 10, prices: null }
const NOTHING = { calls: 0, tokens: 0, service_us: 0, cost_nanos: 0 }

beforeAll(provision)

beforeEach(() => {
  const log = vi.spyOn(console, 'error').mockImplementation(() => undefined)
  return () => log.mockRestore()
})

const actor = (program: string) => programActor(env, TENANT, program)
const admit = (program: string, call: string, budget?: { tokens: number }) =>
  actor(program).admit(admission(program, call, { wants: WANTS, ...(budget === undefined ? {} : { budget }) }))

async function runOf(admitted: ReturnType<typeof admit>): Promise<string> {
  const reply = await admitted
  if (reply.status !== 'admitted') throw new Error(reply.message)
  return reply.run
}

async function settle(program: string, run: string, call: string, output_tokens: number): Promise<void> {
  const used = { prompt_tokens: 10, cached_tokens: 0, output_tokens }
  await actor(program).settle([{ ...recordOf(program, run, call), ...used }])
}

describe('what a call has reserved', () => {
  it('is known after the actor has died without a flush of its own', async () => {
    await admit('crashed', 'call-0', { tokens: 150 })
    await abortAllDurableObjects()
    expect(await actor('crashed').describe(Date.now())).toMatchObject({ budget: { reserved: { tokens: 100 } } })
    // 50 are left, which is enough to try. After it nothing is.
    expect(await admit('crashed', 'call-1')).toMatchObject({ reserved: { amounts: { tokens: 50 } } })
    expect(await admit('crashed', 'call-2')).toMatchObject({ status: 'refused', code: 'program_budget_reserved' })
  })

  it('is replaced by what its record says, once, however often that comes', async () => {
    const run = await runOf(admit('settled', 'call-0', { tokens: 150 }))
    for (let i = 0; i < 3; i += 1) await settle('settled', run, 'call-0', 30)
    await actor('settled').callEnded({
      run,
      call: 'call-0',
      outcome: 'completed',
      error_code: null,
      now_ms: Date.now(),
    })
    const { budget } = (await actor('settled').describe(Date.now())) ?? {}
    expect(budget).toMatchObject({ used: { calls: 1, tokens: 40 }, reserved: NOTHING })
    await evictDurableObject(programStub('settled'))
    expect((await actor('settled').describe(Date.now()))?.budget).toEqual(budget)
  })

  it('never adds up to more than the budget, however many calls come at once', async () => {
    const replies = await Promise.all(
      Array.from({ length: 200 }, (_, i) => admit('crowd', `call-${i}`, { tokens: 1_050 })),
    )
    const admitted = replies.flatMap((reply) =>
      reply.status === 'admitted' ? [reply.reserved?.amounts.tokens ?? 0] : [],
    )
    expect(admitted.reduce((sum, tokens) => sum + tokens, 0)).toBe(1_050)
    expect(admitted).toHaveLength(11)
    const codes = new Set(replies.flatMap((reply) => (reply.status === 'refused' ? [reply.code] : [])))
    expect([...codes]).toEqual(['program_budget_reserved'])
  })
})

it('a budget that a later call states changes nothing', async () => {
  await admit('once', 'call-0', { tokens: 150 })
  expect(await admit('once', 'call-1', { tokens: 9_000 })).toMatchObject({ budget: { limits: { tokens: 150 } } })
})

describe('D1 tells a relay that cannot ask the actor', () => {
  it('that a program has a budget, from its first call on', async () => {
    await admit('told', 'call-0', { tokens: 150 })
    await expect.poll(() => residencyOf(env.DB, TENANT, 'told')).toEqual({ regions: null, has_budget: true })
    await admit('free', 'call-0')
    expect(await residencyOf(env.DB, TENANT, 'free')).toEqual({ regions: null, has_budget: false })
  })

  it('until its client ends it', async () => {
    await admit('over', 'call-0', { tokens: 150 })
    await expect.poll(async () => (await residencyOf(env.DB, TENANT, 'over')).has_budget).toBe(true)
    await actor('over').end(Date.now())
    await expect.poll(async () => (await residencyOf(env.DB, TENANT, 'over')).has_budget).toBe(false)
  })
})

describe('a program that went stale', () => {
  const STALE_MS = Number(env.PROGRAM_STALE_AFTER_S) * 1000

  it('goes on with what was left, and starts anew after an explicit end', async () => {
    const limits = { calls: null, tokens: 150, service_us: null, cost_nanos: null, ends_at_ms: null }
    const start = { tenant: TENANT, program: 'paused', app: null, metadata: null, budget: limits }
    await actor('paused').start({ ...start, now_ms: Date.now() - STALE_MS - 1 })
    expect(await runDurableObjectAlarm(programStub('paused'))).toBe(true)
    await expect.poll(() => lastEnded(TENANT, 'paused')).toMatchObject({ end_reason: 'stale' })
    await evictDurableObject(programStub('paused'))
    expect((await residencyOf(env.DB, TENANT, 'paused')).has_budget).toBe(true)
    expect(await admit('paused', 'call-0')).toMatchObject({ budget: { limits } })
    await actor('paused').end(Date.now())
    expect(await admit('paused', 'call-1')).toMatchObject({ status: 'admitted', budget: null })
  })

  it('shows what it spent after it was archived', async () => {
    const run = await runOf(admit('archived', 'call-0', { tokens: 150 }))
    await settle('archived', run, 'call-0', 30)
    await actor('archived').end(Date.now())
    await runDurableObjectAlarm(programStub('archived'))
    await expect
      .poll(async () => (await lastEnded(TENANT, 'archived'))?.budget)
      .toMatchObject({ limits: { tokens: 150 }, used: { tokens: 40 } })
  })
})
