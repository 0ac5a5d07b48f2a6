/** The p95 against the number of engines, a line for each profile, policy and balancer, with the target: an SVG. */
import { seriesColor } from '../evaluation/plots/colors.ts'
import { lineChart } from '../evaluation/plots/line-chart.ts'
import type { Candidate, Target } from './fleet-search.ts'

/** `size`: what is more of to the right. */
export function fleetPlot(
  candidates: readonly Candidate[],
  { measure, at_most }: Target,
  { title, size } = { title: 'How many engines meet the target', size: 'engines' },
): string {
  const several = (of: (one: Candidate) => string) => new Set(candidates.map(of)).size > 1
  const parts = (['profile', 'policy', 'front', 'balancer'] as const).filter((part) => several((one) => one[part]))
  return lineChart({
    title,
    x: size,
    y: measure === 'program_s' ? 'p95 of programs, s' : 'p95 of programs, ms a token',
    ...{ x_log: true, y_log: true, marks: [at_most] },
    lines: candidates.map((one, at) => ({
      name: parts.map((part) => one[part]).join(', ') || one.policy,
      color: seriesColor(at),
      points: one.played.map(({ engines, p95 }) => ({ x: engines, y: { mean: p95, half_width: null, samples: 1 } })),
    })),
  })
}
