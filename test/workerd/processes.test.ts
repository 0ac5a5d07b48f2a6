/** One process of several, with another one in place of its peers: what it does not have itself it asks there, and it looks the same. */
import { createExecutionContext } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { tenantActor } from '../../src/actors/stubs.ts'
import { OBJECT_HEADER, type Peer, PeerEntrypoint, type ProcessEnv, SECRET_HEADER } from '../../src/processes/peer.ts'
import { sharedEnv } from '../../src/processes/shared-env.ts'
import { auditorOf } from '../../src/store/audit.ts'
import { deleteObject, fileStream, PartWriter, readBytesAt } from '../../src/store/file-contents.ts'
import { insertTenant, tenantById } from '../../src/store/tenants.ts'
import { provision } from './fixtures.ts'

const SECRET = 'a secret of this start'

/** The first of two, which has D1 and R2. */
const first = new PeerEntrypoint(createExecutionContext(), {
  ...env,
  ...{ PROCESSES: '2', PROCESS: '0', PEER_SECRET: SECRET },
} as unknown as ProcessEnv)

/** What the second one asked it for. */
const asked: string[] = []
const peer = {
  ask: (...args: Parameters<Peer['ask']>) => {
    asked.push(`${args[1]}.${args[3]}`)
    return first.ask(...args)
  },
  sql: (...args: Parameters<Peer['sql']>) => {
    asked.push(`DB.${args[1]}`)
    return first.sql(...args)
  },
  listed: first.listed.bind(first),
  stored: first.stored.bind(first),
  dropped: first.dropped.bind(first),
  fetch: (url: string, init: RequestInit) => first.fetch(new Request(url, init)),
} as unknown as Peer

const { DB: _, BUCKET: __, ...withoutStores } = env as unknown as ProcessEnv
const second = sharedEnv({
  ...withoutStores,
  ...{ PROCESSES: '2', PROCESS: '1', PEER_SECRET: SECRET, PEER_0: peer },
} as unknown as ProcessEnv)

describe('a process that is one of several', () => {
  it('reads and writes the database of the first, and learns what that refuses', async () => {
    await provision()
    const auditor = await auditorOf(env.KEY_PEPPER, 'admin', Date.now())
    const tenant = { ...((await tenantById(env.DB, 'tenant-a')) ?? expect.unreachable()), id: 'tenant-of-second' }
    await insertTenant(second.DB, auditor, tenant)
    expect(await tenantById(second.DB, tenant.id)).toEqual(tenant)
    expect(await tenantById(env.DB, tenant.id)).toEqual(tenant)
    expect(new Set(asked.filter((what) => what.startsWith('DB.')))).toEqual(new Set(['DB.batch', 'DB.raw']))
    await expect(second.DB.prepare('select nonsense from nowhere').all()).rejects.toThrow('no such table: nowhere')
    const { results } = await second.DB.prepare('select ? as bytes, ? as none')
      .bind(new Uint8Array([1, 2]), null)
      .all()
    expect(results).toEqual([{ bytes: [1, 2], none: null }])
  })

  it('writes files where the first has them: whole, in ranges, listed and deleted', async () => {
    const bytes = crypto.getRandomValues(new Uint8Array(50_000))
    const writer = new PartWriter(second.BUCKET, 'tenant-a', 'file-of-second')
    await writer.write(bytes)
    const parts = await writer.finish()
    expect(await readBytesAt(second.BUCKET, 'tenant-a', parts, 1_000, 20)).toEqual(bytes.subarray(1_000, 1_020))
    expect(await readBytesAt(env.BUCKET, 'tenant-a', parts, 1_000, 20)).toEqual(bytes.subarray(1_000, 1_020))
    const stream = await fileStream(second.BUCKET, 'tenant-a', parts, () => undefined)
    expect(new Uint8Array(await new Response(stream).arrayBuffer())).toEqual(bytes)
    await deleteObject(second.BUCKET, 'tenant-a', 'file-of-second')
    expect(await fileStream(second.BUCKET, 'tenant-a', parts, () => undefined)).toBeNull()
  })

  it('asks an object where it lives, and keeps those of its own', async () => {
    asked.length = 0
    const names = Array.from({ length: 16 }, (_one, n) => `spread-${n}`)
    const answers = await Promise.all(names.map((name) => tenantActor(second, name).runningCount()))
    expect(answers).toEqual(names.map(() => 0))
    const remote = asked.filter((what) => what.startsWith('TENANT.')).length
    expect(remote).toBeGreaterThan(2)
    expect(remote).toBeLessThan(names.length - 2)
  })

  it('is answered nothing without the secret of this start', async () => {
    for (const wrong of ['', 'a secret of this star', 'a secret of that start']) {
      await expect(first.ask(wrong, 'TENANT', 'tenant-a', 'runningCount', [])).rejects.toThrow('not from a process')
      await expect(first.sql(wrong, 'all', [{ sql: 'select 1', params: [] }])).rejects.toThrow('not from a process')
      await expect(first.stored(wrong, 'key', new Uint8Array(1))).rejects.toThrow('not from a process')
      const headers = { [SECRET_HEADER]: wrong, [OBJECT_HEADER]: JSON.stringify(['TENANT', 'tenant-a']) }
      expect((await first.fetch(new Request('http://peer/', { headers }))).status).toBe(403)
    }
    const open = new PeerEntrypoint(createExecutionContext(), { ...env, PEER_SECRET: '' } as unknown as ProcessEnv)
    await expect(open.ask('', 'TENANT', 'tenant-a', 'runningCount', [])).rejects.toThrow('not from a process')
  })
})
