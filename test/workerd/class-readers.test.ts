/** What pools and operators learn about classes. */
import { env, exports } from 'cloudflare:workers'
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { LeaseRequest } from '../../src/actors/contracts.ts'
import { ASK_INTERVAL, ASKS_AT_ONCE_MAX, classFrames } from '../../src/actors/pool-classes.ts'
import { classActor, poolActor } from '../../src/actors/stubs.ts'
import { ClassSketch } from '../../src/core/classes/class-sketch.ts'
import type { EndedProgram } from '../../src/core/classes/ended-program.ts'
import { CLASSES_PER_FRAME_MAX, type ClassData, Classes, FRAME_BYTES_MAX } from '../../src/protocol/index.ts'
import { putClass } from '../../src/store/classes.ts'
import { replaceBindings } from './actor-tools.ts'
import { FACTS, later, quietWithTrueClock, TENANT } from './class-tools.ts'
import { helloOf, MODEL, ORIGIN, provision, request, statusOf, TOKEN_EAST } from './fixtures.ts'
import { Link } from './link-client.ts'

beforeAll(provision)
beforeEach(quietWithTrueClock)

const framesOf = (classes: readonly ClassData[]) => classFrames(classes.map((one) => JSON.stringify(one)))

describe('a pool', () => {
  const pool = poolActor(env, { id: 'us-east', location_hint: null }, MODEL)
  const links: Link[] = []
  afterEach(() => {
    for (const link of links.splice(0)) link.socket.close(1000)
  })

  async function linked(): Promise<Link> {
    const headers = { upgrade: 'websocket', authorization: `Bearer ${TOKEN_EAST}` }
    const path = `${ORIGIN}/agents/v1/link?region=us-east&model=${MODEL}`
    const response = await exports.default.fetch(new Request(path, { headers }))
    const link = new Link(response.webSocket as WebSocket)
    links.push(link)
    link.send(helloOf())
    expect((await link.message()).type).toBe('welcome')
    link.send(statusOf(1))
    return link
  }

  async function lease(of_class: string): Promise<void> {
    const request: LeaseRequest = {
      ...{ call: 'call', lease: crypto.randomUUID(), tenant: TENANT, program: 'program', class: of_class },
      ...{ prompt_tokens_estimate: 10, pin: null, excluded_engines: [], max_load: null, spilled: false },
      ...{ snapshot_version: null, now_ms: Date.now() },
    }
    await expect.poll(async () => (await pool.lease(request)).status).toBe('leased')
  }

  it('tells its agents what is known of the classes of its calls, what is new and a new link all', async () => {
    await classActor(env, TENANT, 'app:led').ended({ run: 'run-0', program: FACTS })
    const link = await linked()
    await lease('app:unknown')
    await lease('app:led')
    const first = Classes.parse(await link.message())
    expect(first.classes).toMatchObject([{ tenant: TENANT, class: 'app:led', sketch: { ends: 1 } }])

    await classActor(env, TENANT, 'app:led').ended({ run: 'run-1', program: FACTS })
    const again = await linked()
    expect(Classes.parse(await again.message())).toEqual(first)
    await lease('app:led')
    later(ASK_INTERVAL.max_ms)
    again.send(statusOf(2))
    await lease('app:led')
    const second = Classes.parse(await again.message())
    expect(second.classes).toMatchObject([{ class: 'app:led', sketch: { ends: 2 } }])
  })

  it('leases as ever while a class does not answer', async () => {
    await replaceBindings(env.POOL.getByName(JSON.stringify(['us-east', MODEL, 0])), {
      CLASS: { getByName: () => ({ sketch: () => new Promise(() => {}) }) },
    })
    await linked()
    for (let at = 0; at <= ASKS_AT_ONCE_MAX; at++) await lease(`app:stuck-${at}`)
  })
})

