/** What of an application is refused, at once or by the line. */
import { env } from 'cloudflare:workers'
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { INLINE_BYTES_MAX } from '../../src/api/applications/application-json.ts'
import { APPLICATIONS_OPEN_MAX } from '../../src/store/applications.ts'
import {
  applicationOf,
  completed,
  create,
  ENSEMBLE,
  echo,
  nodeOf,
  questions,
  reached,
  refusalOf,
  serveCalls,
  takerOf,
} from './application-tools.ts'
import { answered, storeInput } from './batch-tools.ts'
import { json, KEY_A, provision, request } from './fixtures.ts'

beforeAll(provision)
afterEach(() => void vi.restoreAllMocks())

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

it('a model that no engine serves: the plan says so, its calls wait, and it can be cancelled', async () => {
  serveCalls(() => answered(503, { error: { code: 'no_engine' } }, 'no_engine'))
  const { id } = await create({ nodes: [nodeOf('a', '{{q}}')], input: { lines: questions(2) } })
  await expect.poll(async () => (await applicationOf(id)).nodes[0]?.running).toBeGreaterThan(0)
  const plan = await json<{ nodes: { id: string; engines: object[] }[] }>(
    request('GET', `/v1/applications/${id}/plan`, KEY_A),
  )
  expect(plan.nodes).toMatchObject([{ id: 'a', engines: [] }])
  expect((await request('POST', `/v1/applications/${id}/cancel`, KEY_A)).status).toBe(200)
  expect(await reached(id, 'cancelled')).toMatchObject({ request_counts: { completed: 0, failed: 0 } })
})
