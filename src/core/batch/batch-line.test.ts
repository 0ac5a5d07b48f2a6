import { expect, it } from 'vitest'
import { NESTING_MAX } from '../wire/nesting.ts'
import { CUSTOM_ID_CHARS_MAX, checkLine } from './batch-line.ts'

const ENDPOINT = '/v1/chat/completions'
const GOOD = { custom_id: 'a', method: 'POST', url: ENDPOINT, body: { model: 'm', messages: [] } }

function check(content: unknown) {
  const text = typeof content === 'string' ? content : JSON.stringify(content)
  const bytes = content instanceof Uint8Array ? content : new TextEncoder().encode(text)
  return checkLine({ number: 7, bytes, end: { offset: 0, lines: 7 } }, ENDPOINT)
}

function faultOf(content: unknown) {
  const checked = check(content)
  return checked.status === 'fault' ? [checked.fault.code, checked.fault.param] : checked.status
}

it('reads a line as OpenAI has it', () => {
  expect(check(GOOD)).toEqual({ status: 'line', line: { custom_id: 'a', model: 'm', body: GOOD.body } })
  expect(check(' \t\r')).toEqual({ status: 'blank' })
})

it('names the line and the field of a fault', () => {
  const { custom_id: _, ...nameless } = GOOD
  expect(faultOf(nameless)).toEqual(['missing_required_parameter', 'custom_id'])
  expect(faultOf({ ...GOOD, custom_id: '' })).toEqual(['invalid_value', 'custom_id'])
  expect(faultOf({ ...GOOD, custom_id: 'x'.repeat(CUSTOM_ID_CHARS_MAX) })).toBe('line')
  expect(faultOf({ ...GOOD, custom_id: 'x'.repeat(CUSTOM_ID_CHARS_MAX + 1) })).toEqual(['invalid_value', 'custom_id'])
  expect(faultOf({ ...GOOD, method: 'GET' })).toEqual(['invalid_value', 'method'])
  expect(faultOf({ ...GOOD, url: '/v1/embeddings' })).toEqual(['mismatched_endpoint', 'url'])
  expect(faultOf({ ...GOOD, body: {} })).toEqual(['missing_required_parameter', 'body.model'])
  expect(faultOf({ ...GOOD, body: 'text' })).toEqual(['invalid_value', 'body'])
  expect(faultOf({ ...GOOD, body: { ...GOOD.body, stream: true } })).toEqual(['stream_unsupported', 'body.stream'])
  expect(faultOf('{"custom_id": "a"')).toEqual(['invalid_json_line', null])
  expect(faultOf('[]')).toEqual(['invalid_json_line', null])
  expect(faultOf(new Uint8Array([0x22, 0xff, 0x22]))).toEqual(['invalid_utf8', null])
  const checked = check('nothing')
  expect(checked.status === 'fault' && checked.fault).toMatchObject({
    line: 7,
    message: expect.stringMatching(/^Line 7: /),
  })
})

it('refuses a line that is too long or too deep', () => {
  const long = checkLine({ number: 1, bytes: null, end: { offset: 0, lines: 1 } }, ENDPOINT)
  expect(long.status === 'fault' && long.fault.code).toBe('line_too_long')
  const nested = (levels: number) => `{"a":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`
  expect(faultOf(nested(NESTING_MAX))).toEqual(['missing_required_parameter', 'custom_id'])
  const deep = check(nested(NESTING_MAX + 1))
  expect(deep.status === 'fault' && deep.fault.message).toContain('nested deeper')
})
