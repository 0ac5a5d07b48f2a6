import { expect, test } from 'vitest'
import { record } from '../testing/builders.ts'
import { boundRecord, CLOCK_SLACK_MS, COUNT_MAX, DURATION_US_MAX, type LeaseTerms, tokenBounds } from './lease-terms.ts'

const TERMS: LeaseTerms = {
  key: null,
  reason: null,
  ...{ granted_at_ms: 1_000_000, speed_factor: 1, prompt_tokens_max: 100, output_tokens_max: 20, sequences_max: 1 },
}
const honest = record({ lease: 'l', call: 'c' })

test('a possible record stays as it is', () => {
  expect(boundRecord(honest, TERMS, TERMS.granted_at_ms)).toEqual({ record: honest, flags: [] })
  expect(boundRecord(honest, null, 0)).toEqual({ record: honest, flags: [] })
})

test('every field of an absurd record is lowered and named', () => {
  const absurd = {
    ...honest,
    ...{ prompt_tokens: 1e15, cached_tokens: 1e15, output_tokens: 1e15, preemptions: 1e15 },
    ...{ service_wall_us: 2 ** 53 - 1, service_modelled_us: 2 ** 53 - 1, wait_us: 2 ** 53 - 1 },
    ...{ swapped_out_tokens: 1e15, swapped_in_tokens: 1e15, recomputed_tokens: 1e15, swap_us: 2 ** 53 - 1 },
    ...{ first_token_us: 2 ** 53 - 1, duration_us: 2 ** 53 - 1 },
  }
  const bounded = boundRecord(absurd, TERMS, TERMS.granted_at_ms + 10_000)
  const elapsed_us = (10_000 + CLOCK_SLACK_MS) * 1000
  expect(bounded.record).toMatchObject({
    ...{ prompt_tokens: 100, cached_tokens: 100, output_tokens: 20, preemptions: COUNT_MAX },
    ...{ service_wall_us: elapsed_us, service_modelled_us: 100 * 125 + 20 * 500, wait_us: elapsed_us },
    ...{ swapped_out_tokens: COUNT_MAX, swapped_in_tokens: COUNT_MAX, recomputed_tokens: COUNT_MAX },
    ...{ swap_us: elapsed_us, first_token_us: elapsed_us, duration_us: elapsed_us },
  })
  expect(bounded.flags).toHaveLength(13)
  expect(boundRecord(absurd, null, 0).record).toMatchObject({
    ...{ output_tokens: COUNT_MAX, service_wall_us: DURATION_US_MAX, service_modelled_us: DURATION_US_MAX },
  })
})

test('a call waits in a queue for no longer than it waits, and a record that does not tell it still does not', () => {
  const told = (wait_us: number, queue_wait_us: number) =>
    boundRecord({ ...honest, wait_us, queue_wait_us }, TERMS, TERMS.granted_at_ms + 10_000)
  expect(told(5, 5)).toMatchObject({ record: { queue_wait_us: 5 }, flags: [] })
  expect(told(5, 6)).toMatchObject({ record: { wait_us: 5, queue_wait_us: 5 }, flags: ['queue_wait_us'] })
  const { record } = boundRecord({ ...honest, wait_us: 2 ** 53 - 1 }, TERMS, TERMS.granted_at_ms)
  expect(record).not.toHaveProperty('queue_wait_us')
})

test.each(['swapped_out_tokens', 'swapped_in_tokens', 'recomputed_tokens'] as const)(
  '%s is at most all tokens of the call, once for each preemption and each token of output',
  (field) => {
    const most = { ...honest, preemptions: 2, output_tokens: 3, [field]: (2 + 3) * (100 + 20) }
    expect(boundRecord(most, TERMS, TERMS.granted_at_ms).flags).toEqual([])
    const more = boundRecord({ ...most, [field]: most[field] + 1 }, TERMS, TERMS.granted_at_ms)
    expect(more).toEqual({ record: most, flags: [field] })
  },
)

test('a call without preemptions and output had no KV to move', () => {
  const refused = { ...honest, preemptions: 0, output_tokens: 0 }
  const { record: lowered } = boundRecord(refused, TERMS, TERMS.granted_at_ms)
  expect(lowered).toMatchObject({ swapped_out_tokens: 0, swapped_in_tokens: 0, recomputed_tokens: 0 })
})

test('a clock that was set back lowers nothing that a day allows', () => {
  const long = { ...honest, duration_us: 3_600_000_000 }
  expect(boundRecord(long, TERMS, TERMS.granted_at_ms - 1).flags).toEqual([])
  expect(boundRecord(long, TERMS, TERMS.granted_at_ms).flags).toEqual(['duration_us'])
})

test('sequences run side by side, and each is measured', () => {
  const four = { ...honest, service_wall_us: 4 * CLOCK_SLACK_MS * 1000 }
  expect(boundRecord(four, TERMS, TERMS.granted_at_ms).flags).toEqual(['service_wall_us'])
  expect(boundRecord(four, { ...TERMS, sequences_max: 4 }, TERMS.granted_at_ms).flags).toEqual([])
})

test.each([
  [{}, 1, 1001],
  [{ max_tokens: 5 }, 1, 6],
  [{ max_tokens: 5, max_completion_tokens: 9 }, 1, 10],
  [{ max_tokens: 5, n: 3 }, 3, 18],
  [{ max_tokens: 5, prompt: ['a', 'b'] }, 2, 12],
  [{ max_tokens: 5, prompt: [1, 2, 3] }, 1, 6],
  [{ max_tokens: 5, prompt: [[1], [2]], n: 2 }, 4, 24],
  [{ max_tokens: 5, prompt: [] }, 1, 6],
  [{ input: ['a', 'b', 'c'] }, 3, 3003],
  [{ max_tokens: 1e300 }, 1, COUNT_MAX],
  [{ max_tokens: null, n: null }, 1, 1001],
] as const)('the bounds of %j', (body, sequences_max, output_tokens_max) => {
  expect(tokenBounds(body, 10, 1000)).toEqual({
    sequences_max,
    output_tokens_max,
    prompt_tokens_max: sequences_max * 1000,
  })
})

test('a text that is longer than the context has as many tokens as bytes at most', () => {
  expect(tokenBounds({}, 10_000, 1000).prompt_tokens_max).toBe(30_000)
})
