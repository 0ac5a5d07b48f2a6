/** Reads the pools of a running system, through the admin API. */
import { z } from 'zod'
import type { DevJson } from './dev-json.ts'

const TIMEOUT_MS = 3000
/** Of 100 pools. Those beyond them are not shown. */
const PAGES_MAX = 10

const Engine = z.object({
  engine: z.string(),
  state: z.string(),
  seats: z.number(),
  running: z.number(),
  waiting: z.number(),
  queued_tokens: z.number(),
  kv_used_tokens: z.number(),
  kv_capacity_tokens: z.number(),
})
const Pools = z.object({
  pools: z.array(z.object({ region: z.string(), model: z.string(), engines: z.array(Engine) })),
  next_cursor: z.string().nullable(),
})

export type EngineRow = z.infer<typeof Engine> & { region: string; model: string }

export type PoolsOutcome = { ok: true; engines: EngineRow[] } | { ok: false; reason: string }

export async function readEngines({ url, adminKey }: Pick<DevJson, 'url' | 'adminKey'>): Promise<PoolsOutcome> {
  const found: EngineRow[] = []
  const query = new URLSearchParams({ linked: 'true' })
  try {
    for (let page = 0; page < PAGES_MAX; page += 1) {
      const response = await fetch(`${url}/admin/v1/pools?${query}`, {
        headers: { authorization: `Bearer ${adminKey}` },
        signal: AbortSignal.timeout(TIMEOUT_MS),
      })
      const text = await response.text()
      if (!response.ok)
        return { ok: false, reason: `/admin/v1/pools answered ${response.status}: ${text.slice(0, 200)}` }
      const parsed = Pools.safeParse(JSON.parse(text))
      if (!parsed.success) return { ok: false, reason: `/admin/v1/pools: ${z.prettifyError(parsed.error)}` }
      const { pools, next_cursor } = parsed.data
      for (const { region, model, engines } of pools)
        found.push(...engines.map((engine) => ({ ...engine, region, model })))
      if (next_cursor === null) break
      query.set('cursor', next_cursor)
    }
    return { ok: true, engines: found }
  } catch (error) {
    const { message, cause } = error as Error
    return { ok: false, reason: cause instanceof Error ? `${message}: ${cause.message}` : message }
  }
}
