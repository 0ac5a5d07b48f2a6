/** Several choices or prompts in one call: each is a call of the engine, and all are one lease. */
import { beforeEach, expect, test } from 'vitest'
import { CHOICES_MAX } from '../../openai/schemas.ts'
import { dispatched, user } from '../testing/dispatched.ts'
import { RecordingSink } from '../testing/recording-sink.ts'
import { CONTEXT_TOKENS, characters, resetScript, run, script, seen, startFront } from './testing/scripted-front.ts'

beforeEach(resetScript)

test('what is expected of a call reaches its engine, for every choice', async () => {
  const front = await startFront()
  const sink = new RecordingSink()
  const forecast = { output_tokens: 9, ends: 0.5, tool: null, confidence: 0.1 }
  front.serve({ ...dispatched(front.describe().epoch, { messages: user('Hi'), n: 2 }), forecast }, sink)
  await sink.over
  await front.stop()
  expect(seen.forecasts).toEqual([forecast, forecast])
  await run({ messages: user('Hi') })
  expect(seen.forecasts.at(-1)).toBeUndefined()
})

test('n choices are calls of the engine, and one lease: rows, measurement, finish reasons, usage', async () => {
  const sink = await run({ messages: user('Hi'), n: 3, stream_options: { include_usage: true } })
  for (const index of [0, 1, 2]) {
    const own = sink.chunks.filter(({ choices }) => choices[0]?.index === index)
    expect(own[0]?.choices[0]?.delta).toMatchObject({ role: 'assistant' })
    expect(own.map(({ choices }) => choices[0]?.delta?.content ?? '').join('')).toBe('Hello')
  }
  const { measurement, last_chunks } = sink.end ?? expect.fail('no end')
  expect(last_chunks.slice(0, 3)).toMatchObject([0, 1, 2].map((index) => ({ choices: [{ index }] })))
  expect(last_chunks[3]).toMatchObject({ usage: { prompt_tokens: 4, completion_tokens: 15, total_tokens: 19 } })
  expect(measurement).toMatchObject({ prompt_tokens: 4, output_tokens: 15 })
  expect(new Set(seen.ledger.map(({ lease }) => lease)).size).toBe(1)
  expect(new Set(seen.ledger.map(({ step }) => step)).size).toBe(seen.ledger.length)
  const sum = (field: 'wall_us' | 'modelled_us' | 'sampled_tokens') =>
    seen.ledger.reduce((total, row) => total + row[field], 0)
  expect(sum('wall_us')).toBe(measurement.service_wall_us)
  expect(sum('modelled_us')).toBe(measurement.service_modelled_us)
  expect(sum('sampled_tokens')).toBe(15)
})

test('several prompts are answered by one choice each, as they would be alone', async () => {
  const prompts = ['Hi', 'Hello', 'Hi']
  const sink = await run({ prompt: prompts, echo: true, stream_options: { include_usage: true } }, 'completions')
  const texts = prompts.map((_, index) =>
    sink.chunks
      .filter(({ choices }) => choices[0]?.index === index)
      .map(({ choices }) => choices[0]?.text ?? '')
      .join(''),
  )
  expect(texts).toEqual(['HiHello', 'HelloHello', 'HiHello'])
  expect(seen.prompts).toEqual(['Hi', 'Hello', 'Hi'].map(characters))
  expect(sink.prompt_tokens).toBe(2 + 5 + 2)
  expect(sink.end?.measurement).toMatchObject({ prompt_tokens: 9, output_tokens: 15 })
  expect(sink.end?.last_chunks.at(-1)).toMatchObject({ usage: { prompt_tokens: 9, completion_tokens: 15 } })
  expect(new Set(seen.ledger.map(({ lease }) => lease)).size).toBe(1)
  expect(seen.ledger.reduce((total, row) => total + row.wall_us, 0)).toBe(sink.end?.measurement.service_wall_us)
})

test('a prompt of several that cannot be served is named', async () => {
  const foreign = await run({ prompt: [[65], [66, 0x110000]] }, 'completions')
  expect(foreign.error).toMatchObject({ error: { code: 'invalid_value', param: 'prompt[1][1]' } })
  const long = await run({ prompt: ['x', 'x'.repeat(CONTEXT_TOKENS)] }, 'completions')
  expect(long.error).toMatchObject({ error: { code: 'context_length_exceeded', param: 'prompt[1]' } })
})

test('a cancelled lease ends all its choices, and CHOICES_MAX choices are the most', async () => {
  script.answer = 'x'.repeat(60)
  const front = await startFront()
  const { epoch } = front.describe()
  const sink = new RecordingSink()
  const call = dispatched(epoch, { messages: user('Hi'), n: CHOICES_MAX })
  sink.onChunk = () => front.cancel(call.claims.lease, null)
  front.serve(call, sink)
  await sink.over
  expect(sink.end).toMatchObject({ outcome: 'cancelled', last_chunks: [] })
  expect(front.status()).toMatchObject({ waiting: 0, running: 0 })
  const over = new RecordingSink()
  front.serve(dispatched(epoch, { messages: user('Hi'), n: CHOICES_MAX + 1 }), over)
  expect(over.error).toMatchObject({ status: 400, error: { param: 'n' } })
  await front.stop()
})
