/**
 * What all viewers of this isolate see, kept as plain data. The viewer whose turn comes first (refresh-turn.ts) asks the actors,
 * at most once a second for each tenant and for the pools, and the others read what it brought: workerd lets no request use
 * another's I/O.
 * A program is asked only when its row changed, so a thousand idle programs cost nothing and none is woken.
 */

import type { ProgramListed } from '../../actors/contracts.ts'
import { poolActor, programActor, tenantActor } from '../../actors/stubs.ts'
import type { ProgramSummary } from '../../core/program/process-table.ts'
import type { OpenLeaseRef } from '../../core/program/program-state.ts'
import type { Env } from '../../env.ts'
import { logFailure } from '../../platform/log.ts'
import type { LiveDetail, LivePool } from '../../protocol/live.ts'
import { fileBudget } from '../../relay/deps.ts'
import { allPools, catalogue } from '../../store/catalogue.ts'
import { fromStore } from '../../store/database.ts'
import { type Tenant, tenantsPage } from '../../store/tenants.ts'
import { atOnce } from '../bounded-concurrency.ts'
import { programJson } from '../program-json.ts'
import { PAGE_LIMIT_MAX } from '../program-schemas.ts'
import { queuePositions } from '../queue-positions.ts'
import { LiveRows, ROWS_MAX } from './live-rows.ts'
import { RefreshTurn } from './refresh-turn.ts'

export const REFRESH_EVERY_MS = 1_000
/** The tenants of the operator's page, by id. */
export const TENANTS_SHOWN_MAX = 50
export const POOLS_SHOWN_MAX = 64
/** Programs that are asked for what only they know, in one refresh of a tenant. */
export const DETAILS_PER_REFRESH_MAX = 32
const ACTORS_AT_ONCE_MAX = 8
const TENANTS_LISTED_EVERY_MS = 10_000
/** Tenants whose rows an isolate keeps. Past it, the one that was looked at longest ago is forgotten. */
const TENANTS_KEPT_MAX = 200

export interface KeptTenant {
  rows: LiveRows
  turn: RefreshTurn
  reachable: boolean
}

const kept = new Map<string, KeptTenant>()

export function liveTenant(tenant: string): KeptTenant {
  const known = kept.get(tenant) ?? { rows: new LiveRows(), turn: new RefreshTurn(), reachable: true }
  kept.delete(tenant)
  kept.set(tenant, known)
  const [oldest] = kept.keys()
  if (kept.size > TENANTS_KEPT_MAX && oldest !== undefined) kept.delete(oldest)
  return known
}

export async function refreshTenant(env: Env, tenant: string, now_ms: number): Promise<void> {
  const known = liveTenant(tenant)
  if (!known.turn.take(now_ms, REFRESH_EVERY_MS)) return
  try {
    const [listed, running] = await Promise.all([listRunning(env, tenant), tenantActor(env, tenant).runningCount()])
    const asked = known.rows.changed(listed).slice(0, DETAILS_PER_REFRESH_MAX)
    const details = await atOnce(asked, ACTORS_AT_ONCE_MAX, (program) => detailOf(env, tenant, program, now_ms))
    const found = details.filter((one) => one !== null)
    known.rows.take(listed, running, new Map(found.map(({ program, detail }) => [program, detail])), now_ms)
    const open = known.rows.openLeases(listed, new Map(found.map(({ program, open_leases }) => [program, open_leases])))
    known.rows.place(open.length === 0 ? new Map() : await queuePositions(env, open))
    known.reachable = true
  } catch (error) {
    logFailure('tenant_unreachable', error, { tenant })
    known.reachable = false
  }
  known.turn.done(Date.now())
}

async function listRunning(env: Env, tenant: string): Promise<ProgramListed[]> {
  const actor = tenantActor(env, tenant)
  const listed: ProgramListed[] = []
  let cursor: string | null = null
  do {
    const page = await actor.running({ cursor, limit: PAGE_LIMIT_MAX })
    listed.push(...(page?.programs ?? []))
    cursor = page?.next ?? null
  } while (cursor !== null && listed.length < ROWS_MAX)
  return listed
}

