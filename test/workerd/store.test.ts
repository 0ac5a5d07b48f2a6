/** The store: caches at their bounds, provisioning twice, and an archive larger than one statement. */
import { env } from 'cloudflare:workers'
import { beforeAll, describe, expect, it } from 'vitest'
import type { LeaseRow } from '../../src/core/program/process-table.ts'
import { ProgramEntry } from '../../src/core/program/process-table.ts'
import type { ProgramRows } from '../../src/core/program/program-state.ts'
import { StoreUnavailable } from '../../src/store/database.ts'
import {
  CACHE_ABSENT_ENTRIES_MAX,
  CACHE_ABSENT_TTL_MS,
  CACHE_ENTRIES_MAX,
  CACHE_OUTAGE_MS,
  CACHE_RENEW_MS,
  CACHE_RETRY_MS,
  CACHE_TTL_MS,
  IsolateCache,
} from '../../src/store/isolate-cache.ts'
import { bearer, CREDENTIAL_CHARS_MAX, secretsEqual } from '../../src/store/secrets.ts'
import { CALLS_PER_CHUNK } from '../../src/store/segments.ts'
import { endedCallsOf, endedRowsOf, keepRun, lastEnded } from './archive-tools.ts'
import { MODEL, provision, recordOf } from './fixtures.ts'

beforeAll(provision)

describe('the isolate’s cache', () => {
  it('renews an entry while it is used, asks for one that is too old, and sooner for what is absent', async () => {
    const cache = new IsolateCache<number>()
    let asked = 0
    const load = (value: number | null) => async () => {
      asked += 1
      return value
    }
    await cache.get('a', 0, load(1))
    expect(await cache.get('a', CACHE_RENEW_MS - 1, load(2))).toBe(1)
    expect(asked).toBe(1)
    expect(await cache.get('a', CACHE_RENEW_MS, load(2))).toBe(1)
    expect(await cache.get('a', CACHE_RENEW_MS, load(3))).toBe(2)
    expect(await cache.get('a', CACHE_RENEW_MS + CACHE_TTL_MS, load(3))).toBe(3)
    await cache.get('b', 0, load(null))
    expect(await cache.get('b', CACHE_ABSENT_TTL_MS - 1, load(3))).toBeNull()
    expect(await cache.get('b', CACHE_ABSENT_TTL_MS, load(3))).toBe(3)
    expect(asked).toBe(5)
  })

  it('lets one of many renew an entry, and none of them wait', async () => {
    const cache = new IsolateCache<number>()
    await cache.get('a', 0, async () => 1)
    const { promise, resolve } = Promise.withResolvers<number>()
    let asked = 0
    const load = () => {
      asked += 1
      return promise
    }
    const background: Promise<unknown>[] = []
    const get = () => cache.get('a', CACHE_TTL_MS - 1, load, (work) => background.push(work))
    expect(new Set(await Promise.all(Array.from({ length: 64 }, get)))).toEqual(new Set([1]))
    expect([asked, background.length]).toEqual([1, 1])
    resolve(2)
    await Promise.all(background)
    expect(await get()).toBe(2)
  })

  it('asks once for all that need an entry which is absent or too old', async () => {
    const cache = new IsolateCache<number>()
    let asked = 0
    const load = async () => {
      asked += 1
      await new Promise((resolve) => setTimeout(resolve, 1))
      return asked
    }
    const all = (at_ms: number) => Promise.all(Array.from({ length: 64 }, () => cache.get('a', at_ms, load)))
    expect([new Set(await all(0)), new Set(await all(CACHE_TTL_MS))]).toEqual([new Set([1]), new Set([2])])
  })

  it('refreshes at once where it is asked to, and falls back on what it knows while the store is down', async () => {
    const cache = new IsolateCache<number>()
    const down = async () => {
      throw new Error('down')
    }
    await expect(cache.refresh('a', 0, down)).rejects.toThrow('down')
    expect(await cache.refresh('a', 0, async () => 1)).toBe(1)
    expect(await cache.refresh('a', 1, async () => 2)).toBe(2)
    expect(await cache.refresh('a', CACHE_TTL_MS, down)).toBe(2)
    await expect(cache.refresh('a', CACHE_TTL_MS + 1, down)).rejects.toThrow('down')
    expect(await cache.refresh('a', 2, async () => null)).toBeNull()
    expect(await cache.get('a', 3, async () => 3)).toBeNull()
  })

  it('is bounded, and guesses do not push out what is real', async () => {
    const cache = new IsolateCache<number>()
    await cache.get('real', 0, async () => 1)
    for (let i = 0; i <= CACHE_ABSENT_ENTRIES_MAX; i++) await cache.get(`guess-${i}`, 0, async () => null)
    expect(cache.sizes).toEqual({ present: 1, absent: CACHE_ABSENT_ENTRIES_MAX })
    for (let i = 1; i < CACHE_ENTRIES_MAX; i++) await cache.get(`real-${i}`, 0, async () => i)
    expect(await cache.get('real', 1, async () => 2)).toBe(1)
    await cache.get('one-more', 0, async () => 1)
    expect(cache.sizes.present).toBe(CACHE_ENTRIES_MAX)
    expect(await cache.get('real', 1, async () => 2)).toBe(2)
  })

  it('remembers nothing of a load that failed', async () => {
    const cache = new IsolateCache<number>()
    const down = async () => {
      throw new Error('D1 is down')
    }
    await expect(cache.get('a', 0, down)).rejects.toThrow('D1 is down')
    expect(await cache.get('a', 0, async () => 1)).toBe(1)
  })
})

