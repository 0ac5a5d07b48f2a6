/** Calls that are leased without a request, through a scripted world. */
import { describe, expect, it } from 'vitest'
import type { AdmitReply, LeaseByCredit, LeaseReply } from '../actors/contracts.ts'
import { runCall } from './run-call.ts'
import {
  ADMITTED,
  answering,
  chat,
  failing,
  leaseOf,
  MODEL,
  PROGRAM,
  snapshotOf,
  UNRESTRICTED,
  world,
} from './testing/world.ts'

type Admitted = Extract<AdmitReply, { status: 'admitted' }>

const PIN = { region: 'near', model: MODEL, engine: 'e0', epoch: 'epoch-1' }
/** The actor expects a call of a pinned program at its pin. */
const at =
  (change: Partial<Admitted> = {}) =>
  async ({ lease }: { lease?: string }) =>
    ({ ...(ADMITTED as Admitted), pin: PIN, expected_lease: lease ?? null, ...change }) as AdmitReply

function credited(credits: number, change: Partial<Admitted> = {}, of: Parameters<typeof world>[0] = {}) {
  const lease = async (): Promise<LeaseReply> =>
    ({ ...leaseOf('e0', snapshotOf(['e0', 'e1'])), pin: true, reason: 'pinned', credits }) as LeaseReply
  return world({
    engines: { e0: answering('hello'), e1: answering('there') },
    times: { credits_told_ms: 5 },
    ...of,
    program: { admit: at(change), ...of.program } as never,
    pool: { lease, leasedByCredit: async () => ({ e0: 0 }), ...of.pool } as never,
  })
}

type Asked = ReturnType<typeof credited>

async function call(it: Asked, body: Parameters<typeof chat>[0] = {}, headers: Record<string, string> = PROGRAM) {
  const response = await runCall(chat({ stream: true, ...body }, headers), 'chat', it.deps)
  expect(response.status).toBe(200)
  await response.text()
  return response
}

const leases = (it: Asked) => it.saidTo('lease').length
const told = (it: Asked) => it.saidTo('leasedByCredit') as LeaseByCredit[][]

describe('a call of a program that is at home', () => {
  it('makes no request of its pool where the isolate holds a credit, and the pool is told', async () => {
    const it = credited(2)
    await call(it)
    const second = await call(it)
    await call(it)
    expect(second.headers.get('x-engine-id')).toBe('e0')
    expect(leases(it)).toBe(1)
    await it.settled()
    const [first] = it.saidTo('admit') as { call: string; lease: string }[]
    expect(told(it).flat()).toMatchObject([
      { tenant: 't', program: 'p', agent: 'agent-e0', engine: 'e0', epoch: 'epoch-1', class: 'app:x' },
      { tenant: 't', program: 'p' },
    ])
    expect(
      told(it)
        .flat()
        .map(({ call }) => call),
    ).not.toContain(first?.call)
    expect(
      told(it)
        .flat()
        .map(({ lease }) => lease),
    ).toEqual((it.saidTo('admit') as { lease: string }[]).slice(1).map(({ lease }) => lease))
    // Its actor expects it there, so it is not told of the lease either.
    expect(it.saidTo('leaseOpened')).toEqual([])
  })

  it('makes none either where the record of the call before has not come yet', async () => {
    let last: string[] = []
    const admit = async ({ lease = '' }: { lease?: string }) => {
      const reply = { ...(ADMITTED as Admitted), pin: PIN, expected_lease: lease, open_leases: last }
      last = [lease]
      return reply
    }
    const it = credited(9, {}, { program: { admit } as never })
    for (let n = 0; n < 3; n += 1) await call(it)
    expect(leases(it)).toBe(1)
  })

  it('asks again when credits are used up, and goes on with those of the answer', async () => {
    const it = credited(1)
    for (let n = 0; n < 5; n += 1) await call(it)
    await it.settled()
    expect([leases(it), told(it).flat().length]).toEqual([3, 2])
  })

  it('several leases are told together, and the answer gives new credits', async () => {
    const it = credited(3, {}, { times: { credits_told_ms: 30 }, pool: { leasedByCredit: async () => ({ e0: 2 }) } })
    for (let n = 0; n < 4; n += 1) await call(it)
    await it.settled()
    expect(told(it).map((some) => some.length)).toEqual([3])
    await call(it)
    expect(leases(it)).toBe(1)
  })

  it('a pool that cannot be told changes nothing for calls', async () => {
    const refuse = async () => {
      throw new Error('the pool is gone')
    }
    const it = credited(1, {}, { pool: { leasedByCredit: refuse } })
    await call(it)
    await call(it)
    await it.settled()
    expect(it.reports).toEqual(['leases_not_told'])
    await call(it)
    expect(leases(it)).toBe(2)
  })
})