interface Described {
  program: string
  detail: LiveDetail
  open_leases: readonly OpenLeaseRef[]
}

/** Null: it cannot be asked, so its row stays without. */
async function detailOf(env: Env, tenant: string, program: string, now_ms: number): Promise<Described | null> {
  if (!fileBudget(env).useProgram(tenant, program, now_ms)) return null
  try {
    const summary = await programActor(env, tenant, program).describe(now_ms)
    if (summary === null) return null
    return { program, detail: liveDetail(summary, now_ms), open_leases: summary.open_leases }
  } catch (error) {
    logFailure('program_unreachable', error, { tenant })
    return null
  }
}

function liveDetail(summary: ProgramSummary, now_ms: number): LiveDetail {
  const { wait_s, service_wall_s, prompt_tokens, cached_tokens, engines, tools } = programJson(summary, now_ms)
  const [place] = engines
  const { rank, expected_remaining_tokens } = summary.outlook
  return {
    ...{ wait_s, service_wall_s, prompt_tokens, cached_tokens },
    ...{ engine: place?.engine ?? null, region: place?.region ?? null, model: place?.model ?? null },
    tools: tools.map(({ name, since, expected_s }) => ({ name, since, expected_s })),
    ...{ rank: rank ?? null, expected_remaining_tokens: expected_remaining_tokens ?? null },
    // Asked of the engines.
    position: null,
    weight: summary.weight,
  }
}

const tenantsTurn = new RefreshTurn()
let listedTenants: readonly Tenant[] = []

/** The tenants that the operator's page shows; one more than TENANTS_SHOWN_MAX if there are more. */
export async function shownTenants(env: Env, now_ms: number): Promise<readonly Tenant[]> {
  if (tenantsTurn.take(now_ms, TENANTS_LISTED_EVERY_MS)) {
    listedTenants = await fromStore(() => tenantsPage(env.DB, null, TENANTS_SHOWN_MAX + 1))
    tenantsTurn.done(Date.now())
  }
  return listedTenants
}

const poolsTurn = new RefreshTurn()
let shown: { version: number; pools: LivePool[]; left_out: number; text: string } = {
  ...{ version: 0, pools: [], left_out: 0, text: '' },
}

export const shownPools = () => shown

export async function refreshPools(env: Env, now_ms: number): Promise<void> {
  if (!poolsTurn.take(now_ms, REFRESH_EVERY_MS)) return
  const { linked, others } = allPools(await catalogue(env))
  const all = [...linked, ...others]
  const asked = all.slice(0, POOLS_SHOWN_MAX)
  const pools = await atOnce(asked, ACTORS_AT_ONCE_MAX, async ({ region, model }): Promise<LivePool> => {
    const place = { region: region.id, model }
    try {
      const { engines } = await poolActor(env, region, model).describe(now_ms)
      return { ...place, reachable: true, engines: engines.map(liveEngine) }
    } catch (error) {
      logFailure('pool_unreachable', error, place)
      return { ...place, reachable: false, engines: [] }
    }
  })
  const text = JSON.stringify(pools)
  if (text !== shown.text) {
    shown = { version: shown.version + 1, pools, left_out: all.length - asked.length, text }
  }
  poolsTurn.done(Date.now())
}

function liveEngine(engine: LivePool['engines'][number]): LivePool['engines'][number] {
  const { engine: id, agent, kind, state, seats, waiting, running } = engine
  const { queued_tokens, kv_used_tokens, kv_capacity_tokens, leases_since_report } = engine
  return {
    ...{ engine: id, agent, kind, state, seats, waiting, running },
    ...{ queued_tokens, kv_used_tokens, kv_capacity_tokens, leases_since_report },
  }
}
