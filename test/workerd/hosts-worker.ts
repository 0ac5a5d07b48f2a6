/** The Worker, with a door to the HostsActor for tests: POST /test/hosts/plan|run|release with the request as JSON. */
import { hostsActor } from '../../src/actors/stubs.ts'
import { app } from '../../src/api/app.ts'
import type { Env } from '../../src/env.ts'

export * from '../../src/worker.ts'

const DOOR = '/test/hosts/'

export default {
  async fetch(request: Request, env: Env, ctx: ExecutionContext): Promise<Response> {
    const { pathname } = new URL(request.url)
    if (!pathname.startsWith(DOOR)) return app.fetch(request, env, ctx)
    const body = await request.json<never>()
    const hosts = hostsActor(env)
    switch (pathname.slice(DOOR.length)) {
      case 'plan':
        return Response.json(await hosts.plan(body))
      case 'run':
        return Response.json(await hosts.run(body))
      default:
        await hosts.release(body)
        return Response.json({ status: 'released' })
    }
  },
}
