/** Whether a plan held: the named number of engines met the target in reality, one fewer did not, and the p95 was as foreseen. */
import { quantile } from '../../simulator/statistics.ts'
import type { PlayedTrace } from './play-trace.ts'

/** Of the achieved p95, by which the prediction may differ. */
export const ERROR_SHARE_MAX = 0.15

export interface PlayedFleet {
  trace: string
  engines: number
  /** `named`: by the plan. `fewer`: one engine less. */
  fleet: 'named' | 'fewer'
  target_ms: number
  predicted_p95_ms: number
  achieved_p95_ms: number
  programs: number
  calls: number
  makespan_s: number
  cached_prompt_share: number
  retries: number
  /** Of the machine while it was played, mean over the samples. */
  load: number
}

export function p95Ms({ programs }: Pick<PlayedTrace, 'programs'>): number {
  return quantile(
    programs.map(({ response_s, output_tokens }) => (response_s * 1000) / output_tokens),
    0.95,
  )
}

/** Predicted over achieved, less 1. */
export function errorShare({ predicted_p95_ms, achieved_p95_ms }: PlayedFleet): number {
  return predicted_p95_ms / achieved_p95_ms - 1
}

/** What did not hold. Empty: all of it did. The error counts for the fleet that the plan names. */
export function failuresOf(played: readonly PlayedFleet[]): string[] {
  return played.flatMap((one) => {
    const { trace, engines, fleet, target_ms, achieved_p95_ms } = one
    const meets = achieved_p95_ms <= target_ms
    const [p95, percent] = [achieved_p95_ms.toFixed(1), (errorShare(one) * 100).toFixed(1)]
    const wrong: string[] = []
    if (fleet === 'named' && !meets)
      wrong.push(`${trace}: ${engines} engines have a p95 of ${p95} ms and miss ${target_ms}`)
    if (fleet === 'fewer' && meets)
      wrong.push(`${trace}: ${engines} engines have a p95 of ${p95} ms and meet ${target_ms}, though the plan says no`)
    if (fleet === 'named' && Math.abs(errorShare(one)) > ERROR_SHARE_MAX)
      wrong.push(`${trace}: the prediction for ${engines} engines is off by ${percent} %`)
    return wrong
  })
}
