import { expect, it } from 'vitest'
import { ratioOf, saidPlainly, tidiedText, withoutSame } from './tidy.ts'

it('shows two digits of an interval, and none that is narrower than the mean’s last digit', () => {
  expect(tidiedText('12 ± 0.713×')).toBe('12 ± 0.71×')
  expect(tidiedText('1 ± 0.0000314×')).toBe('1×')
  expect(tidiedText('3.2 ± 0.35 and 1,234 ± 56.7 ms')).toBe('3.2 ± 0.35 and 1,234 ± 57 ms')
  expect(tidiedText('-79.1 ± 4.04 calls, 5 ± 0')).toBe('-79.1 ± 4 calls, 5')
})

it('leaves out comparisons that come to nothing, and keeps those that say something', () => {
  expect(withoutSame('cost-aware serves up to 1× as much as session affinity (within 50 ms per token).')).toBeNull()
  expect(withoutSame('ATLAS serves more than PLAS at 50 ms per token, 1.01× at 50 ms.')).toBeNull()
  const up = 'up to 4.98× the rate of vLLM (at 25 ms per token), 1.01× the rate of MLFQ (at 25 ms per token).'
  expect(withoutSame(up)).toBe('up to 4.98× the rate of vLLM (at 25 ms per token).')
  const loss = 'PLAS takes 18 % longer than MLFQ.'
  expect(withoutSame(loss)).toBe(loss)
  const none = 'From the least to 2500 ms mean latency becomes 1× under Algorithm 2.'
  expect(withoutSame(none)).toBe(none)
})

it.each([
  [
    'From the least to 160 ms mean latency becomes 1× under Algorithm 2 (paper), 0.988× under least used.',
    'From the least to 160 ms mean latency stays within 2 % under Algorithm 2 (paper), least used.',
  ],
  [
    'Deciding once in 10 steps gives 1× the latency of deciding at each.',
    'Deciding once in 10 steps gives the same latency, within 2 %, as deciding at each.',
  ],
  [
    'ms per token: least at β = 2,000 (62.8 ± 1.1), 62.8 without promotion.',
    'ms per token: no β is better than none at all (62.8) by more than 2 %.',
  ],
  [
    'From the least to 160 ms mean latency becomes 1× under Algorithm 2, 1.3× under least used.',
    'From the least to 160 ms mean latency becomes 1× under Algorithm 2, 1.3× under least used.',
  ],
  ['The latency becomes 1.89× as the flood grows.', 'The latency becomes 1.89× as the flood grows.'],
])('says plainly that nothing changes: %s', (sentence, said) => {
  expect(saidPlainly(sentence)).toBe(said)
})

it('has no ratio of figures with different signs', () => {
  expect(ratioOf(-79, 10)).toBeNull()
  expect(ratioOf(5, 0)).toBeNull()
  expect(ratioOf(6, 4)).toBe(1.5)
})
