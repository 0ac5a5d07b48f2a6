import { expect, test } from 'vitest'
import type { CallForecast } from '../../../../../src/core/call/forecast.ts'
import { dispatched } from '../../testing/dispatched.ts'
import { PROGRAM_CHARS_MAX, ticketFields } from './ticket-fields.ts'

const claims = (changes: object = {}) => dispatched('e', {}, changes).claims

test('the plug-in gets who the call is and what its program has cost', () => {
  const fields = ticketFields(
    claims({
      ...{ lease: 'l', program: 'p', tenant_weight: 2, sequence: [7, 8] },
      ...{ settled_service_us: 1, open_elsewhere_us: 4, critical_path_us: 2, program_wait_us: 3 },
      program_output_tokens: 5,
      objective: 'response',
    }),
    'plugin',
  )
  const program = '["tenant","p","run"]'
  expect(fields).toEqual({
    cache_salt: expect.stringMatching(/^[\w-]{43}$/),
    session_id: program,
    vllm_xargs: {
      switchyard_lease: 'l',
      switchyard_tenant: 'tenant',
      switchyard_weight: 2,
      switchyard_program: program,
      switchyard_class: 'class',
      switchyard_objective: 'response',
      switchyard_settled_service_us: 1,
      switchyard_open_elsewhere_us: 4,
      switchyard_path_us: 2,
      switchyard_wait_us: 3,
      switchyard_output_tokens: 5,
      switchyard_opened_at_ms: 7,
      switchyard_tie: 8,
    },
  })
})

test('a weight other than 1 goes to the plug-in, and divides the priority of a vLLM without it', () => {
  const weighed = claims({ program_weight: 4, settled_service_us: 10, open_elsewhere_us: 4 })
  expect(ticketFields(weighed, 'plugin').vllm_xargs).toMatchObject({ switchyard_program_weight: 4 })
  expect(ticketFields(weighed, 'priority')).toMatchObject({ priority: 4 })
  expect(ticketFields(claims(), 'plugin').vllm_xargs).not.toHaveProperty('switchyard_program_weight')
})

test('the plug-in gets what is expected of the call, without names of tools', () => {
  const tool = { name: 'search', probability: 0.5, duration_us: 2e6, duration_p90_us: 4e6, answer_tokens: 40 }
  const other = { ...tool, name: null, probability: 0.25, duration_us: 90 }
  const forecast = { output_tokens: 12.5, ends: 0.25, tool, alternatives: [other], confidence: 0.5 }
  const told = (given: CallForecast) => {
    const { vllm_xargs } = ticketFields(claims(), 'plugin', given)
    return (vllm_xargs as { switchyard_forecast: string }).switchyard_forecast
  }
  expect(told(forecast)).toBe('[12.5,[[0.5,2000000,40],[0.25,90,40]],0.5]')
  expect(told({ output_tokens: 3, ends: 1, tool: null, confidence: 1 })).toBe('[3,[],1]')
  expect(ticketFields(claims(), 'priority', forecast)).not.toHaveProperty('vllm_xargs')
})

test('salts differ where tenants’ salts differ, and are never told as they are', () => {
  const salt = (cache_salt: string) => ticketFields(claims({ cache_salt }), 'fcfs').cache_salt
  expect(salt('a')).toBe(salt('a'))
  expect(salt('a')).not.toBe(salt('b'))
  expect(salt('a/b@c')).toMatch(/^[\w-]{43}$/)
})

test('a program whose ids are too long for the plug-in is still its own', () => {
  const quotes = '"'.repeat(128)
  const program = (run: string) => ticketFields(claims({ tenant: quotes, program: quotes, run }), 'plugin').session_id
  const [one, other] = [program(quotes), program(`${quotes.slice(1)}x`)] as string[]
  expect(one?.length).toBeLessThanOrEqual(PROGRAM_CHARS_MAX)
  expect(one).not.toBe(other)
})

test('a call without a program has no sequence', () => {
  expect(ticketFields(claims(), 'plugin').vllm_xargs).not.toHaveProperty('switchyard_tie')
})

test('a stock priority policy gets the program’s service as priority, smaller first', () => {
  const asked = claims({ settled_service_us: 77, open_elsewhere_us: 3 })
  expect(ticketFields(asked, 'priority')).toMatchObject({ priority: 80 })
})

test('OpenAI hears which calls share a prefix, and not of whom', () => {
  const key = (given: Parameters<typeof claims>[0]) => ticketFields(claims(given), 'provider').prompt_cache_key
  expect(key({ call: 'one' })).toBe(key({ call: 'two' }))
  expect(key({ run: 'other' })).not.toBe(key({}))
  expect(key({ cache_salt: 'another tenant' })).not.toBe(key({}))
  expect(String(key({})).length).toBeLessThanOrEqual(64)
  const own = (cache_salt: string) => ticketFields(claims({ cache_salt }), 'provider', undefined, 'mine')
  expect(own('a tenant').prompt_cache_key).not.toBe(own('another').prompt_cache_key)
  expect(own('a tenant').prompt_cache_key).not.toContain('mine')
})
