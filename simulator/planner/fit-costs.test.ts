import { describe, expect, it } from 'vitest'
import { attentionFlops, prefillFlops } from '../../gpu-agent/planner/costs/model-costs.ts'
import { fitPhase, iterationUs, KNOTS } from './fit-costs.ts'
import { type Iteration, readIterations } from './iteration-log.ts'
import { onEightGpus } from './transfer-costs.ts'

const sizes = { elements: 1e9, layers: 10, hidden: 1000, tp: 2 }

/** Iterations that last exactly as the model says, with constants that grow with B. */
function rows(phase: 'prefill' | 'decode'): Iteration[] {
  return [1, 4, 8, 20, 32, 50, 64, 100, 128, 200, 256, 400, 512].flatMap((calls) =>
    [2, 50, 300].map((longest): Iteration => {
      const tokens = calls * longest
      const flops = phase === 'prefill' ? prefillFlops(sizes, calls, longest) : attentionFlops(sizes, tokens)
      return {
        ...{ model: 'm', tp: 2, phase, calls, longest, tokens },
        compute_us: (flops / 2 / 1e9) * 7 + 5000 + 10 * calls,
        prepare_us: 0.002 * calls * longest + 300,
        sample_us: 0.001 * tokens + 900,
      }
    }),
  )
}

describe('the fit', () => {
  it.each(['prefill', 'decode'] as const)('finds the constants of %s iterations', (phase) => {
    const log = rows(phase)
    const fitted = fitPhase(sizes, log)
    const costs = { ...sizes, knots: [...KNOTS], prefill: fitted, decode: fitted }
    for (const row of log) {
      const measured_us = row.compute_us + row.prepare_us + row.sample_us
      expect(Math.abs(iterationUs(costs, row) / measured_us - 1)).toBeLessThan(0.01)
    }
  })

  it('takes the weights of eight GPUs from what two and four share', () => {
    const phase = (fixed: number) => ({
      compute: [[2, fixed]] as [number, number][],
      prepare: [[0, 0]] as [number, number][],
      sample: [[0, 0]] as [number, number][],
    })
    // 4,000 in any case, and 16,000 shared out over the GPUs.
    const eight = onEightGpus(
      { prefill: phase(12_000), decode: phase(12_000) },
      { prefill: phase(8000), decode: phase(8000) },
    )
    expect(eight.decode.compute).toEqual([[2, 6000]])
  })
})

describe('a log of iterations', () => {
  const header = 'model,tp,phase,seq_num,max_seqlen,total_tokens,exec_s,sample_s,prep_input_s'

  it('is read in microseconds', () => {
    const [row] = readIterations(`${header}\nm,2,decode,3,10,25,0.02,0.003,0.0004\n`)
    expect(row).toMatchObject({ model: 'm', tp: 2, phase: 'decode', calls: 3, longest: 10, tokens: 25 })
    expect(row?.compute_us).toBeCloseTo(20_000, 6)
    expect(row?.prepare_us).toBeCloseTo(400, 6)
  })

  it.each([
    ['model,tp\nm,1', 'the first line must be'],
    [`${header}\nm,1,decode,3`, 'line 2 does not have 9 values'],
    [`${header}\nm,1,other,3,10,25,1,1,1`, 'the phase is prefill or decode'],
    [`${header}\nm,1,decode,3,10,25,-1,1,1`, 'line 2'],
  ])('%#: is refused with its line', (text, reason) => {
    expect(() => readIterations(text)).toThrow(reason)
  })
})
