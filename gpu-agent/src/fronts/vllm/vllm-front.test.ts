import { describe, expect, test } from 'vitest'
import { until } from '../../testing/harness.ts'
import { user } from '../testing/dispatched.ts'
import { arrived, conserved, scriptedVllm, startFront } from './testing/start-vllm-front.ts'

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

  test('tells what its swap costs whenever that changes, and again of another process', async () => {
    const vllm = await scriptedVllm()
    const { swap_costs } = await startFront(vllm)
    const first = { base_us: 1000, save_us_per_token: 0.9, restore_us_per_token: 0.9, recompute_us_per_token: 50 }
    const costs = { ...first, measured: false }
    const known = { ...costs, recompute_us_per_token: 72, measured: true }
    vllm.say({ type: 'status' })
    for (const swap_costs of [costs, costs, known]) vllm.say({ type: 'status', swap_costs })
    await until(() => swap_costs.length === 2)
    vllm.restart('engine-2')
    await until(() => vllm.connected)
    vllm.say({ type: 'status', swap_costs: known })
    await until(() => swap_costs.length === 3)
    expect(swap_costs).toEqual([costs, known, known])
  })

  test('tells what became of contexts that the plug-in held', async () => {
    const vllm = await scriptedVllm()
    const { contexts } = await startFront(vllm)
    const holds = { contexts: 1, begun: 4, returned: 2, given_up: 1, expired: 0, held_back: 7 }
    vllm.say({ type: 'status', holds: { ...holds, begun: -1 } })
    vllm.say({ type: 'status', holds })
    await until(() => contexts.length > 0)
    expect(contexts).toEqual([{ holds }])
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

  test('whose KV swap failed goes on, and says so once until it is started again', async () => {
    const vllm = await scriptedVllm()
    const under = await startFront(vllm)
    for (const swap_declined of [3, 4]) vllm.say({ type: 'status', swap_declined, swap_failed: true })
    vllm.say({ type: 'status', failed: true, failed_reason: 'KeyError' })
    await until(() => under.reports.some((told) => told.includes('plug-in failed')))
    expect(under.reports.filter((told) => told.includes('the KV swap of vLLM failed'))).toHaveLength(1)
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
    const calls = [under.serve({}, { settled_service_us: 42 }), under.serve(), under.serve()]
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
      'return_token_ids',
      'stream',
      'stream_options',
    ])
  })
})
