/**
 * Constants of SamuLLM's per-iteration model, fitted to a log: for each part of an iteration and each phase a line in what causes it (FLOPs, padded
 * tokens, tokens), with constants that are linear in B between knots. Coefficients are not negative, and errors relative (fit/least-squares.ts).
 */
import { between } from '../../gpu-agent/planner/costs/iteration-costs.ts'
import {
  attentionFlops,
  type FlopSizes,
  type ModelCosts,
  type PhaseConstants,
  prefillFlops,
} from '../../gpu-agent/planner/costs/model-costs.ts'
import { fitNonNegative, predict, type Sample } from '../fit/least-squares.ts'
import type { Iteration } from './iteration-log.ts'

export const KNOTS = [1, 8, 32, 64, 128, 192, 256, 384, 512] as const
/** Preparing and sampling take a tenth of an iteration and change less with B. */
const MINOR_KNOTS = [1, 64, 256, 512] as const

type Sizes = FlopSizes & { tp: number }

/** GFLOP on one of its GPUs that an iteration's duration is a line in. */
function gigaFlops(sizes: Sizes, { phase, calls, longest, tokens }: Iteration): number {
  const flops = phase === 'prefill' ? prefillFlops(sizes, calls, longest) : attentionFlops(sizes, tokens)
  return flops / sizes.tp / 1e9
}

export function fitPhase(sizes: Sizes, rows: readonly Iteration[]): PhaseConstants {
  const part = (
    knots: readonly number[],
    cause: (row: Iteration) => number,
    took: (row: Iteration) => number,
  ): [number, number][] => {
    const samples = rows.map(
      (row): Sample => ({ features: features(knots, row.calls, cause(row)), measured: took(row) }),
    )
    const constants = fitNonNegative(samples, knots.length * 2)
    return KNOTS.map((knot) => [
      rounded(predict(constants, features(knots, knot, 1)) - predict(constants, features(knots, knot, 0))),
      rounded(predict(constants, features(knots, knot, 0))),
    ])
  }
  return {
    compute: part(
      KNOTS,
      (row) => gigaFlops(sizes, row),
      (row) => row.compute_us,
    ),
    prepare: part(
      MINOR_KNOTS,
      ({ calls, longest }) => calls * longest,
      (row) => row.prepare_us,
    ),
    sample: part(
      MINOR_KNOTS,
      ({ tokens }) => tokens,
      (row) => row.sample_us,
    ),
  }
}

/** First the slopes at the knots, then the constants. */
function features(knots: readonly number[], calls: number, cause: number): number[] {
  const row = new Array<number>(knots.length * 2).fill(0)
  const [below, above, share] = between(knots, calls)
  row[below] = (row[below] as number) + cause * (1 - share)
  row[knots.length + below] = (row[knots.length + below] as number) + 1 - share
  row[above] = (row[above] as number) + cause * share
  row[knots.length + above] = (row[knots.length + above] as number) + share
  return row
}

function rounded(value: number): number {
  return Number(value.toPrecision(6))
}

export function iterationUs(costs: Pick<ModelCosts, 'prefill' | 'decode' | 'knots'> & Sizes, row: Iteration): number {
  const { compute, prepare, sample } = costs[row.phase]
  const part = (lines: readonly (readonly [number, number])[], cause: number) => {
    const [below, above, share] = between(costs.knots, row.calls)
    const [low, high] = [lines[below], lines[above]] as [readonly [number, number], readonly [number, number]]
    return (low[0] + (high[0] - low[0]) * share) * cause + low[1] + (high[1] - low[1]) * share
  }
  return part(compute, gigaFlops(costs, row)) + part(prepare, row.calls * row.longest) + part(sample, row.tokens)
}
