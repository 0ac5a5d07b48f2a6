/** Fields that real clients send: what reaches an engine, what the client is told, and what a strict call refuses. */
import { describe, expect, it } from 'vitest'
import { NOT_APPLIED_HEADER, WARNINGS_HEADER } from '../core/call/field-warnings.ts'
import { SCHEDULING_FIELDS } from '../protocol/request-fields.ts'
import type { DialectName } from './dialects/index.ts'
import { runCall } from './run-call.ts'
import { STRICT_HEADER } from './strict.ts'
import {
  answering,
  chat,
  delta,
  type ErrorAnswer,
  MODEL,
  PROGRAM,
  Script,
  UNRESTRICTED,
  type World,
  world,
} from './testing/world.ts'

const USER = { role: 'user', content: 'Hi' }
const CALL = { id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }

function completion(body: object): Request {
  return new Request('http://switchyard.test/v1/completions', {
    method: 'POST',
    body: JSON.stringify({ model: MODEL, prompt: 'Hi', ...body }),
  })
}

/** Serves one call and gives the body that its engine got. */
async function served(request: Request, options: { dialect?: DialectName; not_applied?: string; it?: World } = {}) {
  let sent: Record<string, unknown> = {}
  const engine = async (asked: Request): Promise<Response> => {
    sent = (await asked.json()) as Record<string, unknown>
    const headers: Record<string, string> = { 'content-type': 'text/event-stream' }
    if (options.not_applied !== undefined) headers[NOT_APPLIED_HEADER] = options.not_applied
    const chunk = options.dialect === 'completions' ? { choices: [{ index: 0, text: 'ok' }] } : delta('ok')
    const script = new Script().chunk(chunk).write('data: [DONE]\n\n').end()
    return new Response(script.response.body, { headers })
  }
  const it = world({ engines: { e0: engine } })
  const response = await runCall(request, options.dialect ?? 'chat', it.deps)
  const { status, headers } = response
  const text = await response.text()
  await it.settled()
  return { status, text, sent, warnings: headers.get(WARNINGS_HEADER), ended: it.endings() }
}

describe('a field that no engine needs', () => {
  it.each<[string, object, string]>([
    ['store', { store: true }, 'store'],
    ['service_tier', { service_tier: 'flex' }, 'service_tier'],
    ['prompt_cache_retention', { prompt_cache_retention: '24h' }, 'prompt_cache_retention'],
    ['an unknown field', { max_token: 5 }, 'max_token'],
    [
      'guidellm’s usage option',
      { stream: true, stream_options: { include_usage: true, continuous_usage_stats: true } },
      'stream_options.continuous_usage_stats',
    ],
    ['refusal', { messages: [{ role: 'assistant', content: 'a', refusal: 'b' }] }, 'messages[].refusal'],
    [
      'provider_specific_fields',
      { messages: [USER, { role: 'assistant', content: 'a', provider_specific_fields: { x: 1 } }] },
      'messages[].provider_specific_fields',
    ],
    ['annotations', { messages: [{ ...USER, annotations: [{ type: 'url_citation' }] }] }, 'messages[].annotations'],
    [
      'the index of a tool call',
      { messages: [{ role: 'assistant', content: null, tool_calls: [{ ...CALL, index: 0 }] }] },
      'messages[].tool_calls[].index',
    ],
  ])('%s is dropped with a warning', async (_, fields, field) => {
    const { status, sent, warnings, ended } = await served(chat(fields, PROGRAM))
    expect([status, warnings]).toEqual([200, `ignored=${field}`])
    expect(JSON.stringify(sent)).not.toContain(field.split('.').at(-1))
    expect(ended).toMatchObject([{ warnings: { ignored: [field], not_applied: [], more: 0 } }])
  })

  it.each(SCHEDULING_FIELDS)('%s never reaches an engine’s scheduler', async (field) => {
    for (const [request, dialect] of [
      [chat({ [field]: 5 }), 'chat'],
      [completion({ [field]: 5 }), 'completions'],
    ] as const) {
      const { sent, warnings } = await served(request, { dialect })
      expect(sent).not.toHaveProperty(field)
      expect(warnings).toBe(`ignored=${field}`)
    }
  })

  it('that asks for nothing is dropped without one', async () => {
    const nothing = { store: false, service_tier: 'auto', verbosity: null, frobnicate: null }
    const { warnings, ended } = await served(chat({ ...nothing, messages: [{ ...USER, refusal: null }] }, PROGRAM))
    expect(warnings).toBeNull()
    expect(ended).toMatchObject([{ outcome: 'completed', warnings: undefined }])
  })
})

describe('a session id of the body', () => {
  it('names the program only: no engine gets it, and nothing is wrong with it', async () => {
    const { sent, warnings } = await served(chat({ session_id: 's' }))
    expect(sent).not.toHaveProperty('session_id')
    expect(warnings).toBeNull()
  })
})

