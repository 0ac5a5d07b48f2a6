/** Reads the pools of a running system, through the admin API. */
import { z } from 'zod'
import type { DevJson } from './dev-json.ts'

const TIMEOUT_MS = 3000

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
})

export type EngineRow = z.infer<typeof Engine> & { region: string; model: string }

export type PoolsOutcome = { ok: true; engines: EngineRow[] } | { ok: false; reason: string }

export async function readEngines({ url, adminKey }: Pick<DevJson, 'url' | 'adminKey'>): Promise<PoolsOutcome> {
  try {
    const response = await fetch(`${url}/admin/v1/pools?linked=true`, {
      headers: { authorization: `Bearer ${adminKey}` },
      signal: AbortSignal.timeout(TIMEOUT_MS),
    })
    const text = await response.text()
    if (!response.ok) return { ok: false, reason: `/admin/v1/pools answered ${response.status}: ${text.slice(0, 200)}` }
    const parsed = Pools.safeParse(JSON.parse(text))
    if (!parsed.success) return { ok: false, reason: `/admin/v1/pools: ${z.prettifyError(parsed.error)}` }
    const engines = parsed.data.pools.flatMap(({ region, model, engines }) =>
      engines.map((engine) => ({ ...engine, region, model })),
    )
    return { ok: true, engines }
  } catch (error) {
    const { message, cause } = error as Error
    return { ok: false, reason: cause instanceof Error ? `${message}: ${cause.message}` : message }
  }
}
