/** The Worker: its routes and its Durable Objects. */
import { app } from './api/app.ts'

export { ApplicationActor } from './actors/application/application-actor.ts'
export { ArchiveActor } from './actors/archive.ts'
export { BatchActor } from './actors/batch/batch-actor.ts'
export { ClassActor } from './actors/class.ts'
export { ConversationActor } from './actors/conversation.ts'
export { HostsActor } from './actors/hosts/hosts-actor.ts'
export { IdempotencyActor } from './actors/idempotency-actor.ts'
export { PoolActor } from './actors/pool.ts'
export { ProgramActor } from './actors/program.ts'
export { ResponsesActor } from './actors/responses.ts'
export { TenantActor } from './actors/tenant.ts'
export { BatchLines } from './relay/batch-lines.ts'

export default app
