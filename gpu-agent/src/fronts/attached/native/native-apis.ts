/**
 * Which APIs beside chat a server speaks itself. An empty body finds it out: a route that is there refuses the body, one that is not
 * there is refused like any unknown route. It generates no tokens. Of kinds of servers whose chat API is known, the agent
 * translates, since only there it knows what they honour and keeps tenants' caches apart.
 */
import { NATIVE_PATHS, NativeApi } from '../../../../../src/protocol/index.ts'
import { type Asking, ask } from '../ask-server.ts'
import { isOpenAi } from '../provider-hosts.ts'
import type { ServerKind } from '../server-profile.ts'

/** Of a body that lacks everything. */
const REFUSES_BODY: ReadonlySet<number | null> = new Set([400, 422])
const NO_ROUTE = '/v1/switchyard-no-such-route'

export async function nativeApis(server: Asking, kind: ServerKind): Promise<NativeApi[]> {
  if (kind === 'anthropic') return ['messages']
  if (kind !== 'openai') return []
  if (isOpenAi(server.url)) return ['responses']
  const statusAt = async (path: string): Promise<number | null> => {
    const answer = await ask(server, path, { body: {} })
    return answer.ok ? 200 : answer.status
  }
  const missing = await statusAt(NO_ROUTE)
  if (REFUSES_BODY.has(missing)) return []
  const statuses = await Promise.all(NativeApi.options.map((api) => statusAt(NATIVE_PATHS[api])))
  return NativeApi.options.filter((_, index) => REFUSES_BODY.has(statuses[index] ?? null))
}
