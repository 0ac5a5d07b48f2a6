import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { DEFAULT_SERVICE_RATES } from '../../../../src/core/call/service.ts'
import { EMBEDDING_TOKENS_MAX } from '../../../../src/protocol/openai.ts'
import { EngineDriver } from '../../../engine/driver.ts'
import type { Backend, EngineCall, LedgerRow, SampledToken, StepOutcome, StepPlan } from '../../../engine/types.ts'
import { TEXT_ONLY } from '../../openai/capabilities.ts'
import { dispatched, user } from '../testing/dispatched.ts'
import { RecordingSink } from '../testing/recording-sink.ts'
import { EmulatedTextModel } from './emulated-text-model.ts'
import { LocalFront } from './local-front.ts'
import { monotonicUs, schedulerOf } from './scheduler-of.ts'

const CONTEXT_TOKENS = 64
const CHUNK_TOKENS = 8
const DIMENSIONS = 2

class EmbeddingTextModel extends EmulatedTextModel {
  readonly embedding = { dimensions: DIMENSIONS, encode: (text: string) => this.encodeText(text) }
}

/** The vector of a prompt of n tokens is [3n, 4n]: normalised, it is the same for all. */
class VectorBackend implements Backend {
  readonly slots = 4
  readonly slot_tokens_max = CONTEXT_TOKENS
  readonly copies_prefixes = false
  readonly steps: StepPlan[] = []
  breaks = false
  /** Called before a step is computed. */
  onStep: (plan: StepPlan) => void = () => undefined
  readonly #calls = new Map<string, EngineCall>()

  swapCosts(): null {
    return null
  }
  admit(call: EngineCall): void {
    this.#calls.set(call.lease, call)
  }
  async execute(plan: StepPlan): Promise<StepOutcome> {
    if (this.breaks) throw new Error('broken')
    this.onStep(plan)
    this.steps.push(plan)
    const sampled = new Map<string, SampledToken>()
    for (const { lease, to, samples } of plan.work) {
      if (!samples) continue
      const embeds = this.#calls.get(lease)?.embeds === true
      sampled.set(
        lease,
        embeds ? { token: 0, end: true, embedding: new Float32Array([3 * to, 4 * to]) } : { token: 1, end: false },
      )
    }
    return { sampled }
  }
  release(lease: string): void {
    this.#calls.delete(lease)
  }
  evaluatedTokens(): number {
    return 0
  }
  dispose(): Promise<void> {
    return Promise.resolve()
  }
}

let backend: VectorBackend
let front: LocalFront
let rows: LedgerRow[]

async function start(text = new EmbeddingTextModel(CONTEXT_TOKENS)): Promise<LocalFront> {
  return LocalFront.start(
    {
      description: {
        ...{ id: 'e0', kind: 'emulated', model: 'm', seats: 2, kv_capacity_tokens: 256 },
        ...{ context_tokens_max: CONTEXT_TOKENS, prefill_tokens_per_s: null, speed_factor: 1 },
      },
      ...{ text, capabilities: TEXT_ONLY, system_fingerprint: 'f', ordering: 'modelled', report: () => undefined },
      startEngine: async (epoch, hooks) => {
        const sizes = { seats: 2, slots: 4, slot_tokens_max: CONTEXT_TOKENS, block_tokens: 4, capacity_blocks: 64 }
        const scheduler = schedulerOf(
          epoch,
          { ...sizes, max_step_tokens: 16, prefill_chunk_tokens: CHUNK_TOKENS },
          { engine: 'emulated', id: 'e0', model_id: 'm', policy: 'fcfs' },
          null,
        )
        return new EngineDriver({ epoch, scheduler, backend, clock: monotonicUs, ...hooks })
      },
    },
    { ledger: (more) => rows.push(...more), status: () => undefined, epoch: () => undefined },
  )
}

function serve(body: Record<string, unknown>): { sink: RecordingSink; lease: string } {
  const sink = new RecordingSink()
  const call = dispatched(front.describe().epoch, body, { dialect: 'embeddings' })
  front.serve(call, sink)
  return { sink, lease: call.claims.lease }
}

