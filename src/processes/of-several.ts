import type { ProcessEnv } from './peer.ts'
import { sharedEnv } from './shared-env.ts'

type Made<Env> = new (ctx: never, env: Env) => object

/** The same class, whose objects see the objects of all processes. */
export function ofSeveral<Class extends Made<never>>(one: Class): Class {
  const Base = one as unknown as new (ctx: unknown, env: unknown) => object
  return class extends Base {
    constructor(ctx: unknown, env: ProcessEnv) {
      super(ctx, sharedEnv(env))
    }
  } as unknown as Class
}
