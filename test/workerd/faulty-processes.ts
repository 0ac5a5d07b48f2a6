/** faulty-worker.ts where several processes are the control plane: a fault that is set in one is set in all. */
import { ofSeveral } from '../../src/processes/of-several.ts'
import { type ProcessEnv, PeerEntrypoint as RealPeerEntrypoint, SECRET_HEADER } from '../../src/processes/peer.ts'
import { sharedEnv } from '../../src/processes/shared-env.ts'
import * as faulty from './faulty-worker.ts'

export const ApplicationActor = ofSeveral(faulty.ApplicationActor)
export const ArchiveActor = ofSeveral(faulty.ArchiveActor)
export const BatchActor = ofSeveral(faulty.BatchActor)
export const BatchLines = ofSeveral(faulty.BatchLines)
export const ClassActor = ofSeveral(faulty.ClassActor)
export const ConversationActor = ofSeveral(faulty.ConversationActor)
export const HostsActor = ofSeveral(faulty.HostsActor)
export const IdempotencyActor = ofSeveral(faulty.IdempotencyActor)
export const PoolActor = ofSeveral(faulty.PoolActor)
export const ProgramActor = ofSeveral(faulty.ProgramActor)
export const ResponsesActor = ofSeveral(faulty.ResponsesActor)
export const TenantActor = ofSeveral(faulty.TenantActor)

const SET_PATH = '/faults/set'

export class PeerEntrypoint extends RealPeerEntrypoint {
  override fetch(request: Request): Promise<Response> {
    if (new URL(request.url).pathname !== SET_PATH) return super.fetch(request)
    return faulty.default.fetch(request, this.env, this.ctx)
  }
}

export default {
  async fetch(request: Request, env: ProcessEnv, ctx: ExecutionContext): Promise<Response> {
    if (new URL(request.url).pathname === SET_PATH) await setElsewhere(await request.clone().text(), env)
    return faulty.default.fetch(request, sharedEnv(env), ctx)
  },
}

async function setElsewhere(body: string, env: ProcessEnv): Promise<void> {
  for (let index = 0; index < Number(env.PROCESSES); index += 1) {
    const headers = { [SECRET_HEADER]: env.PEER_SECRET }
    const answer = await env[`PEER_${index}`]?.fetch(`http://peer${SET_PATH}`, { method: 'POST', body, headers })
    await answer?.body?.cancel()
  }
}