const words = (count: number): string[] => Array.from({ length: count }, (_, index) => `word number ${index}`)

beforeEach(async () => {
  backend = new VectorBackend()
  rows = []
  front = await start()
})
afterEach(() => front.stop())

describe('embeddings on a local engine', () => {
  test('are one chunk for each input, of length 1, and are charged as prefill', async () => {
    const { sink, lease } = serve({ input: ['abcd', 'abcdefgh', 'abcdefghijkl'] })
    const end = await sink.over
    expect(sink.prompt_tokens).toBe(1 + 2 + 3)
    expect(sink.chunks).toEqual(
      [0, 1, 2].map((index) => ({
        ...{ object: 'list', model: 'model' },
        data: [{ object: 'embedding', index, embedding: [0.6, 0.8].map((value) => expect.closeTo(value, 6)) }],
      })),
    )
    expect(end).toMatchObject({ outcome: 'completed', finish_reason: null, error: null })
    expect(end?.measurement).toMatchObject({ prompt_tokens: 6, output_tokens: 0, first_token_us: null })
    expect(end?.last_chunks).toMatchObject([{ data: [], usage: { prompt_tokens: 6, total_tokens: 6 } }])
    expect(new Set(rows.map((row) => row.lease))).toEqual(new Set([lease]))
    const sum = (of: (row: LedgerRow) => number) => rows.reduce((total, row) => total + of(row), 0)
    expect(sum((row) => row.computed_tokens)).toBe(6)
    expect(sum((row) => row.sampled_tokens)).toBe(0)
    expect(sum((row) => row.wall_us)).toBe(end?.measurement.service_wall_us)
    expect(sum((row) => row.modelled_us)).toBe(end?.measurement.service_modelled_us)
    const { prefill_us_per_token, decode_us_per_token } = DEFAULT_SERVICE_RATES
    expect(end?.measurement.service_modelled_us).toBe(6 * prefill_us_per_token + 3 * decode_us_per_token)
  })

  test('are base64 of float32 where a client asks for it', async () => {
    const { sink } = serve({ input: 'abcd', encoding_format: 'base64' })
    await sink.over
    const [chunk] = sink.chunks as unknown as { data: { embedding: string }[] }[]
    const bytes = Buffer.from(chunk?.data[0]?.embedding ?? '', 'base64')
    expect([bytes.length, bytes.readFloatLE(0)]).toEqual([4 * DIMENSIONS, expect.closeTo(0.6, 6)])
  })

  test('take one seat and a chunk of a step, however many inputs a call has', async () => {
    const text = new RecordingSink()
    front.serve(dispatched(front.describe().epoch, { messages: user('Hi'), max_tokens: 40 }), text)
    const { sink } = serve({ input: words(20) })
    await Promise.all([text.over, sink.over])
    expect(text.end).toMatchObject({ outcome: 'completed', finish_reason: 'length' })
    expect(sink.chunks).toHaveLength(20)
    for (const { work } of backend.steps) {
      expect(work.length).toBeLessThanOrEqual(2)
      for (const { from, to } of work) expect(to - from).toBeLessThanOrEqual(CHUNK_TOKENS)
    }
    // The text got a token in every step up to its end.
    const decodes = backend.steps.slice(1, 40).map(({ work }) => work.filter(({ from, to }) => to - from === 1).length)
    expect(Math.min(...decodes)).toBe(1)
  })

  test('say in the load what is still to come', async () => {
    const loads: number[] = []
    backend.onStep = () => loads.push(front.status().queued_tokens)
    const { sink } = serve({ input: ['abcd', 'abcd', 'abcd'] })
    await sink.over
    expect(loads).toEqual([3, 2, 1])
    expect(front.status().queued_tokens).toBe(0)
  })

  test('end where they are when they are cancelled, and cost what they did', async () => {
    const { sink, lease } = serve({ input: words(9) })
    let steps = 0
    backend.onStep = () => {
      steps += 1
      if (steps === 2) front.cancel(lease, null)
    }
    expect(await sink.over).toMatchObject({ outcome: 'cancelled', last_chunks: [] })
    expect(sink.chunks).toHaveLength(1)
    expect(rows.reduce((total, row) => total + row.wall_us, 0)).toBe(sink.end?.measurement.service_wall_us)
    expect(front.status()).toMatchObject({ waiting: 0, running: 0, queued_tokens: 0 })
  })

  test('fail with the engine, in a way that another may make good', async () => {
    const { sink } = serve({ input: words(3) })
    backend.onStep = () => {
      backend.breaks = true
    }
    expect(await sink.over).toMatchObject({ outcome: 'failed', error: { retryable: true } })
  })

  test('come to their end on an engine that drains', async () => {
    const { sink } = serve({ input: words(5) })
    await front.drain()
    expect(sink.end).toMatchObject({ outcome: 'completed' })
    expect(sink.chunks).toHaveLength(5)
  })
})

