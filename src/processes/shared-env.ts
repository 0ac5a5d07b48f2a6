/**
 * The bindings of a process that is one of several. An object that another process has is asked there, and so are the
 * database and the bucket, which the first process has.
 */

import type { Env } from '../env.ts'
import { ownerOf } from './owner.ts'
import {
  OBJECT_BINDINGS,
  OBJECT_HEADER,
  type ObjectBinding,
  type Peer,
  type ProcessEnv,
  SECRET_HEADER,
} from './peer.ts'
import { released } from './released.ts'
import { remoteBucket } from './remote-bucket.ts'
import { remoteDatabase } from './remote-database.ts'

const shared = new WeakMap<object, Env>()

/** The same one for the same `env`. */
export function sharedEnv(env: ProcessEnv): Env {
  const known = shared.get(env)
  if (known !== undefined) return known
  const made: Env = { ...env, ...Object.fromEntries(OBJECT_BINDINGS.map((binding) => [binding, spread(env, binding)])) }
  const first = env.PEER_0
  if (env.PROCESS !== '0' && first !== undefined) {
    made.DB = remoteDatabase(first, env.PEER_SECRET)
    made.BUCKET = remoteBucket(first, env.PEER_SECRET)
  }
  shared.set(env, made)
  return made
}

/** A namespace of which this process has a part. What is asked through names, as everywhere in src/actors/stubs.ts. */
function spread(env: ProcessEnv, binding: ObjectBinding): DurableObjectNamespace {
  const namespace = env[binding]
  const processes = Number(env.PROCESSES)
  const own = Number(env.PROCESS)
  const getByName = (name: string, options?: DurableObjectNamespaceGetDurableObjectOptions): unknown => {
    const owner = ownerOf(namespace.idFromName(name).toString(), processes)
    const peer = owner === own ? undefined : env[`PEER_${owner}`]
    return peer === undefined ? namespace.getByName(name, options) : remoteObject(peer, env.PEER_SECRET, binding, name)
  }
  return { getByName } as unknown as DurableObjectNamespace
}

/** A stub: each of its methods is the object's, and `fetch` sends it a request. */
function remoteObject(peer: Peer, secret: string, binding: ObjectBinding, name: string): object {
  const fetch = (url: string, init: RequestInit = {}) => {
    const headers = new Headers(init.headers)
    headers.set(SECRET_HEADER, secret)
    headers.set(OBJECT_HEADER, JSON.stringify([binding, name]))
    return peer.fetch(url, { ...init, headers })
  }
  return new Proxy(
    {},
    {
      get(_, method) {
        // A promise that resolves with it must not take it for another promise.
        if (typeof method !== 'string' || method === 'then') return undefined
        if (method === 'fetch') return fetch
        return (...args: unknown[]) => released(peer.ask(secret, binding, name, method, args))
      },
    },
  )
}
