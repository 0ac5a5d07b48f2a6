/**
 * The openai package against the running system: two regions, the embedded engine, a real small model.
 */
import type OpenAI from 'openai'
import { APIError } from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventually, System } from './support/system.ts'

let system: System
let client: OpenAI
let model: string

beforeAll(async () => {
  system = await System.start({ engine: 'embedded' })
  client = system.client()
  model = system.dev.model
})
afterAll(async () => {
  await system.remove()
})

interface SwitchyardUsage {
  service_s: number
  service_wall_s: number
  wait_s: number
  preemptions: number
  engine: string
  region: string
  emulated: boolean
}
const extension = (usage: unknown) => (usage as { switchyard: SwitchyardUsage }).switchyard

describe('chat completions', () => {
  it('answers a question that the model knows, with usage, service and wait', async () => {
    const answer = await client.chat.completions.create({
      model,
      messages: [
        { role: 'system', content: 'You are a helpful assistant.' },
        { role: 'user', content: 'What is the capital of France?' },
      ],
      max_completion_tokens: 24,
      temperature: 0,
    })
    expect(answer.object).toBe('chat.completion')
    expect(answer.choices[0]?.message.role).toBe('assistant')
    expect(answer.choices[0]?.message.content).toContain('Paris')
    expect(['stop', 'length']).toContain(answer.choices[0]?.finish_reason)
    const usage = answer.usage
    expect(usage?.total_tokens).toBe((usage?.prompt_tokens ?? 0) + (usage?.completion_tokens ?? 0))
    expect(usage?.completion_tokens).toBeGreaterThan(0)
    expect(usage?.prompt_tokens_details?.cached_tokens).toBeGreaterThanOrEqual(0)
    expect(extension(usage).service_s).toBeGreaterThan(0)
    expect(extension(usage).emulated).toBe(false)
  })

  it('answers the plainest question without a system message, greedily and with default parameters', async () => {
    const messages = [{ role: 'user' as const, content: 'What is the capital of France?' }]
    for (const asked of [{ temperature: 0 }, { seed: 1 }, { seed: 2 }]) {
      const answer = await client.chat.completions.create({ model, messages, ...asked })
      expect(answer.choices[0]?.message.content, JSON.stringify(asked)).toContain('Paris')
    }
  })

  it('streams the same text that it gives in one piece, chunk by chunk', async () => {
    const request = {
      model,
      messages: [{ role: 'user' as const, content: 'Count from one to ten in words.' }],
      max_tokens: 32,
      temperature: 0,
    }
    const whole = await client.chat.completions.create(request)
    const stream = await client.chat.completions.create({
      ...request,
      stream: true,
      stream_options: { include_usage: true },
    })
    let text = ''
    let chunks = 0
    let finish: string | null = null
    let usage: OpenAI.CompletionUsage | null = null
    for await (const chunk of stream) {
      chunks += 1
      text += chunk.choices[0]?.delta.content ?? ''
      finish = chunk.choices[0]?.finish_reason ?? finish
      usage = chunk.usage ?? usage
    }
    expect(text).toBe(whole.choices[0]?.message.content)
    expect(chunks).toBeGreaterThan(5)
    expect(finish).toBe(whole.choices[0]?.finish_reason)
    expect(usage?.completion_tokens).toBe(whole.usage?.completion_tokens)
    expect(extension(usage).service_wall_s).toBeGreaterThan(0)
  })

  it('sends no usage chunk to a streaming client that did not ask for it', async () => {
    const stream = await client.chat.completions.create({
      model,
      messages: [{ role: 'user', content: 'Hi' }],
      max_tokens: 4,
      stream: true,
    })
    for await (const chunk of stream) expect(chunk.usage ?? null).toBeNull()
  })

  it('stops at a stop string without giving it away', async () => {
    const answer = await client.chat.completions.create({
      model,
      messages: [{ role: 'user', content: 'Repeat exactly: alpha beta gamma delta' }],
      max_tokens: 40,
      temperature: 0,
      stop: ['gamma'],
    })
    expect(answer.choices[0]?.message.content).not.toContain('gamma')
  })

  it('samples reproducibly with a seed', async () => {
    const sample = (seed: number) =>
      client.chat.completions.create({
        model,
        messages: [{ role: 'user', content: 'Write a sentence about the sea.' }],
        max_tokens: 24,
        temperature: 1,
        top_p: 0.9,
        seed,
      })
    const [one, two, other] = [await sample(7), await sample(7), await sample(8)]
    expect(two.choices[0]?.message.content).toBe(one.choices[0]?.message.content)
    expect(other.choices[0]?.message.content).not.toBe(one.choices[0]?.message.content)
  })

  it('honours biases and penalties', async () => {
    const messages = [{ role: 'user' as const, content: 'Say ha ha ha ha ha ha ha ha.' }]
    const say = async (extra: object) => {
      const answer = await client.chat.completions.create({ model, messages, temperature: 0, max_tokens: 24, ...extra })
      return answer.choices[0]?.message.content ?? ''
    }
    const forced = await say({ logit_bias: { '60': 100 }, max_tokens: 3 })
    expect(forced).toMatch(/^(.+)\1\1$/)
    expect(await say({ frequency_penalty: 2, presence_penalty: 2 })).not.toBe(await say({}))
  })

  it('refuses a field that the engine cannot honour and names it', async () => {
    const messages = [{ role: 'user' as const, content: 'Hi' }]
    const bodies: [string, object][] = [
      ['logit_bias.49152', { logit_bias: { '49152': 10 } }],
      ['modalities', { modalities: ['audio'] }],
      ['n', { n: 1000 }],
      ['stop_token_ids', { stop_token_ids: [49_152] }],
      [
        'messages[1].content',
        { messages: [...messages, { role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:,' } }] }] },
      ],
      ['ignore_eos', { ignore_eos: true, response_format: { type: 'json_object' } }],
    ]
    for (const [param, extra] of bodies) {
      const error = await client.chat.completions.create({ model, messages, ...extra }).then(
        () => null,
        (thrown: unknown) => thrown,
      )
      expect(error, param).toBeInstanceOf(APIError)
      expect((error as APIError).status, param).toBe(400)
      expect((error as APIError).param, param).toBe(param)
    }
  })

  it('refuses a prompt that cannot fit with context_length_exceeded', async () => {
    const error = (await client.chat.completions
      .create({ model, messages: [{ role: 'user', content: 'word '.repeat(20_000) }] })
      .catch((thrown: unknown) => thrown)) as APIError
    expect(error.status).toBe(400)
    expect(error.code).toBe('context_length_exceeded')
  })
})

describe('other routes', () => {
  it('completions continue a text, streaming and not', async () => {
    const request = { model, prompt: 'Once upon a time', max_tokens: 12, temperature: 0 }
    const whole = await client.completions.create(request)
    expect(whole.object).toBe('text_completion')
    let text = ''
    for await (const chunk of await client.completions.create({ ...request, stream: true })) {
      text += chunk.choices[0]?.text ?? ''
    }
    expect(text).toBe(whole.choices[0]?.text)
    expect(text.length).toBeGreaterThan(0)
  })

  it('completions answer several prompts in one call, each by a choice', async () => {
    const prompts = ['One, two, three,', 'Paris is the capital of']
    const body = { model, max_tokens: 6, temperature: 0 }
    const alone: string[] = []
    for (const prompt of prompts) {
      alone.push((await client.completions.create({ ...body, prompt })).choices[0]?.text ?? '')
    }
    const answer = await client.completions.create({ ...body, prompt: prompts })
    expect(answer.choices.map(({ index, text }) => [index, text])).toEqual([...alone.entries()])
    expect(answer.usage?.completion_tokens).toBe(2 * 6)
    const streamed = ['', '']
    for await (const { choices } of await client.completions.create({ ...body, prompt: prompts, stream: true })) {
      for (const { index, text } of choices) streamed[index] += text
    }
    expect(streamed).toEqual(alone)
  })

  it('responses answer as chat does, in one piece and as a stream, and keep to a schema', async () => {
    const request = {
      model,
      instructions: 'You are a helpful assistant.',
      input: 'What is the capital of France?',
      max_output_tokens: 24,
      temperature: 0,
    }
    const whole = await client.responses.create(request)
    expect(whole.output_text).toContain('Paris')
    expect(extension(whole.usage).emulated).toBe(false)
    const streamed = await client.responses.stream(request).finalResponse()
    expect(streamed.output_text).toBe(whole.output_text)
    const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
    const format = { type: 'json_schema' as const, name: 'city', schema: { ...schema, additionalProperties: false } }
    const formed = await client.responses.create({ ...request, max_output_tokens: 64, text: { format } })
    expect(JSON.parse(formed.output_text)).toHaveProperty('city')
    const next = await client.responses.create({ ...request, input: 'And of Italy?', previous_response_id: whole.id })
    expect(next.usage?.input_tokens).toBeGreaterThan(whole.usage?.input_tokens ?? 0)
  })

  describe('embeddings', () => {
    const length = (vector: readonly number[]) => Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0))

    it('of one text and of several, in both encodings, are vectors of length 1', async () => {
      const input = ['The cat sat on the mat.', 'Revenue grew by ten percent.']
      // The package asks for base64 and decodes it, unless it is told another encoding.
      const packed = await client.embeddings.create({ model, input })
      const plain = await client.embeddings.create({ model, input, encoding_format: 'float' })
      expect(plain).toMatchObject({ object: 'list', model, data: [{ index: 0 }, { index: 1 }] })
      expect(plain.usage.total_tokens).toBe(plain.usage.prompt_tokens)
      expect(extension(plain.usage).service_s).toBeGreaterThan(0)
      const vectors = plain.data.map(({ embedding }) => embedding)
      for (const [index, vector] of vectors.entries()) {
        expect(length(vector)).toBeCloseTo(1, 5)
        const decoded = packed.data[index]?.embedding ?? []
        expect(decoded).toHaveLength(vector.length)
        expect(Math.max(...decoded.map((value, at) => Math.abs(value - (vector[at] ?? 0))))).toBeLessThan(1e-7)
      }
      expect(vectors[0]).not.toEqual(vectors[1])
      const one = await client.embeddings.create({ model, input: input[0] ?? '', encoding_format: 'float' })
      expect(one.data[0]?.embedding).toEqual(vectors[0])
      const dimensions = vectors[0]?.length ?? 0
      const whole = await client.embeddings.create({ model, input: [[504, 2644], [28]], dimensions })
      expect(whole.data).toHaveLength(2)
    })

    it('are refused precisely where they cannot be made', async () => {
      const refused = (body: Partial<OpenAI.EmbeddingCreateParams>) =>
        client.embeddings.create({ model, input: 'a', ...body }).catch((thrown: unknown) => thrown)
      expect(await refused({ dimensions: 64 })).toMatchObject({ status: 400, param: 'dimensions' })
      expect(await refused({ input: [[1], [10_000_000]] })).toMatchObject({ status: 400, param: 'input[1][0]' })
      const long = await refused({ input: ['a', 'word '.repeat(20_000)] })
      expect(long).toMatchObject({ status: 400, code: 'context_length_exceeded', param: 'input[1]' })
    })
  })

  it('models lists what is served', async () => {
    const ids = []
    for await (const entry of client.models.list()) ids.push(entry.id)
    expect(ids).toContain(model)
    expect((await client.models.retrieve(model)).id).toBe(model)
  })
})

describe('programs', () => {
  it('a second turn reuses the KV cache of the first, on the same program, and the table adds up', async () => {
    const headers = { 'X-Program-Id': 'two-turns' }
    const first = [{ role: 'user' as const, content: `Remember these: ${'apple pear plum '.repeat(20)}` }]
    const one = await client.chat.completions
      .create({ model, messages: first, max_tokens: 16, temperature: 0 }, { headers })
      .withResponse()
    for (const header of ['x-program-id', 'x-call-id', 'x-thread-id', 'x-engine-id', 'x-region', 'server-timing']) {
      expect(one.response.headers.get(header), header).toBeTruthy()
    }
    expect(one.response.headers.get('x-program-id')).toBe('two-turns')
    const region = one.response.headers.get('x-region')
    const second = [
      ...first,
      { role: 'assistant' as const, content: one.data.choices[0]?.message.content ?? '' },
      { role: 'user' as const, content: 'Which fruit came first?' },
    ]
    const two = await client.chat.completions
      .create({ model, messages: second, max_tokens: 16, temperature: 0 }, { headers })
      .withResponse()
    if (two.response.headers.get('x-region') === region) {
      expect(two.data.usage?.prompt_tokens_details?.cached_tokens).toBeGreaterThan(
        (one.data.usage?.prompt_tokens ?? 0) * 0.8,
      )
    }
    const listed = await eventually('both calls are recorded', async () => {
      const calls = (await (await system.fetch('/v1/programs/two-turns/calls')).json()) as {
        data: { parents: string[]; thread: string; leases: { service_s: number; state: string }[] }[]
      }
      const isRecorded = calls.data.every(
        ({ leases }) => leases.length > 0 && leases.every((l) => l.state === 'settled'),
      )
      return calls.data.length === 2 && isRecorded ? calls : undefined
    })
    const program = (await (await system.fetch('/v1/programs/two-turns')).json()) as Record<string, number>
    expect(program).toMatchObject({ calls: 2, open_calls: 0 })
    expect(program.service_s).toBeGreaterThan(0)
    const sum = listed.data.flatMap((call) => call.leases).reduce((total, lease) => total + lease.service_s, 0)
    expect(sum).toBeCloseTo(program.service_s ?? 0, 6)
    expect(listed.data[1]?.thread).toBe(listed.data[0]?.thread)
    expect(listed.data[1]?.parents).toHaveLength(1)
  })
})
