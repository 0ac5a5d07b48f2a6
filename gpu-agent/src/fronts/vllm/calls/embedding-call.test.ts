import { describe, expect, test } from 'vitest'
import { arrived, conserved, scriptedVllm, startFront } from '../testing/start-vllm-front.ts'

const EMBEDDINGS = { dialect: 'embeddings' as const }

function list(...embeddings: unknown[]) {
  const data = embeddings.map((embedding, index) => ({ object: 'embedding', index, embedding }))
  const usage = { prompt_tokens: 7, total_tokens: 7, completion_tokens: 0, prompt_tokens_details: null }
  return JSON.stringify({ id: 'embd', object: 'list', created: 1, model: 'served', data, usage })
}

describe('embeddings', () => {
  test('come as one chunk for each vector, and are measured from outside', async () => {
    const vllm = await scriptedVllm()
    const under = await startFront(vllm)
    const { sink, lease } = under.serve({ messages: undefined, input: ['a', 'b'], dimensions: 2 }, EMBEDDINGS)
    const request = await arrived(vllm)
    expect([request.path, request.headers.accept]).toEqual(['/v1/embeddings', 'application/json'])
    expect(request.body).toEqual({
      model: 'served',
      input: ['a', 'b'],
      encoding_format: 'float',
      dimensions: 2,
      cache_salt: expect.any(String),
    })
    request.refuse(200, list([1, 2], [3, 4]))
    const end = await sink.over
    expect(sink.chunks).toEqual([
      { object: 'list', model: 'model', data: [{ object: 'embedding', index: 0, embedding: [1, 2] }] },
      { object: 'list', model: 'model', data: [{ object: 'embedding', index: 1, embedding: [3, 4] }] },
    ])
    expect(end).toMatchObject({ outcome: 'completed', finish_reason: null, error: null })
    expect(end?.measurement).toMatchObject({ prompt_tokens: 7, output_tokens: 0, wait_us: 0, first_token_us: null })
    expect(end?.measurement.service_wall_us).toBeGreaterThan(0)
    expect(end?.measurement.service_modelled_us).toBeGreaterThan(0)
    expect(under.ledger(lease).computed_tokens).toBe(7)
    conserved(under, lease, end?.measurement)
    expect(end?.last_chunks).toMatchObject([
      { object: 'list', data: [], usage: { prompt_tokens: 7, total_tokens: 7, switchyard: { ttft_s: null } } },
    ])
    expect(under.counted).toEqual([])
  })

  test('are what a model makes that writes no text: a chat with it is a precise refusal', async () => {
    const vllm = await scriptedVllm()
    const under = await startFront(vllm)
    const { sink } = under.serve({})
    ;(await arrived(vllm)).refuse(404, '{"detail":"Not Found"}')
    await sink.over
    expect(sink.error).toMatchObject({ status: 400, error: { code: 'generation_unsupported', param: 'model' } })
  })

  test('of a vLLM that has no model for them are a precise refusal', async () => {
    const vllm = await scriptedVllm()
    const under = await startFront(vllm)
    const { sink } = under.serve({ messages: undefined, input: 'a' }, EMBEDDINGS)
    const request = await arrived(vllm)
    request.refuse(404, '{"detail":"Not Found"}')
    await sink.over
    expect(sink.error).toMatchObject({
      status: 400,
      retryable: false,
      error: { code: 'embeddings_unsupported', param: 'model' },
    })
    expect(under.reports).toEqual([])
  })

  test('whose input is too long are refused by it', async () => {
    const vllm = await scriptedVllm()
    const under = await startFront(vllm)
    const { sink } = under.serve({ messages: undefined, input: 'a' }, EMBEDDINGS)
    const message = "This model's maximum context length is 512 tokens. However, you requested 600 tokens."
    ;(await arrived(vllm)).refuse(400, { message, type: 'BadRequestError', param: 'input_tokens', code: 400 })
    await sink.over
    expect(sink.error?.error).toMatchObject({ code: 'context_length_exceeded', param: 'input' })
  })

  test.each([
    ['fewer than the inputs', list([1])],
    ['no list', '{"data":7}'],
  ])('of vLLM that are %s fail the call', async (_, answer) => {
    const vllm = await scriptedVllm()
    const under = await startFront(vllm)
    const { sink } = under.serve({ messages: undefined, input: ['a', 'b'] }, EMBEDDINGS)
    ;(await arrived(vllm)).refuse(200, answer)
    expect(await sink.over).toMatchObject({ outcome: 'failed', error: { error: { code: 'engine_failed' } } })
  })

  test('end when their client leaves', async () => {
    const vllm = await scriptedVllm()
    const under = await startFront(vllm)
    const { sink, lease } = under.serve({ messages: undefined, input: 'a' }, EMBEDDINGS)
    const request = await arrived(vllm)
    under.front.cancel(lease, null)
    expect(await sink.over).toMatchObject({ outcome: 'cancelled' })
    await expect.poll(() => request.closed).toBe(true)
  })
})
