import { describe, expect, it } from 'vitest'
import {
  METADATA_KEY_CHARS_MAX,
  METADATA_KEYS_MAX,
  METADATA_VALUE_CHARS_MAX,
  STOPS_MAX,
} from '../../protocol/openai.ts'
import { chat } from './chat.ts'
import { completions } from './completions.ts'
import type { ParsedCall } from './dialect.ts'
import { DROPPED_FIELDS, forwardedBody, splicedBody, withField } from './openai-body.ts'
import { MODEL_CHARS_MAX } from './openai-schemas.ts'

const NO_HEADERS = new Headers()
const good = { model: 'm', messages: [{ role: 'user', content: 'hi' }] }

function parsed(body: Record<string, unknown>, dialect = chat): ParsedCall {
  const result = dialect.parse(body, NO_HEADERS)
  if (result.status === 'refused') throw new Error(result.error.message)
  return result.call
}

function forwarded(body: Record<string, unknown>): Record<string, unknown> {
  return JSON.parse(forwardedBody(parsed(body))) as Record<string, unknown>
}

describe('parse', () => {
  it.each<[object, string]>([
    [{ messages: good.messages }, 'model'],
    [{ ...good, model: 7 }, 'model'],
    [{ ...good, model: '' }, 'model'],
    [{ model: 'm' }, 'messages'],
    [{ ...good, messages: 'hi' }, 'messages'],
    [{ ...good, messages: [] }, 'messages'],
    [{ ...good, messages: [{ role: 'wizard', content: 'x' }] }, 'messages[0].role'],
    [{ ...good, messages: [{ role: 'user', content: 7 }] }, 'messages[0].content'],
    [{ ...good, messages: [{ role: 'user', content: [{ text: 'x' }] }] }, 'messages[0].content[0].type'],
    [{ ...good, temperature: 'hot' }, 'temperature'],
    [{ ...good, temperature: 2.1 }, 'temperature'],
    [{ ...good, max_tokens: -1 }, 'max_tokens'],
    [{ ...good, max_completion_tokens: 1.5 }, 'max_completion_tokens'],
    [{ ...good, stream: 'yes' }, 'stream'],
    [{ ...good, stream_options: { include_usage: 1 } }, 'stream_options.include_usage'],
    [{ ...good, stop: [1] }, 'stop[0]'],
    [{ ...good, metadata: { a: 1 } }, 'metadata.a'],
  ])('names the field of %j', (body, param) => {
    const result = chat.parse(body as Record<string, unknown>, NO_HEADERS)
    expect(result).toMatchObject({ status: 'refused', error: { param } })
  })

  it.each<[unknown, boolean]>([
    ['once', true],
    [['a', 'b'], true],
    [[1, 2], true],
    [[[1], [2]], true],
    [[], false],
    [7, false],
    [undefined, false],
  ])('a completions prompt %j is accepted: %j', (prompt, accepted) => {
    expect(completions.parse({ model: 'm', prompt }, NO_HEADERS).status).toBe(accepted ? 'parsed' : 'refused')
  })

  it('takes null for absent, and notes fields that it does not know', () => {
    const call = parsed({ ...good, stream: null, max_tokens: null, metadata: null, frobnicate: 1 })
    expect(call).toMatchObject({ model: 'm', streaming: false, metadata: null })
    expect(call.warnings.ignored.fields).toEqual([{ field: 'frobnicate', param: 'frobnicate' }])
    expect(forwarded({ ...good, frobnicate: 1 })).not.toHaveProperty('frobnicate')
  })

  it('takes as much metadata as OpenAI does and no more', () => {
    const of = (keys: number) => Object.fromEntries(Array.from({ length: keys }, (_, key) => [`k${key}`, 'v']))
    expect(chat.parse({ ...good, metadata: of(METADATA_KEYS_MAX) }, NO_HEADERS).status).toBe('parsed')
    expect(chat.parse({ ...good, metadata: of(METADATA_KEYS_MAX + 1) }, NO_HEADERS)).toMatchObject({
      error: { param: 'metadata' },
    })
  })

  it.each<[string, number, (size: number) => object]>([
    ['model', MODEL_CHARS_MAX, (size) => ({ model: 'm'.repeat(size) })],
    ['stop', STOPS_MAX, (size) => ({ stop: Array.from({ length: size }, () => 'x') })],
    ['metadata keys', METADATA_KEY_CHARS_MAX, (size) => ({ metadata: { ['k'.repeat(size)]: 'v' } })],
    ['metadata values', METADATA_VALUE_CHARS_MAX, (size) => ({ metadata: { k: 'v'.repeat(size) } })],
  ])('takes %s of %i and no more', (_, size, fields) => {
    expect(chat.parse({ ...good, ...fields(size) }, NO_HEADERS).status).toBe('parsed')
    expect(chat.parse({ ...good, ...fields(size + 1) }, NO_HEADERS).status).toBe('refused')
  })
})

describe('forwardedBody', () => {
  it('drops every field with which a client could steer scheduling or caching', () => {
    const steering = Object.fromEntries(DROPPED_FIELDS.map((field) => [field, 1]))
    const body = forwarded({ ...good, ...steering, temperature: 0.5 })
    for (const field of DROPPED_FIELDS) expect(body).not.toHaveProperty(field)
    expect(body.temperature).toBe(0.5)
  })

  it('always streams; usage comes where the client asked for it or we aggregate', () => {
    expect(forwarded(good)).toMatchObject({ stream: true, stream_options: { include_usage: true } })
    expect(forwarded({ ...good, stream: true })).not.toHaveProperty('stream_options')
    expect(forwarded({ ...good, stream: true, stream_options: null })).not.toHaveProperty('stream_options')
    expect(forwarded({ ...good, stream: true, stream_options: { include_usage: false } }).stream_options).toEqual({
      include_usage: false,
    })
  })
})

describe('splicedBody', () => {
  const raw = new Map([['messages', new TextEncoder().encode('[ {"role":"user","content":"\\u00e9"} ]')]])
  const decoded = (bytes: string | Uint8Array) => (typeof bytes === 'string' ? bytes : new TextDecoder().decode(bytes))

  it('has the client’s own bytes in place of what was parsed, and all else as every body', () => {
    const call = parsed({ ...good, priority: 1, max_tokens: 3 })
    const body = decoded(splicedBody(call, raw))
    expect(body).toContain('"messages":[ {"role":"user","content":"\\u00e9"} ]')
    const messages = [{ role: 'user', content: 'é' }]
    expect(JSON.parse(body)).toEqual({ ...JSON.parse(forwardedBody(call)), messages })
  })

  it('takes one field more, as every body does', () => {
    const call = parsed(good)
    const field = { tokens: [1], content: '"é' }
    for (const body of [forwardedBody(call), splicedBody(call, raw)]) {
      const expected = { ...JSON.parse(decoded(body)), resume: field }
      expect(JSON.parse(decoded(withField(body, 'resume', field)))).toEqual(expected)
    }
  })
})
