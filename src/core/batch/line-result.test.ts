import { expect, it } from 'vitest'
import { NO_TOKENS } from './batch-state.ts'
import { answeredLine, expiredLine, RESULT_BYTES_MAX } from './line-result.ts'

const read = (bytes: Uint8Array) => {
  const text = new TextDecoder().decode(bytes)
  expect(text.endsWith('\n') && text.indexOf('\n') === text.length - 1).toBe(true)
  return JSON.parse(text)
}

const answer = (body: object | string, http_status = 200) => ({
  ...{ http_status, call: 'call-1' },
  body: typeof body === 'string' ? body : JSON.stringify(body),
})

it('is OpenAI’s line, with the tokens and times of the answer', () => {
  const usage = {
    ...{ prompt_tokens: 10, completion_tokens: 5, total_tokens: 15, prompt_tokens_details: { cached_tokens: 4 } },
    completion_tokens_details: null,
    switchyard: { wait_s: 0.5, service_wall_s: 2, emulated: false },
  }
  const { result, times } = answeredLine('r-0', 'mine', answer(`   ${JSON.stringify({ id: 'x', usage })}`))
  expect(read(result.bytes)).toEqual({
    ...{ id: 'r-0', custom_id: 'mine', error: null },
    response: { status_code: 200, request_id: 'call-1', body: { id: 'x', usage } },
  })
  expect(result).toMatchObject({ ok: true, tokens: { input: 10, cached: 4, output: 5, reasoning: 0 } })
  expect(times).toEqual({ wait_s: 0.5, service_s: 2 })
})

it('counts tokens as the Responses and Messages APIs name them', () => {
  const responses = { input_tokens: 3, output_tokens: 2, input_tokens_details: { cached_tokens: 1 } }
  const details = { ...responses, output_tokens_details: { reasoning_tokens: 1 } }
  expect(answeredLine('r', 'c', answer({ usage: details })).result.tokens).toEqual({
    ...{ input: 3, cached: 1, output: 2, reasoning: 1 },
  })
  const messages = { input_tokens: 3, output_tokens: 2, cache_read_input_tokens: 2 }
  expect(answeredLine('r', 'c', answer({ usage: messages })).result.tokens).toMatchObject({ input: 3, cached: 2 })
})

it('keeps one line of an answer of several, and of ids that need escapes', () => {
  const { result } = answeredLine('r', 'a "b"\n', answer('{\n "id": "x\\n" }'))
  expect(read(result.bytes)).toMatchObject({ custom_id: 'a "b"\n', response: { body: { id: 'x\n' } } })
})

it('is an error where the status is another, the answer is too long or the time is over', () => {
  const refused = answeredLine('r', 'c', answer({ error: { code: 'bad' } }, 400)).result
  expect(refused).toMatchObject({ ok: false, tokens: NO_TOKENS })
  expect(read(refused.bytes)).toMatchObject({ response: { status_code: 400, body: { error: { code: 'bad' } } } })
  const around = answeredLine('r', 'c', answer({ text: '' })).result.bytes.length
  const fits = answeredLine('r', 'c', answer({ text: 'x'.repeat(RESULT_BYTES_MAX - around) })).result
  expect([fits.ok, fits.bytes.length]).toEqual([true, RESULT_BYTES_MAX])
  const long = answeredLine('r', 'c', answer({ text: 'x'.repeat(RESULT_BYTES_MAX - around + 1) })).result
  expect(read(long.bytes)).toMatchObject({ response: null, error: { code: 'result_too_large' } })
  expect(read(expiredLine('r', 'c').bytes)).toEqual({
    ...{ id: 'r', custom_id: 'c', response: null },
    error: {
      code: 'batch_expired',
      message: 'This request could not be executed before the completion window expired.',
    },
  })
})
