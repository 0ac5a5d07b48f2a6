import { describe, expect, test } from 'vitest'
import { user } from '../front/testing/dispatched.ts'
import { ERRORS } from '../stream-errors.ts'
import { until } from '../test-support/harness.ts'
import type { ScriptedRequest, ScriptedVllm } from './testing/scripted-vllm.ts'
import { type FrontUnderTest, scriptedVllm, startFront } from './testing/start-vllm-front.ts'

async function arrived(vllm: ScriptedVllm, nth = 0): Promise<ScriptedRequest> {
  await until(() => vllm.requests.length > nth)
  return vllm.requests[nth] ?? expect.fail('no request')
}

/** Ledger and record say the same. */
function conserved({ ledger }: FrontUnderTest, lease: string, measured: unknown): void {
  const { wall_us, modelled_us } = ledger(lease)
  expect(measured).toMatchObject({ service_wall_us: wall_us, service_modelled_us: modelled_us })
}

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
    vllm.record(lease, { outcome: 'cancelled' })
    expect(await sink.over).toMatchObject({ outcome: 'completed', finish_reason: 'stop' })
  })

  test('with two choices ends when both records have come, and has their sum', async () => {
    const vllm = await scriptedVllm()
    const under = await startFront(vllm)
    const { sink, lease } = under.serve({ n: 2 })
    const request = await arrived(vllm)
    request.accept().role(0).role(1).text('a', 'stop', 0)
    vllm.record(lease, { wait_us: 10, first_token_us: 20, duration_us: 3000 })
    request.text('b', 'length', 1).usage(7, 2).done()
    vllm.charges([lease, { wall_us: 4000, modelled_us: 3000, computed_tokens: 9, output_tokens: 4 }])
    await until(() => under.rows.length === 1)
    expect(sink.end).toBeNull()
    vllm.record(lease, { wait_us: 30, first_token_us: 10, duration_us: 5000, cached_tokens: 1 })
    const end = await sink.over
    expect(end?.measurement).toEqual({
      prompt_tokens: 7,
      cached_tokens: 1,
      output_tokens: 6,
      service_wall_us: 6000,
      service_modelled_us: 4254,
      wait_us: 40,
      preemptions: 0,
      swapped_out_tokens: 0,
      swapped_in_tokens: 0,
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

  test('that was charged before vLLM’s answer was heard ends with its charges, whatever comes instead of the answer', async () => {
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

describe('a refusal', () => {
  const refused = async (answer: (request: ScriptedRequest) => void) => {
    const vllm = await scriptedVllm()
    const under = await startFront(vllm)
    const { sink } = under.serve()
    answer(await arrived(vllm))
    await sink.over
    return { error: sink.error, ...under }
  }

  test('of a prompt that is too long is told as OpenAI tells it', async () => {
    const message =
      "This model's maximum context length is 4096 tokens. However, your prompt contains 5000 input tokens."
    const { error, reports } = await refused((request) =>
      request.refuse(400, { message, type: 'BadRequestError', param: 'input_tokens', code: 400 }),
    )
    expect(error).toEqual({
      error: { message, type: 'invalid_request_error', param: 'messages', code: 'context_length_exceeded' },
      status: 400,
      retryable: false,
    })
    expect(reports).toEqual([])
  })

  test('of a prompt that leaves no room for output says so', async () => {
    const message = 'max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)'
    const { error } = await refused((request) => request.refuse(400, { message, type: 'BadRequestError', code: 400 }))
    expect(error?.error).toMatchObject({ code: 'context_length_exceeded', param: 'messages' })
    expect(error?.error.message).toContain('no room')
  })

  test('of tools by a vLLM without a parser for them tells the operator, once', async () => {
    const vllm = await scriptedVllm()
    const { serve, reports } = await startFront(vllm)
    const message = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
    vllm.onRequest = (request) => request.refuse(400, { message, type: 'BadRequestError', code: 400 })
    const calls = [serve(), serve()]
    for (const { sink } of calls) await sink.over
    expect(calls[0]?.sink.error?.error).toMatchObject({ code: 'unsupported_parameter', param: 'tools' })
    expect(reports).toHaveLength(1)
    expect(reports[0]).toContain('--tool-call-parser')
  })

  test('of a field names the field', async () => {
    const { error } = await refused((request) =>
      request.refuse(400, { message: 'no (parameter=top_p, value=0)', type: 'x', param: 'top_p', code: 400 }),
    )
    expect(error?.error).toEqual({
      message: 'no',
      type: 'invalid_request_error',
      param: 'top_p',
      code: 'invalid_value',
    })
  })

  test.each([401, 404])('with status %i is the operator’s, who is told', async (status) => {
    const { error, reports, vllm } = await refused((request) => request.refuse(status, { message: 'm', type: 't' }))
    expect(error).toMatchObject({ status: 502, retryable: true, error: { code: 'engine_failed' } })
    expect(reports[0]).toContain(`status ${status}`)
    expect(vllm.suspected).toEqual([])
  })

  test('with a server error may be tried elsewhere', async () => {
    const { error, reports } = await refused((request) => request.refuse(500, 'oops'))
    expect(error).toMatchObject({ status: 502, retryable: true })
    expect(reports).toHaveLength(1)
  })

  test('by nobody, where nothing listens any more, makes the server suspect', async () => {
    const vllm = await scriptedVllm()
    const under = await startFront(vllm)
    vllm.addressed = { url: 'http://127.0.0.1:1' }
    vllm.up()
    await until(() => vllm.heard.filter(({ type }) => type === 'hello').length === 2)
    const { sink } = under.serve()
    await sink.over
    expect(sink.error).toMatchObject({ status: 503, retryable: true, error: { code: 'engine_down' } })
    expect(vllm.suspected).toHaveLength(1)
  })

  test('of a body that asks for what is not allowed never reaches vLLM', async () => {
    const vllm = await scriptedVllm()
    const { serve } = await startFront(vllm)
    const { sink } = serve({ priority: -5 })
    expect(sink.error).toMatchObject({ status: 400, error: { param: 'priority' } })
    expect(vllm.requests).toEqual([])
  })
})

describe('the engine', () => {
  test('is described and loaded as the plug-in says', async () => {
    const vllm = await scriptedVllm()
    vllm.hello = { seats: 2, kv_capacity_tokens: 500, context_tokens_max: 64 }
    const under = await startFront(vllm)
    const { front } = under
    expect(front.describe()).toEqual({
      ...{ id: 'agent-e0', epoch: 'engine-1', kind: 'vllm', model: 'model', seats: 2, kv_capacity_tokens: 500 },
      ...{ context_tokens_max: 64, prefill_tokens_per_s: null, speed_factor: 1 },
    })
    for (let call = 0; call < 3; call += 1) under.serve({ messages: user('x'.repeat(40)) })
    expect(front.status()).toMatchObject({ state: 'ready', running: 2, waiting: 1, queued_tokens: 30 })
    vllm.say({ type: 'status', waiting: 2, running: 1, queued_tokens: 20, kv_used: 0.5 })
    await until(() => front.status().kv_used_tokens === 250)
    expect(front.status()).toMatchObject({ running: 1, waiting: 2, queued_tokens: 20 })
  })

  test('that went down fails its calls with what they were charged, refuses others, and comes back under its epoch', async () => {
    const vllm = await scriptedVllm()
    const under = await startFront(vllm)
    const { front } = under
    const accepted = under.serve()
    const request = await arrived(vllm)
    request.accept().role()
    await until(() => accepted.sink.chunks.length === 1)
    vllm.charges([accepted.lease, { wall_us: 10, modelled_us: 9, computed_tokens: 8, output_tokens: 7 }])
    await until(() => under.rows.length === 1)
    const pending = under.serve()
    await arrived(vllm, 1)
    vllm.down()
    expect(accepted.sink.end).toMatchObject({ outcome: 'failed', error: { error: { code: 'engine_failed' } } })
    expect(accepted.sink.end?.measurement).toMatchObject({
      service_wall_us: 10,
      service_modelled_us: 9,
      output_tokens: 7,
    })
    conserved(under, accepted.lease, accepted.sink.end?.measurement)
    expect(pending.sink.error).toMatchObject({ status: 503, retryable: true })
    expect(front.status()).toMatchObject({ state: 'down', running: 0, waiting: 0 })
    expect(under.serve().sink.error?.error.code).toBe('engine_down')
    vllm.restart('engine-2')
    vllm.up()
    await until(() => front.status().state === 'ready')
    expect(under.heard.filter((event) => event === 'epoch')).toHaveLength(1)
    expect(under.serve({}, { epoch: 'engine-1' }).sink.error?.error.code).toBe('epoch_gone')
  })

  test('that is another behind the same socket fails the calls of the one before', async () => {
    const vllm = await scriptedVllm()
    const under = await startFront(vllm)
    const { sink } = under.serve()
    ;(await arrived(vllm)).accept().role()
    await until(() => sink.chunks.length === 1)
    vllm.restart('engine-2')
    expect(await sink.over).toMatchObject({ outcome: 'failed' })
    expect(under.front.describe().epoch).toBe('engine-2')
  })

  test('that makes no progress with calls open is suspect, and one that does is not', async () => {
    const vllm = await scriptedVllm()
    let now_us = 0
    const times = { hang_ms_max: 1000, hang_check_ms: 5 }
    const under = await startFront(vllm, { clock: () => now_us, times })
    const { sink } = under.serve()
    const request = await arrived(vllm)
    request.accept().role()
    await until(() => sink.chunks.length === 1)
    const later = async (ms: number, sign: () => void, seen: () => boolean): Promise<void> => {
      now_us += ms * 1000
      sign()
      await until(seen)
      now_us += ms * 1000
      await new Promise((resolve) => setTimeout(resolve, 30))
    }
    const statuses = () => under.heard.length
    let before = statuses()
    await later(
      600,
      () => vllm.say({ type: 'status', steps: 1 }),
      () => statuses() > before,
    )
    expect(vllm.suspected).toEqual([])
    // The channel's thread lives, and the scheduler's does not.
    before = statuses()
    await later(
      600,
      () => vllm.say({ type: 'status', steps: 1 }),
      () => statuses() > before,
    )
    await until(() => vllm.suspected.length === 1)
    expect(vllm.suspected[0]).toContain('no progress')
  })

  test('whose plug-in failed serves its calls to their end and is then restarted', async () => {
    const vllm = await scriptedVllm()
    const under = await startFront(vllm)
    const { sink, lease } = under.serve()
    const request = await arrived(vllm)
    request.accept().role()
    vllm.say({ type: 'status', failed: true, failed_reason: 'KeyError' })
    await until(() => under.reports.length === 1)
    expect(vllm.suspected).toEqual([])
    request.text('a', 'stop').usage(7, 1).done()
    vllm.record(lease)
    await sink.over
    expect(vllm.suspected).toHaveLength(1)
  })

  test('whose plug-in does not measure any more is measured from outside, without waiting for records', async () => {
    const vllm = await scriptedVllm()
    const under = await startFront(vllm)
    vllm.say({ type: 'status', failed: true, measures: false })
    await until(() => vllm.suspected.length === 1)
    const { sink, lease } = under.serve()
    const request = await arrived(vllm)
    request.accept().role().text('a', 'stop').usage(7, 1).done()
    const end = await sink.over
    expect(end).toMatchObject({ outcome: 'completed', measurement: { prompt_tokens: 7, output_tokens: 1 } })
    conserved(under, lease, end?.measurement)
    expect(under.counted).toEqual([])
  })

  test('that speaks another version of the side channel stops the start with a sentence', async () => {
    const vllm = await scriptedVllm()
    vllm.hello = { v: 2 }
    await expect(startFront(vllm)).rejects.toThrow(/version 2 of the side channel.*install/)
    expect(vllm.stopped).toBe(true)
  })

  test('that does not answer on its channel stops the start with a sentence', async () => {
    const vllm = await scriptedVllm()
    await vllm.closeChannel()
    await expect(startFront(vllm, { times: { channel_start_ms_max: 30 } })).rejects.toThrow(/did not answer/)
  })

  test('changes its policy while it runs, says why it does not, and answers in time or not at all', async () => {
    const vllm = await scriptedVllm()
    const { front } = await startFront(vllm)
    const asked = async (nth: number) => {
      await until(() => vllm.heard.filter(({ type }) => type === 'options').length > nth)
      return vllm.heard.filter(({ type }) => type === 'options')[nth] ?? expect.fail('nothing asked')
    }
    const applied = front.changeOptions({ policy: 'fcfs' })
    const first = await asked(0)
    expect(first).toMatchObject({ options: { policy: 'fcfs' } })
    vllm.say({ type: 'applied', number: first.number, policy: 'fcfs' })
    expect(await applied).toEqual({ status: 'applied' })
    const refused = front.changeOptions({ policy: 'none' })
    vllm.say({ type: 'refused', number: (await asked(1)).number, reason: 'there is no policy none' })
    expect(await refused).toEqual({ status: 'refused', reason: 'there is no policy none' })
    const unanswered = front.changeOptions({ policy: 'rr' })
    await asked(2)
    vllm.dropAgent()
    expect(await unanswered).toMatchObject({ status: 'unanswered' })
  })

  test('drains when its calls have ended, and takes no others', async () => {
    const vllm = await scriptedVllm()
    const under = await startFront(vllm)
    const { sink, lease } = under.serve()
    const request = await arrived(vllm)
    let drained = false
    const draining = under.front.drain().then(() => {
      drained = true
    })
    expect(under.serve().sink.error?.error.code).toBe('draining')
    expect(under.front.status().state).toBe('draining')
    request.accept().role().text('a', 'stop').usage(7, 1).done()
    await until(() => sink.chunks.length === 2)
    expect(drained).toBe(false)
    vllm.record(lease)
    await draining
  })
})

describe('without the plug-in', () => {
  test('a call is measured from outside, and the load comes from /metrics', async () => {
    const vllm = await scriptedVllm({ socket: null, order: 'priority', epoch: 'own' })
    vllm.metrics = 'vllm:num_requests_waiting{a="b"} 2.0\nvllm:num_requests_running 1\nvllm:kv_cache_usage_perc 0.25\n'
    const under = await startFront(vllm)
    expect(under.front.describe().epoch).toBe('own')
    const calls = [under.serve({}, { attained_service_us: 42 }), under.serve(), under.serve()]
    const request = await arrived(vllm)
    expect(request.body).toMatchObject({ priority: 42, cache_salt: expect.any(String) })
    expect(request.body).not.toHaveProperty('vllm_xargs')
    await until(() => under.front.status().kv_used_tokens === 2500)
    expect(under.front.status()).toMatchObject({ running: 1, waiting: 2 })
    request.accept().role().text('a', 'stop').usage(7, 1).done()
    const [first] = calls
    const end = await first?.sink.over
    expect(end).toMatchObject({ outcome: 'completed', measurement: { prompt_tokens: 7, output_tokens: 1 } })
    conserved(under, first?.lease ?? '', end?.measurement)
    expect(under.counted).toEqual([])
  })

  test('under vLLM’s own order nothing of the ticket goes along but the salt', async () => {
    const vllm = await scriptedVllm({ socket: null, order: 'fcfs' })
    const { serve } = await startFront(vllm)
    serve()
    const { body } = await arrived(vllm)
    expect(Object.keys(body).sort()).toEqual([
      'cache_salt',
      'max_tokens',
      'messages',
      'model',
      'stream',
      'stream_options',
    ])
  })
})
