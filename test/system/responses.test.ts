/** The openai package's Responses API against the whole system, on engines that play answers and tool calls. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type OpenAI from 'openai'
import { APIError } from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CLIENTS } from '../../lab/clients/clients.ts'
import { installClient } from '../../lab/clients/environments.ts'
import { runTool } from '../../ops/python/run-tool.ts'
import { eventually, System } from './support/system.ts'

const ANSWERS = [
  { when: { turn: 1, tool: 'read' }, calls: [{ name: 'read', arguments: { path: 'a.txt' } }] },
  { when: { turn: 1, tool: 'fs__read' }, calls: [{ name: 'fs__read', arguments: { path: 'a.txt' } }] },
  { when: { turn: 1, tool: 'apply_patch' }, calls: [{ name: 'apply_patch', arguments: { input: '*** Begin Patch' } }] },
  { when: { role: 'tool', last: 'salt' }, text: 'The file says salt.' },
  { when: { last: 'as JSON' }, text: '{"city":"Paris"}' },
  { when: { any: 'My name is Ada', last: 'What is my name?' }, text: 'Ada.' },
  { text: 'Hello.' },
]

let folder: string
let system: System
let client: OpenAI
let model: string

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'responses-'))
  const script = path.join(folder, 'answers.json')
  writeFileSync(script, JSON.stringify({ answers: ANSWERS }))
  system = await System.start({ engine: 'scripted', flags: ['--script', script] })
  client = system.client()
  model = system.dev.model
})
afterAll(async () => {
  await system.remove()
  rmSync(folder, { recursive: true })
})

const parameters = {
  type: 'object',
  properties: { path: { type: 'string' } },
  required: ['path'],
  additionalProperties: false,
}
const READ = { type: 'function' as const, name: 'read', parameters, strict: true }

async function thrown(work: Promise<unknown>): Promise<APIError> {
  const error = await work.then(
    () => null,
    (reason: unknown) => reason,
  )
  if (!(error instanceof APIError)) throw new Error(`no APIError: ${String(error)}`)
  return error
}

async function programOf(id: string): Promise<{ parents: string[]; thread: string; id: string }[]> {
  const reply = await system.fetch(`/v1/programs/${encodeURIComponent(id)}/calls`)
  return reply.ok ? ((await reply.json()) as { data: { parents: string[]; thread: string; id: string }[] }).data : []
}

describe('a response', () => {
  it('has text, usage and an id by which it is read, listed and deleted', async () => {
    const made = await client.responses.create({ model, input: 'Hi', metadata: { a: 'b' } })
    expect(made).toMatchObject({ object: 'response', status: 'completed', output_text: 'Hello.', metadata: { a: 'b' } })
    expect(made.usage?.total_tokens).toBe((made.usage?.input_tokens ?? 0) + (made.usage?.output_tokens ?? 0))
    expect(made.usage).toHaveProperty('switchyard.emulated', true)
    const read = await client.responses.retrieve(made.id)
    expect(read.output).toEqual(made.output)
    const items = []
    for await (const item of client.responses.inputItems.list(made.id)) items.push(item)
    expect(items).toMatchObject([{ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Hi' }] }])
    expect((await thrown(client.responses.cancel(made.id))).status).toBe(400)
    await client.responses.delete(made.id)
    expect((await thrown(client.responses.retrieve(made.id))).status).toBe(404)
  })

  it('streams through the SDK’s accumulator to what it is in one piece, and can be played again', async () => {
    const stream = client.responses.stream({ model, input: 'Hi' })
    const types: string[] = []
    let sequence = 0
    for await (const event of stream) {
      expect(event.sequence_number).toBe(sequence)
      sequence += 1
      types.push(event.type)
    }
    const final = await stream.finalResponse()
    expect(final.output_text).toBe('Hello.')
    expect(types.slice(0, 4)).toEqual([
      ...['response.created', 'response.in_progress', 'response.output_item.added', 'response.content_part.added'],
    ])
    expect(types.at(-1)).toBe('response.completed')
    const replayed = []
    for await (const event of await client.responses.retrieve(final.id, { stream: true })) replayed.push(event)
    expect(replayed.at(-1)).toMatchObject({ type: 'response.completed', response: { id: final.id } })
  })

  it('is parsed by its schema', async () => {
    const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
    const format = { type: 'json_schema' as const, name: 'place', schema }
    const parsed = await client.responses.parse({ model, input: 'A place as JSON', text: { format } })
    expect(JSON.parse(parsed.output_text)).toEqual({ city: 'Paris' })
  })

  it('has its input tokens counted before, with the turns that it continues', async () => {
    const input = 'Tell me about the sea. '.repeat(40)
    const count = async (body: object) => {
      const { object, input_tokens } = await client.responses.inputTokens.count({ model, input, ...body })
      expect(object).toBe('response.input_tokens')
      return input_tokens
    }
    const { id } = await client.responses.create({ model, input })
    const plain = await count({})
    expect(plain).toBeGreaterThan(0)
    expect(await count({ instructions: input })).toBeGreaterThan(1.5 * plain)
    expect(await count({ previous_response_id: id })).toBeGreaterThan(1.5 * plain)
  })

  it('is cut by its output limit', async () => {
    const cut = await client.responses.create({ model, input: 'Hi', max_output_tokens: 1 })
    expect(cut).toMatchObject({ status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } })
  })
})

describe('the tool loop', () => {
  it('goes on by previous_response_id, as one program with the first call as parent of the second', async () => {
    const headers = { 'X-Program-Id': 'tool-loop' }
    const first = await client.responses.create({ model, input: 'Read a.txt', tools: [READ] }, { headers })
    const [call] = first.output
    if (call?.type !== 'function_call') throw new Error('no call')
    expect(JSON.parse(call.arguments)).toEqual({ path: 'a.txt' })
    const output = { type: 'function_call_output' as const, call_id: call.call_id, output: 'salt' }
    const second = await client.responses.create({
      model,
      input: [output],
      tools: [READ],
      previous_response_id: first.id,
    })
    expect(second.output_text).toBe('The file says salt.')
    const calls = await eventually('both calls are listed', async () => {
      const listed = await programOf('tool-loop')
      return listed.length === 2 ? listed : undefined
    })
    const parents = new Map(calls.map(({ id, parents }) => [id, parents]))
    const root = calls.find(({ parents }) => parents.length === 0)
    expect([...parents.values()].filter((of) => of.length === 1)).toEqual([[root?.id]])
  })

  it('goes on without any state here, as Codex does it', async () => {
    const stateless = { model, tools: [READ], store: false, include: ['reasoning.encrypted_content' as const] }
    const input: OpenAI.Responses.ResponseInput = [{ role: 'user', content: 'Read a.txt' }]
    const first = await client.responses.stream({ ...stateless, input }).finalResponse()
    for (const item of first.output) if (item.type === 'function_call') input.push(item)
    const call = first.output.find((item) => item.type === 'function_call')
    input.push({ type: 'function_call_output', call_id: call?.call_id ?? '', output: 'salt' })
    const second = await client.responses.stream({ ...stateless, input }).finalResponse()
    expect(second.output_text).toBe('The file says salt.')
    expect((await thrown(client.responses.retrieve(second.id))).status).toBe(404)
  })

  it('takes tools of namespaces and tools with free text', async () => {
    const namespace = { type: 'namespace' as const, name: 'fs', description: 'Files', tools: [READ] }
    const one = await client.responses.create({ model, input: 'Read', tools: [namespace, { type: 'web_search' }] })
    expect(one.output).toMatchObject([{ type: 'function_call', namespace: 'fs', name: 'read' }])
    const custom = { type: 'custom' as const, name: 'apply_patch' }
    const two = await client.responses.stream({ model, input: 'Patch', tools: [custom] }).finalResponse()
    expect(two.output).toMatchObject([{ type: 'custom_tool_call', name: 'apply_patch', input: '*** Begin Patch' }])
  })
})

describe('conversations', () => {
  it('keep what was said', async () => {
    const conversation = await client.conversations.create({
      items: [{ type: 'message', role: 'user', content: 'My name is Ada' }],
    })
    const answer = await client.responses.create({ model, conversation: conversation.id, input: 'What is my name?' })
    expect(answer).toMatchObject({ output_text: 'Ada.', conversation: { id: conversation.id } })
    const roles = []
    for await (const item of client.conversations.items.list(conversation.id, { order: 'asc' })) {
      roles.push(item.type === 'message' ? item.role : item.type)
    }
    expect(roles).toEqual(['user', 'user', 'assistant'])
    await client.conversations.delete(conversation.id)
    expect((await thrown(client.conversations.retrieve(conversation.id))).status).toBe(404)
  })
})

it('every answer is what the Python package expects, in its strict mode', async () => {
  const python = CLIENTS.find(({ id }) => id === 'openai-py')
  if (python === undefined) expect.unreachable('the Python package is not among the clients')
  const made = await installClient(python)
  if (!made.ok) expect.unreachable(made.reason)
  const program = path.join(import.meta.dirname, 'support/responses_conformance.py')
  const { url, apiKey } = system.dev
  const run = await runTool([made.interpreter, program, `${url}/v1`, apiKey, model], { timeout_ms: 60_000 })
  if (run.status !== 'done') expect.unreachable(JSON.stringify(run))
  expect(JSON.parse(run.output)).toEqual({
    by_id: {
      text: 'The file says salt.',
      items: ['message', 'function_call', 'function_call_output'],
      replayed: 'response.completed',
      status: 'completed',
    },
    stateless: {
      events: expect.arrayContaining(['response.created', 'response.function_call_arguments.done']),
      last: 'response.completed',
      text: 'The file says salt.',
    },
    conversation: { metadata: { a: 'b' }, items: ['message', 'message'], deleted: true },
    refusals: [
      ['NotFoundError', 'previous_response_not_found'],
      ['BadRequestError', 'invalid_value'],
    ],
  })
})

describe('what is refused', () => {
  it.each<[string, number, object]>([
    ['previous_response_id', 404, { previous_response_id: 'resp_00doesnotexist' }],
    ['background', 400, { background: true }],
    ['input', 400, { input: [] }],
    ['model', 404, { model: 'no-such-model' }],
    ['input', 400, { input: 'word '.repeat(200_000) }],
  ])('%s: %i', async (param, status, change) => {
    const error = await thrown(client.responses.create({ model, input: 'Hi', ...change }))
    expect(error.status).toBe(status)
    if (error.code !== 'context_length_exceeded') expect(error.param).toBe(param)
  })
})
