/** Who looks at the page: the operator, or a tenant. Both are recognised as everywhere else, by the key of the request. */
import type { Env } from '../../env.ts'
import { authenticate } from '../../store/keys.ts'
import { isOperator } from '../boundary.ts'

export type Viewer = { role: 'operator' } | { role: 'tenant'; tenant: string; weight: number }

export type ViewerCheck =
  | { status: 'viewer'; viewer: Viewer }
  | { status: 'refused'; reason: 'missing' | 'several' | 'unknown' | 'disabled' }

export async function viewerOf(
  request: Request,
  env: Env,
  now_ms: number,
  background: (work: Promise<unknown>) => void,
): Promise<ViewerCheck> {
  if (await isOperator(request.headers, env)) return { status: 'viewer', viewer: { role: 'operator' } }
  const who = await authenticate(request, env, now_ms, background)
  if (who.status === 'refused') return who
  const { tenant, weight } = who.identity
  return { status: 'viewer', viewer: { role: 'tenant', tenant, weight } }
}
