/** Programs that ended on a running system, tenant by tenant, as the operator reads them. */
import { z } from 'zod'
import { ServedProgram, type TenantPrograms } from '../../../simulator/fleet/served-programs.ts'
import { type AdminClient, at, CommandFailure, ROWS_MAX } from '../client.ts'

const Tenant = z.object({ id: z.string(), weight: z.number().positive() })
const UNITS_MS = { m: 60_000, h: 3_600_000, d: 86_400_000 } as const
/** As the API bounds it. */
const SINCE_MS_MAX = 366 * UNITS_MS.d

/** `1h`, `90m`, `7d`: so long ago. */
export function sinceOf(text: string, now_ms: number): string {
  const [, count = '', unit = ''] = /^(\d+)([mhd])$/.exec(text) ?? []
  const ms = Number(count) * (UNITS_MS[unit as keyof typeof UNITS_MS] ?? Number.NaN)
  if (ms > 0 && ms < SINCE_MS_MAX) return new Date(now_ms - ms).toISOString()
  throw new CommandFailure('usage', `--since takes a time such as 90m, 1h or 7d (at most 365d), not "${text}"`)
}

/** Of one tenant, or of all. */
export async function readServed(
  client: AdminClient,
  since: string,
  only: string | undefined,
): Promise<{ tenants: TenantPrograms[]; cut: boolean }> {
  const known =
    only === undefined ? await client.list('/tenants', {}, ROWS_MAX) : [await client.one('GET', `/tenants/${at(only)}`)]
  const tenants: TenantPrograms[] = []
  let cut = false
  for (const row of known) {
    const { id, weight } = Tenant.parse(row)
    const rows = await client.list(`/tenants/${at(id)}/trace`, { since }, ROWS_MAX)
    cut ||= rows.length >= ROWS_MAX
    if (rows.length > 0) tenants.push({ tenant: id, weight, programs: rows.map((one) => ServedProgram.parse(one)) })
  }
  return { tenants, cut }
}
