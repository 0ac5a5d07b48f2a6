/**
 * What tenants were charged, asked of the API: it never exceeds a budget, it equals what the records of the agents add up to,
 * to the last unit, and nothing of a budget stays reserved.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { AMOUNT_KINDS } from '../../src/core/budget/budget.ts'
import { RESERVED_LIFE_MS } from '../../src/core/budget/budget-ledger.ts'
import { tokenPrices } from '../../src/core/budget/call-cap.ts'
import {
  addCharge,
  amountsOf,
  CHARGE_FIELDS,
  type Charge,
  chargeOf,
  isLater,
  NO_CHARGE,
} from '../../src/core/budget/charge.ts'
import { PERIODS, type Period, type PeriodLimits } from '../../src/core/budget/period-limits.ts'
import { isAlone } from '../../src/core/program/tenant-shards.ts'
import type { CallRecord } from '../../src/protocol/index.ts'
import { checkProof } from '../../src/relay/lease-proof.ts'
import { CLOCK_STEP_MAX_MS } from './apply-fault.ts'
import { clientCall } from './client.ts'
import type { Fleet } from './fleet.ts'
import type { LedgerLease, Tenant } from './ledger.ts'
import { ALL_RESERVED, type LimitedKey, type LimitedTenant, PRICES, USED_UP } from './limited-tenants.ts'

const BYS = ['total', 'key', 'class', 'model', 'program'] as const
type By = (typeof BYS)[number]

/** What a reservation may outlive, made while a clock was ahead, and more. */
export const RESERVED_GONE_MS = RESERVED_LIFE_MS + CLOCK_STEP_MAX_MS + 60_000
const FREED_WITHIN_MS = 60_000
const RETRY_MS = 500
/** Of a key, until nothing is left. */
const USING_UP_CALLS_MAX = 40
const TENANTS_AT_ONCE = 4
const LONG_OUTPUT_TOKENS = 200
const DAY_MS = 24 * 60 * 60 * 1000

type Row = Charge & { period: string; name: string | null }

/** The run's days, and one more at each end, since clocks jump. */
async function spendOf(fleet: Fleet, { apiKey }: Tenant, by: By, per: Period): Promise<Row[]> {
  const dayAt = (ms: number): string => new Date(ms).toISOString().slice(0, 10)
  const now_ms = Date.now()
  const days = { from: dayAt(now_ms - 2 * DAY_MS), to: dayAt(now_ms + DAY_MS) }
  const rows: Row[] = []
  let cursor: string | null = null
  do {
    const query = new URLSearchParams({ by, per, ...days, limit: '100', ...(cursor === null ? {} : { cursor }) })
    const answer = await fleet.fetch(`/v1/spend?${query}`, { apiKey })
    if (!answer.ok) throw new Error(`/v1/spend: ${answer.status} ${await answer.text()}`)
    const page = (await answer.json()) as { data: Row[]; next_cursor: string | null }
    rows.push(...page.data)
    cursor = page.next_cursor
  } while (cursor !== null)
  return rows
}

/** Where the tenant or a key was charged more than it may use. Asked at any time. */
export async function overLimit(fleet: Fleet, { tenant, limits, keys }: LimitedTenant): Promise<string[]> {
  const [asking] = keys
  if (asking === undefined) return []
  const found: string[] = []
  const compare = (who: string, period: Period, allowed: PeriodLimits | null, row: Row): void => {
    const used = amountsOf(row)
    for (const kind of AMOUNT_KINDS) {
      const limit = allowed?.[period]?.[kind]
      if (limit !== undefined && used[kind] > limit)
        found.push(`${who}: ${used[kind]} ${kind} in ${row.period}, and the budget is ${limit}`)
    }
  }
  for (const period of PERIODS) {
    for (const row of await spendOf(fleet, asking, 'total', period)) compare(tenant, period, limits, row)
    for (const row of await spendOf(fleet, asking, 'key', period)) {
      const own = keys.find(({ key }) => key === row.name)
      if (own !== undefined) compare(`${tenant} ${own.key}`, period, own.limits, row)
    }
  }
  return found
}

interface Charged {
  lease: string
  granted_at_ms: number
  record: CallRecord
  key: string | null
  charge: Charge
}