describe('the isolate’s cache while D1 is down', () => {
  const down = async () => {
    throw new StoreUnavailable('D1 is down')
  }

  it('an entry goes on for its outage, up to its end and not past it', async () => {
    const cache = new IsolateCache<number>()
    await cache.get('a', 0, async () => 1)
    expect(await cache.get('a', CACHE_TTL_MS + CACHE_OUTAGE_MS - 1, down)).toBe(1)
    await expect(cache.get('a', CACHE_TTL_MS + CACHE_OUTAGE_MS, down)).rejects.toThrow(StoreUnavailable)
  })

  it('D1 is asked again once per retry interval, and heard when it is back', async () => {
    const cache = new IsolateCache<number>()
    let asked = 0
    const ask = async () => {
      asked += 1
      return down()
    }
    await cache.get('a', 0, async () => 1)
    for (const at_ms of [0, 1, CACHE_RETRY_MS - 1]) expect(await cache.get('a', CACHE_TTL_MS + at_ms, ask)).toBe(1)
    expect(asked).toBe(1)
    await cache.get('a', CACHE_TTL_MS + CACHE_RETRY_MS, ask)
    expect(asked).toBe(2)
    expect(await cache.get('a', CACHE_TTL_MS + 2 * CACHE_RETRY_MS, async () => 2)).toBe(2)
  })

  it('a D1 that does not answer counts as one that fails, and a bug of ours does not', async () => {
    const cache = new IsolateCache<number>()
    await cache.get('a', 0, async () => 1)
    expect(await cache.get('a', CACHE_TTL_MS, () => new Promise(() => undefined))).toBe(1)
    const bug = async () => {
      throw new TypeError('a bug')
    }
    await expect(cache.get('a', CACHE_TTL_MS + CACHE_RETRY_MS, bug)).rejects.toThrow(TypeError)
  })

  it('a key that D1 says is gone is gone', async () => {
    const cache = new IsolateCache<number>()
    await cache.get('a', 0, async () => 1)
    expect(await cache.get('a', CACHE_TTL_MS, async () => null)).toBeNull()
  })
})

describe('secrets', () => {
  it('are compared whole', async () => {
    expect(await secretsEqual('one', 'one')).toBe(true)
    expect(await secretsEqual('one', 'onf')).toBe(false)
    expect(await secretsEqual('one', '')).toBe(false)
  })

  it('are read from the header up to a bound', () => {
    const of = (value: string) => bearer(new Headers({ authorization: value }))
    expect(of('Bearer abc')).toBe('abc')
    expect(of('bearer   abc')).toBe('abc')
    expect(of('Basic abc')).toBeNull()
    expect(of('Bearer a b')).toBeNull()
    expect(of(`Bearer ${'x'.repeat(CREDENTIAL_CHARS_MAX)}`)).toHaveLength(CREDENTIAL_CHARS_MAX)
    expect(of(`Bearer ${'x'.repeat(CREDENTIAL_CHARS_MAX + 1)}`)).toBeNull()
  })
})

describe('provisioning', () => {
  it('may run again, and does not bring a revoked key back', async () => {
    await env.DB.prepare("UPDATE api_keys SET revoked_at_ms = 1 WHERE tenant = 'tenant-b'").run()
    await provision()
    const { results } = await env.DB.prepare('SELECT tenant, revoked_at_ms FROM api_keys ORDER BY tenant').all()
    expect(results).toEqual([
      { tenant: 'tenant-a', revoked_at_ms: null },
      { tenant: 'tenant-b', revoked_at_ms: 1 },
    ])
  })

  it('leaves what an operator changed', async () => {
    const change = "UPDATE tenants SET weight = 7, calls_per_minute_max = 9 WHERE id = 'tenant-a'"
    await env.DB.batch([env.DB.prepare(change), env.DB.prepare("UPDATE models SET ordering_service = 'wall'")])
    await provision()
    const tenant = await env.DB.prepare(
      "SELECT weight, calls_per_minute_max FROM tenants WHERE id = 'tenant-a'",
    ).first()
    expect(tenant).toEqual({ weight: 7, calls_per_minute_max: 9 })
    expect(await env.DB.prepare('SELECT ordering_service FROM models').first('ordering_service')).toBe('wall')
  })
})

