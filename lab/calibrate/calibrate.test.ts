import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { EmulatedBackend } from '../../gpu-agent/engine/backends/emulated/emulated-backend.ts'
import { type LatencyProfile, TINY } from '../../gpu-agent/engine/backends/emulated/profiles/index.ts'
import { EngineDriver } from '../../gpu-agent/engine/driver.ts'
import { Scheduler } from '../../gpu-agent/engine/scheduler.ts'
import { testConfig } from '../../gpu-agent/engine/testing/calls.ts'
import { type EngineTimes, engineCosts, scaledTimes } from '../../gpu-agent/planner/costs/engine-costs.ts'
import { decodeSpan, driveEndpoint, type StreamCall } from './drive-endpoint.ts'
import { driveEngine, observed, playCalls, pointsOf } from './drive-engine.ts'
import { fitPhases, PHASE_SPANS_MIN } from './fit-phases.ts'
import { openaiStream, PROMPTS_MAX, readStream } from './openai-stream.ts'
import { fitSpans, SPANS_MIN, type Span } from './span.ts'
import { correctedBy, offPercent, simulatedS, type Trial, trialCalls } from './trial-run.ts'

const KNOWN: LatencyProfile = {
  ...TINY,
  ...{
    base_us: 9000,
    per_sequence_us: 400,
    per_kv_token_ns: 900,
    per_prefill_token_us: 70,
    per_prefill_pair_ps: 40_000,
  },
}

/** An engine whose latency model is known, on a clock that only its steps move. */
function knownEngine(onSpan: (span: Span) => void = () => undefined) {
  let now_us = 0
  const clock = () => now_us
  const backend = new EmulatedBackend({
    profile: KNOWN,
    clock,
    sleep: (duration_ms) => {
      now_us += duration_ms * 1000
      return Promise.resolve()
    },
  })
  const driver = new EngineDriver({
    epoch: 'e',
    scheduler: new Scheduler(testConfig(KNOWN)),
    backend: observed(backend, clock, onSpan),
    clock,
    onLedger: () => undefined,
    onStatus: () => undefined,
    onBroken: (error) => {
      throw error
    },
  })
  return { driver, clock }
}

test('the constants of an engine whose steps are seen are recovered within 2 %', async () => {
  const spans: Span[] = []
  const { driver } = knownEngine((span) => spans.push(span))
  await driveEngine(driver, { points: pointsOf(KNOWN.seats, 2048), vocabulary: [10, 5000] })
  const { costs, error } = fitSpans(spans)
  for (const [name, value] of Object.entries(costs)) {
    const known = KNOWN[name as keyof typeof costs] as number
    expect(Math.abs(value / known - 1), `${name}: ${value} for ${known}`).toBeLessThan(0.02)
  }
  expect(error.mean_abs_percent).toBeLessThan(0.5)
})

test("the planner's costs are recovered by phase, and a run of mixed calls takes what they say within 10 %", async () => {
  const spans: Span[] = []
  const { driver, clock } = knownEngine((span) => spans.push(span))
  const vocabulary = [10, 5000] as const
  await driveEngine(driver, { points: pointsOf(KNOWN.seats, 2048), vocabulary })
  const { times, error_percent } = fitPhases([...spans], 0)
  expect(error_percent.prefill).toBeLessThan(1)
  expect(error_percent.decode).toBeLessThan(1)
  // Reading the KV of a prompt is part of what its tokens cost.
  expect(Math.abs(times.prefill.per_prefill_token_us / KNOWN.per_prefill_token_us - 1)).toBeLessThan(0.1)
  expect(Math.abs(times.decode.per_kv_token_ns / KNOWN.per_kv_token_ns - 1)).toBeLessThan(0.05)
  for (const [calls, us] of times.decode.base_us)
    expect(Math.abs(us / (KNOWN.base_us + calls * KNOWN.per_sequence_us) - 1), `${calls} calls: ${us}`).toBeLessThan(
      0.05,
    )
  const { seats, block_tokens, capacity_blocks, max_step_tokens } = KNOWN
  const costsOf = (given: EngineTimes) =>
    engineCosts({ model: 'known', tp: 1, loading_s: 0 }, given, {
      ...{ seats, context_tokens: 2048, block_tokens },
      ...{ kv_tokens: capacity_blocks * block_tokens, step_tokens: max_step_tokens },
    })
  const played = async (number: number): Promise<Trial> => {
    const calls = trialCalls(seats, 1024, number)
    const started_us = clock()
    await playCalls(driver, calls, vocabulary, number)
    return { calls, real_s: (clock() - started_us) / 1e6 }
  }
  const [first, second] = [await played(0), await played(1)]
  expect(first.calls).not.toEqual(second.calls)
  const off = offPercent(simulatedS(costsOf(times), first.calls), first.real_s)
  expect(Math.abs(off), `${off} %`).toBeLessThan(10)
  // Costs that are wrong by half in everything are put right by the first run, for the second one.
  const corrected = correctedBy([first, second], scaledTimes(times, 0.5), costsOf)
  expect(Math.abs(corrected.run_percent), `${corrected.run_percent} %`).toBeLessThan(3)
})

