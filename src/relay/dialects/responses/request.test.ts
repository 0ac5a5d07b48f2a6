import { describe, expect, it } from 'vitest'
import type { Json } from '../dialect.ts'
import { forwardedBody } from '../openai-body.ts'
import { encodeReasoning } from './reasoning-text.ts'
import { NOTHING_RECALLED } from './recall.ts'
import { clientParam, translateRequest } from './request.ts'
import { INPUT_ITEMS_MAX, ResponseRequest } from './request-schema.ts'
import { responses } from './responses.ts'
import { TOOLS_MAX } from './tools.ts'

const NO_HEADERS = new Headers()

function translated(body: Json, recalled = NOTHING_RECALLED) {
  return translateRequest(ResponseRequest.parse({ model: 'm', input: 'hi', ...body }), recalled)
}

const chat = (body: Json) => translated(body).chat
const messages = (input: unknown, rest: Json = {}) => chat({ input, ...rest }).messages
const functionsOf = (tools: Json[]) => (chat({ tools }).tools as { function: Json }[]).map((tool) => tool.function)

function refusal(body: Json) {
  const parsed = responses.parse({ model: 'm', input: 'hi', ...body }, NO_HEADERS)
  return parsed.status === 'refused' ? parsed.error : expect.unreachable('it was accepted')
}

