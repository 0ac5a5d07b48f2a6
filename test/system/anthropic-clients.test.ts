/**
 * Anthropic's own packages against the running system. Tool loops run on the scripted engine, which calls tools as it is
 * told. What a model writes is asked of the embedded engine. The Python package validates every answer in its strict mode.
 */
import { writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import Anthropic from '@anthropic-ai/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CLIENTS } from '../../lab/clients/clients.ts'
import { installClient } from '../../lab/clients/environments.ts'
import { runTool } from '../../ops/python/run-tool.ts'
import { System } from './support/system.ts'

const SCRIPT = {
  answers: [
    { when: { role: 'tool' }, text: 'It is 21 degrees in Paris.' },
    { when: { tool: 'get_weather' }, text: 'I look.', calls: [{ name: 'get_weather', arguments: { city: 'Paris' } }] },
    { when: { last: 'at length' }, text: 'word '.repeat(400) },
    { text: 'Hello.' },
  ],
}
const TOOLS: Anthropic.Tool[] = [
  {
    name: 'get_weather',
    description: 'The weather of a city',
    input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
]
const QUESTION: Anthropic.MessageParam = { role: 'user', content: 'How is the weather in Paris?' }

function clientOf(system: System, options: { apiKey?: string; version?: string } = {}): Anthropic {
  const headers = options.version === undefined ? {} : { 'anthropic-version': options.version }
  return new Anthropic({
    baseURL: system.dev.url,
    apiKey: options.apiKey ?? system.dev.apiKey,
    maxRetries: 0,
    defaultHeaders: headers,
  })
}

async function thrownBy(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => undefined,
    (error: unknown) => error,
  )
}

function textOf({ content }: Anthropic.Message): string {
  return content.map((block) => (block.type === 'text' ? block.text : '')).join('')
}

describe('tools', () => {
  let system: System
  let client: Anthropic
  let model: string

  beforeAll(async () => {
    const script = path.join(tmpdir(), `switchyard-anthropic-${process.pid}.json`)
    writeFileSync(script, JSON.stringify(SCRIPT))
    system = await System.start({ engine: 'scripted', flags: ['--script', script, '--regions', 'us-east'] })
    client = clientOf(system)
    model = system.dev.model
  })
  afterAll(async () => {
    await system.remove()
  })

  function resultsOf({ content }: Anthropic.Message): Anthropic.MessageParam {
    const calls = content.filter((block) => block.type === 'tool_use')
    return {
      role: 'user',
      content: calls.map(({ id, input }) => ({
        type: 'tool_result',
        tool_use_id: id,
        content: `${(input as { city: string }).city}: 21 degrees`,
      })),
    }
  }

  it.each(['create', 'stream'])('are called and answered (%s)', async (how) => {
    const ask = (messages: Anthropic.MessageParam[]): Promise<Anthropic.Message> => {
      const request = { model, max_tokens: 200, tools: TOOLS, messages }
      return how === 'create' ? client.messages.create(request) : client.messages.stream(request).finalMessage()
    }
    const first = await ask([QUESTION])
    expect(first.stop_reason).toBe('tool_use')
    expect(first.content).toMatchObject([
      { type: 'text', text: expect.stringContaining('I look.') },
      { type: 'tool_use', name: 'get_weather', input: { city: 'Paris' } },
    ])
    const last = await ask([QUESTION, { role: 'assistant', content: first.content }, resultsOf(first)])
    expect(last).toMatchObject({ type: 'message', role: 'assistant', stop_reason: 'end_turn', stop_sequence: null })
    expect(textOf(last)).toBe('It is 21 degrees in Paris.')
    expect(last.usage.output_tokens).toBeGreaterThan(0)
  })

  it('of a beta client with a query are served too', async () => {
    const message = await client.beta.messages.create({
      model,
      max_tokens: 100,
      messages: [{ role: 'user', content: 'Hi' }],
      betas: ['interleaved-thinking-2025-05-14'],
      thinking: { type: 'adaptive' },
    })
    expect(message.content).toMatchObject([{ type: 'text', text: 'Hello.' }])
  })

  it('of both versions of the API, and of none', async () => {
    for (const version of ['2023-06-01', '2026-10-21']) {
      const message = await clientOf(system, { version }).messages.create({
        model,
        max_tokens: 20,
        messages: [{ role: 'user', content: 'Hi' }],
      })
      expect(textOf(message)).toBe('Hello.')
    }
    const body = JSON.stringify({ model, max_tokens: 20, messages: [{ role: 'user', content: 'Hi' }] })
    const answer = await system.fetch('/v1/messages?beta=true', { method: 'POST', body })
    expect(answer.status).toBe(200)
    expect(answer.headers.get('request-id')).toBe(`req_${answer.headers.get('x-call-id')}`)
    const unknown = await thrownBy(
      clientOf(system, { version: '2019-01-01' }).messages.create({ model, max_tokens: 20, messages: [QUESTION] }),
    )
    expect(unknown).toBeInstanceOf(Anthropic.BadRequestError)
    expect((unknown as Error).message).toContain('anthropic-version')
  })

  it('end at the limit, which is lowered to what the context has room for', async () => {
    const messages: Anthropic.MessageParam[] = [{ role: 'user', content: 'Speak at length.' }]
    const cut = await client.messages.create({ model, max_tokens: 7, messages })
    expect(cut.stop_reason).toBe('max_tokens')
    expect(cut.usage.output_tokens).toBe(7)
    const { data, response } = await client.messages
      .create({ model, max_tokens: 500_000, messages, stream: true })
      .withResponse()
    for await (const _ of data) {
    }
    const lowered = Number(response.headers.get('x-max-tokens-lowered-to'))
    expect(lowered).toBeGreaterThan(100_000)
    expect(lowered).toBeLessThan(131_072)
  })

  it('errors are of the package’s own classes', async () => {
    const ask = (change: object, by = client) =>
      thrownBy(by.messages.create({ model, max_tokens: 20, messages: [QUESTION], ...change }))
    const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AA==' } }
    const cases: [unknown, new (...args: never[]) => Error, string, string | null][] = [
      [
        await ask({ messages: [{ role: 'user', content: [image] }] }),
        Anthropic.BadRequestError,
        'invalid_request_error',
        'unsupported_parameter',
      ],
      [await ask({ model: 'no-such' }), Anthropic.NotFoundError, 'not_found_error', 'model_not_found'],
      [
        await ask({}, clientOf(system, { apiKey: 'sk-sy-wrong' })),
        Anthropic.AuthenticationError,
        'authentication_error',
        'invalid_api_key',
      ],
    ]
    for (const [thrown, kind, type, code] of cases) {
      expect(thrown).toBeInstanceOf(kind)
      expect(thrown).toMatchObject({ type, errorCode: code })
      expect((thrown as { requestID: string }).requestID).toMatch(/^req_/)
    }
    const wrongMethod = await system.fetch('/v1/messages')
    expect(wrongMethod.status).toBe(405)
    expect(await wrongMethod.json()).toMatchObject({ type: 'error', error: { type: 'invalid_request_error' } })
  })

  it('count in the estimate', async () => {
    const short = await client.messages.countTokens({ model, messages: [QUESTION] })
    const long = await client.messages.countTokens({
      model,
      messages: [QUESTION],
      tools: TOOLS,
      system: 'x'.repeat(400),
    })
    expect(short.input_tokens).toBeGreaterThan(0)
    expect(long.input_tokens).toBeGreaterThan(short.input_tokens + 50)
  })

  it('and models are found by the package’s own means', async () => {
    const found: Anthropic.ModelInfo[] = []
    for await (const info of client.models.list({ limit: 1 })) found.push(info)
    expect(found).toEqual([await client.models.retrieve(model)])
    expect(found).toMatchObject([{ type: 'model', id: model, lifecycle: 'active' }])
    expect(await thrownBy(client.models.retrieve('no-such'))).toBeInstanceOf(Anthropic.NotFoundError)
  })

  it('are understood by the Python package in its strict mode', async () => {
    const python = CLIENTS.find(({ id }) => id === 'anthropic-py')
    if (python === undefined) expect.unreachable('the Python package is not among the clients')
    const made = await installClient(python)
    if (!made.ok) expect.unreachable(made.reason)
    const program = path.join(import.meta.dirname, 'support/anthropic_conformance.py')
    const { url, apiKey } = system.dev
    const run = await runTool([made.interpreter, program, url, apiKey, model], { timeout_ms: 60_000 })
    if (run.status !== 'done') expect.unreachable(JSON.stringify(run))
    const seen = JSON.parse(run.output) as Record<string, unknown>
    const loop = {
      ...{ first: 'tool_use', input: [{ city: 'Paris' }], last: 'end_turn' },
      text: 'It is 21 degrees in Paris.',
    }
    expect(seen).toMatchObject({
      whole: loop,
      stream: loop,
      count: expect.any(Number),
      ...{ models: [model], model },
      errors: {
        model: { class: 'NotFoundError', status: 404, type: 'not_found_error' },
        image: { class: 'BadRequestError', status: 400, type: 'invalid_request_error' },
        key: { class: 'AuthenticationError', status: 401, type: 'authentication_error' },
      },
    })
    expect(seen.events).toEqual(expect.arrayContaining(['message_start', 'text', 'input_json', 'message_stop']))
  })
})

describe('a model', () => {
  let system: System
  let client: Anthropic
  let model: string

  beforeAll(async () => {
    system = await System.start({ engine: 'embedded', flags: ['--regions', 'us-east'] })
    client = clientOf(system)
    model = system.dev.model
  })
  afterAll(async () => {
    await system.remove()
  })

  const asked = { system: 'You are a helpful assistant.', max_tokens: 24, temperature: 0 }
  const messages: Anthropic.MessageParam[] = [{ role: 'user', content: 'What is the capital of France?' }]

  it('answers as a stream and in one piece alike, with its counts', async () => {
    const request = { model, messages, ...asked }
    const whole = await client.messages.create(request)
    expect(textOf(whole)).toContain('Paris')
    const names: string[] = []
    const stream = client.messages.stream(request)
    stream.on('streamEvent', ({ type }) => names.push(type))
    const streamed = await stream.finalMessage()
    expect(textOf(streamed)).toBe(textOf(whole))
    expect(streamed.stop_reason).toBe(whole.stop_reason)
    expect(streamed.usage.output_tokens).toBe(whole.usage.output_tokens)
    const input = ({ usage }: Anthropic.Message) => usage.input_tokens + (usage.cache_read_input_tokens ?? 0)
    expect(input(streamed)).toBe(input(whole))
    expect(names[0]).toBe('message_start')
    expect(names.slice(-3)).toEqual(['content_block_stop', 'message_delta', 'message_stop'])
    expect(names.filter((name) => name === 'content_block_delta').length).toBeGreaterThan(2)
    const { switchyard } = whole.usage as unknown as { switchyard: { service_s: number } }
    expect(switchyard.service_s).toBeGreaterThan(0)
  })

  it('stops at a sequence and names it', async () => {
    const message = await client.messages.create({
      model,
      max_tokens: 60,
      temperature: 0,
      stop_sequences: ['four'],
      messages: [{ role: 'user', content: 'Count from one to ten in words.' }],
    } as Anthropic.MessageCreateParamsNonStreaming)
    expect(textOf(message)).not.toContain('four')
    if (message.stop_reason === 'stop_sequence') expect(message.stop_sequence).toBe('four')
  })

  it('keeps to a format, and to a tool that it must call', async () => {
    const schema = {
      type: 'object',
      properties: { city: { type: 'string', enum: ['Paris', 'Rome'] } },
      required: ['city'],
      additionalProperties: false,
    }
    const formatted = await client.messages.create({
      ...{ model, messages, max_tokens: 60 },
      output_config: { format: { type: 'json_schema', schema } },
    })
    expect(['Paris', 'Rome']).toContain((JSON.parse(textOf(formatted)) as { city: string }).city)
    const called = await client.messages.create({
      ...{ model, messages, max_tokens: 200, tools: TOOLS },
      tool_choice: { type: 'any', disable_parallel_tool_use: true },
    })
    expect(called.stop_reason).toBe('tool_use')
    expect(called.content).toMatchObject([{ type: 'tool_use', name: 'get_weather' }])
  })

  it('refuses a prompt that is too long in words that clients look for', async () => {
    const thrown = await thrownBy(
      client.messages.create({ model, max_tokens: 20, messages: [{ role: 'user', content: 'word '.repeat(60_000) }] }),
    )
    expect(thrown).toBeInstanceOf(Anthropic.BadRequestError)
    expect(thrown).toMatchObject({ errorCode: 'context_length_exceeded' })
    expect((thrown as Error).message).toMatch(/prompt is too long/)
  })

  it('has about as many tokens as the count says', async () => {
    const prompts = [
      'What is the capital of France?'.repeat(8),
      JSON.stringify({ city: 'Paris', degrees: [21, 22, 23] }).repeat(8),
      'for (const value of values) total += value\n'.repeat(8),
    ]
    for (const content of prompts) {
      const request = { model, messages: [{ role: 'user' as const, content }] }
      const { input_tokens } = await client.messages.countTokens(request)
      const { usage } = await client.messages.create({ ...request, max_tokens: 1 })
      const counted = usage.input_tokens + (usage.cache_read_input_tokens ?? 0)
      expect(input_tokens / counted, content.slice(0, 20)).toBeGreaterThan(0.4)
      expect(input_tokens / counted, content.slice(0, 20)).toBeLessThan(2.5)
    }
  })

  it('counts in one program with the OpenAI API', async () => {
    const headers = { 'X-Program-Id': 'two-apis' }
    await client.messages.create({ model, messages, max_tokens: 4 }, { headers })
    const openai = system.client({ headers })
    await openai.chat.completions.create({ model, messages: [{ role: 'user', content: 'Hi' }], max_tokens: 4 })
    const program = (await (await system.fetch('/v1/programs/two-apis')).json()) as { calls: number }
    expect(program.calls).toBe(2)
  })
})
