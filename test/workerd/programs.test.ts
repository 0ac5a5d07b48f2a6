/** /v1/programs against real actors and D1. */
import { evictDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeAll, describe, expect, it } from 'vitest'
import { programActor } from '../../src/actors/stubs.ts'
import { CLASS_WEIGHTS_MAX, PROGRAM_WEIGHT_MAX, PROGRAM_WEIGHT_MIN } from '../../src/protocol/index.ts'
import { json, KEY_A, KEY_B, MODEL, openCall, provision, recordOf, request } from './fixtures.ts'

interface List {
  data: { id: string; state: string }[]
  has_more: boolean
  next_cursor: string | null
}
interface Failure {
  error: { code: string; param: string | null; type: string; message: string }
}

beforeAll(provision)

describe('starting a program', () => {
  it('answers 201 with the entry, and 409 while it runs', async () => {
    const body = { id: 'started', app: 'tests', metadata: { user: 'u1' } }
    const started = await request('POST', '/v1/programs', KEY_A, body)
    expect(started.status).toBe(201)
    expect(await started.json()).toMatchObject({
      ...{ object: 'program', id: 'started', state: 'running', app: 'tests', class: 'app:tests' },
      ...{ metadata: { user: 'u1' }, service_s: 0, wait_s: 0, critical_path_s: 0, calls: 0, engines: [], threads: [] },
      ...{ last_call_arrival: null, last_call_completion: null },
    })
    const again = await request('POST', '/v1/programs', KEY_A, body)
    expect(again.status).toBe(409)
    expect((await json<Failure>(Promise.resolve(again))).error).toMatchObject({ code: 'program_exists', param: 'id' })
  })

  it('makes an id where none is given', async () => {
    const { id } = await json<{ id: string }>(request('POST', '/v1/programs', KEY_A, {}))
    expect((await request('GET', `/v1/programs/${id}`, KEY_A)).status).toBe(200)
  })

  it.each([
    ['an unknown field', { application: 'x' }, 400],
    ['an id with a control character', { id: 'a\nb' }, 400],
    ['an id of 129 characters', { id: 'x'.repeat(129) }, 400],
    ['an id of 128 characters', { id: 'x'.repeat(128) }, 201],
    ['17 metadata keys', { metadata: keys(17) }, 400],
    ['16 metadata keys', { metadata: keys(16) }, 201],
    ['a metadata value of 513 characters', { metadata: { k: 'v'.repeat(513) } }, 400],
    ['a metadata value of 512 characters', { metadata: { k: 'v'.repeat(512) } }, 201],
    ['a metadata key of 65 characters', { metadata: { ['k'.repeat(65)]: 'v' } }, 400],
    ['a body over 64 KiB', { id: 'y', app: 'x'.repeat(70_000) }, 413],
  ])('judges %s', async (_, body, status) => {
    const response = await request('POST', '/v1/programs', KEY_A, body)
    expect(response.status).toBe(status)
    if (status >= 400) expect((await json<Failure>(Promise.resolve(response))).error.type).toBe('invalid_request_error')
  })

  it('refuses a body that is no JSON', async () => {
    const { exports } = await import('cloudflare:workers')
    const headers = { authorization: `Bearer ${KEY_A}`, 'content-type': 'application/json' }
    const init = { method: 'POST', headers, body: '{"id":' }
    const response = await exports.default.fetch(new Request('https://switchyard.test/v1/programs', init))
    expect(response.status).toBe(400)
    expect((await json<Failure>(Promise.resolve(response))).error.code).toBe('invalid_json')
  })
})