describe('a pool is asked, though the isolate holds credits, for', () => {
  const asking: [string, Partial<Admitted>, Record<string, string>?, Parameters<typeof chat>[0]?][] = [
    ['a program without a pin', { pin: null }],
    ['one that is pinned elsewhere', { pin: { ...PIN, engine: 'e1' } }],
    ['one whose engine has begun anew', { pin: { ...PIN, epoch: 'epoch-2' } }],
    ['one whose pin is of another model', { pin: { ...PIN, model: 'other' } }],
    ['one that has an open lease, which may be elsewhere', { open_leases: ['lease-0'] }],
    [
      'a prompt that has outgrown its engine',
      {},
      PROGRAM,
      { messages: [{ role: 'user', content: 'x'.repeat(20_000) }] },
    ],
    ['a call that names no program', {}, {}],
    ['another program, which this isolate has not heard of', { pin: null }, { 'x-program-id': 'q' }],
  ]

  it.each(asking)('%s', async (_, change, headers = PROGRAM, body = {}) => {
    const it = credited(9)
    await call(it)
    const other = credited(9, change)
    Object.assign(it.deps, { program: other.deps.program })
    await call(it, body, headers)
    await it.settled()
    expect([leases(it), told(it)]).toEqual([2, []])
  })

  it('one that is held to other regions than its pin’s, and one whose pin is not in the nearest', async () => {
    const it = credited(9, {}, { regions: ['nearest', 'near'] })
    it.deps.creditBook.credits.granted(
      PIN,
      { agent: 'agent-e0', engine: 'e0', epoch: 'epoch-1', url: 'http://e0.test', speed_factor: 1, ticket_kid: '1' },
      9,
      it.deps.now(),
    )
    it.deps.creditBook.credits.stays(JSON.stringify([UNRESTRICTED.tenant, 'p', MODEL]), PIN, 'lease-0')
    await call(it)
    await it.settled()
    expect(leases(it)).toBeGreaterThan(0)
    expect(told(it)).toEqual([])
  })

  it('a call whose engine takes no more: what the pool says then holds', async () => {
    const it = credited(9)
    await call(it)
    const draining = world({ engines: { e0: failing({ code: 'draining' }), e1: answering('there') } })
    Object.assign(it.deps, { fetch: draining.deps.fetch })
    const first = it.deps.pool
    Object.assign(it.deps, { pool: world({ pool: { lease: async () => leaseOf('e1') } as never }).deps.pool })
    expect((await call(it)).headers.get('x-engine-id')).toBe('e1')
    // Where it has no engine, the client hears that, and when to come again.
    Object.assign(it.deps, { pool: first })
    await call({ ...it, deps: { ...it.deps, fetch: world({ engines: { e0: answering('hello') } }).deps.fetch } })
    const nothing = { status: 'none', retry_after_s: 5, ticket_kid: null, snapshot: null, charges: [] }
    Object.assign(it.deps, { pool: world({ pool: { lease: async () => nothing } as never }).deps.pool })
    const refused = await runCall(chat({ stream: true }, PROGRAM), 'chat', it.deps)
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '5'])
    expect(await refused.json()).toMatchObject({ error: { code: 'no_engine', type: 'server_error' } })
  })

  it('calls after one that the engine has failed', async () => {
    const it = credited(9, {}, { engines: { e0: answering('hello'), e1: answering('there') } })
    await call(it)
    const broken = credited(9, {}, { engines: { e0: failing({ code: 'engine_down' }), e1: answering('there') } })
    Object.assign(it.deps, { fetch: broken.deps.fetch })
    const lease = async (): Promise<LeaseReply> => leaseOf('e1')
    Object.assign(it.deps, { pool: world({ pool: { lease } as never }).deps.pool })
    const second = await call(it)
    expect(second.headers.get('x-engine-id')).toBe('e1')
    expect(it.deps.creditBook.credits.look(PIN)).toBeNull()
  })
})