describe('the operator', () => {
  const admin = async (path: string) => {
    const response = await request('GET', `/admin/v1/classes${path}`, env.ADMIN_KEY)
    return { status: response.status, body: await response.json<Record<string, unknown>>() }
  }
  const known = async (tenant: string, name: string, programs: readonly Partial<EndedProgram>[]) => {
    const sketch = new ClassSketch()
    for (const one of programs) sketch.add({ ...FACTS, ...one })
    const row = { tenant, class: name, ends: sketch.ends, updated_at_ms: 1_700_000_000_000, sketch: sketch.data() }
    await putClass(env.DB, row)
  }

  it('reads the classes of one tenant in pages, with their quantiles', async () => {
    const many = Array.from({ length: 100 }, (_, at) => ({ output_tokens: at < 50 ? 10 : 1000 }))
    await known('tenant-b', 'app:a', many)
    await known('tenant-b', 'app:b/c', [{ service_us: 2_500_000 }])
    await known('tenant-b', 'tenant', [{}])
    await known('tenant-a', 'app:a', [{}])
    const first = await admin('?tenant=tenant-b&limit=2')
    expect(first.body).toMatchObject({ has_more: true, data: [{ class: 'app:a' }, { class: 'app:b/c' }] })
    const [mixed, other] = first.body.data as [object, object]
    expect(mixed).toEqual({
      ...{ tenant: 'tenant-b', class: 'app:a', ends: 100, updated_at: '2023-11-14T22:13:20.000Z' },
      output_tokens: {
        ...{ p10: expect.closeTo(10), p50: expect.any(Number), p90: expect.closeTo(1000), p99: expect.closeTo(1000) },
      },
      calls: { p10: expect.closeTo(2), p50: expect.closeTo(2), p90: expect.closeTo(2), p99: expect.closeTo(2) },
      ...{ path_s: expect.anything(), service_s: expect.anything(), tool_s: expect.anything() },
      prompt_tokens_per_output_token: expect.any(Number),
    })
    expect(other).toMatchObject({ service_s: { p10: 2.5, p99: 2.5 } })
    const rest = await admin(`?tenant=tenant-b&limit=2&cursor=${first.body.next_cursor}`)
    expect(rest.body).toMatchObject({ has_more: false, data: [{ class: 'tenant', ends: 1 }] })
  })

  it('reads how programs of a class are ordered by their output so far', async () => {
    await known(
      'tenant-b',
      'app:b/c',
      Array.from({ length: 200 }, () => ({ output_tokens: 400 })),
    )
    const { status, body } = await admin('/tenant-b/app%3Ab%2Fc')
    expect(status).toBe(200)
    expect(body).toMatchObject({ tenant: 'tenant-b', class: 'app:b/c', ends: 200, objective: 'token_latency' })
    const curve = body.index as { output_tokens: number; index: number; expected_remaining_tokens: number }[]
    expect(curve[0]?.output_tokens).toBe(0)
    expect(curve.at(-1)?.output_tokens).toBeLessThanOrEqual(1600)
    expect(curve.at(-1)?.output_tokens).toBeGreaterThan(1000)
    // The nearer to its end, the sooner it runs; beyond that nothing is known of the end.
    const at = (tokens: number) => curve.findLast(({ output_tokens }) => output_tokens <= tokens)?.index ?? 0
    expect(at(350)).toBeLessThan(at(0))
    expect(at(1000)).toBeGreaterThan(at(350))
    const response = await admin('/tenant-b/app%3Ab%2Fc?objective=response')
    expect(response.body.index).not.toEqual(curve)
  })

  it.each([
    ['?limit=5', 400],
    ['?tenant=absent', 404],
    ['?tenant=tenant-b&cursor=wrong', 400],
    ['/tenant-b/app%3Aunknown', 404],
    ['/tenant-b/app%3Aa?objective=fairness', 400],
  ])('is told what is wrong with %s', async (path, status) => {
    expect((await admin(path)).status).toBe(status)
  })
})

describe('frames of classes', () => {
  const data = (name: string, bins: number): ClassData => {
    const wide = Array.from({ length: bins }, (_, bin): [number, number, number] => [bin, 1 / 3, 1e15 / 7])
    const sketch = { ...{ ends: 1, calls: wide, path_us: wide, service_us: wide, tool_us: wide } }
    return { tenant: TENANT, class: name, sketch: { ...sketch, output_tokens: wide, later_prompt_tokens: wide } }
  }
  const read = (frames: string[]) => frames.map((frame) => Classes.parse(JSON.parse(frame)).classes)

  it('hold as many as a frame may, and no more bytes', () => {
    const small = Array.from({ length: 2 * CLASSES_PER_FRAME_MAX + 1 }, (_, at) => data(`${at}`, 1))
    expect(read(framesOf(small)).map(({ length }) => length)).toEqual([CLASSES_PER_FRAME_MAX, CLASSES_PER_FRAME_MAX, 1])
    const large = Array.from({ length: 40 }, (_, at) => data(`${at}`, 213))
    const frames = framesOf(large)
    expect(frames.length).toBeGreaterThan(1)
    for (const frame of frames) expect(new TextEncoder().encode(frame).length).toBeLessThanOrEqual(FRAME_BYTES_MAX)
    expect(read(frames).flat()).toEqual(large)
    expect(framesOf([])).toEqual([])
  })
})
