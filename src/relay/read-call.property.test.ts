/**
 * A call is the same whether its prompt was parsed or not: what the control plane knows of it, what its client is told, and what
 * an engine reads.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { sortFields } from '../core/call/request-fields.ts'
import { scanBody } from '../core/call/scanned-body.ts'
import { CHAT_BODY_FIELDS, COMPLETION_BODY_FIELDS } from '../protocol/request-fields.ts'
import type { Dialect, Json } from './dialects/dialect.ts'
import { DIALECTS } from './dialects/index.ts'
import { identify } from './identify.ts'
import { SCANNED_BYTES_MIN } from './read-call.ts'
import { UNRESTRICTED, world } from './testing/world.ts'

const { deps } = world({
  deps: {
    authenticate: async () => ({ status: 'tenant', identity: { ...UNRESTRICTED, inference: true } }),
    newId: () => 'call',
    now: () => 1_000,
  },
})

interface Seen {
  answer: unknown
  /** What an engine's front reads. */
  sent: unknown
}

/** `json` is made long enough to be scanned. */
async function seen(json: string | Uint8Array, headers: Record<string, string>, dialect: Dialect): Promise<Seen> {
  const padding = new Uint8Array(SCANNED_BYTES_MIN).fill(0x20)
  const body = new Blob([json, padding])
  const identified = await identify(
    new Request('http://x/', { method: 'POST', body, headers }),
    dialect,
    deps,
    'online',
  )
  if (identified.status === 'refused') return { answer: identified, sent: null }
  const { forwarded, headers: _, bounds, ...call } = identified.call
  const sent = JSON.parse(typeof forwarded === 'string' ? forwarded : new TextDecoder().decode(forwarded)) as Json
  const table = dialect.name === 'chat' ? CHAT_BODY_FIELDS : COMPLETION_BODY_FIELDS
  return { answer: { ...call, output_tokens_max: bounds.output_tokens_max }, sent: sortFields(sent, table).body }
}

async function expectAlike(
  json: string | Uint8Array,
  headers: Record<string, string>,
  dialect: Dialect,
): Promise<void> {
  const { prompt_field: _, ...whole } = dialect
  expect(await seen(json, headers, dialect)).toEqual(await seen(json, headers, whole))
}

const text = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 12 }),
  fc.constantFrom(
    '',
    ' \n',
    'x'.repeat(700),
    'é"\\\n',
    '\ud800',
    '<think>a</think>b',
    'x-anthropic-billing-header: a;\nb',
  ),
)
const rarely = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.option(arbitrary, { nil: undefined, freq: 1 })
const odd = fc.constantFrom<unknown>(null, 7, 'x', [], {}, true, [7], { a: { b: [1.5, 1e30] } })
const part = fc.record(
  {
    type: fc.constantFrom<unknown>('text', 'image_url', 'refusal', 7),
    text,
    refusal: text,
    cache_control: rarely(odd),
  },
  { requiredKeys: ['type'] },
)
const tool_call = fc.record(
  {
    id: fc.constantFrom('call_a', 'call_b', 'c"'),
    type: fc.constant('function'),
    function: fc.record({ name: fc.constantFrom('search', 'ré"ad', 'f'), arguments: text }),
    index: rarely(fc.nat(3)),
  },
  { requiredKeys: ['id', 'function'] },
)
const message = fc.record(
  {
    role: fc.oneof(
      { weight: 20, arbitrary: fc.constantFrom('system', 'developer', 'user', 'assistant', 'tool') },
      fc.constantFrom<unknown>('function', 'wizard', null),
    ),
    content: fc.oneof(
      { weight: 6, arbitrary: text },
      { weight: 3, arbitrary: fc.array(part, { maxLength: 3 }) },
      fc.constant(null),
      { weight: 1, arbitrary: fc.oneof({ weight: 20, arbitrary: text as fc.Arbitrary<unknown> }, odd) },
    ),
    tool_calls: fc.oneof(
      { weight: 8, arbitrary: fc.array(tool_call, { maxLength: 3 }) },
      fc.constantFrom<unknown>(null, 'x', {}),
    ),
    tool_call_id: fc.constantFrom<unknown>('call_a', 'call_b', 'c"', null),
    name: rarely(text),
    reasoning_content: rarely(fc.option(text)),
    refusal: rarely(fc.constantFrom(null, 'no')),
    annotations: rarely(fc.constantFrom<unknown>([], null, [{}], 'x')),
    function_call: rarely(odd),
    frobnicate: rarely(fc.nat(0)),
  },
  { requiredKeys: ['role'] },
)
const tool = fc.record(
  {
    type: fc.constant('function'),
    function: fc.oneof(
      {
        weight: 9,
        arbitrary: fc.record({ name: text, description: text, parameters: odd }, { requiredKeys: ['name'] }),
      },
      odd,
    ),
    name: rarely(text),
  },
  { requiredKeys: ['type'] },
)
const others = {
  model: fc.oneof({ weight: 20, arbitrary: fc.constant('m' as unknown) }, fc.constantFrom<unknown>('other', 7, null)),
  stream: fc.constantFrom<unknown>(true, false, null),
  stream_options: rarely(fc.constantFrom<unknown>(null, { include_usage: true }, { include_usage: 1 })),
  max_tokens: fc.constantFrom<unknown>(4, null, 4.0),
  n: rarely(fc.constantFrom<unknown>(2, 0)),
  temperature: rarely(fc.double({ min: 0, max: 2.1, noNaN: true })),
  metadata: rarely(fc.constantFrom<unknown>({ program_id: 'p' }, { session_id: 's' }, { a: 1 })),
  session_id: rarely(fc.constant('s')),
  store: rarely(fc.boolean()),
  verbosity: rarely(fc.constantFrom('low', 'medium')),
  priority: rarely(fc.integer()),
  cache_salt: rarely(fc.constant('mine')),
  response_format: rarely(fc.constantFrom<unknown>({ type: 'text' }, { type: 'json_object' })),
  output_config: rarely(fc.constantFrom<unknown>({ effort: 'low' }, { format: 7 })),
  frobnicate: rarely(odd),
  input: rarely(odd),
}
const optional = ['stream', 'max_tokens', 'store', 'frobnicate', 'session_id', 'metadata', 'input'] as const
const chat_body = fc.record(
  {
    ...others,
    messages: fc.oneof(
      { weight: 20, arbitrary: fc.array(message, { minLength: 1, maxLength: 6 }) as fc.Arbitrary<unknown> },
      odd,
    ),
    tools: fc.oneof({ weight: 8, arbitrary: fc.array(tool, { maxLength: 3 }) as fc.Arbitrary<unknown> }, odd),
  },
  { requiredKeys: ['model', 'messages'] },
)
const completion_body = fc.record(
  { ...others, prompt: fc.oneof({ weight: 8, arbitrary: text as fc.Arbitrary<unknown> }, odd) },
  { requiredKeys: ['model', 'prompt', ...optional] },
)
const headers = fc.constantFrom<Record<string, string>>(
  { 'x-program-id': 'p' },
  { 'x-program-id': 'p', 'x-app': 'a' },
  { 'x-session-id': 's' },
  { 'x-claude-code-session-id': 's' },
  { 'x-switchyard-strict': 'true' },
  { 'x-prompt-head': 'keep' },
  {},
)
const style = fc.record({ space: fc.constantFrom('', ' '), ascii: fc.boolean() })

