import fc from 'fast-check'
import { beforeEach, describe, expect, it } from 'vitest'
import {
  ANSWER_CHARS_MAX,
  IdempotencyTable,
  KEPT_MS,
  KEYS_MAX,
  type KeyRow,
  SILENCE_MS_MAX,
  STORED_BYTES_MAX,
  type StoredKeys,
  UNWRITTEN_ANSWERS_CHARS_MAX,
  UNWRITTEN_CLAIMS_MAX,
  UNWRITTEN_KEYS_MAX,
} from './idempotency-table.ts'

const NOW = 1_700_000_000_000
const first = { key: 'k', fingerprint: 'f', call: 'call-1' }
const retry = { ...first, call: 'call-2' }

class MemoryKeys implements StoredKeys {
  readonly rows = new Map<string, KeyRow>()
  bytes = 0

  find(key: string): KeyRow | null {
    return this.rows.get(key) ?? null
  }

  get count(): number {
    return this.rows.size
  }

  /** As storage does, it is told where the row is that a change replaces. */
  write(table: IdempotencyTable): void {
    for (const { key, row, stored_at_ms } of table.takeUnwritten()) {
      expect(this.rows.get(key)?.at_ms ?? null).toBe(stored_at_ms)
      if (row === null) this.rows.delete(key)
      else this.rows.set(key, row)
    }
  }
}

let stored: MemoryKeys
let table: IdempotencyTable

beforeEach(() => {
  stored = new MemoryKeys()
  table = new IdempotencyTable(stored)
})

describe.each([
  ['in memory', () => {}],
  ['in storage', () => stored.write(table)],
])('a retry of a key %s', (_, settle) => {
  it('whose call is open starts nothing, and the same question twice is answered alike', () => {
    expect(table.claim(first, NOW)).toEqual({ status: 'claimed' })
    settle()
    expect(table.claim(first, NOW)).toEqual({ status: 'claimed' })
    expect(table.claim(retry, NOW)).toEqual({ status: 'open', call: 'call-1' })
  })

  it('whose call was answered gets its answer, and for a streamed one the call', () => {
    table.claim(first, NOW)
    settle()
    table.answered(first, '{"a":1}', NOW)
    settle()
    expect(table.claim(retry, NOW)).toEqual({ status: 'answered', call: 'call-1', answer: '{"a":1}' })
    const other = { ...first, key: 'other' }
    table.claim(other, NOW)
    table.answered(other, null, NOW)
    settle()
    expect(table.claim({ ...retry, key: 'other' }, NOW)).toEqual({ status: 'answered', call: 'call-1', answer: null })
  })

  it('whose call failed is a call of its own, whose first cannot take the key back', () => {
    table.claim(first, NOW)
    settle()
    table.failed(first, NOW)
    settle()
    expect(table.claim(retry, NOW)).toEqual({ status: 'claimed' })
    settle()
    table.failed(first, NOW)
    table.answered(first, '{}', NOW)
    table.heard(first, NOW)
    expect(table.claim({ ...first, call: 'call-3' }, NOW)).toEqual({ status: 'open', call: 'call-2' })
  })

  it('with another body is refused, while the call is open and after', () => {
    table.claim(first, NOW)
    settle()
    expect(table.claim({ ...retry, fingerprint: 'g' }, NOW)).toEqual({ status: 'reused', call: 'call-1' })
    table.answered(first, '{}', NOW)
    settle()
    expect(table.claim({ ...retry, fingerprint: 'g' }, NOW)).toEqual({ status: 'reused', call: 'call-1' })
  })

  it('gets the answer for ten minutes', () => {
    table.claim(first, NOW)
    table.answered(first, '{}', NOW)
    settle()
    expect(table.claim(retry, NOW + KEPT_MS - 1).status).toBe('answered')
    expect(table.claim(retry, NOW + KEPT_MS).status).toBe('claimed')
  })

  it('whose Worker is silent is a call of its own; one that is heard is open', () => {
    table.claim(first, NOW)
    settle()
    table.heard(first, NOW + SILENCE_MS_MAX - 1)
    settle()
    expect(table.claim(retry, NOW + SILENCE_MS_MAX).status).toBe('open')
    expect(table.claim(retry, NOW + 2 * SILENCE_MS_MAX - 1).status).toBe('claimed')
  })
})

it('a call that is heard opens its key where it was lost', () => {
  table.heard(first, NOW)
  expect(table.claim(retry, NOW)).toEqual({ status: 'open', call: 'call-1' })
})