describe('reading programs', () => {
  it('shows the calls with their leases, page by page, running and after the end alike', async () => {
    let run = ''
    for (let i = 0; i < 5; i++) run = await openCall('paged', `call-${i}`)
    const actor = programActor(env, 'tenant-a', 'paged')
    await actor.settle([0, 1, 2, 3, 4].map((i) => recordOf('paged', run, `call-${i}`)))
    const running = await pages('/v1/programs/paged/calls?limit=2')
    expect(running.map(({ id }) => id)).toEqual(['call-0', 'call-1', 'call-2', 'call-3', 'call-4'])
    expect(running[0]).toMatchObject({
      ...{ outcome: 'completed', service_s: 0.001, service_wall_s: 0.002, wait_s: 0.0003, cached_tokens: 4 },
      ...{ preemptions: 2, swapped_out_tokens: 12, swapped_in_tokens: 8, recomputed_tokens: 3, swap_s: 0.00006 },
      leases: [
        { id: 'lease-call-0', engine: 'agent-east-e0', region: 'us-east', reason: 'least_used', state: 'settled' },
      ],
    })
    expect((await request('DELETE', '/v1/programs/paged', KEY_A)).status).toBe(200)
    expect(await actor.describe(Date.now())).toBeNull()
    expect(await pages('/v1/programs/paged/calls?limit=2')).toEqual(running)
  })

  it('shows the latest calls first where that is asked for, running and after the end alike', async () => {
    for (let i = 0; i < 5; i++) await openCall('latest', `call-${i}`)
    const names = async () => (await pages('/v1/programs/latest/calls?limit=2&order=desc')).map(({ id }) => id)
    expect(await names()).toEqual(['call-4', 'call-3', 'call-2', 'call-1', 'call-0'])
    await request('DELETE', '/v1/programs/latest', KEY_A)
    expect(await names()).toEqual(['call-4', 'call-3', 'call-2', 'call-1', 'call-0'])
    expect((await request('GET', '/v1/programs/latest/calls?order=newest', KEY_A)).status).toBe(400)
  })

  it('goes on from the archive when the program ends between two pages', async () => {
    for (let i = 0; i < 3; i++) await openCall('cut', `call-${i}`)
    const first = await json<List>(request('GET', '/v1/programs/cut/calls?limit=1', KEY_A))
    await request('DELETE', '/v1/programs/cut', KEY_A)
    const second = await json<List>(request('GET', `/v1/programs/cut/calls?limit=1&cursor=${first.next_cursor}`, KEY_A))
    expect(second.data.map(({ id }) => id)).toEqual(['call-1'])
  })

  it('lists running and ended programs with cursors', async () => {
    for (let i = 0; i < 3; i++) await request('POST', '/v1/programs', KEY_B, { id: `listed-${i}` })
    const running = await pages('/v1/programs?state=running&limit=2', KEY_B)
    expect(running.map(({ id }) => id).toSorted()).toEqual(['listed-0', 'listed-1', 'listed-2'])
    for (let i = 0; i < 3; i++) await request('DELETE', `/v1/programs/listed-${i}`, KEY_B)
    expect(await pages('/v1/programs?state=running&limit=2', KEY_B)).toEqual([])
    const ended = await pages('/v1/programs?state=ended&limit=2', KEY_B)
    expect(ended.map(({ id }) => id).toSorted()).toEqual(['listed-0', 'listed-1', 'listed-2'])
  })

  it.each(['limit=0', 'limit=101', 'state=stale', 'cursor=%20', 'state=ended&cursor=abc', 'cursor=abc'])(
    'refuses ?%s',
    async (query) => {
      expect((await request('GET', `/v1/programs?${query}`, KEY_A)).status).toBe(400)
    },
  )
})

