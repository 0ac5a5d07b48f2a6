/** One viewer's events: what it has seen, and what the next event tells it. */
import type { Env } from '../../env.ts'
import type { LiveEvent, LiveTenant } from '../../protocol/live.ts'
import { atOnce } from '../bounded-concurrency.ts'
import { liveTenant, refreshPools, refreshTenant, shownPools, shownTenants, TENANTS_SHOWN_MAX } from './live-source.ts'
import type { Viewer } from './viewer.ts'

const TENANTS_AT_ONCE_MAX = 4

interface Shown {
  id: string
  name: string | null
  weight: number
}

export class LiveView {
  readonly #env: Env
  readonly #viewer: Viewer
  /** The version of each tenant's rows that the viewer has. */
  readonly #versions = new Map<string, number>()
  #pools = 0

  constructor(env: Env, viewer: Viewer) {
    this.#env = env
    this.#viewer = viewer
  }

  async next(now_ms: number): Promise<LiveEvent> {
    const isOperator = this.#viewer.role === 'operator'
    const all = await this.#tenants(now_ms)
    const tenants = all.slice(0, TENANTS_SHOWN_MAX)
    const pools = isOperator ? refreshPools(this.#env, now_ms) : Promise.resolve()
    await Promise.all([pools, atOnce(tenants, TENANTS_AT_ONCE_MAX, ({ id }) => refreshTenant(this.#env, id, now_ms))])
    const service_s = tenants.reduce((sum, { id }) => sum + liveTenant(id).rows.recent_service_s, 0)
    const { version, pools: known, left_out } = shownPools()
    const isNew = isOperator && version !== this.#pools
    this.#pools = version
    return {
      at_ms: now_ms,
      tenants: tenants.map((tenant) => this.#tenantEvent(tenant, isOperator ? service_s : 0)),
      pools: isNew ? known : null,
      tenants_left_out: all.length - tenants.length,
      pools_left_out: isOperator ? left_out : 0,
    }
  }

  async #tenants(now_ms: number): Promise<readonly Shown[]> {
    if (this.#viewer.role === 'operator') return shownTenants(this.#env, now_ms)
    return [{ id: this.#viewer.tenant, name: null, weight: this.#viewer.weight }]
  }

  #tenantEvent({ id, name, weight }: Shown, all_service_s: number): LiveTenant {
    const { rows, reachable } = liveTenant(id)
    const { changed, gone, reset } = rows.since(this.#versions.get(id) ?? null)
    this.#versions.set(id, rows.version)
    return {
      ...{ id, name, weight, running: rows.running, reachable },
      output_tokens_per_s: rows.output_tokens_per_s,
      service_share: all_service_s > 0 ? rows.recent_service_s / all_service_s : null,
      ...{ reset, changed, gone },
    }
  }
}