test('phases need spans of each, and spans of both at once are no help', () => {
  const span = { steps: 1, calls: 2, kv_tokens: 9, prefill_pairs: 0, duration_us: 5 }
  const prefill = { ...span, decodes: 0, prefill_tokens: 4 }
  const decode = { ...span, decodes: 2, prefill_tokens: 0 }
  const mixed = { ...span, decodes: 1, prefill_tokens: 4 }
  const few = (one: Span, count: number) => new Array<Span>(count).fill(one)
  const enough = few(prefill, PHASE_SPANS_MIN)
  expect(() => fitPhases([...enough, ...few(mixed, 9)], 0)).toThrow('0 spans of decode')
  expect(() => fitPhases([...few(decode, 9), ...few(prefill, PHASE_SPANS_MIN - 1)], 0)).toThrow('4 spans of prefill')
  expect(fitPhases([...enough, ...few(decode, PHASE_SPANS_MIN)], 0).times.decode.base_us).toHaveLength(1)
})

test('the constants of an endpoint are recovered from its tokens alone: base, prompt and KV tokens within 10 %', async () => {
  const { driver, clock } = knownEngine()
  let number = 0
  const stream: StreamCall = (prompt_tokens, output_tokens) =>
    new Promise((resolve, reject) => {
      number += 1
      const lease = `call-${number}`
      const prompt = Array.from({ length: prompt_tokens }, (_, i) => number * 10_000 + i)
      const started_us = clock()
      const pieces_us: number[] = []
      const verdict = driver.submit(
        {
          ...{ class: 'class', sequence: null, open_elsewhere_us: 0, program_output_tokens: 0 },
          ...{ lease, tenant: 't', tenant_weight: 1, program: lease, thread: '0', settled_service_us: 0 },
          ...{ critical_path_us: 0, program_wait_us: 0, cache_salt: 's', prompt, max_output_tokens: output_tokens },
          sampling: { temperature: 0, top_p: 1, seed: 1 },
        },
        {
          token: () => pieces_us.push(clock()),
          ended: () => resolve({ started_us, pieces_us, prompt_tokens, output_tokens: pieces_us.length }),
        },
      )
      if (!verdict.ok) reject(new Error(verdict.message))
    })
  const spans = await driveEndpoint(stream, {
    ...{ concurrent: [1, 2, 4], prompt_tokens: [16, 100, 400, 1000, 1800], output_tokens: 48 },
    ...{ chunk_tokens: KNOWN.prefill_chunk_tokens, rounds: 2 },
  })
  const { costs, error } = fitSpans(spans)
  for (const name of ['base_us', 'per_kv_token_ns', 'per_prefill_token_us', 'per_sequence_us'] as const) {
    expect(Math.abs(costs[name] / KNOWN[name] - 1), `${name}: ${costs[name]} for ${KNOWN[name]}`).toBeLessThan(0.1)
  }
  expect(error.mean_abs_percent).toBeLessThan(2)
})

test('too few spans are refused', () => {
  const span = { steps: 1, calls: 1, decodes: 0, kv_tokens: 1, prefill_tokens: 0, prefill_pairs: 0, duration_us: 5 }
  expect(() => fitSpans(new Array(SPANS_MIN - 1).fill(span))).toThrow(RangeError)
  expect(() => fitSpans(new Array(SPANS_MIN).fill(span))).not.toThrow()
})

test('calls that never decode at once give no span', () => {
  const call = (...pieces_us: number[]) => ({
    started_us: 0,
    pieces_us,
    prompt_tokens: 5,
    output_tokens: pieces_us.length,
  })
  expect(decodeSpan([call(1, 2, 3), call(4, 5, 6)])).toBeNull()
  expect(decodeSpan([call(0, 10, 20, 30), call(0, 10, 20, 30)])).toMatchObject({ steps: 3, calls: 6, duration_us: 30 })
})

test('a stream is timed by its text; comments, the role and the usage are no text', async () => {
  const events = [
    ': wait\n\n',
    'data: {"choices":[{"delta":{"role":"assistant"}}]}\n\n',
    'data: {"choices":[{"del',
    'ta":{"content":"a"}}]}\n\n',
    'data: {"choices":[{"delta":{"content":"b"}}]}\n\ndata: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}\n\n',
    'data: [DONE]\n\n',
  ]
  let at = 0
  const read = readStream(streamOf(events), 0, () => (at += 10))
  expect(await read).toEqual({ started_us: 0, pieces_us: [40, 50], prompt_tokens: 7, output_tokens: 2 })
  await expect(readStream(streamOf(events.slice(0, 4)), 0, () => 0)).rejects.toThrow('include_usage')
  await expect(readStream(streamOf(['data: {"error":{"message":"busy"}}\n\n']), 0, () => 0)).rejects.toThrow('busy')
})

test.each([
  [PROMPTS_MAX - 1, 'another prompt is tried'],
  [PROMPTS_MAX, 'the answers are given up'],
])('after %i answers without text %s', async (silent, _what) => {
  const prompts = new Set<string>()
  const usage = '{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":1}}'
  const server = createServer(async (request, response) => {
    prompts.add(await text(request))
    const said = prompts.size > silent ? 'data: {"choices":[{"delta":{"content":"a"}}]}\n\n' : ''
    response.end(`${said}data: ${usage}\n\ndata: [DONE]\n\n`)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    const { port } = server.address() as AddressInfo
    const stream = openaiStream({ url: `http://127.0.0.1:${port}/v1`, model: 'm', api_key: null, clock: () => 0 })
    if (silent < PROMPTS_MAX) expect((await stream(10, 1)).pieces_us).toHaveLength(1)
    else await expect(stream(10, 1)).rejects.toThrow(`${PROMPTS_MAX} prompts had no text`)
    expect(prompts.size).toBe(PROMPTS_MAX)
  } finally {
    server.close()
  }
})

function streamOf(events: readonly string[]): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  return new ReadableStream({
    start(controller) {
      for (const event of events) controller.enqueue(encoder.encode(event))
      controller.close()
    },
  })
}