describe('a hint', () => {
  it.each<[string, object]>([
    ['reasoning_effort', { reasoning_effort: 'high' }],
    ['verbosity', { verbosity: 'low' }],
    ['thinking', { thinking: { type: 'enabled', budget_tokens: 1024 } }],
    ['context_management', { context_management: { edits: [] } }],
    ['prediction', { prediction: { type: 'content', content: 'x' } }],
    ['chat_template_kwargs', { chat_template_kwargs: { enable_thinking: false } }],
    ['messages[].name', { messages: [{ ...USER, name: 'user_proxy' }] }],
    ['messages[].reasoning_content', { messages: [{ role: 'assistant', content: 'a', reasoning_content: 'b' }] }],
  ])('%s goes to the engine, which says whether it applies it', async (field, fields) => {
    const applied = await served(chat(fields, PROGRAM))
    expect([applied.status, applied.warnings]).toEqual([200, null])
    expect(applied.sent).toMatchObject(fields)
    const dropped = await served(chat(fields, PROGRAM), { not_applied: `other, ${field}` })
    expect(dropped.warnings).toBe(`not_applied=${field}`)
    expect(dropped.ended).toMatchObject([{ warnings: { ignored: [], not_applied: [field] } }])
  })

  it('that is called differently by engines is told under the client’s name', async () => {
    const fields = { output_config: { effort: 'low' } }
    const { sent, warnings } = await served(chat(fields), { not_applied: 'reasoning_effort' })
    expect(sent).toMatchObject({ reasoning_effort: 'low' })
    expect(warnings).toBe('not_applied=output_config.effort')
  })

  it('of an engine that failed is forgotten for the one that serves', async () => {
    const it = world({
      engines: {
        e0: () =>
          new Response(new Script().end().response.body, {
            headers: { 'content-type': 'text/event-stream', [NOT_APPLIED_HEADER]: 'verbosity' },
          }),
        e1: answering('ok'),
      },
    })
    const response = await runCall(chat({ verbosity: 'low' }), 'chat', it.deps)
    expect([response.status, response.headers.get(WARNINGS_HEADER)]).toEqual([200, null])
  })
})

describe('a binding field', () => {
  it.each<[string, object, object]>([
    ['no stop strings', { stop: [] }, { stop: [] }],
    ['null content of a tool', { messages: [{ role: 'tool', tool_call_id: 'c', content: null }] }, {}],
    ['penalties', { frequency_penalty: 1, repetition_penalty: 1.1 }, { frequency_penalty: 1, repetition_penalty: 1.1 }],
    ['sampling of self-hosted servers', { top_k: 5, min_p: 0.1, ignore_eos: true }, { top_k: 5, min_p: 0.1 }],
    ['logit_bias', { logit_bias: { 5: 1 } }, { logit_bias: { 5: 1 } }],
    [
      'guided_json',
      { guided_json: { type: 'object' } },
      { response_format: { type: 'json_schema', json_schema: { schema: { type: 'object' } } } },
    ],
    [
      'output_config.format',
      { output_config: { format: { type: 'json_schema', schema: { type: 'object' } } } },
      { response_format: { type: 'json_schema' } },
    ],
  ])('goes to the engine: %s', async (_, fields, expected) => {
    const { status, sent, warnings } = await served(chat(fields))
    expect([status, warnings]).toEqual([200, null])
    expect(sent).toMatchObject(expected)
  })

  it.each<[object]>([[{ prompt: ['a', 'b'] }], [{ prompt: [[1], [2]] }], [{ echo: true, logprobs: 1, max_tokens: 0 }]])(
    'of completions goes to the engine: %j',
    async (fields) => {
      const { status, sent } = await served(completion(fields), { dialect: 'completions' })
      expect(status).toBe(200)
      expect(sent).toMatchObject(fields)
    },
  )

  it('that contradicts another is refused by its name', async () => {
    const fields = { guided_json: {}, response_format: { type: 'json_object' } }
    const { status, text } = await served(chat(fields))
    expect([status, (JSON.parse(text) as ErrorAnswer).error.param]).toEqual([400, 'guided_json'])
  })
})

describe('a strict call', () => {
  const strictKey = {
    authenticate: async () => ({ status: 'tenant' as const, identity: { ...UNRESTRICTED, strict: true } }),
  }

  async function refusedParam(fields: object): Promise<string | null> {
    const it = world({ engines: { e0: answering('ok') } })
    const response = await runCall(chat(fields, { [STRICT_HEADER]: 'true' }), 'chat', it.deps)
    expect(response.status).toBe(400)
    const { error } = (await response.json()) as ErrorAnswer
    expect(error.code).toBe('unsupported_parameter')
    expect(error.message).toContain(error.param)
    expect(it.said).toEqual([])
    return error.param
  }

  it.each<[string, object]>([
    ['store', { store: true }],
    ['max_token', { max_token: 1 }],
    ['messages[1].refusal', { messages: [USER, { ...USER, refusal: 'x' }] }],
    ['verbosity', { verbosity: 'low' }],
    ['messages[2].name', { messages: [USER, USER, { ...USER, name: 'x' }] }],
    ['output_config.effort', { output_config: { effort: 'low' } }],
  ])('is refused for %s, at its place', async (param, fields) => {
    expect(await refusedParam(fields)).toBe(param)
  })

  it('may be asked for by its key', async () => {
    const it = world({ engines: { e0: answering('ok') }, deps: strictKey })
    expect((await runCall(chat({ store: true }), 'chat', it.deps)).status).toBe(400)
    expect((await runCall(chat({ store: false, temperature: 0 }), 'chat', it.deps)).status).toBe(200)
    // The call cannot take back what the operator asks for.
    expect((await runCall(chat({ store: true }, { [STRICT_HEADER]: 'false' }), 'chat', it.deps)).status).toBe(400)
  })

  it('is asked for in two words only', async () => {
    const response = await runCall(chat({}, { [STRICT_HEADER]: 'yes' }), 'chat', world().deps)
    expect(response.status).toBe(400)
    expect(((await response.json()) as ErrorAnswer).error.param).toBe(STRICT_HEADER)
  })
})
