/** Applications whose actor is evicted, whose R2 fails, whose key or input is taken away. Calls are scripted. */
import { evictDurableObject, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { KEPT_MS } from '../../src/actors/application/application-actor.ts'
import {
  answeredWith,
  applicationOf,
  applicationStub,
  completed,
  create,
  ENSEMBLE,
  echo,
  nodeOf,
  promptOf,
  questions,
  reached,
  says,
  serveCalls,
  textsOf,
} from './application-tools.ts'
import { pause, storeInput } from './batch-tools.ts'
import { KEY_A, MODEL, provision, request } from './fixtures.ts'
import { soon } from './soon.ts'

beforeAll(provision)
afterEach(() => void vi.restoreAllMocks())

const LINES = { lines: questions(30) }

describe('an application', () => {
  it('goes on after its actor was evicted: nothing is lost, repeated, out of order or made of two runs', async () => {
    const served: string[] = []
    let held = true
    let run = 0
    serveCalls(async (call, signal) => {
      const prompt = promptOf(call)
      served.push(prompt)
      while (held && /q(1[5-9]|2\d)\b/.test(prompt) && !signal.aborted) await pause(20)
      run += 1
      return answeredWith(`${prompt}#${run}`)
    })
    const { id } = await create({ nodes: ENSEMBLE, input: LINES })
    // Stored, and not only counted: what an eviction loses runs again.
    for (const node of ['a', 'b', 'judge']) await expect.poll(async () => (await textsOf(id, node)).length).toBe(15)
    held = false
    const before = await textsOf(id, 'judge')
    await evictDurableObject(applicationStub(id))
    await completed(id)
    const [as, bs, judged] = await Promise.all(['a', 'b', 'judge'].map((node) => textsOf(id, node)))
    expect(judged?.slice(0, 15)).toEqual(before)
    // What a node took is what the other node's output has.
    for (const [at, text] of (judged ?? []).entries()) {
      expect(text?.replace(/#\d+$/, '')).toBe(`judge(${as?.[at]},${bs?.[at]})`)
    }
    for (const { q } of questions(15)) expect(served.filter((one) => one === `a(${q})`)).toHaveLength(1)
  })

  it('reads outputs that are in parts, also after an eviction', async () => {
    const long = 'x'.repeat(100_000)
    let held = true
    serveCalls(async (call, signal) => {
      const prompt = promptOf(call)
      if (!prompt.startsWith('judge')) return answeredWith(`${prompt}${long}`)
      while (held && !prompt.includes('q0)') && !signal.aborted) await pause(20)
      return answeredWith(prompt.replaceAll(long, ''))
    })
    const { id } = await create({ nodes: ENSEMBLE, input: LINES })
    await expect
      .poll(async () => (await applicationOf(id)).nodes.map(({ completed }) => completed))
      .toEqual([1, 30, 30])
    // 3 MB of each node, of which R2 has all.
    const written = () =>
      runInDurableObject(applicationStub(id), async (_, { storage }) => {
        const nodes = await storage.list<{ done: { requests: number } }>({ prefix: 'node:' })
        return [...nodes.values()].map(({ done }) => done.requests)
      })
    await soon(async () => expect(await written()).toEqual([0, 30, 30]))
    await pause(300)
    held = false
    await evictDurableObject(applicationStub(id))
    await completed(id)
    expect(await textsOf(id, 'judge')).toEqual(questions(30).map(({ q }) => `judge(a(${q}),b(${q}))`))
    expect((await textsOf(id, 'b'))[29]).toBe(`b(q29)${long}`)
  })

  it('goes on when R2 has failed for a while', async () => {
    serveCalls(echo)
    const { id } = await create({ nodes: ENSEMBLE, input: { lines: questions(5) } })
    let failures = 3
    await runInDurableObject(applicationStub(id), (instance) => {
      const put = (...given: Parameters<R2Bucket['put']>) => {
        failures -= 1
        if (failures > 0) throw new Error('R2 is down')
        return env.BUCKET.put(given[0], given[1] as ArrayBuffer)
      }
      const BUCKET = new Proxy(env.BUCKET, {
        get: (bucket, name) => (name === 'put' ? put : Reflect.get(bucket, name).bind(bucket)),
      })
      Object.defineProperty(instance, 'env', { value: { ...env, BUCKET }, configurable: true })
    })
    await completed(id)
    expect(failures).toBeLessThanOrEqual(0)
    expect(await textsOf(id, 'judge')).toEqual(questions(5).map(({ q }) => `judge(a(${q}),b(${q}))`))
  })

  it('whose key was revoked fails and says so, is kept for a while, and goes on with another key', async () => {
    serveCalls((call) => {
      return promptOf(call) === 'q0' ? echo(call) : { status: 'refused', message: 'The API key is not valid.' }
    })
    const sent = { id: 'refused', nodes: [nodeOf('a', '{{q}}')], input: { lines: questions(4) } }
    await create(sent)
    const { errors } = await reached('refused', 'failed')
    expect(errors?.data).toMatchObject([{ code: 'key_refused', message: 'The API key is not valid.' }])
    expect(await textsOf('refused', 'a')).toEqual(['q0'])
    serveCalls(echo)
    await create(sent)
    await completed('refused')
    expect(await textsOf('refused', 'a')).toEqual(['q0', 'q1', 'q2', 'q3'])
  })

  it('that did not complete is forgotten after KEPT_MS', async () => {
    serveCalls(() => ({ status: 'refused', message: 'The API key is not valid.' }))
    const sent = { id: 'kept', nodes: [nodeOf('a', '{{q}}')], input: { lines: questions(2) } }
    await create(sent)
    await reached('kept', 'failed')
    const alarmIn = (ended_ms_ago: number) =>
      runInDurableObject(applicationStub('kept'), async (instance, state) => {
        const actor = instance as unknown as { loaded: { state: { ended_at_ms: number } }; alarm(): Promise<void> }
        actor.loaded.state.ended_at_ms = Date.now() - ended_ms_ago
        await actor.alarm()
        return (await state.storage.list()).size
      })
    expect(await alarmIn(KEPT_MS - 60_000)).toBeGreaterThan(0)
    expect(await alarmIn(KEPT_MS)).toBe(0)
    expect((await request('GET', '/v1/applications/kept/nodes/a/output', KEY_A)).status).toBe(404)
    serveCalls(echo)
    await create(sent)
    await completed('kept')
  })

  it('a chain goes on in the middle of a document', async () => {
    let held = true
    serveCalls(async (call, signal) => {
      while (held && promptOf(call).includes('5') && !signal.aborted) await pause(20)
      return echo(call)
    })
    const nodes = [{ id: 'sum', model: MODEL, documents: { field: 'c' }, body: says('{{previous}}{{chunk}}') }]
    const { id } = await create({ nodes, input: { lines: [{ c: [...'0123456789'] }, { c: [...'abcd'] }] } })
    await expect.poll(async () => (await applicationOf(id)).nodes[0]?.completed).toBe(9)
    await pause(300)
    held = false
    await evictDurableObject(applicationStub(id))
    await completed(id)
    expect((await textsOf(id, 'sum')).slice(8)).toEqual(['012345678', '0123456789', 'a', 'ab', 'abc', 'abcd'])
  })

  it('ends when its input file is deleted while it runs, and keeps what has finished', async () => {
    let held = true
    serveCalls(async (call, signal) => {
      while (held && promptOf(call).startsWith('b') && !signal.aborted) await pause(20)
      return echo(call)
    })
    // More than one block of the file, so that its end is not read yet.
    const long = Array.from({ length: 60 }, (_, at) => ({ q: at, text: 'x'.repeat(50_000) }))
    const file = await storeInput(long)
    const { id } = await create({ nodes: [nodeOf('a', 'a({{q}})'), nodeOf('b', 'b({{q}})')], input: { file } })
    await expect.poll(async () => (await textsOf(id, 'a')).length).toBeGreaterThan(5)
    expect((await request('DELETE', `/v1/files/${file}`, KEY_A)).status).toBe(200)
    await pause(200)
    held = false
    await evictDurableObject(applicationStub(id))
    const { errors } = await reached(id, 'failed')
    expect(errors?.data).toMatchObject([{ code: 'input_file_deleted', message: expect.stringContaining(file) }])
    expect((await textsOf(id, 'a')).slice(0, 3)).toEqual(['a(0)', 'a(1)', 'a(2)'])
  })
})
