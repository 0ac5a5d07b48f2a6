/**
 * Output that must have a form, through the openai package on the real model: JSON, JSON schemas, tool calls, choices, log
 * probabilities. And what a program's tools tell on their way: from the model's answer to its class and to the agent's forecast.
 */
import type OpenAI from 'openai'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { runCommand } from '../../lab/testbed/run-command.ts'
import { eventually, System } from './support/system.ts'

let system: System
let client: OpenAI
let model: string

beforeAll(async () => {
  system = await System.start({
    engine: 'embedded',
    flags: ['--regions', 'us-east', '--policy', 'atlas'],
  })
  client = system.client()
  model = system.dev.model
})
afterAll(async () => {
  await system.remove()
})

const ask = (content: string) => [
  { role: 'system' as const, content: 'You are a helpful assistant.' },
  { role: 'user' as const, content },
]
const WEATHER = {
  type: 'function' as const,
  function: {
    name: 'get_weather',
    description: 'Current weather of a city',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string', enum: ['Paris', 'Rome'] }, unit: { type: 'string', enum: ['C', 'F'] } },
      required: ['city', 'unit'],
      additionalProperties: false,
    },
  },
}

it('json_schema: the answer parses and conforms', async () => {
  const answer = await client.chat.completions.create({
    model,
    messages: ask('Describe a fruit as JSON.'),
    max_tokens: 80,
    temperature: 0,
    response_format: {
      type: 'json_schema',
      json_schema: {
        name: 'fruit',
        strict: true,
        schema: {
          type: 'object',
          properties: { colour: { type: 'string', enum: ['red', 'green', 'yellow'] }, sweet: { type: 'boolean' } },
          required: ['colour', 'sweet'],
          additionalProperties: false,
        },
      },
    },
  })
  expect(answer.choices[0]?.finish_reason).toBe('stop')
  const fruit = JSON.parse(answer.choices[0]?.message.content ?? '') as Record<string, unknown>
  expect(Object.keys(fruit).sort()).toEqual(['colour', 'sweet'])
  expect(['red', 'green', 'yellow']).toContain(fruit.colour)
  expect(typeof fruit.sweet).toBe('boolean')
})

it('a named tool is called, in one piece and streamed, and its arguments conform', async () => {
  const request = {
    model,
    messages: ask('What is the weather in Paris?'),
    tools: [WEATHER],
    tool_choice: { type: 'function' as const, function: { name: 'get_weather' } },
    max_tokens: 80,
    temperature: 0,
  }
  const answer = await client.chat.completions.create(request)
  const call = answer.choices[0]?.message.tool_calls?.[0]
  expect(answer.choices[0]?.finish_reason).toBe('tool_calls')
  if (call?.type !== 'function') throw new Error('no function call')
  expect(call.function.name).toBe('get_weather')
  const parsed = JSON.parse(call.function.arguments) as { city: string; unit: string }
  expect(['Paris', 'Rome']).toContain(parsed.city)
  expect(['C', 'F']).toContain(parsed.unit)

  let streamed = ''
  let name = ''
  for await (const chunk of await client.chat.completions.create({ ...request, stream: true })) {
    const delta = chunk.choices[0]?.delta.tool_calls?.[0]
    name += delta?.function?.name ?? ''
    streamed += delta?.function?.arguments ?? ''
  }
  expect(name).toBe('get_weather')
  expect(streamed).toBe(call.function.arguments)

  const next = await client.chat.completions.create({
    model,
    messages: [
      ...request.messages,
      answer.choices[0]?.message as OpenAI.ChatCompletionMessageParam,
      { role: 'tool', tool_call_id: call.id, content: 'sunny, 21 C' },
    ],
    tools: [WEATHER],
    tool_choice: 'none',
    max_tokens: 24,
    temperature: 0,
  })
  expect(next.choices[0]?.message.content?.length).toBeGreaterThan(0)
})

interface ProgramAnswer {
  activity: string | null
  tools: { name: string | null }[]
}

interface ToolCall {
  tools: { name: string; returned: boolean; duration_s: number | null; answer_tokens: number | null }[]
  tool_s: number | null
  expected_tool_s: number | null
}

/** One program: the model calls a tool, which takes so long, and answers with its result. Gives its calls. */
async function toolProgram(name: string, tool_ms: number): Promise<ToolCall[]> {
  const headers = { 'X-Program-Id': name, 'X-App': 'weather' }
  const settings = { model, tools: [WEATHER], max_tokens: 80, temperature: 0 }
  const messages = ask('What is the weather in Rome?')
  const tool_choice = { type: 'function' as const, function: { name: 'get_weather' } }
  const asked = await client.chat.completions.create({ ...settings, messages, tool_choice }, { headers })
  const answer = asked.choices[0]?.message
  const call = answer?.tool_calls?.[0]
  if (answer === undefined || call === undefined) throw new Error('no tool call')
  // The Worker tells of the end, the agent's record of the tool.
  await eventually(`${name} shows its tool`, async () => {
    const shown = (await (await system.fetch(`/v1/programs/${name}`)).json()) as ProgramAnswer
    return shown.activity === 'acting' && shown.tools[0]?.name === 'get_weather' ? shown : undefined
  })
  await new Promise((resolve) => setTimeout(resolve, tool_ms))
  const result = { role: 'tool' as const, tool_call_id: call.id, content: 'sunny, 21 C' }
  const next = { ...settings, messages: [...messages, answer, result], tool_choice: 'none' as const, max_tokens: 8 }
  await client.chat.completions.create(next, { headers })
  const calls = await eventually(`${name} has both records`, async () => {
    const { data } = (await (await system.fetch(`/v1/programs/${name}/calls`)).json()) as { data: ToolCall[] }
    return data.length === 2 && data[0]?.tools[0]?.returned === true ? data : undefined
  })
  expect((await system.fetch(`/v1/programs/${name}`, { method: 'DELETE' })).status).toBe(200)
  return calls
}

