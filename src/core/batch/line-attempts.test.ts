import { expect, it } from 'vitest'
import { LINE_ATTEMPTS_MAX, nextAttempt } from './line-attempts.ts'

const failed = (http_status: number, code: string | null = null, retry_after_s: number | null = null) => ({
  ...{ http_status, code, retry_after_s },
})

it('waits out a lack of engines or of room, however long it lasts', () => {
  for (const failure of [failed(503, 'no_engine'), failed(503, 'no_engine_in_regions'), failed(429, 'engine_full')]) {
    const { wait_ms, is_refused } = nextAttempt(failure, 1_000_000, 0)
    expect(wait_ms).toBe(15_000)
    expect(is_refused).toBe(true)
  }
  expect(nextAttempt(failed(429, null, 120), 1, 0).wait_ms).toBe(120_000)
})

it('tries a failure that may be the line’s fault a bounded number of times', () => {
  for (const failure of ['broken' as const, failed(502), failed(503, 'engine_failed')]) {
    expect(nextAttempt(failure, LINE_ATTEMPTS_MAX - 1, 0.5).wait_ms).toBeGreaterThan(0)
    expect(nextAttempt(failure, LINE_ATTEMPTS_MAX, 0.5)).toEqual({ wait_ms: null, is_refused: false })
  }
})

it('takes anything else as the answer', () => {
  for (const status of [200, 400, 404, 422]) expect(nextAttempt(failed(status), 1, 0).wait_ms).toBeNull()
})
