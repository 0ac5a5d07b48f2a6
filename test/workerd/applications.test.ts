/** Applications from the API to their outputs, with real actors, D1 and R2. The relay's part of a call is scripted. */
import { evictDurableObject, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { KEPT_MS } from '../../src/actors/application/application-actor.ts'
import { INLINE_BYTES_MAX } from '../../src/api/applications/application-json.ts'
import { APPLICATIONS_OPEN_MAX } from '../../src/store/applications.ts'
import {
  answeredWith,
  applicationOf,
  applicationStub,
  completed,
  create,
  ENSEMBLE,
  echo,
  nodeOf,
  outputOf,
  promptOf,
  questions,
  reached,
  refusalOf,
  says,
  serveCalls,
  takerOf,
  textsOf,
} from './application-tools.ts'
import { answered, pause, storeInput } from './batch-tools.ts'
import { json, KEY_A, MODEL, provision, request } from './fixtures.ts'

beforeAll(provision)
afterEach(() => void vi.restoreAllMocks())

const LINES = { lines: questions(30) }

describe('an application', () => {
  it('answers every node for every line, in the order of the input, each with what others said of the same line', async () => {
    // Calls end in another order than they begin.
    serveCalls(async (call) => {
      await pause(promptOf(call).length % 3 === 0 ? 20 : 1)
      return echo(call)
    })
    const made = await create({ nodes: ENSEMBLE, input: { lines: questions(150) }, metadata: { purpose: 'test' } })
    expect(made).toMatchObject({
      object: 'application',
      status: 'validating',
      metadata: { purpose: 'test' },
      errors: null,
    })
    expect(made.expires_at).toBe(made.created_at + 86_400)
    const done = await completed(made.id)
    expect(done.request_counts).toEqual({ total: 450, completed: 450, failed: 0 })
    expect(done.usage).toEqual({
      ...{ input_tokens: 1350, input_tokens_details: { cached_tokens: 450 }, output_tokens: 900, total_tokens: 2250 },
    })
    expect(done.nodes.map(({ id, completed, waiting, running }) => [id, completed, waiting, running])).toEqual([
      ...[
        ['judge', 150, 0, 0],
        ['a', 150, 0, 0],
        ['b', 150, 0, 0],
      ],
    ])
    expect(await textsOf(made.id, 'judge')).toEqual(questions(150).map(({ q }) => `judge(a(${q}),b(${q}))`))
    const [first] = await outputOf(made.id, 'a')
    expect(first).toMatchObject({ line: 1, id: 'q0', node: 'a', output: 'a(q0)', error: null })
    // Its outputs have become files, and its actor has forgotten it.
    const file = await json(request('GET', `/v1/files/${done.nodes[0]?.output_file_id}`, KEY_A))
    expect(file).toMatchObject({ purpose: 'application_output', filename: `${made.id}_judge.jsonl` })
    const kept = await runInDurableObject(applicationStub(made.id), (_, state) => state.storage.list())
    expect(kept.size).toBe(0)
  })

  it('works through the chunks of a document in order, each with the summary so far', async () => {
    serveCalls(echo)
    const nodes = [
      { id: 'sum', model: MODEL, documents: { field: 'chunks' }, body: says('[{{previous}}{{chunk}}]') },
      takerOf('score', ['sum'], 'score({{sum.output}})', 2),
    ]
    const input = { lines: [{ chunks: ['a', 'b', 'c'] }, { chunks: ['d'] }, { chunks: ['e', 'f'] }] }
    const { id } = await create({ nodes, input })
    expect((await completed(id)).request_counts.total).toBe(12)
    expect(await textsOf(id, 'sum')).toEqual(['[a]', '[[a]b]', '[[[a]b]c]', '[d]', '[e]', '[[e]f]'])
    const scores = await outputOf(id, 'score')
    expect(scores.map(({ line, copy, output }) => [line, copy, output])).toEqual([
      ...[
        [1, 1, 'score([[[a]b]c])'],
        [1, 2, 'score([[[a]b]c])'],
        [2, 1, 'score([d])'],
      ],
      ...[
        [2, 2, 'score([d])'],
        [3, 1, 'score([[e]f])'],
        [3, 2, 'score([[e]f])'],
      ],
    ])
  })

  it('routes lines by a field', async () => {
    serveCalls(echo)
    const nodes = [
      nodeOf('french', 'f({{q}})', { where: { lang: 'fr' } }),
      nodeOf('other', 'o({{q}})', { where: { lang: 'de' } }),
      takerOf('polish', ['french'], 'p({{french.output}})'),
    ]
    const langs = ['fr', 'de', 'es', 'fr']
    const { id } = await create({ nodes, input: { lines: langs.map((lang, at) => ({ q: at, lang })) } })
    expect((await completed(id)).nodes.map(({ requests }) => requests)).toEqual([2, 1, 2])
    expect(await textsOf(id, 'polish')).toEqual(['p(f(0))', 'p(f(3))'])
    expect(await textsOf(id, 'other')).toEqual(['o(1)'])
  })

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
    await expect.poll(async () => (await applicationOf(id)).nodes[0]?.completed).toBe(15)
    await pause(300)
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
      .poll(async () => (await applicationOf(id)).nodes.map(({ completed }) => completed), { timeout: 10_000 })
      .toEqual([1, 30, 30])
    // 3 MB of each node, of which R2 has all.
    const written = () =>
      runInDurableObject(applicationStub(id), async (_, { storage }) => {
        const nodes = await storage.list<{ done: { requests: number } }>({ prefix: 'node:' })
        return [...nodes.values()].map(({ done }) => done.requests)
      })
    await vi.waitFor(async () => expect(await written()).toEqual([0, 30, 30]), { timeout: 10_000 })
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

  it('tells of a failed call, and fails what needs its output, and nothing else', async () => {
    serveCalls((call) => {
      const is_bad = promptOf(call) === 'a(q1)'
      return is_bad ? answered(400, { error: { message: 'no', code: 'invalid_value' } }, 'invalid_value') : echo(call)
    })
    const { id } = await create({ nodes: ENSEMBLE, input: { lines: questions(3) } })
    expect((await completed(id)).request_counts).toEqual({ total: 9, completed: 7, failed: 2 })
    expect((await outputOf(id, 'a'))[1]).toMatchObject({
      output: null,
      error: { code: 'invalid_value', message: 'no' },
    })
    expect((await outputOf(id, 'judge')).map(({ error }) => error?.code)).toEqual([
      undefined,
      'input_failed',
      undefined,
    ])
  })

  it('sent again it is the same; with other content it is refused', async () => {
    const served: string[] = []
    serveCalls((call) => {
      served.push(promptOf(call))
      return echo(call)
    })
    const sent = { id: 'twice', nodes: [nodeOf('a', '{{q}}')], input: { lines: questions(2) } }
    await create(sent)
    await completed('twice')
    // A file with the same lines is the same input.
    const file = await storeInput(questions(2))
    expect(await create({ ...sent, input: { file } })).toMatchObject({ status: 'completed' })
    expect(served).toHaveLength(2)
    expect((await refusalOf({ ...sent, nodes: [nodeOf('a', '{{q}}!')] })).slice(0, 3)).toEqual([
      ...[409, 'application_exists', 'id'],
    ])
    expect((await refusalOf({ ...sent, input: { lines: questions(3) } }))[0]).toBe(409)
  })

  it('cancelled it keeps what has finished, and goes on from there', async () => {
    const served: string[] = []
    let held = true
    serveCalls(async (call, signal) => {
      served.push(promptOf(call))
      while (held && !promptOf(call).includes('q0') && !signal.aborted) await pause(20)
      return signal.aborted ? { status: 'broken' } : echo(call)
    })
    const sent = { id: 'cancelled', nodes: ENSEMBLE, input: { lines: questions(4) } }
    await create(sent)
    await expect.poll(async () => (await applicationOf('cancelled')).nodes[0]?.completed).toBe(1)
    const answer = await json<{ status: string }>(request('POST', '/v1/applications/cancelled/cancel', KEY_A))
    expect(['cancelling', 'cancelled']).toContain(answer.status)
    expect(await reached('cancelled', 'cancelled')).toMatchObject({ request_counts: { total: 12, completed: 3 } })
    expect(await textsOf('cancelled', 'judge')).toEqual(['judge(a(q0),b(q0))'])
    expect((await request('POST', '/v1/applications/cancelled/cancel', KEY_A)).status).toBe(200)
    held = false
    await evictDurableObject(applicationStub('cancelled'))
    expect(await create(sent)).toMatchObject({ status: 'running' })
    await completed('cancelled')
    expect((await textsOf('cancelled', 'judge')).length).toBe(4)
    expect(served.filter((prompt) => prompt === 'judge(a(q0),b(q0))')).toHaveLength(1)
    expect((await request('POST', '/v1/applications/cancelled/cancel', KEY_A)).status).toBe(409)
  })

  it('planned it does not run until it is sent to start', async () => {
    serveCalls(echo)
    const sent = { id: 'planned', nodes: ENSEMBLE, input: { lines: questions(4) }, start: false }
    await create(sent)
    await reached('planned', 'planned')
    const plan = await json<{ steps: string[][]; nodes: { output_tokens_estimate: number }[]; planner: object }>(
      request('GET', '/v1/applications/planned/plan', KEY_A),
    )
    expect(plan.steps).toEqual([['a', 'b'], ['judge']])
    expect(plan.nodes[0]).toMatchObject({
      ...{ id: 'judge', after: ['a', 'b'], requests: 4, engines: [] },
    })
    // By its limit, or by what other applications of the tenant were answered.
    expect(plan.nodes[0]?.output_tokens_estimate).toSatisfy((tokens: number) => tokens > 0 && tokens <= 8 * 4)
    expect(plan.planner).toMatchObject({
      name: 'test',
      nodes: [{ id: 'judge' }, { id: 'a', requests: { count: 4 } }, {}],
    })
    await create({ ...sent, start: true })
    expect(await completed('planned')).toMatchObject({ request_counts: { completed: 12 } })
    const svg = await request('GET', '/v1/applications/planned/gantt.svg', KEY_A)
    expect(svg.headers.get('content-type')).toBe('image/svg+xml')
    expect(await svg.text()).toContain('judge')
  })

  it('ends at its limit of tokens, and goes on with a larger one', async () => {
    serveCalls(async (call) => {
      await pause(100)
      return echo(call)
    })
    const sent = { id: 'limited', nodes: [nodeOf('a', '{{q}}')], input: { lines: questions(40) } }
    await create({ ...sent, limits: { tokens: 50 } })
    const { request_counts, usage } = await reached('limited', 'limit_reached')
    expect(usage.total_tokens).toBeGreaterThanOrEqual(50)
    expect(request_counts.completed).toBeLessThan(40)
    await create(sent)
    expect((await completed('limited')).request_counts.completed).toBe(40)
    expect(await textsOf('limited', 'a')).toEqual(questions(40).map(({ q }) => q))
  })

  it('expires with what has finished, and goes on when it is sent again', async () => {
    let held = true
    serveCalls(async (call, signal) => {
      while (held && promptOf(call) !== 'q0' && !signal.aborted) await pause(20)
      return echo(call)
    })
    const sent = { id: 'expired', nodes: [nodeOf('a', '{{q}}')], input: { lines: questions(3) } }
    await create(sent)
    await expect.poll(async () => (await applicationOf('expired')).request_counts.completed).toBe(1)
    await runInDurableObject(applicationStub('expired'), async (instance, state) => {
      const { loaded } = instance as unknown as { loaded: { state: { expires_at_ms: number } } }
      loaded.state.expires_at_ms = Date.now()
      ;(instance as unknown as { run: { stop(stop: object): void } }).run.stop({ kind: 'cancelled' })
      await state.storage.setAlarm(Date.now())
    })
    expect(await reached('expired', 'expired', 'cancelled')).toMatchObject({ request_counts: { completed: 1 } })
    held = false
    await create(sent)
    expect(await completed('expired')).toMatchObject({ request_counts: { completed: 3 } })
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
    await expect.poll(async () => (await applicationOf(id)).nodes[0]?.completed).toBeGreaterThan(5)
    expect((await request('DELETE', `/v1/files/${file}`, KEY_A)).status).toBe(200)
    await pause(200)
    held = false
    await evictDurableObject(applicationStub(id))
    const { errors } = await reached(id, 'failed')
    expect(errors?.data).toMatchObject([{ code: 'input_file_deleted', message: expect.stringContaining(file) }])
    expect((await textsOf(id, 'a')).slice(0, 3)).toEqual(['a(0)', 'a(1)', 'a(2)'])
  })
})

describe('an application is refused', () => {
  const input = { lines: questions(1) }

  it('for its graph, by the node', async () => {
    const circle = [takerOf('a', ['b'], '{{b.output}}'), takerOf('b', ['a'], '{{a.output}}')]
    expect(await refusalOf({ nodes: circle, input })).toEqual([
      ...[400, 'invalid_value', 'nodes.0.from.nodes', expect.stringContaining('a, b take outputs from each other')],
    ])
    expect(await refusalOf({ nodes: [nodeOf('a', '{{q}}', { model: 'unknown' })], input })).toEqual([
      ...[404, 'model_not_found', 'nodes.0.model', expect.stringContaining('Node a: the model "unknown"')],
    ])
    expect((await refusalOf({ nodes: [nodeOf('a', 'x', { colour: 1 })], input })).slice(0, 2)).toEqual([
      400,
      'invalid_value',
    ])
  })

  it('for its input', async () => {
    const nodes = [nodeOf('a', '{{q}}')]
    expect((await refusalOf({ nodes, input: { file: 'file-none' } })).slice(0, 2)).toEqual([404, 'file_not_found'])
    const long = { q: 'x'.repeat(INLINE_BYTES_MAX) }
    expect(await refusalOf({ nodes, input: { lines: [long] } })).toEqual([
      ...[400, 'invalid_value', 'input.lines', expect.stringContaining('Store them as a file')],
    ])
    expect((await refusalOf({ nodes }))[2]).toBe('input')
  })

  it('when the tenant has as many open ones as it may', async () => {
    const row = env.DB.prepare('insert into applications values (?, ?, ?, 0, ?, ?)')
    const rows = Array.from({ length: APPLICATIONS_OPEN_MAX }, (_, at) =>
      row.bind('tenant-a', `open-${at}`, 1, '{}', '{}'),
    )
    await env.DB.batch(rows)
    const refused = await refusalOf({ nodes: [nodeOf('a', '{{q}}')], input })
    await env.DB.exec(`delete from applications where id like 'open-%'`)
    expect(refused.slice(0, 2)).toEqual([429, 'too_many_applications'])
  })
})

describe('lines are checked before anything runs', () => {
  const faultsOf = async (
    content: string | Uint8Array | object[],
    nodes: object[] = [nodeOf('a', '{{q}}')],
    more = {},
  ) => {
    const { id } = await create({ nodes, input: { file: await storeInput(content as never) }, ...more })
    const { errors } = await reached(id, 'failed')
    return errors?.data.map(({ code, line, message }) => [code, line, message])
  }

  it('and faults name line and node', async () => {
    expect(await faultsOf('{"q": 1}\n{"other": 2}\n')).toEqual([
      ['missing_field', 2, 'Line 2: node a: its template names {{q}}, and the line has no field `q`.'],
    ])
    expect(await faultsOf('{"id": "x", "q": 1}\n\n{"id": "x", "q": 2}\n')).toEqual([
      ['duplicate_id', 3, 'Line 3: the id "x" is that of line 1.'],
    ])
    expect(await faultsOf(new Uint8Array([0x7b, 0xff, 0x7d]))).toEqual([
      ['invalid_utf8', 1, 'Line 1: it is not valid UTF-8.'],
    ])
    expect(await faultsOf(`{"q": "${'x'.repeat(4 * 1024 * 1024)}"}\n{"q": 1}\n`)).toEqual([
      ['line_too_long', 1, expect.any(String)],
    ])
    expect(await faultsOf('{"q": 1}\nnothing\n')).toEqual([['invalid_json_line', 2, expect.any(String)]])
    expect(await faultsOf('\n')).toEqual([['empty_file', null, expect.any(String)]])
  })

  it('and so is the number of calls', async () => {
    const over = await faultsOf(questions(4), ENSEMBLE, { limits: { calls: 11 } })
    expect(over).toEqual([['too_many_calls', 4, expect.any(String)]])
    serveCalls(echo)
    const { id } = await create({ nodes: ENSEMBLE, input: { lines: questions(4) }, limits: { calls: 12 } })
    await completed(id)
  })
})
