import { describe, expect, test } from 'vitest'
import { ERRORS } from '../../../data-plane/stream-errors.ts'
import { until } from '../../../testing/harness.ts'
import { dispatched } from '../../testing/dispatched.ts'
import { RecordingSink } from '../../testing/recording-sink.ts'
import type { ScriptedRequest } from '../testing/scripted-vllm.ts'
import { arrived, conserved, scriptedVllm, startFront } from '../testing/start-vllm-front.ts'

describe('a call', () => {
  test('streams as vLLM writes, ends with the record, and is acknowledged when the record is on disk', async () => {
    const vllm = await scriptedVllm()
    const under = await startFront(vllm)
    const { sink, lease } = under.serve({ stream: true, stream_options: { include_usage: true } })
    const request = await arrived(vllm)
    expect(request.path).toBe('/v1/chat/completions')
    expect(request.headers).toMatchObject({ authorization: 'Bearer key', 'x-request-id': lease })
    request.accept().role().text('Hel')
    await until(() => sink.chunks.length === 2)
    vllm.charges([lease, { wall_us: 1000, modelled_us: 900, computed_tokens: 5, output_tokens: 1 }])
    await until(() => under.rows.length === 1)
    request.text('lo', 'stop').usage(7, 2).done()
    await until(() => sink.chunks.length === 3)
    expect(sink.end).toBeNull()
    const number = vllm.record(lease, { output_tokens: 2 })
    const end = await sink.over
    expect(sink.text).toBe('Hello')
    expect(sink.chunks[0]).toMatchObject({
      object: 'chat.completion.chunk',
      model: 'model',
      system_fingerprint: 'switchyard-vllm-model',
      choices: [{ index: 0, delta: { role: 'assistant', content: '', refusal: null }, finish_reason: null }],
      usage: null,
    })
    expect(sink.chunks[0]?.id).toMatch(/^chatcmpl-call-/)
    expect(end).toMatchObject({ outcome: 'completed', finish_reason: 'stop', error: null })
    conserved(under, lease, end?.measurement)
    expect(end?.measurement).toMatchObject({ prompt_tokens: 7, cached_tokens: 2, output_tokens: 2, wait_us: 500 })
    expect(end?.last_chunks).toMatchObject([
      { choices: [{ index: 0, finish_reason: 'stop' }] },
      { usage: { prompt_tokens: 7, completion_tokens: 2, switchyard: { service_s: 0.002127, service_wall_s: 0.003 } } },
    ])
    expect(vllm.kept).toEqual([number])
    under.front.recorded(lease)
    await until(() => vllm.kept.length === 0)
    expect(under.counted).toEqual([])
  })

  test('whose text ends at a stop string is completed, although its record says cancelled', async () => {
    const vllm = await scriptedVllm()
    const under = await startFront(vllm)
    const { sink, lease } = under.serve({ stop: ['x'] })
    const request = await arrived(vllm)
    request.accept().role().text('a', 'stop').usage(7, 1).done()
    // The engine computed two tokens more before it heard of that.
    vllm.record(lease, { outcome: 'cancelled', output_tokens: 3 })
    const end = await sink.over
    expect(end).toMatchObject({ outcome: 'completed', finish_reason: 'stop', measurement: { output_tokens: 1 } })
    conserved(under, lease, end?.measurement)
  })

  test('with two prompts has the tokens of both', async () => {
    const vllm = await scriptedVllm()
    const under = await startFront(vllm)
    const sink = new RecordingSink()
    const call = dispatched(under.front.describe().epoch, { prompt: ['a', 'b'] }, { dialect: 'completions' })
    const { lease } = call.claims
    under.front.serve(call, sink)
    const request = await arrived(vllm)
    expect([request.path, request.body.prompt]).toEqual(['/v1/completions', ['a', 'b']])
    request.accept()
    for (const index of [0, 1]) request.send({ choices: [{ index, text: 'x', finish_reason: 'length' }] })
    vllm.record(lease, { cached_tokens: 1 })
    request.usage(14, 2).done()
    vllm.record(lease, { cached_tokens: 2 })
    const end = await sink.over
    expect(sink.chunks.map(({ choices: [choice] }) => choice?.index)).toEqual([0, 1])
    expect(end).toMatchObject({ outcome: 'completed', measurement: { prompt_tokens: 14, cached_tokens: 3 } })
    conserved(under, lease, end?.measurement)
  })

  test('with two choices ends when both records have come, and has their sum', async () => {
    const vllm = await scriptedVllm()
    const under = await startFront(vllm)
    const { sink, lease } = under.serve({ n: 2 })
    const request = await arrived(vllm)
    request.accept().role(0).role(1).text('a', 'stop', 0)
    vllm.record(lease, { wait_us: 10, first_token_us: 20, duration_us: 3000 })
    request.text('b', 'length', 1).usage(7, 6).done()
    vllm.charges([lease, { wall_us: 4000, modelled_us: 3000, computed_tokens: 9, output_tokens: 4 }])
    await until(() => under.rows.length === 1)
    expect(sink.end).toBeNull()
    const swapped = { swapped_out_tokens: 5, swapped_in_tokens: 4, recomputed_tokens: 1, swap_us: 2000 }
    vllm.record(lease, { wait_us: 30, first_token_us: 10, duration_us: 5000, cached_tokens: 1, ...swapped })
    const end = await sink.over
    expect(end?.measurement).toEqual({
      prompt_tokens: 7,
      cached_tokens: 1,
      output_tokens: 6,
      resumed_tokens: 0,
      service_wall_us: 6000,
      service_modelled_us: 4254,
      wait_us: 40,
      preemptions: 0,
      ...swapped,
      first_token_us: 10,
      duration_us: 5000,
    })
    conserved(under, lease, end?.measurement)
    expect(end?.last_chunks).toMatchObject([
      { choices: [{ index: 0, finish_reason: 'stop' }] },
      { choices: [{ index: 1, finish_reason: 'length' }] },
    ])
    under.front.recorded(lease)
    await until(() => vllm.kept.length === 0)
  })

  test('that is cancelled closes its request and ends with its true record', async () => {
    const vllm = await scriptedVllm()
    const under = await startFront(vllm)
    const { sink, lease } = under.serve()
    const request = await arrived(vllm)
    request.accept().role().text('a')
    await until(() => sink.chunks.length === 2)
    under.front.cancel(lease, ERRORS.client_gone)
    await until(() => request.closed)
    expect(sink.end).toBeNull()
    vllm.record(lease, { outcome: 'cancelled', service_wall_us: 77, service_modelled_us: 55 })
    const end = await sink.over
    expect(end).toMatchObject({ outcome: 'cancelled', error: ERRORS.client_gone, finish_reason: null, last_chunks: [] })
    expect(end?.measurement.service_wall_us).toBe(77)
    conserved(under, lease, end?.measurement)
  })

  test('that is cancelled before vLLM answered ends at once: it was never queued', async () => {
    const vllm = await scriptedVllm()
    const under = await startFront(vllm)
    const { sink, lease } = under.serve()
    const request = await arrived(vllm)
    under.front.cancel(lease, ERRORS.client_gone)
    expect(await sink.over).toMatchObject({
      outcome: 'cancelled',
      measurement: { service_wall_us: 0, output_tokens: 0 },
    })
    await until(() => request.closed)
    expect(under.counted).toEqual([])
  })

  test('that was charged before vLLM’s answer was heard ends with its charges, with any failure in place of the answer', async () => {
    const vllm = await scriptedVllm()
    const under = await startFront(vllm, { times: { record_wait_ms: 20 } })
    const { sink, lease } = under.serve()
    const request = await arrived(vllm)
    vllm.charges([lease, { wall_us: 5, modelled_us: 4, computed_tokens: 3, output_tokens: 0 }])
    await until(() => under.rows.length === 1)
    request.cut()
    const end = await sink.over
    expect(end).toMatchObject({ outcome: 'failed', measurement: { service_wall_us: 5, service_modelled_us: 4 } })
    conserved(under, lease, end?.measurement)
  })

  test('whose record does not come ends with its charges, else as measured from outside, and is counted', async () => {
    const vllm = await scriptedVllm()
    const under = await startFront(vllm, { times: { record_wait_ms: 50 } })
    const charged = under.serve()
    const request = await arrived(vllm)
    request.accept().role()
    await until(() => charged.sink.chunks.length === 1)
    vllm.charges([charged.lease, { wall_us: 5000, modelled_us: 4000, computed_tokens: 9, output_tokens: 3 }])
    await until(() => under.rows.length === 1)
    request.text('a', 'stop').usage(7, 2).done()
    const end = await charged.sink.over
    expect(end?.measurement).toMatchObject({ service_wall_us: 5000, service_modelled_us: 4000, output_tokens: 3 })
    conserved(under, charged.lease, end?.measurement)
    const alone = under.serve()
    const second = await arrived(vllm, 1)
    second.accept().role().text('a')
    await until(() => alone.sink.chunks.length === 2)
    second.text('b', 'stop').usage(7, 2).done()
    const outside = await alone.sink.over
    expect(outside?.measurement).toMatchObject({
      prompt_tokens: 7,
      output_tokens: 2,
      service_modelled_us: 7 * 125 + 2 * 500,
    })
    conserved(under, alone.lease, outside?.measurement)
    expect(under.counted).toEqual(['record_missing', 'record_missing'])
    // It comes after all: nothing is made of it, and vLLM may forget it.
    vllm.record(alone.lease)
    await until(() => vllm.kept.length === 0)
    expect(under.counted.at(-1)).toBe('record_late')
  })

  test('whose stream breaks off has failed, and another engine may serve it', async () => {
    const vllm = await scriptedVllm()
    const under = await startFront(vllm)
    const { sink, lease } = under.serve()
    const request = await arrived(vllm)
    request.accept().role()
    await until(() => sink.chunks.length === 1)
    request.cut()
    vllm.record(lease, { outcome: 'cancelled' })
    expect(await sink.over).toMatchObject({ outcome: 'failed', error: { status: 502, retryable: true } })
    expect(under.reports[0]).toContain('broke off')
    expect(vllm.suspected).toEqual([])
  })

  test.each([
    ['a stream without an end of its choice', (r: ScriptedRequest) => r.accept().role().done()],
    ['what is not JSON', (r: ScriptedRequest) => r.accept().send('{')],
    ['what is no chunk', (r: ScriptedRequest) => r.accept().send({ hello: 1 })],
    ['a choice that was not asked for', (r: ScriptedRequest) => r.accept().text('a', null, 1)],
    ['text after the finish reason', (r: ScriptedRequest) => r.accept().text('a', 'stop').text('b')],
    ['a finish reason of its own failure', (r: ScriptedRequest) => r.accept().text('a', 'error')],
    [
      'an error in its stream',
      (r: ScriptedRequest) => r.accept().send({ error: { message: 'x', type: 'y', code: 500 } }),
    ],
  ])('fails when vLLM sends %s', async (_, answer) => {
    const vllm = await scriptedVllm()
    const under = await startFront(vllm, { times: { record_wait_ms: 20 } })
    const { sink } = under.serve()
    answer(await arrived(vllm))
    expect(await sink.over).toMatchObject({
      outcome: 'failed',
      error: { error: { code: 'engine_failed' }, retryable: true },
    })
  })
})
