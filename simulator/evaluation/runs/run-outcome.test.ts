import { expect, test } from 'vitest'
import type { CallResult } from '../../simulation.ts'
import { bins, callsInEngine } from './run-outcome.ts'

const call = (from_s: number, to_s: number) =>
  ({ program: 0, call: 0, ended_us: to_s * 1e6, measured: { duration_us: (to_s - from_s) * 1e6 } }) as CallResult

test('calls in the engine are time in it over each minute', () => {
  // One call over the first minute and a half, one over the second half of the second minute.
  expect(callsInEngine([call(0, 90), call(90, 120)])).toEqual([1, 1])
  expect(callsInEngine([call(30, 60), call(0, 60), call(150, 180)])).toEqual([1.5, 0, 0.5])
})

test('bins are closed below and open above; what nothing fell into is left out', () => {
  const samples = [
    [1, 10],
    [15, 20],
    [16, 6],
    [100, 8],
  ] as const
  expect(bins([1, 16, 32, 64], samples)).toEqual([
    { from: 1, count: 2, value: 15 },
    { from: 16, count: 1, value: 6 },
    { from: 64, count: 1, value: 8 },
  ])
})
