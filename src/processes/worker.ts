/**
 * The Worker of a control plane that runs in several processes of one machine (`up -- --workers N`). On Cloudflare, and in
 * one process, it is src/worker.ts alone.
 */
import * as single from '../worker.ts'
import { ofSeveral } from './of-several.ts'
import type { ProcessEnv } from './peer.ts'
import { sharedEnv } from './shared-env.ts'

export { PeerEntrypoint } from './peer.ts'

export const ApplicationActor = ofSeveral(single.ApplicationActor)
export const ArchiveActor = ofSeveral(single.ArchiveActor)
export const BatchActor = ofSeveral(single.BatchActor)
export const BatchLines = ofSeveral(single.BatchLines)
export const ClassActor = ofSeveral(single.ClassActor)
export const ConversationActor = ofSeveral(single.ConversationActor)
export const HostsActor = ofSeveral(single.HostsActor)
export const IdempotencyActor = ofSeveral(single.IdempotencyActor)
export const PoolActor = ofSeveral(single.PoolActor)
export const ProgramActor = ofSeveral(single.ProgramActor)
export const ResponsesActor = ofSeveral(single.ResponsesActor)
export const TenantActor = ofSeveral(single.TenantActor)

export default {
  fetch: (request: Request, env: ProcessEnv, ctx: ExecutionContext): Response | Promise<Response> =>
    single.default.fetch(request, sharedEnv(env), ctx),
}