it('a program shows its tools, and its class learns of them until the agent expects them', async () => {
  const [first] = await toolProgram('weather-0', 500)
  expect(first).toMatchObject({
    tools: [{ name: 'get_weather', returned: true, answer_tokens: expect.any(Number) }],
    expected_tool_s: null,
  })
  expect(first?.tool_s).toBeGreaterThanOrEqual(0.5)
  await toolProgram('weather-1', 500)
  await toolProgram('weather-2', 500)
  let round = 3
  const expected_s = await eventually(
    'the agent expects the tool',
    async () => {
      const [call] = await toolProgram(`weather-${round++}`, 1)
      return call?.expected_tool_s ?? undefined
    },
    120_000,
  )
  expect(expected_s).toBeGreaterThan(0)
  const { adminKey } = system.dev
  interface Tools {
    tools?: { name: string; kind: string; uses: number; duration_s: { p50: number } }[]
  }
  // D1's row of a class is written at most once a minute.
  const shown = await eventually(
    'operators see the tool',
    async () => {
      const answer = await system.fetch('/admin/v1/classes/local/app%3Aweather', { apiKey: adminKey })
      return ((await answer.json()) as Tools).tools?.find(({ uses }) => uses >= 1)
    },
    100_000,
  )
  expect(shown).toMatchObject({ name: 'get_weather', kind: 'named' })
  const env = { SWITCHYARD_URL: system.dev.url, SWITCHYARD_ADMIN_KEY: adminKey }
  const args = ['classes', 'tools', 'local', 'app:weather']
  const { code, stdout } = await runCommand('ops/switchyard/main.ts', args, { env })
  expect(code).toBe(0)
  expect(stdout).toMatch(
    /^tool +uses +duration s p50 +duration s p90 +answer tokens p50 +answer tokens p90\nget_weather +\d/,
  )
})

it('n gives so many choices and one bill', async () => {
  const answer = await client.chat.completions.create({
    model,
    messages: ask('Name a colour.'),
    n: 3,
    max_tokens: 8,
    temperature: 1,
    seed: 5,
  })
  expect(answer.choices.map((choice) => choice.index).sort()).toEqual([0, 1, 2])
  expect(answer.usage?.completion_tokens).toBeGreaterThan(8)
})

it('a schema that cannot be honoured is refused with its place', async () => {
  const error = await client.chat.completions
    .create({
      model,
      messages: ask('x'),
      response_format: {
        type: 'json_schema',
        json_schema: {
          name: 'bad',
          schema: { type: 'object', properties: { a: { type: 'string', pattern: '(?=a)b' } } },
        },
      },
    })
    .catch((thrown: unknown) => thrown as { status: number; param: string })
  expect(error).toMatchObject({ status: 400, param: expect.stringContaining('response_format') })
})

it('log probabilities: of every token of the answer, whole and streamed', async () => {
  const asked = {
    model,
    messages: ask('Name a colour.'),
    max_tokens: 12,
    temperature: 0,
    logprobs: true,
    top_logprobs: 2,
  }
  const whole = (await client.chat.completions.create(asked)).choices[0]
  const told = whole?.logprobs?.content ?? []
  expect(told.map(({ token }) => token).join('')).toBe(whole?.message.content)
  for (const { token, logprob, bytes, top_logprobs } of told) {
    expect(bytes).toEqual([...Buffer.from(token)])
    // Greedy: the token is the likeliest.
    expect(top_logprobs).toHaveLength(2)
    expect(top_logprobs[0]).toEqual({ token, logprob, bytes })
    expect(top_logprobs[1]?.logprob).toBeLessThanOrEqual(logprob)
    expect(logprob).toBeLessThanOrEqual(0)
  }
  const streamed: typeof told = []
  for await (const chunk of await client.chat.completions.create({ ...asked, stream: true })) {
    streamed.push(...(chunk.choices[0]?.logprobs?.content ?? []))
  }
  expect(streamed.map(({ token }) => token)).toEqual(told.map(({ token }) => token))
})

it('log probabilities of completions: four parallel lists', async () => {
  const answer = await client.completions.create({
    model,
    prompt: 'One, two,',
    max_tokens: 6,
    temperature: 0,
    logprobs: 1,
  })
  const { text, logprobs } = answer.choices[0] ?? expect.fail('no choice')
  expect(logprobs?.tokens?.join('')).toBe(text)
  expect(logprobs?.token_logprobs).toHaveLength(6)
  expect(logprobs?.text_offset?.[1]).toBe(logprobs?.tokens?.[0]?.length)
  for (const [index, token] of (logprobs?.tokens ?? []).entries()) {
    expect(logprobs?.top_logprobs?.[index]?.[token]).toBe(logprobs?.token_logprobs?.[index])
  }
})