describe('the archive', () => {
  const tenant = 'tenant-a'

  it('holds a run of several chunks, and gives it back as it was', async () => {
    const entry = endedRun('large', 2 * CALLS_PER_CHUNK + 1)
    const rows = entry.rows()
    await keepRun(rows, entry.summary())
    await keepRun(rows, entry.summary())
    const stored = await found('large')
    expect(stored.program).toEqual(rows.program)
    expect(stored.calls).toEqual(rows.calls)
    expect(byLease(stored.leases)).toEqual(byLease(rows.leases))
    expect(await lastEnded(tenant, 'large')).toEqual({ ...entry.summary(), threads: [], weight: null })
  })

  it('is read page by page, across chunks, with and without the position of the last call', async () => {
    const shown: string[] = []
    const key = { tenant, program: 'large', run: 'run-1' }
    let after: Parameters<typeof endedCallsOf>[1] = null
    do {
      const { calls, next } = await endedCallsOf(key, after, 300)
      shown.push(...calls.map(({ call, leases }) => `${call} ${leases.map(({ lease }) => lease).join(' ')}`))
      after = next === null || shown.length > 600 ? next : { ...next, position: null }
    } while (after !== null)
    const calls = Array.from({ length: 2 * CALLS_PER_CHUNK + 1 }, (_, i) => `call-${i} large-lease-call-${i}`)
    expect(shown).toEqual(calls)
    expect(await endedCallsOf(key, { call: 'none', position: null }, 1)).toEqual({
      calls: [],
      next: null,
      class: '',
    })
  })

  it('never unsettles a lease: an older copy of a run changes nothing', async () => {
    const older = endedRun('older', 1, false)
    const newer = ProgramEntry.restore(older.rows())
    newer.settle(recordOf('older', 'run-1', 'call-0'), 9_000)
    await keepRun(newer.rows(), newer.summary())
    await keepRun(older.rows(), older.summary())
    expect((await found('older')).leases).toMatchObject([{ state: 'settled', service_modelled_us: 1_000 }])
    expect(await lastEnded(tenant, 'older')).toMatchObject({ service_us: newer.summary().service_us })
  })

  it('shows no other tenant’s run', async () => {
    const key = { tenant: 'tenant-b', program: 'large', run: 'run-1' }
    expect(await endedRowsOf(key)).toEqual({ status: 'absent' })
    expect(await endedCallsOf(key, null, 10)).toEqual({ calls: [], next: null, class: '' })
  })

  it('refuses a run that has not ended', async () => {
    const entry = openRun('running')
    await expect(keepRun(entry.rows(), entry.summary())).rejects.toThrow('before its end')
  })
})

async function found(program: string): Promise<ProgramRows> {
  const run = await endedRowsOf({ tenant: 'tenant-a', program, run: 'run-1' })
  if (run.status !== 'found') throw new Error(run.status)
  return run.rows
}

function openRun(program: string): ProgramEntry {
  return ProgramEntry.open({
    ...{ tenant: 'tenant-a', program, run: 'run-1', app: 'app', class: 'app:app', metadata: { a: 'b' } },
    ...{ reading: 'modelled', now_ms: 1_000 },
  })
}

function endedRun(program: string, calls: number, settled = true): ProgramEntry {
  const entry = openRun(program)
  for (let i = 0; i < calls; i++) {
    const call = `call-${i}`
    entry.admit({ call, thread: null, parents: i === 0 ? null : [`call-${i - 1}`], model: MODEL, now_ms: 2_000 + i })
    entry.leaseOpened({
      ...{ run: 'run-1', call, lease: `${program === 'older' ? '' : `${program}-`}lease-${call}`, agent: 'agent-east' },
      ...{ engine: 'agent-east-e0', epoch: 'epoch-1', region: 'us-east', model: MODEL, reason: 'pin_created' },
      ...{ speed_factor: 1.5, pin: true, now_ms: 2_000 + i },
    })
    const lease = `${program}-lease-${call}`
    if (settled) entry.settle(recordOf(program, 'run-1', call, { lease, service_modelled_us: i }), 3_000 + i)
  }
  entry.end(8_000, 'explicit')
  return entry
}

function byLease(leases: readonly LeaseRow[]): Map<string, LeaseRow> {
  return new Map(leases.map((lease) => [lease.lease, lease]))
}