function written(body: unknown, { space, ascii }: { space: string; ascii: boolean }): string {
  const json = JSON.stringify(body, null, space)
  return ascii
    ? json.replaceAll(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    : json
}

describe('a body that is scanned says what it says when it is parsed', () => {
  it('chat', async () => {
    let scanned = 0
    await fc.assert(
      fc.asyncProperty(chat_body, headers, style, async (body, given, how) => {
        const json = written(body, how)
        if (scanBody(new TextEncoder().encode(json), 'messages') !== null) scanned += 1
        await expectAlike(json, given, DIALECTS.chat)
      }),
      { numRuns: 1_500 },
    )
    // What is drawn must not all be odd.
    expect(scanned).toBeGreaterThan(150)
  })

  it('completions', async () => {
    await fc.assert(
      fc.asyncProperty(completion_body, headers, style, async (body, given, how) => {
        await expectAlike(written(body, how), given, DIALECTS.completions)
      }),
      { numRuns: 300 },
    )
  })

  it('whatever byte of it is changed', async () => {
    const change = fc.record({ at: fc.nat(), byte: fc.nat(255) })
    await fc.assert(
      fc.asyncProperty(chat_body, style, change, async (body, how, { at, byte }) => {
        const bytes = new TextEncoder().encode(written(body, how))
        bytes[at % bytes.length] = byte
        await expectAlike(bytes, { 'x-program-id': 'p' }, DIALECTS.chat)
      }),
      { numRuns: 1_000 },
    )
  })

  it.each([
    ['a repeated prompt', '{"model":"m","messages":[{"role":"user","content":"a"}],"messages":[{"role":"system"}]}'],
    [
      'a prompt under an escaped name',
      '{"model":"m","messages":[{"role":"user"}],"mess\\u0061ges":[{"role":"wizard"}]}',
    ],
    ['a repeated field', '{"model":"no","messages":[{"role":"user"}],"model":"m","max_tokens":3,"max_tokens":4}'],
    [
      'tools after null',
      '{"model":"m","messages":[{"role":"user"}],"tools":null,"tools":[{"type":"function","function":{"name":"f"}}]}',
    ],
    [
      'null after tools',
      '{"model":"m","messages":[{"role":"user"}],"tools":[{"type":"function","function":{"name":"f"}}],"tools":null}',
    ],
    ['a repeated role', '{"model":"m","messages":[{"role":"system","content":"a","role":"user"}]}'],
    [
      'a repeated content',
      '{"model":"m","messages":[{"role":"user","content":"abc","content":[{"type":"text","text":"d"}]}]}',
    ],
    ['a role under an escaped name', '{"model":"m","messages":[{"role":"user","r\\u006fle":"wizard"}]}'],
    ['__proto__', '{"model":"m","__proto__":{"stream":true},"messages":[{"role":"user","__proto__":{"a":1}}]}'],
    ['__proto__ beside the prompt', '{"model":"m","__proto__":{"stream":true},"messages":[{"role":"user"}]}'],
    ['a hint far behind', `{"model":"m","messages":[${'{"role":"user"},'.repeat(80)}{"role":"user","name":"x"}]}`],
    ['text behind it', '{"model":"m","messages":[{"role":"user"}]} {}'],
    ['a byte order mark', '\ufeff{"model":"m","messages":[{"role":"user"}]}'],
    ['no object', '[{"role":"user"}]'],
    ['deep nesting', `{"model":"m","messages":[{"role":"user","audio":${'['.repeat(126)}${']'.repeat(126)}}]}`],
  ])('with %s', async (_, json) => {
    for (const strict of ['true', 'false']) {
      await expectAlike(json, { 'x-program-id': 'p', 'x-switchyard-strict': strict }, DIALECTS.chat)
    }
  })
})
