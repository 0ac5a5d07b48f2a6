import { afterAll, beforeAll, expect, test } from 'vitest'
import { EXACT_CHUNK_TOKENS_MAX } from '../../../engine/backends/llama/llama-limits.ts'
import { describeWithModel, MODEL_PATH } from '../../../engine/backends/llama/testing/real-model.ts'
import type { LedgerRow } from '../../../engine/types.ts'
import type { Dialect, EngineFront } from '../engine-front.ts'
import type { FrontOptions } from '../front-options.ts'
import { dispatched, user } from '../testing/dispatched.ts'
import { RecordingSink } from '../testing/recording-sink.ts'
import { startEmbeddedFront } from './embedded-front.ts'
import { READ_EVERY } from './lengths/prompt-lengths.ts'

const options: FrontOptions = {
  engine: 'embedded',
  id: 'e0',
  model_id: 'm',
  model_path: MODEL_PATH,
  policy: 'plas',
  seats: 2,
  slots: 2,
  context_tokens: 768,
  // Answers are compared bit for bit.
  prefill_chunk_tokens: EXACT_CHUNK_TOKENS_MAX,
}

interface ToolDelta {
  index: number
  id?: string
  function: { name?: string; arguments?: string }
}

describeWithModel('the embedded front on the real model', () => {
  let front: EngineFront
  const rows: LedgerRow[] = []

  beforeAll(async () => {
    const events = { ledger: (more: readonly LedgerRow[]) => rows.push(...more), status() {}, epoch() {} }
    front = await startEmbeddedFront(options, events, (message, error) => {
      throw new Error(message, { cause: error })
    })
  })
  afterAll(() => front.stop())

  async function ask(body: Record<string, unknown>, dialect: Dialect = 'chat'): Promise<RecordingSink> {
    const sink = new RecordingSink()
    const call = dispatched(front.describe().epoch, { temperature: 0, max_tokens: 200, ...body }, { dialect })
    front.serve(call, sink)
    await sink.over
    expect(sink.error).toBeNull()
    return sink
  }

  const toolDeltas = (sink: RecordingSink) =>
    sink.chunks.flatMap(({ choices }) => {
      const delta = choices[0]?.delta as { tool_calls?: ToolDelta[] } | undefined
      return delta?.tool_calls ?? []
    })

  const city = {
    type: 'object',
    properties: {
      name: { type: 'string', maxLength: 20 },
      continent: { enum: ['Europe', 'Asia', 'Africa'] },
      population: { type: 'integer' },
      tags: { type: 'array', items: { type: 'string', maxLength: 12 }, maxItems: 2 },
      mayor: { anyOf: [{ type: 'string', maxLength: 12 }, { type: 'null' }] },
    },
    required: ['name', 'continent', 'population', 'tags'],
    additionalProperties: false,
  }

  test('its prefill speed is measured', () => {
    expect(front.describe().prefill_tokens_per_s).toBeGreaterThan(0)
  })

  test.each([0, 1])(
    'a schema holds at temperature %j, and the answer ends where the JSON ends',
    async (temperature) => {
      const json_schema = { name: 'city', strict: true, schema: city }
      const sink = await ask({
        messages: user('Describe Paris as JSON.'),
        temperature,
        response_format: { type: 'json_schema', json_schema },
      })
      expect(sink.end).toMatchObject({ outcome: 'completed', finish_reason: 'stop' })
      const value = JSON.parse(sink.text) as Record<string, unknown>
      expect(city.properties.continent.enum).toContain(value.continent)
      expect(Number.isInteger(value.population)).toBe(true)
      expect(city.required.every((name) => name in value)).toBe(true)
      expect(Object.keys(value).every((name) => name in city.properties)).toBe(true)
      expect(sink.text.trimEnd()).toBe(sink.text)
    },
  )

  test('json_object gives an object, with unions, recursion and maps where a schema has them', async () => {
    const any = await ask({ messages: user('Say hello as JSON.'), response_format: { type: 'json_object' } })
    expect(any.text.startsWith('{')).toBe(true)
    const tree = {
      type: 'object',
      properties: {
        left: { anyOf: [{ $ref: '#' }, { type: 'null' }] },
        counts: { type: 'object', additionalProperties: { type: 'integer' } },
      },
      required: ['left', 'counts'],
    }
    const sink = await ask({
      messages: user('Write a small tree.'),
      response_format: { type: 'json_schema', json_schema: { name: 'tree', schema: tree } },
    })
    if (sink.end?.finish_reason === 'stop') expect(JSON.parse(sink.text)).toHaveProperty('counts')
    expect(sink.end?.outcome).toBe('completed')
  })

  test('a required tool is called, and the next turn extends what is in KV', async () => {
    const parameters = {
      type: 'object',
      properties: { city: { type: 'string', maxLength: 16 }, unit: { enum: ['C', 'F'] } },
      required: ['city'],
    }
    const tools = [
      { type: 'function', function: { name: 'weather', description: 'The weather of a city.', parameters } },
      { type: 'function', function: { name: 'time', description: 'The time.' } },
    ]
    const question = user('What is the weather in Paris?')
    const choice = { type: 'function', function: { name: 'weather' } }
    const sink = await ask({ messages: question, tools, tool_choice: choice })
    expect(sink.end).toMatchObject({ outcome: 'completed', finish_reason: 'tool_calls' })
    const [begin, ...fragments] = toolDeltas(sink)
    expect(begin).toMatchObject({ index: 0, function: { name: 'weather', arguments: '' } })
    expect(fragments.length).toBeGreaterThan(1)
    const written = fragments.map((delta) => delta.function.arguments).join('')
    expect(JSON.parse(written)).toHaveProperty('city')
    expect(sink.text).toBe('')
    const call = { id: begin?.id, type: 'function', function: { name: 'weather', arguments: written } }
    const next = await ask({
      messages: [
        ...question,
        { role: 'assistant', content: null, tool_calls: [call] },
        { role: 'tool', tool_call_id: begin?.id, content: '21 C, sunny' },
      ],
      tools,
      max_tokens: 8,
    })
    const held = (sink.prompt_tokens ?? 0) + (sink.end?.measurement.output_tokens ?? 0) - 1
    expect(next.end?.measurement.cached_tokens).toBeGreaterThanOrEqual(held)

    const either = await ask({ messages: question, tools, tool_choice: 'required' })
    expect(['weather', 'time']).toContain(toolDeltas(either)[0]?.function.name)
  })

  test('with fewer slots than calls, greedy answers are those of calls alone, and service still adds up', async () => {
    const prompts = ['Count to ten.', 'Name a fruit.', 'Say hello.', 'Name a river.', 'What is a rail?'].map(user)
    const body = { max_tokens: 24 }
    const alone: string[] = []
    for (const messages of prompts) alone.push((await ask({ ...body, messages })).text)
    rows.length = 0
    const together = await Promise.all(prompts.map((messages) => ask({ ...body, messages })))
    expect(together.map(({ text }) => text)).toEqual(alone)
    const charged = together.reduce((sum, { end }) => sum + (end?.measurement.service_wall_us ?? 0), 0)
    expect(rows.reduce((sum, row) => sum + row.wall_us, 0)).toBe(charged)
  })

  test('choices of one call differ, and what they cost is in the ledger under one lease', async () => {
    rows.length = 0
    const sink = await ask({ messages: user('Name an animal.'), n: 3, temperature: 1, seed: 3, max_tokens: 12 })
    const texts = [0, 1, 2].map((index) =>
      sink.chunks
        .filter(({ choices }) => choices[0]?.index === index)
        .map(({ choices }) => choices[0]?.delta?.content ?? '')
        .join(''),
    )
    expect(new Set(texts).size).toBeGreaterThan(1)
    const { measurement } = sink.end ?? expect.fail('no end')
    expect(rows.reduce((sum, row) => sum + row.wall_us, 0)).toBe(measurement.service_wall_us)
    expect(rows.reduce((sum, row) => sum + row.modelled_us, 0)).toBe(measurement.service_modelled_us)
    expect(rows.reduce((sum, row) => sum + row.sampled_tokens, 0)).toBe(measurement.output_tokens)
  })

  test.each(['chat', 'completions'] as const)(
    '%s: an answer is one of the choices, or matches the pattern',
    async (dialect) => {
      const prompt =
        dialect === 'chat' ? { messages: user('Is the sky blue?') } : { prompt: 'Is the sky blue? Answer:' }
      const choice = ['certainly', 'maybe', 'never']
      const chosen = await ask({ ...prompt, structured_outputs: { choice }, temperature: 1 }, dialect)
      expect(choice).toContain(chosen.text)
      expect(chosen.end?.finish_reason).toBe('stop')
      const regex = '[A-C]{2}-\\d{3}(\\.[xyz]+)?!'
      const matching = await ask({ ...prompt, structured_outputs: { regex }, temperature: 1 }, dialect)
      expect(matching.text).toMatch(new RegExp(`^${regex}$`))
    },
  )

  test('bounds, patterns and formats of a schema hold at temperature 1', async () => {
    const schema = {
      type: 'object',
      properties: {
        age: { type: 'integer', minimum: 18, maximum: 65 },
        share: { type: 'number', exclusiveMinimum: 0, exclusiveMaximum: 1 },
        code: { type: 'string', pattern: '^[A-Z]{3}$' },
        born: { type: 'string', format: 'date' },
      },
      required: ['age', 'share', 'code', 'born'],
    }
    const response_format = { type: 'json_schema', json_schema: { name: 'person', schema } }
    for (const seed of [1, 2, 3]) {
      const { text } = await ask({ messages: user('Describe a person.'), response_format, temperature: 1, seed })
      const value = JSON.parse(text) as { age: number; share: number; code: string; born: string }
      expect(value.age).toBeGreaterThanOrEqual(18)
      expect(value.age).toBeLessThanOrEqual(65)
      expect(value.share).toBeGreaterThan(0)
      expect(value.share).toBeLessThan(1)
      expect(value.code).toMatch(/^[A-Z]{3}$/)
      expect(Number.isNaN(Date.parse(value.born))).toBe(false)
    }
  })

  const texts = (sink: RecordingSink, count: number) =>
    Array.from({ length: count }, (_, index) =>
      sink.chunks
        .filter(({ choices }) => choices[0]?.index === index)
        .map(({ choices }) => choices[0]?.text ?? '')
        .join(''),
    )

  test('several prompts are answered as each alone, at any temperature', async () => {
    const prompt = ['The sky is', 'One, two, three,', 'Paris is']
    for (const sampling of [{ temperature: 0 }, { temperature: 1, seed: 5 }]) {
      const body = { ...sampling, max_tokens: 8 }
      const alone: string[] = []
      for (const one of prompt) alone.push((await ask({ ...body, prompt: one }, 'completions')).text)
      expect(texts(await ask({ ...body, prompt }, 'completions'), prompt.length)).toEqual(alone)
    }
  })

  test('a stop token ends an answer, also where the end of generation is ignored', async () => {
    const body = { prompt: 'One, two, three,', max_tokens: 24 }
    const whole = await ask({ ...body, logprobs: 0 }, 'completions')
    expect(whole.text).toContain(', five')
    // The token of a comma, of this model.
    const comma = 28
    const stopped = await ask({ ...body, stop_token_ids: [comma] }, 'completions')
    expect(stopped.text).toBe(whole.text.slice(0, whole.text.indexOf(',')))
    expect(stopped.end).toMatchObject({ finish_reason: 'stop' })
    const ignoring = await ask({ ...body, stop_token_ids: [comma], ignore_eos: true }, 'completions')
    expect(ignoring.text).toBe(stopped.text)
    const later = await ask({ ...body, stop_token_ids: [comma], min_tokens: 3 }, 'completions')
    expect(later.end?.measurement.output_tokens).toBeGreaterThan(3)
  })

  test('bad words do not stand in an answer, of one token or of several, with a space or without', async () => {
    const body = { prompt: 'One, two, three,', max_tokens: 12 }
    const free = await ask(body, 'completions')
    expect(free.text).toContain('four')
    const barred = await ask({ ...body, bad_words: ['four', 'five, six'] }, 'completions')
    expect(barred.text).not.toMatch(/four|five, six/)
    expect(barred.text).not.toBe('')
    const other = await ask({ ...body, bad_words: ['zebra'] }, 'completions')
    expect(other.text).toBe(free.text)
  })

  test('embeddings of many texts and a text that streams go on beside each other', async () => {
    const heard: string[] = []
    const listen = (name: string, body: Record<string, unknown>, dialect: Dialect): RecordingSink => {
      const sink = new RecordingSink()
      sink.onChunk = () => heard.push(name)
      front.serve(dispatched(front.describe().epoch, body, { dialect }), sink)
      return sink
    }
    const input = Array.from({ length: 12 }, (_, index) => `This is the sentence that has the number ${index}.`)
    const vectors = listen('vector', { input }, 'embeddings')
    const text = listen('text', { messages: user('Count to fifty.'), max_tokens: 40, ignore_eos: true }, 'chat')
    await Promise.all([vectors.over, text.over])
    expect(vectors.chunks).toHaveLength(input.length)
    expect(text.end?.measurement.output_tokens).toBe(40)
    const overlap = heard.slice(heard.indexOf('vector'), heard.lastIndexOf('vector'))
    // One input takes a step or two: between two vectors, the text gets its tokens of those steps.
    expect(overlap.filter((name) => name === 'text').length).toBeGreaterThanOrEqual(input.length - 2)
    expect(vectors.end?.measurement).toMatchObject({ output_tokens: 0, preemptions: 0 })
  })

  test('echo with log probabilities gives every token of the prompt its own, as evaluation harnesses want them', async () => {
    const logprobsOf = (sink: RecordingSink, field: string): unknown[] =>
      sink.chunks.flatMap(({ choices: [choice] }) => {
        const { logprobs } = (choice ?? {}) as { logprobs?: Record<string, unknown[]> | null }
        return logprobs?.[field] ?? []
      })
    const body = { prompt: 'The capital of France is Paris', max_tokens: 1, logprobs: 1, echo: true }
    const sink = await ask(body, 'completions')
    expect(sink.text.startsWith(body.prompt)).toBe(true)
    const tokens = logprobsOf(sink, 'tokens') as string[]
    expect(tokens.join('')).toBe(sink.text)
    const [first, ...others] = logprobsOf(sink, 'token_logprobs') as (number | null)[]
    expect(first).toBeNull()
    expect(others.every((logprob) => typeof logprob === 'number' && logprob <= 0)).toBe(true)
    expect(sink.end?.measurement).toMatchObject({ cached_tokens: 0 })
    const alone = await ask({ ...body, max_tokens: 0 }, 'completions')
    expect([alone.text, alone.end?.finish_reason]).toEqual([body.prompt, 'length'])
    expect(logprobsOf(alone, 'token_logprobs')).toEqual([null, ...others].slice(0, alone.prompt_tokens ?? 0))
    // A likelier ending has a greater sum.
    const sum = async (prompt: string) => {
      const again = await ask({ ...body, prompt }, 'completions')
      return (logprobsOf(again, 'token_logprobs').slice(1, again.prompt_tokens ?? 0) as number[]).reduce(
        (a, b) => a + b,
      )
    }
    expect(await sum(body.prompt)).toBeGreaterThan(await sum('The capital of France is banana'))
  })
})

