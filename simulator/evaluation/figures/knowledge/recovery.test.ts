/** When a run counts as recovered. */
import { expect, test } from 'vitest'
import type { EachProgram } from '../../runs/run-outcome.ts'
import { recoveredAfter, recovery } from './recovery.ts'

/** One arrives each second and ends half a second later. */
function run(count: number, latencyOf: (at: number) => number, workload = 'w'): EachProgram[] {
  return Array.from({ length: count }, (_, at) => ({
    ...{ workload, arrived_s: at, response_s: 0.5, token_latency_ms: latencyOf(at) },
  }))
}

const windows = (means: readonly number[]) => means.map((mean) => ({ mean, half_width: null, samples: 1 }))

test('programs are compared with themselves, by how many had ended when they arrived', () => {
  const learning = run(250, (at) => (at < 100 ? 30 : 12))
  const knowing = run(250, () => 10)
  expect(recovery(learning, knowing)).toEqual({ windows: [3, 1.2, 1.2], all: 1.92 })
})

test('only programs of the workload that counts are compared, and only their ends counted', () => {
  const before = run(150, () => 99, 'before')
  const after = (latency: number) =>
    run(120, () => latency, 'after').map((one) => ({ ...one, arrived_s: one.arrived_s + 150 }))
  expect(recovery([...before, ...after(20)], [...before, ...after(10)], 'after')).toEqual({ windows: [2, 2], all: 2 })
})

test('a window of few programs is no window', () => {
  const windowsOf = (count: number) => {
    const alike = run(count, () => 1)
    return recovery(alike, alike).windows
  }
  expect(windowsOf(119)).toEqual([1])
  expect(windowsOf(120)).toEqual([1, 1])
})

test('recovered is after the last window beyond a tenth', () => {
  expect(recoveredAfter(windows([1.09, 1.1]))).toBe(0)
  expect(recoveredAfter(windows([1, 1.2, 1.05]))).toBe(200)
  expect(recoveredAfter(windows([1, 1, 1.11]))).toBeNull()
  expect(recoveredAfter([])).toBeNull()
})