describe('the weight of a program and of a class', () => {
  const admit = (program: string) =>
    programActor(env, 'tenant-a', program).admit({
      ...{ tenant: 'tenant-a', program, call: crypto.randomUUID(), thread: null, parents: null, model: MODEL },
      ...{ app: 'heavy', class: 'app:heavy', metadata: null, now_ms: Date.now() },
    })

  it('is 1, and what it was set to from the next call on, also after the actor was evicted', async () => {
    expect(await admit('weighed')).toMatchObject({ status: 'admitted', weight: 1 })
    const set = await request('PATCH', '/v1/programs/weighed', KEY_A, { weight: 2.5 })
    expect(set.status).toBe(200)
    expect(await set.json()).toMatchObject({ id: 'weighed', weight: 2.5 })
    expect(await admit('weighed')).toMatchObject({ weight: 2.5 })
    await evictDurableObject(programActor(env, 'tenant-a', 'weighed') as never)
    expect(await admit('weighed')).toMatchObject({ weight: 2.5 })
    // The run that comes after it begins anew.
    expect((await request('DELETE', '/v1/programs/weighed', KEY_A)).status).toBe(200)
    expect(await json(request('GET', '/v1/programs/weighed', KEY_A))).toMatchObject({ state: 'ended', weight: null })
    expect((await request('PATCH', '/v1/programs/weighed', KEY_A, { weight: 2 })).status).toBe(404)
    expect(await admit('weighed')).toMatchObject({ weight: 1 })
  })

  it('is set by the tenant and by the operator, and audited under whoever did it', async () => {
    await request('POST', '/v1/programs', KEY_A, { id: 'audited' })
    await request('PATCH', '/v1/programs/audited', KEY_A, { weight: 3 })
    const path = '/admin/v1/tenants/tenant-a/programs/audited'
    expect((await request('PATCH', path, env.ADMIN_KEY, { weight: 4 })).status).toBe(200)
    const { data } = await json<{ data: { actor: string; action: string; before: object; after: object }[] }>(
      request('GET', '/admin/v1/audit?object=program:tenant-a/audited', env.ADMIN_KEY),
    )
    expect(data).toMatchObject([
      {
        actor: expect.stringMatching(/^admin-/),
        action: 'program.weight',
        before: { weight: 3 },
        after: { weight: 4 },
      },
      { actor: expect.stringMatching(/^key-/), action: 'program.weight', before: { weight: 1 }, after: { weight: 3 } },
    ])
  })

  it('of a class is its tenant’s alone, and taken out by 1', async () => {
    const weigh = (key: string, weight: number) => request('PATCH', '/v1/classes/app:heavy', key, { weight })
    expect(await json(weigh(KEY_A, 2))).toEqual({ object: 'class', tenant: 'tenant-a', class: 'app:heavy', weight: 2 })
    const of = (tenant: string) =>
      json<{ class_weights: object }>(request('GET', `/admin/v1/tenants/${tenant}`, env.ADMIN_KEY))
    expect((await of('tenant-a')).class_weights).toEqual({ 'app:heavy': 2 })
    expect((await of('tenant-b')).class_weights).toEqual({})
    const by_operator = await request('PATCH', '/admin/v1/classes/tenant-a/other', env.ADMIN_KEY, { weight: 0.5 })
    expect(by_operator.status).toBe(200)
    expect((await of('tenant-a')).class_weights).toEqual({ 'app:heavy': 2, other: 0.5 })
    await weigh(KEY_A, 1)
    expect((await of('tenant-a')).class_weights).toEqual({ other: 0.5 })
  })

  it(`may differ from 1 for ${CLASS_WEIGHTS_MAX} classes and for no more`, async () => {
    const weigh = (name: string, weight: number) => request('PATCH', `/v1/classes/${name}`, KEY_B, { weight })
    for (let i = 0; i < CLASS_WEIGHTS_MAX; i++) expect((await weigh(`class-${i}`, 2)).status).toBe(200)
    expect((await weigh('one-more', 2)).status).toBe(409)
    expect((await weigh('class-0', 3)).status).toBe(200)
    expect((await weigh('class-0', 1)).status).toBe(200)
    expect((await weigh('one-more', 2)).status).toBe(200)
  })

  it.each([0, PROGRAM_WEIGHT_MIN / 2, PROGRAM_WEIGHT_MAX + 1, '2', null])('is not %j', async (weight) => {
    expect((await request('PATCH', '/v1/programs/audited', KEY_A, { weight })).status).toBe(400)
  })

  it.each([PROGRAM_WEIGHT_MIN, PROGRAM_WEIGHT_MAX])('may be %d', async (weight) => {
    expect((await request('PATCH', '/v1/programs/audited', KEY_A, { weight })).status).toBe(200)
  })
})

