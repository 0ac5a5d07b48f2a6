/** Applications from the API to their outputs, with real actors, D1 and R2. The relay's part of a call is scripted. */
import { evictDurableObject, runInDurableObject } from 'cloudflare:test'
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import {
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
    // Many more than are open at once: those end after the limit is reached.
    const lines = 400
    const sent = { id: 'limited', nodes: [nodeOf('a', '{{q}}')], input: { lines: questions(lines) } }
    await create({ ...sent, limits: { tokens: 50 } })
    const { request_counts, usage } = await reached('limited', 'limit_reached')
    expect(usage.total_tokens).toBeGreaterThanOrEqual(50)
    expect(request_counts.completed).toBeLessThan(lines)
    await create(sent)
    expect((await completed('limited')).request_counts.completed).toBe(lines)
    expect(await textsOf('limited', 'a')).toEqual(questions(lines).map(({ q }) => q))
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
})