/** What the tenant is to be charged: for each call, what the lease that was granted last measured. */
async function chargesOf(leases: readonly LedgerLease[], ticket_secret: string): Promise<Charged[]> {
  const prices = tokenPrices(PRICES)
  const last = new Map<string, Charged>()
  for (const { lease, record } of leases) {
    if (record === null) continue
    const proof = await checkProof(record, ticket_secret)
    // Such a record is refused, and its lease is no one's.
    if (proof.status === 'unproven' || proof.terms === null) continue
    const { granted_at_ms, key } = proof.terms
    const one = { lease, granted_at_ms, record, key, charge: chargeOf(record, prices) }
    const other = last.get(record.call)
    if (other === undefined || isLater(one, other)) last.set(record.call, one)
  }
  return [...last.values()]
}

/** Where the tenant's spend is not the sum over the records of its leases. */
export async function unequalSpend(
  fleet: Fleet,
  tenant: Tenant,
  leases: readonly LedgerLease[],
): Promise<{ compared: number; unequal: string[] }> {
  const charges = await chargesOf(leases, fleet.secrets.ticketSecret)
  const nameOf: Record<By, (one: Charged) => string | null> = {
    total: () => null,
    key: ({ key }) => key,
    class: ({ record }) => record.class,
    model: ({ record }) => record.model,
    program: ({ record }) => record.program,
  }
  const unequal: string[] = []
  let compared = 0
  for (const by of BYS) {
    const due = new Map<string | null, Charge>()
    for (const one of charges) {
      // A call that belongs to no program is a program of its own, and is not told apart.
      if (by === 'program' && isAlone(one.record)) continue
      const name = nameOf[by](one)
      const sum = due.get(name) ?? { ...NO_CHARGE }
      due.set(name, sum)
      addCharge(sum, one.charge)
    }
    const stated = new Map<string | null, Charge>()
    for (const row of await spendOf(fleet, tenant, by, 'day')) {
      const sum = stated.get(row.name) ?? { ...NO_CHARGE }
      stated.set(row.name, sum)
      addCharge(sum, row)
    }
    for (const name of new Set([...due.keys(), ...stated.keys()])) {
      compared += 1
      for (const field of CHARGE_FIELDS) {
        const [is, should] = [stated.get(name)?.[field] ?? 0, due.get(name)?.[field] ?? 0]
        if (is === should) continue
        unequal.push(`${tenant.tenant}: ${field} by ${by} ${name} is ${is} in the spend and ${should} in the records`)
      }
    }
  }
  return { compared, unequal }
}

/**
 * What isolates took along when they ended is given up after an hour, so the control plane's clock is set on by more. Then
 * calls, one at a time, use up what is left: each is served or refused for good.
 */
export async function stillReserved(
  fleet: Fleet,
  tenants: readonly LimitedTenant[],
  clock_step_ms = RESERVED_GONE_MS,
): Promise<string[]> {
  await fleet.setFaults({ clock_step_ms })
  try {
    const found: string[] = []
    const waiting = [...tenants]
    const work = async (): Promise<void> => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        for (const key of next.keys) found.push(...(await useUp(fleet, key)))
      }
    }
    await Promise.all(Array.from({ length: TENANTS_AT_ONCE }, work))
    return found
  } finally {
    await fleet.setFaults({})
  }
}

async function useUp(fleet: Fleet, { tenant, apiKey, key }: LimitedKey): Promise<string[]> {
  const program = `last-of-${key}`
  const call = { url: fleet.url, api_key: apiKey, model: fleet.model, program, may_be_cut: true, stream: false }
  let waits_since_ms: number | null = null
  for (let calls = 0; calls < USING_UP_CALLS_MAX; ) {
    const ended = await clientCall({ ...call, prompt: `Use up ${calls}.`, output_tokens: LONG_OUTPUT_TOKENS })
    if (ended.end === 'completed') calls += 1
    else if (ended.end === 'half_truth') return [`${tenant} ${key}: ${ended.reason}`]
    else if (ended.end === 'refused' && USED_UP.includes(ended.code ?? '')) {
      return ended.status === 402 ? [] : [`${tenant} ${key}: ${ended.code} with ${ended.status}`]
    }
    if (ended.end === 'completed') waits_since_ms = null
    else {
      waits_since_ms ??= performance.now()
      if (performance.now() - waits_since_ms > FREED_WITHIN_MS) {
        const what = ended.end === 'refused' ? `${ended.status} ${ended.code}` : ended.end
        const is_reserved = ended.end === 'refused' && ALL_RESERVED.includes(ended.code ?? '')
        return [`${tenant} ${key}: ${is_reserved ? 'stays reserved' : 'cannot be used up'}: ${what}`]
      }
      await sleep(RETRY_MS)
    }
  }
  return []
}