describe('input', () => {
  it('is a user’s message where it is text, after the instructions', () => {
    expect(messages('hello', { instructions: 'Be brief.' })).toEqual([
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'hello' },
    ])
  })

  it('joins leading system and developer messages, and leaves later ones where they are', () => {
    const developer = (content: string) => ({ type: 'message', role: 'developer', content })
    const input = [
      developer('one'),
      { role: 'system', content: 'two' },
      { role: 'user', content: 'u' },
      developer('three'),
    ]
    expect(messages(input, { instructions: 'zero' })).toEqual([
      { role: 'system', content: 'zero\n\none\n\ntwo' },
      { role: 'user', content: 'u' },
      { role: 'system', content: 'three' },
    ])
    const parts = ['one', 'two'].map((text) => ({ type: 'input_text', text }))
    expect(messages([{ role: 'developer', content: parts }, developer('three')])).toEqual([
      { role: 'system', content: 'one\n\ntwo\n\nthree' },
    ])
  })

  it('takes parts: one text becomes plain text, more stay parts, images keep their URL', () => {
    const user = (...content: Json[]) => [{ role: 'user', content }]
    const text = (value: string) => ({ type: 'input_text', text: value })
    expect(messages(user(text('a')))).toEqual([{ role: 'user', content: 'a' }])
    expect(messages(user(text('a'), { type: 'input_image', detail: 'auto', image_url: 'data:x' }))).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'a' },
          { type: 'image_url', image_url: { url: 'data:x' } },
        ],
      },
    ])
  })

  it('makes one assistant’s message of what an assistant did in one turn', () => {
    const call = (id: string, name: string) => ({ type: 'function_call', call_id: id, name, arguments: '{}' })
    const output = (call_id: string, text: string) => ({ type: 'function_call_output', call_id, output: text })
    const input = [
      { role: 'user', content: 'u' },
      { type: 'reasoning', id: 'rs_1', summary: [], content: [{ type: 'reasoning_text', text: 'hm' }] },
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'I look.', annotations: [] }] },
      call('c1', 'a'),
      call('c2', 'b'),
      output('c1', '1'),
      { type: 'function_call_output', call_id: 'c2', output: [{ type: 'input_text', text: '2' }] },
      call('c3', 'a'),
      output('c3', '3'),
    ]
    const called = (id: string, name: string) => ({ id, type: 'function', function: { name, arguments: '{}' } })
    expect(messages(input)).toEqual([
      { role: 'user', content: 'u' },
      {
        role: 'assistant',
        content: 'I look.',
        reasoning_content: 'hm',
        tool_calls: [called('c1', 'a'), called('c2', 'b')],
      },
      { role: 'tool', tool_call_id: 'c1', content: '1' },
      { role: 'tool', tool_call_id: 'c2', content: '2' },
      { role: 'assistant', content: null, tool_calls: [called('c3', 'a')] },
      { role: 'tool', tool_call_id: 'c3', content: '3' },
    ])
  })

  it('shows the model reasoning that we encoded, and warns of what others encrypted', () => {
    const think = (encrypted_content: string) => [
      { role: 'user', content: 'u' },
      { type: 'reasoning', summary: [], encrypted_content },
      { role: 'assistant', content: 'a' },
    ]
    expect(messages(think(encodeReasoning('hm ✓')))).toContainEqual({
      ...{ role: 'assistant', content: 'a', reasoning_content: 'hm ✓' },
    })
    const foreign = translated({ input: think('gAAAAAB') })
    expect(foreign.chat.messages).toContainEqual({ role: 'assistant', content: 'a' })
    expect(foreign.warnings).toMatchObject([{ param: 'input[1].encrypted_content' }])
  })

  it('joins reasoning to the turn in which it was thought, and drops what led to no answer', () => {
    const think = (text: string) => ({ type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text }] })
    const call = { type: 'function_call', call_id: 'c', name: 'a', arguments: '{}' }
    const user = { role: 'user', content: 'u' }
    expect(messages([user, { role: 'assistant', content: 'I look.' }, think('hm'), call])).toMatchObject([
      user,
      { role: 'assistant', content: 'I look.', reasoning_content: 'hm', tool_calls: [{ id: 'c' }] },
    ])
    expect(messages([think('lost'), user, { role: 'assistant', content: 'a' }])).toEqual([
      user,
      { role: 'assistant', content: 'a' },
    ])
  })

  it('drops items of hosted tools with a warning', () => {
    const { chat: body, warnings } = translated({
      input: [
        { type: 'web_search_call', id: 'ws_1', status: 'completed', action: {} },
        { role: 'user', content: 'u' },
      ],
    })
    expect(body.messages).toEqual([{ role: 'user', content: 'u' }])
    expect(warnings).toMatchObject([{ param: 'input[0]' }])
  })

  it('replaces references by the items that they name, after the history', () => {
    const recalled = {
      ...NOTHING_RECALLED,
      history: [{ type: 'message', role: 'user', content: 'earlier' }],
      referenced: new Map([['msg_1', { type: 'message', role: 'assistant', content: 'stored' }]]),
    }
    for (const reference of [{ type: 'item_reference', id: 'msg_1' }, { id: 'msg_1' }]) {
      expect(translated({ input: [reference, { role: 'user', content: 'now' }] }, recalled).chat.messages).toEqual([
        { role: 'user', content: 'earlier' },
        { role: 'assistant', content: 'stored' },
        { role: 'user', content: 'now' },
      ])
    }
  })

  it('is read in linear time: as many items as the bound allows, and one item of 4 MiB', () => {
    const many = Array.from({ length: INPUT_ITEMS_MAX }, () => ({ role: 'user', content: 'x' }))
    expect(messages(many)).toHaveLength(INPUT_ITEMS_MAX)
    expect(refusal({ input: [...many, many[0]] })).toMatchObject({ param: 'input' })
    const long = 'x'.repeat(4 * 1024 * 1024)
    expect(messages(long)).toEqual([{ role: 'user', content: long }])
  })
})