describeWithModel('an embedded front that learns lengths', () => {
  test('reads prompts before their calls: the answer is the same to the bit, and the lease pays for both', async () => {
    const play = async (learn_lengths: boolean) => {
      const rows: LedgerRow[] = []
      const events = { ledger: (more: readonly LedgerRow[]) => rows.push(...more), status() {}, epoch() {} }
      const front = await startEmbeddedFront({ ...options, learn_lengths }, events, (message, error) => {
        throw new Error(message, { cause: error })
      })
      const ends: { text: string; measurement: RecordingSink['end'] }[] = []
      for (let index = 0; index < READ_EVERY; index++) {
        const sink = new RecordingSink()
        const body = { messages: user(`Say something short about number ${index}.`), temperature: 0, max_tokens: 12 }
        const call = dispatched(front.describe().epoch, body)
        front.serve(call, sink)
        await sink.over
        const own = rows.filter(({ lease }) => lease === call.claims.lease)
        const { service_wall_us, service_modelled_us } = sink.end?.measurement ?? {}
        expect(service_wall_us).toBe(own.reduce((sum, row) => sum + row.wall_us, 0))
        expect(service_modelled_us).toBe(own.reduce((sum, row) => sum + row.modelled_us, 0))
        ends.push({ text: sink.text, measurement: sink.end })
      }
      await front.stop()
      return { ends, rows: rows.length }
    }
    const [read, plain] = [await play(true), await play(false)]
    expect(read.ends.map(({ text }) => text)).toEqual(plain.ends.map(({ text }) => text))
    const last = (played: typeof read) => played.ends.at(-1)?.measurement?.measurement
    expect(last(read)?.prompt_tokens).toBe(last(plain)?.prompt_tokens)
    expect(last(read)?.output_tokens).toBe(last(plain)?.output_tokens)
    expect(read.rows).toBeGreaterThan(plain.rows)
  }, 300_000)
})
