/** Budgets of a tenant and a key as a client meets them, in every API, and what its engine is told. */
import { expect, it } from 'vitest'
import type { TenantRpc } from '../actors/contracts.ts'
import { NOTHING } from '../core/budget/budget.ts'
import { BudgetLedger, type BudgetQuestion, type LedgerLimits } from '../core/budget/budget-ledger.ts'
import { runShard } from '../core/program/tenant-shards.ts'
import type { DialectName } from './dialects/index.ts'
import { runCall } from './run-call.ts'
import {
  ADMITTED,
  chat,
  claimsWorld,
  failing,
  failureOf,
  MODEL,
  PROGRAM,
  UNRESTRICTED,
  world,
} from './testing/world.ts'

const QUICK = { budget_told_ms: 0, budget_idle_ms: 0, budget_timeout_ms: 50 }

function under(limits: LedgerLimits, used = 0) {
  const ledger = new BudgetLedger()
  const shareBudget: TenantRpc['shareBudget'] = async (asked) =>
    ledger.answer(
      asked,
      () => ({ ...NOTHING, tokens: used }),
      () => true,
      Date.now(),
    )
  const identity = { ...UNRESTRICTED, limits }
  const authenticate = async () => ({ status: 'tenant' as const, identity })
  return { ledger, options: { tenant: { shareBudget }, times: QUICK, deps: { authenticate } } }
}

const day = (tokens: number): LedgerLimits => ({ tenant: { day: { tokens } }, key: null })

it('an engine is told the lowest of what is left to the tenant, the key and the program, and nothing stays reserved', async () => {
  const reserved = { amounts: { tokens: 70, service_us: 9_000 }, prices: null, expired: false }
  const program = { admit: async () => ({ ...ADMITTED, reserved }) }
  const limits: LedgerLimits = { tenant: { day: { tokens: 5_000 } }, key: { month: { tokens: 60 } } }
  const { ledger, options } = under(limits)
  const { it: w, claims } = claimsWorld({ ...options, program })
  const response = await runCall(chat({ max_tokens: 500 }, PROGRAM), 'chat', w.deps)
  expect(response.status).toBe(200)
  expect(response.headers.get('x-budget-left')).toBe('key_month_tokens=0, tenant_day_tokens=4940')
  await response.text()
  expect(claims[0]?.budget).toEqual({ tokens: 60, service_us: 9_000 })
  // Its charge is what a budget waits for.
  expect(w.saidTo('admit')).toMatchObject([{ wants: { most: { tokens: 60 } }, gathers: false }])
  await w.settled()
  expect(ledger.isEmpty).toBe(true)
})

it('the ledger is told in which shard each call is metered, which its run names', async () => {
  const { options } = under(day(100_000))
  const authenticate = async () => {
    const { identity } = await options.deps.authenticate()
    return { status: 'tenant' as const, identity: { ...identity, shards: 4 } }
  }
  const { it: w, claims } = claimsWorld({ ...options, deps: { authenticate } })
  for (let i = 0; i < 12; i += 1) await (await runCall(chat({ max_tokens: 5 }), 'chat', w.deps)).text()
  await w.settled()
  const told = (w.saidTo('shareBudget') as BudgetQuestion[]).flatMap(({ ended }) => ended)
  const shardOf = new Map(told.map(({ lease, shard }) => [lease, shard]))
  const shards = claims.map(({ run }) => runShard(run))
  expect(claims.map(({ lease }) => shardOf.get(lease))).toEqual(shards)
  expect(new Set(shards).size).toBeGreaterThan(1)
})

it('a tenant without a budget asks no one, and its program tells of the charge', async () => {
  const { it: w, claims } = claimsWorld({})
  const response = await runCall(chat({}, PROGRAM), 'chat', w.deps)
  await response.text()
  expect([claims[0]?.budget, response.headers.get('x-budget-left')]).toEqual([undefined, null])
  expect(w.saidTo('shareBudget')).toEqual([])
  expect(w.saidTo('admit')).toMatchObject([{ gathers: true }])
})

const asks: Record<DialectName, [string, object]> = {
  chat: ['chat/completions', { messages: [{ role: 'user', content: 'hi' }] }],
  completions: ['completions', { prompt: 'hi' }],
  messages: ['messages', { max_tokens: 5, messages: [{ role: 'user', content: 'hi' }] }],
  responses: ['responses', { input: 'hi', store: false }],
  embeddings: ['embeddings', { input: 'hi' }],
}

it.each(Object.keys(asks) as DialectName[])(
  '%s: a budget that is used up is refused for good, and says until when',
  async (dialect) => {
    const { options } = under(day(1_000), 1_000)
    const w = world(options)
    const [path, body] = asks[dialect]
    const init = { method: 'POST', body: JSON.stringify({ model: MODEL, ...body }) }
    const response = await runCall(new Request(`http://switchyard.test/v1/${path}`, init), dialect, w.deps)
    expect([response.status, response.headers.get('retry-after')]).toEqual([402, null])
    const { error } = (await response.json()) as { error: { message: string; type: string; code?: string } }
    expect(error.message).toMatch(
      /tenant's budget of tokens for the day .* The next day begins at \d{4}-\d\d-\d\dT00:00:00.000Z/,
    )
    if (dialect !== 'messages')
      expect(error).toMatchObject({ code: 'tenant_budget_exceeded', type: 'insufficient_quota' })
  },
)

it('calls wait for those under way, and never go on without the ledger', async () => {
  const never = () => new Promise<never>(() => undefined)
  const { options } = under(day(1_000))
  const mute = world({ ...options, tenant: { shareBudget: never } })
  const unknown = await failureOf(await runCall(chat(), 'chat', mute.deps))
  expect([unknown.status, unknown.code, unknown.headers.get('retry-after')]).toEqual([503, 'budget_unknown', '1'])
  const { ledger, options: busy } = under(day(1_000))
  const open = { call: 'other', most: { ...NOTHING, tokens: 999 }, least_tokens: 1 }
  const asked = { holder: 'h', seq: 1, key: 'k', limits: day(1_000), reserved: NOTHING, free: NOTHING, ended: [] }
  ledger.answer(
    { ...asked, needs: [open], chunk_for: null },
    () => NOTHING,
    () => false,
    Date.now(),
  )
  const reserved = await failureOf(await runCall(chat(), 'chat', world(busy).deps))
  expect([reserved.status, reserved.code, reserved.headers.get('retry-after')]).toEqual([
    ...[429, 'tenant_budget_reserved', '1'],
  ])
})

it('money needs a price', async () => {
  const { options } = under({ tenant: null, key: { day: { cost_nanos: 5 } } })
  const { status, code } = await failureOf(await runCall(chat(), 'chat', world(options).deps))
  expect([status, code]).toEqual([400, 'model_without_price'])
})

it("an agent's refusal names the budget that it was under, and what it refused is free again", async () => {
  const { ledger, options } = under(day(1_000))
  const refusing = failing({ code: 'program_budget_exceeded', status: 402, retryable: false }, 402)
  const w = world({ ...options, engines: { e0: refusing } })
  const { status, code } = await failureOf(await runCall(chat(), 'chat', w.deps))
  expect([status, code]).toEqual([402, 'tenant_budget_exceeded'])
  await w.settled()
  expect(ledger.isEmpty).toBe(true)
})