describe('tools', () => {
  const parameters = { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] }

  it('are functions of the chat body', () => {
    const tools = [{ type: 'function', name: 'read', description: 'Reads', parameters, strict: true }]
    expect(chat({ tools, tool_choice: { type: 'function', name: 'read' }, parallel_tool_calls: false })).toMatchObject({
      tools: [{ type: 'function', function: { name: 'read', description: 'Reads', parameters, strict: true } }],
      tool_choice: { type: 'function', function: { name: 'read' } },
      parallel_tool_calls: false,
    })
  })

  it('of a namespace get its name in front, in the history too', () => {
    const tools = [
      {
        type: 'namespace',
        name: 'mcp__fs',
        description: 'Files',
        tools: [{ type: 'function', name: 'read', parameters }],
      },
      { type: 'namespace', name: 'mcp__db__', description: 'Rows', tools: [{ type: 'function', name: 'get' }] },
    ]
    expect(functionsOf(tools).map(({ name }) => name)).toEqual(['mcp__fs__read', 'mcp__db__get'])
    const call = { type: 'function_call', call_id: 'c', name: 'read', namespace: 'mcp__fs', arguments: '{}' }
    expect(messages([call])).toMatchObject([{ tool_calls: [{ function: { name: 'mcp__fs__read' } }] }])
  })

  it('with free text take one string, and the grammar becomes part of the description', () => {
    const format = { type: 'grammar', syntax: 'lark', definition: 'start: "x"' }
    const [tool] = functionsOf([{ type: 'custom', name: 'apply_patch', description: 'Edits', format }])
    expect(tool).toMatchObject({
      name: 'apply_patch',
      description: 'Edits\n\n`input` must match this lark grammar:\nstart: "x"',
      parameters: { type: 'object', required: ['input'], additionalProperties: false },
    })
    const call = { type: 'custom_tool_call', call_id: 'c', name: 'apply_patch', input: 'a "b"' }
    const output = { type: 'custom_tool_call_output', call_id: 'c', output: 'done' }
    expect(messages([call, output])).toEqual([
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          { id: 'c', type: 'function', function: { name: 'apply_patch', arguments: '{"input":"a \\"b\\""}' } },
        ],
      },
      { role: 'tool', tool_call_id: 'c', content: 'done' },
    ])
  })

  it('of the client’s machine are functions, and their calls and outputs go back as such', () => {
    const tools = [{ type: 'local_shell' }, { type: 'shell' }, { type: 'apply_patch' }]
    expect(functionsOf(tools).map(({ name }) => name)).toEqual(['local_shell', 'shell', 'apply_patch'])
    const action = { type: 'exec', command: ['ls'], env: {} }
    const operation = { type: 'delete_file', path: 'a' }
    const input = [
      { type: 'local_shell_call', id: 'lsh_1', call_id: 'c1', status: 'completed', action },
      { type: 'local_shell_call_output', id: 'lsh_1', output: 'a' },
      { type: 'apply_patch_call', call_id: 'c2', status: 'completed', operation },
      { type: 'apply_patch_call_output', call_id: 'c2', status: 'completed' },
      { type: 'shell_call', call_id: 'c3', action: { commands: ['ls'] } },
      {
        type: 'shell_call_output',
        call_id: 'c3',
        output: [{ stdout: 'a', stderr: '', outcome: { type: 'exit', exit_code: 0 } }],
      },
    ]
    expect(messages(input)).toMatchObject([
      { tool_calls: [{ id: 'c1', function: { name: 'local_shell', arguments: '{"command":["ls"],"env":{}}' } }] },
      { role: 'tool', tool_call_id: 'c1', content: 'a' },
      { tool_calls: [{ id: 'c2', function: { name: 'apply_patch', arguments: JSON.stringify(operation) } }] },
      { role: 'tool', tool_call_id: 'c2', content: '{"status":"completed"}' },
      { tool_calls: [{ id: 'c3', function: { name: 'shell', arguments: '{"commands":["ls"]}' } }] },
      { role: 'tool', tool_call_id: 'c3' },
    ])
  })

  it('that OpenAI would run are dropped with a warning; to demand one is refused', () => {
    const tools = [{ type: 'web_search' }, { type: 'shell', environment: { type: 'container_auto' } }]
    const { chat: body, warnings } = translated({ tools, tool_choice: 'auto' })
    expect(body).not.toHaveProperty('tools')
    expect(body).not.toHaveProperty('tool_choice')
    expect(warnings.map(({ param }) => param)).toEqual(['tools[0]', 'tools[1]'])
    expect(refusal({ tools, tool_choice: 'required' })).toMatchObject({ param: 'tool_choice' })
    expect(refusal({ tools, tool_choice: { type: 'web_search' } })).toMatchObject({ param: 'tool_choice' })
  })

  it('that a search found or an item adds can be called', () => {
    const found = { type: 'function', name: 'found', parameters }
    const input = [
      { role: 'user', content: 'u' },
      { type: 'additional_tools', role: 'developer', tools: [{ type: 'function', name: 'added' }] },
      { type: 'tool_search_call', call_id: 'c', execution: 'client', arguments: { query: 'q' } },
      { type: 'tool_search_output', call_id: 'c', execution: 'client', tools: [found] },
    ]
    const body = chat({ input, tools: [{ type: 'tool_search', execution: 'client', description: 'Finds tools' }] })
    const names = (body.tools as { function: Json }[]).map((tool) => tool.function.name)
    expect(names).toEqual(['tool_search', 'added', 'found'])
    expect(body.messages).toMatchObject([{}, { tool_calls: [{ function: { name: 'tool_search' } }] }, { role: 'tool' }])
  })

  it('are narrowed to those that are allowed', () => {
    const tools = ['a', 'b', 'c'].map((name) => ({ type: 'function', name }))
    const allowed = { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'b' }] }
    const body = chat({ tools, tool_choice: allowed })
    expect(body).toMatchObject({ tools: [{ function: { name: 'b' } }], tool_choice: 'required' })
  })

  it('are bounded, and two of one name are refused', () => {
    const named = (count: number) =>
      Array.from({ length: count }, (_, index) => ({ type: 'function', name: `f${index}` }))
    expect(functionsOf(named(TOOLS_MAX))).toHaveLength(TOOLS_MAX)
    expect(refusal({ tools: named(TOOLS_MAX + 1) })).toMatchObject({ param: 'tools' })
    const namespaced = { type: 'namespace', name: 'n', description: '', tools: named(TOOLS_MAX + 1) }
    expect(refusal({ tools: [namespaced] })).toMatchObject({ param: `tools[0].tools[${TOOLS_MAX}]` })
    const clash = [
      { type: 'function', name: 'a' },
      { type: 'custom', name: 'a' },
    ]
    expect(refusal({ tools: clash })).toMatchObject({ param: 'tools[1].name' })
  })
})