describe('an embeddings body is refused by', () => {
  const tokens = (count: number) => Array.from({ length: count }, () => 7)

  test.each<[string, string, object]>([
    ['dimensions that are not the model’s', 'dimensions', { input: 'a', dimensions: DIMENSIONS - 1 }],
    ['a token that does not exist', 'input[1]', { input: [1, 2 ** 32] }],
    ['the same among several inputs', 'input[1][0]', { input: [[1], [2 ** 32]] }],
    ['a field that no engine honours', 'truncate_prompt_tokens', { input: 'a', truncate_prompt_tokens: 4 }],
    ['more tokens than the context', 'input', { input: tokens(CONTEXT_TOKENS) }],
    ['the same among several inputs', 'input[1]', { input: ['a', 'x'.repeat(4 * CONTEXT_TOKENS)] }],
    ['the same in text that cannot fit', 'input', { input: 'x'.repeat(4 * CONTEXT_TOKENS + 1) }],
  ])('%s', async (_, param, body) => {
    const { sink } = serve({ ...body })
    await sink.over
    expect(sink.error).toMatchObject({ status: 400, retryable: false, error: { param } })
    expect(sink.error?.error.message).toContain(param)
  })

  test('one token past what a call may have, over all inputs', async () => {
    const wide = new EmbeddingTextModel(EMBEDDING_TOKENS_MAX)
    await front.stop()
    backend = new VectorBackend()
    front = await start(wide)
    const half = tokens(EMBEDDING_TOKENS_MAX / 2)
    const { sink } = serve({ input: [half, half, [1]] })
    expect(sink.error).toMatchObject({ error: { code: 'invalid_value', param: 'input' } })
    expect(sink.error?.error.message).toContain(`${EMBEDDING_TOKENS_MAX} tokens`)
  })

  test('more vectors than an answer has room for', async () => {
    class WideTextModel extends EmulatedTextModel {
      readonly embedding = { dimensions: 4096, encode: (text: string) => this.encodeText(text) }
    }
    await front.stop()
    backend = new VectorBackend()
    front = await start(new WideTextModel(CONTEXT_TOKENS) as EmbeddingTextModel)
    const many = (count: number) => Array.from({ length: count }, () => 'a')
    const { sink } = serve({ input: many(300) })
    expect(sink.error).toMatchObject({ error: { code: 'invalid_value', param: 'input' } })
    expect(sink.error?.error.message).toContain('room for 225 embeddings')
    expect(serve({ input: many(300), encoding_format: 'base64' }).sink.error).toBeNull()
  })

  test('an engine that makes none', async () => {
    await front.stop()
    backend = new VectorBackend()
    front = await start(new EmulatedTextModel(CONTEXT_TOKENS) as EmbeddingTextModel)
    expect(serve({ input: 'a' }).sink.error).toMatchObject({ error: { code: 'embeddings_unsupported' } })
  })
})
