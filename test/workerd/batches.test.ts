/** Batches from the API to their files, with real actors, D1 and R2. The relay's part of a line is scripted. */
import { evictDurableObject, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { BatchStorage } from '../../src/actors/batch/batch-storage.ts'
import { FAULTS_MAX } from '../../src/core/batch/batch-state.ts'
import { SLICE_LINES } from '../../src/core/batch/check-slice.ts'
import { BATCHES_OPEN_MAX, batchById } from '../../src/store/batches.ts'
import {
  answered,
  batchOf,
  batchStub,
  CHAT,
  contentOf,
  createBatch,
  echo,
  ended,
  lineOf,
  linesOf,
  outputOf,
  pause,
  serveLines,
  storeInput,
} from './batch-tools.ts'
import { json, KEY_A, KEY_B, provision, request } from './fixtures.ts'

beforeAll(provision)
afterEach(() => void vi.restoreAllMocks())

const idsOf = (lines: readonly { custom_id: string }[]) => lines.map(({ custom_id }) => custom_id)

describe('a batch', () => {
  it('answers every line, in the order of the input, in OpenAI’s form', async () => {
    // Lines end in another order than they begin.
    serveLines(async (line) => {
      await pause(Number(contentOf(line).split('-')[1]) % 3 === 0 ? 30 : 1)
      return echo(line)
    })
    const input = await storeInput(linesOf(400))
    const created = await createBatch(input, { metadata: { purpose: 'test' } })
    expect(created).toMatchObject({
      ...{ object: 'batch', endpoint: CHAT, status: 'validating', input_file_id: input, errors: null },
      ...{ output_file_id: null, error_file_id: null, metadata: { purpose: 'test' }, completion_window: '24h' },
      expires_at: created.created_at + 86_400,
      request_counts: { total: 0, completed: 0, failed: 0 },
    })
    const batch = await ended(created.id)
    expect(batch).toMatchObject({
      ...{ status: 'completed', error_file_id: null, request_counts: { total: 400, completed: 400, failed: 0 } },
      usage: {
        input_tokens: 1200,
        input_tokens_details: { cached_tokens: 400 },
        output_tokens: 800,
        total_tokens: 2000,
      },
    })
    for (const time of ['in_progress_at', 'finalizing_at', 'completed_at'] as const) {
      expect(batch[time]).toBeGreaterThanOrEqual(created.created_at)
    }
    const lines = await outputOf(batch.output_file_id)
    expect(idsOf(lines)).toEqual(idsOf(linesOf(400)))
    expect(lines[7]).toMatchObject({
      ...{ custom_id: 'line-7', error: null },
      response: { status_code: 200, request_id: 'call', body: { answer: 'line-7' } },
    })
    expect(new Set(lines.map(({ id }) => id)).size).toBe(400)
    const file = await json(request('GET', `/v1/files/${batch.output_file_id}`, KEY_A))
    expect(file).toMatchObject({ purpose: 'batch_output', filename: `${batch.id}_output.jsonl` })
    // Its actor has forgotten it.
    const kept = await runInDurableObject(batchStub(batch.id), (_, state) => state.storage.list())
    expect(kept.size).toBe(0)
  })

  it('puts lines with another status into the error file', async () => {
    serveLines((line) => {
      return contentOf(line) === 'line-1' ? answered(400, { error: { code: 'bad' } }, 'bad') : echo(line)
    })
    const { id } = await createBatch(await storeInput(linesOf(3)))
    const batch = await ended(id)
    expect(batch).toMatchObject({ status: 'completed', request_counts: { total: 3, completed: 2, failed: 1 } })
    expect(idsOf(await outputOf(batch.output_file_id))).toEqual(['line-0', 'line-2'])
    expect(await outputOf(batch.error_file_id)).toMatchObject([
      { custom_id: 'line-1', error: null, response: { status_code: 400, body: { error: { code: 'bad' } } } },
    ])
  })

  it('keeps how long its answers were, for plans of applications', async () => {
    const usage = { prompt_tokens: 3, completion_tokens: 12 }
    serveLines(() => answered(200, { model: 'scripted', choices: [{ finish_reason: 'stop' }], usage }))
    const { id } = await createBatch(await storeInput(linesOf(9)))
    await ended(id)
    const [learned] = (await batchById(env.DB, 'tenant-a', id))?.lengths ?? []
    expect(learned).toMatchObject({ model: 'scripted', lengths: { ended: [[expect.any(Number), 9, 108]], cut: [] } })
  })

  it('tries lines again that found no engine, and calls that broke off', async () => {
    const tries = new Map<string, number>()
    serveLines((line) => {
      const tried = (tries.get(contentOf(line)) ?? 0) + 1
      tries.set(contentOf(line), tried)
      if (tried === 1) return answered(503, { error: { code: 'no_engine' } }, 'no_engine')
      return tried === 2 ? { status: 'broken' } : echo(line)
    })
    const { id } = await createBatch(await storeInput(linesOf(2)))
    const batch = await ended(id)
    expect(batch).toMatchObject({ status: 'completed', request_counts: { completed: 2, failed: 0 } })
    expect([...tries.values()]).toEqual([3, 3])
  })

  it('goes on after its actor was evicted: nothing is lost, repeated or out of order', async () => {
    const served: string[] = []
    let held = true
    serveLines(async (line, signal) => {
      served.push(contentOf(line))
      while (held && Number(contentOf(line).split('-')[1]) >= 20 && !signal.aborted) await pause(20)
      return echo(line)
    })
    const { id } = await createBatch(await storeInput(linesOf(60)))
    // Stored, and not only counted: what an eviction loses runs again.
    const stored = () => runInDurableObject(batchStub(id), (_, { storage }) => new BatchStorage(storage).packs.load())
    await expect.poll(async () => (await stored()).length).toBeGreaterThanOrEqual(20)
    held = false
    await evictDurableObject(batchStub(id))
    const batch = await ended(id)
    expect(batch.request_counts).toEqual({ total: 60, completed: 60, failed: 0 })
    expect(idsOf(await outputOf(batch.output_file_id))).toEqual(idsOf(linesOf(60)))
    // What had finished was not served again.
    for (const name of idsOf(linesOf(20))) expect(served.filter((one) => one === name)).toHaveLength(1)
  })

  it('goes on when R2 and D1 have failed for a while', async () => {
    serveLines(echo)
    const { id } = await createBatch(await storeInput(linesOf(5)))
    let failures = 3
    await runInDurableObject(batchStub(id), (instance) => {
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
    const batch = await ended(id)
    expect(failures).toBeLessThanOrEqual(0)
    expect(batch.status).toBe('completed')
    expect(idsOf(await outputOf(batch.output_file_id))).toEqual(idsOf(linesOf(5)))
  })

  it('that is cancelled delivers what has finished', async () => {
    serveLines(async (line, signal) => {
      while (contentOf(line) !== 'line-0' && contentOf(line) !== 'line-2' && !signal.aborted) await pause(10)
      return echo(line)
    })
    const { id } = await createBatch(await storeInput(linesOf(50)))
    await expect.poll(async () => (await batchOf(id)).request_counts.completed).toBe(2)
    const cancelling = await json(request('POST', `/v1/batches/${id}/cancel`, KEY_A))
    expect(cancelling).toMatchObject({ status: 'cancelling' })
    const batch = await ended(id)
    expect(batch).toMatchObject({ status: 'cancelled', request_counts: { total: 50, completed: 2, failed: 0 } })
    expect(idsOf(await outputOf(batch.output_file_id))).toEqual(['line-0', 'line-2'])
    expect((await request('POST', `/v1/batches/${id}/cancel`, KEY_A)).status).toBe(200)
  })

  it('that is cancelled while it is checked runs no line', async () => {
    const serve = vi.fn(echo)
    serveLines(serve)
    const { id } = await createBatch(await storeInput(linesOf(3 * SLICE_LINES)))
    await request('POST', `/v1/batches/${id}/cancel`, KEY_A)
    const batch = await ended(id)
    expect(batch).toMatchObject({ status: 'cancelled', output_file_id: null })
    expect(serve).not.toHaveBeenCalled()
  })

  it('that has expired delivers what has finished, and names every line that has not', async () => {
    serveLines(async (line, signal) => {
      while (contentOf(line) !== 'line-0' && contentOf(line) !== 'line-2' && !signal.aborted) await pause(10)
      return echo(line)
    })
    const { id } = await createBatch(await storeInput(linesOf(50)), { completion_window: '10s' })
    const batch = await ended(id)
    expect(batch).toMatchObject({ status: 'expired', request_counts: { total: 50, completed: 2, failed: 48 } })
    expect(batch.expired_at).toBeGreaterThanOrEqual(batch.expires_at)
    expect(idsOf(await outputOf(batch.output_file_id))).toEqual(['line-0', 'line-2'])
    const errors = await outputOf(batch.error_file_id)
    expect(idsOf(errors)).toEqual(idsOf(linesOf(50)).filter((name) => name !== 'line-0' && name !== 'line-2'))
    expect(new Set(errors.map(({ error, response }) => `${error?.code} ${response}`))).toEqual(
      new Set(['batch_expired null']),
    )
  })

  it('whose input is deleted meanwhile fails, and delivers what has finished', async () => {
    // Two parts: the second one is not read yet when the file is deleted.
    const padding = 'x'.repeat(20_000)
    const lines = Array.from({ length: 300 }, (_, index) => lineOf(`line-${index}`, { padding }))
    let held = true
    serveLines(async (line, signal) => {
      while (held && contentOf(line) !== 'line-0' && !signal.aborted) await pause(10)
      return echo(line)
    })
    const input = await storeInput(lines)
    const { id } = await createBatch(input)
    await expect.poll(async () => (await batchOf(id)).request_counts.completed).toBe(1)
    expect((await request('DELETE', `/v1/files/${input}`, KEY_A)).status).toBe(200)
    held = false
    const batch = await ended(id)
    expect(batch.status).toBe('failed')
    expect(batch.errors?.data).toMatchObject([{ code: 'input_file_deleted', param: 'input_file_id' }])
    const done = await outputOf(batch.output_file_id)
    expect(done.length).toBe(batch.request_counts.completed)
    expect(idsOf(done)).toEqual(idsOf(lines).slice(0, done.length))
  })

  it('whose key was revoked fails and says so', async () => {
    serveLines((line) => {
      return contentOf(line) === 'line-0' ? echo(line) : { status: 'refused', message: 'The API key is not valid.' }
    })
    const { id } = await createBatch(await storeInput(linesOf(10)))
    const batch = await ended(id)
    expect(batch.status).toBe('failed')
    expect(batch.errors?.data).toMatchObject([{ code: 'key_refused', message: 'The API key is not valid.' }])
    expect(idsOf(await outputOf(batch.output_file_id))).toEqual(['line-0'])
  })
})

describe('the lines of a batch are checked', () => {
  async function faultsOf(content: Parameters<typeof storeInput>[0]) {
    const serve = vi.fn(echo)
    serveLines(serve)
    const { id } = await createBatch(await storeInput(content))
    const batch = await ended(id)
    expect(batch).toMatchObject({ status: 'failed', output_file_id: null, error_file_id: null })
    expect(serve).not.toHaveBeenCalled()
    return (batch.errors?.data ?? []).map(({ code, line, param }) => [code, line, param])
  }

  it('and each fault names its line', async () => {
    const long = lineOf('long', { padding: 'x'.repeat(4 * 1024 * 1024) })
    const unknown = lineOf('unknown')
    unknown.body.model = 'no-such-model'
    const texts = [
      ...[lineOf('a'), long, lineOf('b'), lineOf('a'), unknown].map((line) => JSON.stringify(line)),
      '',
      '{"custom_id": ',
      JSON.stringify(lineOf('c', { url: '/v1/embeddings' })),
    ]
    const start = new TextEncoder().encode(`${texts.join('\n')}\n`)
    const content = new Uint8Array([...start, 0x22, 0xff, 0x22, 0x0a])
    expect(await faultsOf(content)).toEqual([
      ['line_too_long', 2, null],
      ['duplicate_custom_id', 4, 'custom_id'],
      ['model_not_found', 5, 'body.model'],
      ['invalid_json_line', 7, null],
      ['mismatched_endpoint', 8, 'url'],
      ['invalid_utf8', 9, null],
    ])
  })

  it('up to a bound of faults', async () => {
    expect(await faultsOf('x\n'.repeat(FAULTS_MAX + 10))).toHaveLength(FAULTS_MAX)
  })

  it('and a file without any is refused', async () => {
    expect(await faultsOf('\n \n')).toEqual([['empty_file', null, null]])
    expect(await faultsOf('')).toEqual([['empty_file', null, null]])
  })

  it('over several slices and an eviction: a repeated id is found however far away it is', async () => {
    serveLines(echo)
    const lines = [...linesOf(2 * SLICE_LINES + 10), lineOf('line-3')]
    const { id } = await createBatch(await storeInput(lines))
    await evictDurableObject(batchStub(id))
    const batch = await ended(id)
    expect(batch.errors?.data).toEqual([
      {
        ...{ code: 'duplicate_custom_id', line: lines.length, param: 'custom_id' },
        message: `Line ${lines.length}: the custom_id "line-3" is that of line 4.`,
      },
    ])
  })
})

describe('the API', () => {
  it('shows a tenant its own batches alone, the newest first', async () => {
    serveLines(echo)
    const input = await storeInput(linesOf(1), KEY_B)
    const ids: string[] = []
    for (let index = 0; index < 3; index += 1) {
      const { id } = await createBatch(input, {}, KEY_B)
      await ended(id, KEY_B)
      ids.push(id)
    }
    const first = await json<{ data: { id: string }[]; has_more: boolean; last_id: string }>(
      request('GET', '/v1/batches?limit=2', KEY_B),
    )
    const rest = await json<{ data: { id: string }[]; has_more: boolean }>(
      request('GET', `/v1/batches?after=${first.last_id}`, KEY_B),
    )
    expect([first.has_more, rest.has_more]).toEqual([true, false])
    expect([...first.data, ...rest.data].map(({ id }) => id).toSorted()).toEqual(ids.toSorted())
    for (const [method, path] of [
      ['GET', `/v1/batches/${ids[0]}`],
      ['POST', `/v1/batches/${ids[0]}/cancel`],
    ] as const) {
      expect((await request(method, path, KEY_A)).status).toBe(404)
    }
    const foreign = { input_file_id: input, endpoint: CHAT, completion_window: '24h' }
    const refused = await request('POST', '/v1/batches', KEY_A, foreign)
    expect(refused.status).toBe(404)
    expect(await refused.json()).toMatchObject({ error: { param: 'input_file_id', code: 'file_not_found' } })
  })

  it('refuses what it cannot run, and names the field', async () => {
    const input_file_id = await storeInput(linesOf(1))
    const good = { input_file_id, endpoint: CHAT, completion_window: '24h' }
    for (const [change, param] of [
      [{ endpoint: '/v1/images' }, 'endpoint'],
      [{ completion_window: '5s' }, 'completion_window'],
      [{ metadata: { key: 'x'.repeat(513) } }, 'metadata.key'],
      [{ input_file_id: undefined }, 'input_file_id'],
    ] as const) {
      const response = await request('POST', '/v1/batches', KEY_A, { ...good, ...change })
      expect(response.status).toBe(400)
      expect(await response.json()).toMatchObject({ error: { param } })
    }
    expect((await request('GET', '/v1/batches/batch_none', KEY_A)).status).toBe(404)
  })

  it('bounds the open batches of a tenant', async () => {
    await env.DB.prepare(
      `INSERT INTO batches (id, tenant, created_at_ms, ended, state)
       WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
       SELECT 'batch_full' || i, 'tenant-a', 0, 0, '{}' FROM n`,
    )
      .bind(BATCHES_OPEN_MAX)
      .run()
    const asked = { input_file_id: await storeInput(linesOf(1)), endpoint: CHAT, completion_window: '24h' }
    expect((await request('POST', '/v1/batches', KEY_A, asked)).status).toBe(429)
    await env.DB.prepare("DELETE FROM batches WHERE id = 'batch_full1'").run()
    serveLines(echo)
    expect((await request('POST', '/v1/batches', KEY_A, asked)).status).toBe(200)
    await env.DB.prepare("DELETE FROM batches WHERE id LIKE 'batch_full%'").run()
  })
})
