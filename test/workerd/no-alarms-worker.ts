/** The Worker, whose programs set no alarm: `npm run bench:memory` asks with it what alarms cost in memory. */
// First: it extends Zod, and only schemas that are made afterwards know of it.
import '@hono/zod-openapi'
import { ProgramActor as RealProgramActor } from '../../src/actors/program.ts'
import { app } from '../../src/api/app.ts'
import type { Env } from '../../src/env.ts'

export * from '../../src/worker.ts'

export class ProgramActor extends RealProgramActor {
  constructor(ctx: DurableObjectState, env: Env) {
    Object.defineProperty(ctx.storage, 'setAlarm', { value: async () => undefined })
    super(ctx, env)
  }
}

export default app