describe('ending a program', () => {
  it('gives the final summary, again and again', async () => {
    await openCall('ended', 'call-0')
    const first = await request('DELETE', '/v1/programs/ended', KEY_A)
    expect(first.status).toBe(200)
    expect(await first.json()).toMatchObject({ state: 'ended', end_reason: 'explicit', calls: 1, open_calls: 0 })
    const second = await request('DELETE', '/v1/programs/ended', KEY_A)
    expect(await second.json()).toMatchObject({ state: 'ended', calls: 1 })
  })

  it('opens another run under the same id with service 0', async () => {
    const first = await openCall('again', 'call-0')
    await programActor(env, 'tenant-a', 'again').settle([recordOf('again', first, 'call-0')])
    await request('DELETE', '/v1/programs/again', KEY_A)
    const second = await openCall('again', 'call-1')
    expect(second).not.toBe(first)
    const shown = await json(request('GET', '/v1/programs/again', KEY_A))
    expect(shown).toMatchObject({ run: second, state: 'running', service_s: 0, calls: 1 })
  })

  it('is 404 for a program that never was', async () => {
    const response = await request('DELETE', '/v1/programs/never', KEY_A)
    expect(response.status).toBe(404)
    expect((await json<Failure>(Promise.resolve(response))).error.code).toBe('program_not_found')
  })
})

describe('isolation', () => {
  it('tells one tenant nothing of another’s programs, running or ended', async () => {
    await request('POST', '/v1/programs', KEY_A, { id: 'private' })
    const absent = await (await request('GET', '/v1/programs/nowhere', KEY_B)).text()
    const hidden = [
      request('GET', '/v1/programs/private', KEY_B),
      request('GET', '/v1/programs/private/calls', KEY_B),
      request('DELETE', '/v1/programs/private', KEY_B),
    ]
    for (const response of await Promise.all(hidden)) {
      expect(response.status).toBe(404)
      expect(await response.text()).toBe(absent.replace('nowhere', 'private'))
    }
    expect(await json(request('GET', '/v1/programs/private', KEY_A))).toMatchObject({ state: 'running' })
    await request('DELETE', '/v1/programs/private', KEY_A)
    expect((await request('GET', '/v1/programs/private', KEY_B)).status).toBe(404)
    expect((await request('GET', '/v1/programs/private/calls', KEY_B)).status).toBe(404)
    const ended = await pages('/v1/programs?state=ended&limit=100', KEY_B)
    expect(ended.map(({ id }) => id)).not.toContain('private')
  })

  it('takes one name of two tenants for two programs', async () => {
    await request('POST', '/v1/programs', KEY_A, { id: 'shared', app: 'of-a' })
    expect((await request('POST', '/v1/programs', KEY_B, { id: 'shared', app: 'of-b' })).status).toBe(201)
    expect(await json(request('GET', '/v1/programs/shared', KEY_A))).toMatchObject({ app: 'of-a' })
    await request('DELETE', '/v1/programs/shared', KEY_B)
    expect(await json(request('GET', '/v1/programs/shared', KEY_A))).toMatchObject({ state: 'running' })
  })

  it.each([
    ['no key', null],
    ['an unknown key', `sk-sy-${'x'.repeat(40)}`],
    ['another credential', 'nonsense'],
    ['a credential of 5,000 characters', 'x'.repeat(5_000)],
  ])('refuses %s', async (_, key) => {
    expect((await request('GET', '/v1/programs', key)).status).toBe(401)
  })
})

function keys(count: number): Record<string, string> {
  return Object.fromEntries(Array.from({ length: count }, (_, i) => [`key-${i}`, 'value']))
}

async function pages(path: string, key = KEY_A): Promise<List['data']> {
  const all: List['data'] = []
  let cursor: string | null = null
  do {
    const page: List = await json<List>(request('GET', cursor === null ? path : `${path}&cursor=${cursor}`, key))
    all.push(...page.data)
    cursor = page.next_cursor
  } while (cursor !== null)
  return all
}