describe('other fields', () => {
  it('are translated to those of chat', () => {
    const schema = { type: 'object', properties: {} }
    const body = chat({
      ...{ max_output_tokens: 5, temperature: 0, top_p: 0.5, metadata: { a: 'b' }, user: 'u', seed: 3 },
      text: { format: { type: 'json_schema', name: 'n', schema, strict: true }, verbosity: 'low' },
      ...{ reasoning: { effort: 'low' }, include: ['message.output_text.logprobs'], stream: true },
    })
    expect(body).toMatchObject({
      ...{ max_completion_tokens: 5, temperature: 0, top_p: 0.5, metadata: { a: 'b' }, user: 'u', seed: 3 },
      response_format: { type: 'json_schema', json_schema: { name: 'n', schema, strict: true } },
      ...{ verbosity: 'low', reasoning_effort: 'low', logprobs: true, top_logprobs: 0 },
      stream_options: { include_usage: true },
    })
    const parsed = responses.parse({ model: 'm', input: 'hi' }, NO_HEADERS)
    expect(JSON.parse(forwardedBody(parsed.status === 'parsed' ? parsed.call : expect.unreachable()))).toMatchObject({
      stream_options: { include_usage: true },
    })
  })

  it.each<[Json, string]>([
    [{ background: true }, 'background'],
    [{ prompt: { id: 'pmpt_1' } }, 'prompt'],
    [{ conversation: 'conv_1', previous_response_id: 'resp_1' }, 'previous_response_id'],
    [{ input: [] }, 'input'],
    [{ input: null }, 'input'],
    [{ input: 7 }, 'input'],
    [{ input: [{ role: 'wizard', content: 'x' }] }, 'input[0].role'],
    [{ input: [{ role: 'user', content: [{ type: 'input_file', file_id: 'f' }] }] }, 'input[0].content[0].type'],
    [{ input: [{ role: 'user', content: [{ type: 'input_image', file_id: 'f' }] }] }, 'input[0].content[0].file_id'],
    [{ input: [{ role: 'user', content: [{ type: 'input_text' }] }] }, 'input[0].content[0].text'],
    [{ input: [{ type: 'function_call', name: 'a', arguments: '{}' }] }, 'input[0].call_id'],
    [{ input: [{ type: 'function_call_output', output: 'x' }] }, 'input[0].call_id'],
    [{ input: [{ type: 'item_reference', id: 'msg_1' }] }, 'input[0].id'],
    [{ tools: [{ type: 'function' }] }, 'tools[0].name'],
    [{ tools: [{ type: 'namespace', name: 'n', tools: [{ type: 'function' }] }] }, 'tools[0].tools[0].name'],
    [{ tool_choice: { type: 'function', name: 'absent' } }, 'tool_choice'],
    [{ text: { format: { type: 'json_schema', name: 'n' } } }, 'text.format.schema'],
    [{ max_output_tokens: 0 }, 'max_output_tokens'],
    [{ temperature: 3 }, 'temperature'],
    [{ truncation: 'middle' }, 'truncation'],
    [{ metadata: { a: 1 } }, 'metadata.a'],
  ])('%j is refused by its name', (body, param) => {
    expect(refusal(body)).toMatchObject({ param, code: 'invalid_value' })
  })

  it('that have no effect are warned of, and those that ask for nothing are not', () => {
    const warned = (body: Json) => translated(body).warnings.map(({ param }) => param)
    expect(warned({ service_tier: 'priority', truncation: 'auto', frobnicate: 1 })).toEqual([
      ...['truncation', 'service_tier', 'frobnicate'],
    ])
    expect(warned({ service_tier: 'auto', truncation: 'disabled', frobnicate: null, store: true })).toEqual([])
    // Every object has these.
    expect(warned({ toString: 0, constructor: 'x', hasOwnProperty: [] })).toEqual([
      ...['toString', 'constructor', 'hasOwnProperty'],
    ])
  })

  it('that are hints are named as the client sent them', () => {
    const { hints } = translated({ reasoning: { effort: 'low', summary: 'auto' }, text: { verbosity: 'high' } })
    expect(hints.fields).toEqual([
      { field: 'reasoning.effort', param: 'reasoning.effort', sent_as: 'reasoning_effort' },
      { field: 'text.verbosity', param: 'text.verbosity', sent_as: 'verbosity' },
    ])
    expect(translated({}).hints.fields).toEqual([])
  })

  it('are repeated in the response, with OpenAI’s defaults', () => {
    expect(translated({ conversation: { id: 'conv_1' }, instructions: 'i', max_output_tokens: 9 }).echo).toMatchObject({
      ...{ conversation: { id: 'conv_1' }, instructions: 'i', max_output_tokens: 9, store: true, tool_choice: 'auto' },
      ...{ temperature: 1, top_p: 1, parallel_tool_calls: true, text: { format: { type: 'text' } }, metadata: {} },
    })
  })
})

it('names the client’s field for the chat field that an engine names', () => {
  const { origins } = translated({ instructions: 'i', input: [{ role: 'user', content: 'a' }] })
  const pairs = [
    ['messages[0].content', 'input'],
    ['messages[1].content[2].type', 'input[0].content[2].type'],
    ['messages', 'input'],
    ['max_completion_tokens', 'max_output_tokens'],
    ['response_format.json_schema.schema', 'text.format.schema'],
    ['tools[3].function.parameters', 'tools[3].parameters'],
    ['reasoning_effort', 'reasoning.effort'],
    ['temperature', 'temperature'],
  ] as const
  for (const [chat_param, own] of pairs) expect(clientParam(chat_param, origins)).toBe(own)
})
