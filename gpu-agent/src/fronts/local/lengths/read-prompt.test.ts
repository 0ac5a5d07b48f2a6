/** Calls whose prompts are read before they run: same answers, one lease, one account; and what is learned from them. */
import { beforeEach, expect, test } from 'vitest'
import type { CallForecast } from '../../../../../src/core/call/forecast.ts'
import { HELD_OUT, JUDGES_MIN, type LengthVerdict, TRAIN_EVERY } from '../../../../../src/core/tools/length-learner.ts'
import { dispatched, user } from '../../testing/dispatched.ts'
import { RecordingSink } from '../../testing/recording-sink.ts'
import type { LocalFront } from '../local-front.ts'
import { resetScript, script, seen, startFront } from '../testing/scripted-front.ts'
import { PromptLengths, READ_EVERY, READ_TOKENS_MAX } from './prompt-lengths.ts'

beforeEach(resetScript)

const FORECAST: CallForecast = { output_tokens: 100, ends: 1, tool: null, confidence: 1 }

/** `told`: resolves with what is said of the first training. */
function learning(): { lengths: PromptLengths; told: Promise<LengthVerdict> } {
  const { promise, resolve } = Promise.withResolvers<LengthVerdict>()
  const lengths = new PromptLengths({ random: () => 0.5, told: resolve, batch_pause_ms: 0 })
  return { lengths, told: promise }
}

/** The next call is read. */
function readNext(lengths: PromptLengths): void {
  for (let call = 1; call < READ_EVERY; call++) expect(lengths.wants(1)).toBe(false)
}

/** As models' embeddings, in which many components say the same. */
function embeddingOf(bit: number): Float32Array {
  return Float32Array.from({ length: 512 }, (_, at) => (at + bit) % 2)
}

function serve(front: LocalFront, body: Record<string, unknown> = {}, forecast: CallForecast | null = FORECAST) {
  const sink = new RecordingSink()
  const call = dispatched(front.describe().epoch, { messages: user('Hi'), ...body })
  front.serve(forecast === null ? call : { ...call, forecast }, sink)
  return { sink, lease: call.claims.lease }
}

test('a call that is read answers as any other, and its lease is measured as its ledger says', async () => {
  const { lengths } = learning()
  const front = await startFront(undefined, lengths)
  readNext(lengths)
  const { sink, lease } = serve(front)
  const end = await sink.over
  await front.stop()
  expect(sink.text).toBe('Hello')
  expect(end).toMatchObject({ outcome: 'completed', finish_reason: 'stop' })
  expect(seen.prompts).toHaveLength(2)
  expect(seen.prompts[1]).toEqual(seen.prompts[0])
  const rows = seen.ledger.filter((row) => row.lease === lease)
  const sum = (of: 'wall_us' | 'modelled_us') => rows.reduce((total, row) => total + row[of], 0)
  const { measurement } = end ?? {}
  expect(measurement).toMatchObject({ service_wall_us: sum('wall_us'), service_modelled_us: sum('modelled_us') })
  expect(measurement).toMatchObject({ prompt_tokens: 4, cached_tokens: 0, output_tokens: 5 })
  const { service_wall_us = 0, wait_us = 0, duration_us = 0, first_token_us } = measurement ?? {}
  expect(service_wall_us + wait_us).toBe(duration_us)
  expect(first_token_us).toBeLessThanOrEqual(duration_us)
  expect(seen.forecasts[1]).toEqual(FORECAST)
})

test('one that is cancelled while it is read ends as cancelled, and is not opened', async () => {
  const { lengths } = learning()
  const front = await startFront(undefined, lengths)
  readNext(lengths)
  const { sink, lease } = serve(front)
  front.cancel(lease, null)
  expect(await sink.over).toMatchObject({ outcome: 'cancelled' })
  expect(front.status()).toMatchObject({ waiting: 0, running: 0 })
  await front.drain()
  await front.stop()
  expect(seen.prompts.length).toBeLessThanOrEqual(1)
})

test('one whose engine breaks while it is read fails', async () => {
  const { lengths } = learning()
  const front = await startFront(undefined, lengths)
  readNext(lengths)
  script.breaks = true
  expect(await serve(front).sink.over).toMatchObject({ outcome: 'failed' })
  await front.stop()
})

test('calls of several answers, and long prompts, are not read', async () => {
  const { lengths } = learning()
  const front = await startFront(undefined, lengths)
  readNext(lengths)
  await serve(front, { n: 2 }).sink.over
  await front.stop()
  expect(seen.prompts).toHaveLength(2)
  expect(seen.forecasts).toEqual([FORECAST, FORECAST])
  readNext(learning().lengths)
  expect(learning().lengths.wants(READ_TOKENS_MAX + 1)).toBe(false)
})

test('while prompts say more than classes do, every call is read and told so; its class is told nothing of it', async () => {
  const { lengths, told } = learning()
  const answers = Math.max(TRAIN_EVERY, HELD_OUT * JUDGES_MIN)
  for (let index = 0; index < answers; index++)
    lengths.answered(
      embeddingOf(Math.floor(index / HELD_OUT) % 2),
      Math.floor(index / HELD_OUT) % 2 === 0 ? 20 : 300,
      160,
    )
  expect(await told).toMatchObject({ in_use: true, quantiles: { acc15: 0 }, classifier: { acc15: 1 } })
  const front = await startFront(undefined, lengths)
  for (const [bit, tokens] of [
    [0, 20],
    [1, 300],
  ] as const) {
    script.embedding = () => embeddingOf(bit)
    expect((await serve(front).sink.over)?.outcome).toBe('completed')
    const { output_tokens = 0, ...others } = seen.forecasts.at(-1) ?? {}
    expect(Math.abs(output_tokens - tokens)).toBeLessThan(15)
    expect({ output_tokens: FORECAST.output_tokens, ...others }).toEqual(FORECAST)
  }
  await serve(front, {}, null).sink.over
  expect(seen.forecasts.at(-1)).toBeUndefined()
  await front.stop()
  expect(seen.prompts).toHaveLength(6)
})