describe('bounds', () => {
  const claim = (index: number) => ({ key: `k${index}`, fingerprint: 'f', call: `c${index}` })
  const answerOf = (index: number) => {
    const verdict = table.claim({ ...claim(index), call: 'retry' }, NOW)
    return verdict.status === 'answered' ? (verdict.answer?.length ?? null) : verdict.status
  }

  it(`of ${KEYS_MAX} keys in storage and memory; past it a claim is refused`, () => {
    const full = new IdempotencyTable({ find: () => null, count: KEYS_MAX - 1, bytes: 0 })
    expect(full.claim(claim(0), NOW)).toEqual({ status: 'claimed' })
    expect(full.claim(claim(1), NOW)).toEqual({ status: 'full' })
    full.heard(claim(1), NOW)
    full.answered(claim(1), '{}', NOW)
    expect(full.unwritten).toBe(1)
    full.answered(claim(0), '{}', NOW)
    expect(full.claim({ ...claim(0), call: 'retry' }, NOW)).toMatchObject({ status: 'answered', answer: '{}' })
  })

  it(`of ${UNWRITTEN_CLAIMS_MAX} claims in memory; past it a claim must wait for storage, and calls still end`, () => {
    for (let index = 0; index < UNWRITTEN_CLAIMS_MAX; index += 1) {
      expect(table.claim(claim(index), NOW).status).toBe('claimed')
    }
    expect(table.claim(claim(UNWRITTEN_CLAIMS_MAX), NOW)).toEqual({ status: 'unavailable' })
    expect(table.unwritten).toBe(UNWRITTEN_CLAIMS_MAX)
    table.answered(claim(0), 'x', NOW)
    expect(answerOf(0)).toBe(1)
    stored.write(table)
    expect(table.claim(claim(UNWRITTEN_CLAIMS_MAX), NOW)).toEqual({ status: 'claimed' })
    expect(table.unwritten).toBe(1)
  })

  it(`of ${UNWRITTEN_KEYS_MAX} keys in memory, however many calls end while storage takes nothing`, () => {
    for (let index = 0; index <= UNWRITTEN_KEYS_MAX; index += 1) table.answered(claim(index), null, NOW)
    expect(table.unwritten).toBe(UNWRITTEN_KEYS_MAX)
  })

  it(`of an answer: ${ANSWER_CHARS_MAX} characters are kept, one more is not`, () => {
    for (const [index, chars] of [ANSWER_CHARS_MAX, ANSWER_CHARS_MAX + 1].entries()) {
      table.answered(claim(index), 'x'.repeat(chars), NOW)
    }
    expect([answerOf(0), answerOf(1)]).toEqual([ANSWER_CHARS_MAX, null])
  })

  it('of all answers in memory: one more is not kept, until they are written', () => {
    const fit = UNWRITTEN_ANSWERS_CHARS_MAX / ANSWER_CHARS_MAX
    for (let index = 0; index < fit; index += 1) table.answered(claim(index), 'x'.repeat(ANSWER_CHARS_MAX), NOW)
    table.answered(claim(fit), 'x', NOW)
    expect([answerOf(0), answerOf(fit - 1), answerOf(fit)]).toEqual([ANSWER_CHARS_MAX, ANSWER_CHARS_MAX, null])
    // An answer that goes leaves its room.
    table.failed(claim(0), NOW)
    table.answered(claim(fit + 1), 'x', NOW)
    expect(answerOf(fit + 1)).toBe(1)
    stored.write(table)
    table.answered(claim(fit + 2), 'x'.repeat(ANSWER_CHARS_MAX), NOW)
    expect(answerOf(fit + 2)).toBe(ANSWER_CHARS_MAX)
  })

  it('of what storage has: past it keys are kept, and answers are not', () => {
    stored.bytes = STORED_BYTES_MAX
    table.answered(claim(0), 'x', NOW)
    stored.bytes += 1
    table.answered(claim(1), 'x', NOW)
    expect([answerOf(0), answerOf(1)]).toEqual([1, null])
  })
})

describe('storage', () => {
  it('changes no answer, whenever it is written', () => {
    const step = fc.record({
      does: fc.constantFrom('claim', 'heard', 'answered', 'failed', 'write'),
      key: fc.constantFrom('a', 'b', 'c'),
      call: fc.constantFrom('1', '2'),
      after_ms: fc.constantFrom(0, 1000, SILENCE_MS_MAX, KEPT_MS),
    })
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const keys = new MemoryKeys()
        const written = new IdempotencyTable(keys)
        const unwritten = new IdempotencyTable(new MemoryKeys())
        let now_ms = NOW
        for (const { does, key, call, after_ms } of steps) {
          now_ms += after_ms
          const of = { key, call, fingerprint: 'f' }
          if (does === 'write') keys.write(written)
          for (const one of [written, unwritten]) {
            if (does === 'heard') one.heard(of, now_ms)
            else if (does === 'answered') one.answered(of, 'x', now_ms)
            else if (does === 'failed') one.failed(of, now_ms)
          }
          if (does === 'claim') expect(written.claim(of, now_ms)).toEqual(unwritten.claim(of, now_ms))
        }
        keys.write(written)
        const restarted = new IdempotencyTable(keys)
        for (const key of ['a', 'b', 'c']) {
          const asked = { key, call: 'x', fingerprint: 'f' }
          expect(restarted.claim(asked, now_ms)).toEqual(unwritten.claim(asked, now_ms))
        }
      }),
    )
  })

  it('that refused gets the change again', () => {
    table.claim(first, NOW)
    table.giveBack(table.takeUnwritten())
    expect(table.claim(retry, NOW)).toEqual({ status: 'open', call: 'call-1' })
    stored.write(table)
    expect(stored.count).toBe(1)
    table.failed(first, NOW)
    table.giveBack(table.takeUnwritten())
    expect(table.claim(retry, NOW)).toEqual({ status: 'claimed' })
  })

  it('is not told of a key that comes and goes in between', () => {
    table.claim(first, NOW)
    table.failed(first, NOW)
    expect(table.takeUnwritten()).toEqual([])
  })
})
