import { describe, expect, it } from 'vitest'
import { DAY_US, limitText, MINUTE_US, parseLimit } from './limit-spec.ts'

describe('a limit as it is written', () => {
  it.each([
    ['requests=60/min', 'requests', 60, MINUTE_US],
    ['tokens=200k/min', 'tokens', 200_000, MINUTE_US],
    ['input=1.5M/day', 'input', 1_500_000, DAY_US],
    ['output=8000/minute', 'output', 8000, MINUTE_US],
    ['concurrent=8', 'concurrent', 8, null],
  ])('%s', (text, quantity, amount, window_us) => {
    expect(parseLimit(text)).toEqual({ quantity, amount, window_us })
  })

  it.each([
    ['requests=-1/min', /"-1" is no limit/],
    ['requests=0/min', /"0" is no limit/],
    ['requests=1.5/min', /"1.5" is no limit/],
    ['requests=60', /in which time/],
    ['requests=60/fortnight', /"fortnight" is no span/],
    ['calls=60/min', /calls is not among requests, input/],
    ['concurrent=8/min', /no span/],
    ['concurrent=5000', /at most 1024/],
    ['60/min', /write a limit as/],
  ])('%s is refused in a sentence', (text, sentence) => {
    expect(parseLimit(text)).toMatch(sentence)
  })

  it('may be of one model, whose name may have colons', () => {
    const limit = { quantity: 'requests', amount: 60, window_us: MINUTE_US }
    expect(parseLimit('llama3:8b:requests=60/min')).toEqual({ ...limit, model: 'llama3:8b' })
    expect(parseLimit('m:requests=0/min')).toMatch(/"0" is no limit/)
  })

  it('is told in words', () => {
    expect(limitText({ quantity: 'input', amount: 2000, window_us: MINUTE_US })).toBe('2000 input tokens per minute')
    expect(limitText({ quantity: 'concurrent', amount: 8, window_us: null })).toBe('8 calls at once')
  })
})
