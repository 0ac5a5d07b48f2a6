/** R2 of another process: what src/store uses of its API. */
import { type Peer, SECRET_HEADER } from './peer.ts'
import { released } from './released.ts'

interface Range {
  offset: number
  length: number
}

export function remoteBucket(peer: Peer, secret: string): R2Bucket {
  const bucket = {
    put: (key: string, body: Uint8Array) => peer.stored(secret, key, body),
    delete: (keys: string | string[]) => peer.dropped(secret, [keys].flat()),
    async list({ prefix }: { prefix: string }) {
      const { keys, truncated } = await released(peer.listed(secret, prefix))
      return { objects: keys.map((key) => ({ key })), truncated }
    },
    /** A Response has what is read of an object: `body` and `arrayBuffer`. */
    async get(key: string, { range }: { range?: Range } = {}) {
      const query = new URLSearchParams({ key })
      if (range !== undefined) {
        query.set('offset', String(range.offset))
        query.set('length', String(range.length))
      }
      const answer = await peer.fetch(`http://bucket/?${query}`, { headers: { [SECRET_HEADER]: secret } })
      if (answer.status === 404) {
        await answer.body?.cancel()
        return null
      }
      if (!answer.ok) throw new Error(`R2: the process that has it answered ${answer.status}`)
      return answer
    },
  }
  return bucket as unknown as R2Bucket
}
