/**
 * Serves the lines of batches, for their actors alone: each is a call like a client's, under the key that made the batch.
 * Its record is metered with those of other calls without a program, in bulk (api/settle-records.ts).
 */
import { WorkerEntrypoint } from 'cloudflare:workers'
import {
  LINE_KEY_HEADER,
  LINE_MODELS_PATH,
  LINE_REFUSED_HEADER,
  LINE_TENANT_HEADER,
} from '../actors/batch/line-call.ts'
import type { Env } from '../env.ts'
import { authenticationFailure } from '../platform/api-error.ts'
import { type Authentication, identityOfKey } from '../store/keys.ts'
import { type RelayDeps, relayDeps } from './deps.ts'
import { DIALECTS, type DialectName } from './dialects/index.ts'
import { mayUse } from './restrictions.ts'
import { runCall } from './run-call.ts'

/** By the `url` of a line. */
const DIALECT_OF: ReadonlyMap<string, DialectName> = new Map(
  (Object.keys(DIALECTS) as DialectName[]).map((name) => [DIALECTS[name].path, name]),
)
export const BATCH_ENDPOINTS: readonly string[] = [...DIALECT_OF.keys()]

export class BatchLines extends WorkerEntrypoint<Env> {
  override async fetch(asked: Request): Promise<Response> {
    const tenant = asked.headers.get(LINE_TENANT_HEADER) ?? ''
    const key = asked.headers.get(LINE_KEY_HEADER) ?? ''
    const background = (work: Promise<unknown>) => this.ctx.waitUntil(work)
    const who = await identityOfKey(this.env, tenant, key, Date.now(), background)
    if (who.status === 'refused') {
      const { error } = authenticationFailure(who.reason)
      return new Response(error.message, { headers: { [LINE_REFUSED_HEADER]: '1' } })
    }
    const deps: RelayDeps = { ...relayDeps(this.env, this.ctx), authenticate: async () => who }
    const { pathname } = new URL(asked.url)
    if (pathname === LINE_MODELS_PATH) return Response.json({ models: await modelsOf(who, deps) })
    const dialect = DIALECT_OF.get(pathname)
    if (dialect === undefined) throw new Error(`no dialect serves ${pathname}`)
    return runCall(new Request(asked, { headers: { 'content-type': 'application/json' } }), dialect, deps, 'offline')
  }
}

async function modelsOf({ identity }: Authentication & { status: 'tenant' }, deps: RelayDeps): Promise<string[]> {
  const { models } = await deps.catalogue()
  return [...models.keys()].filter((id) => mayUse(identity.models, id))
}
