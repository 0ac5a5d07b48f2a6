/**
 * Drives an engine whose steps can be timed: calls of several lengths, one to `seats` at a time, each with tokens of its own so that nothing is
 * cached. Every step is a span.
 */
import type { EngineDriver } from '../../gpu-agent/engine/driver.ts'
import type { Backend, StepPlan } from '../../gpu-agent/engine/types.ts'
import { seededRandom } from '../../simulator/random.ts'
import { type Span, spanOfStep } from './span.ts'
import { watched } from './watch-backend.ts'

export interface Point {
  concurrent: number
  prompt_tokens: number
  output_tokens: number
}

const OUTPUT_TOKENS = 24
/** Of the longest sequence that a slot holds. */
const PROMPT_SHARES = [0.02, 0.1, 0.3, 0.6, 0.9]

export function pointsOf(seats: number, slot_tokens_max: number): Point[] {
  const concurrent: number[] = []
  for (let n = 1; n < seats; n *= 2) concurrent.push(n)
  concurrent.push(seats)
  return concurrent.flatMap((calls) =>
    PROMPT_SHARES.map((share) => ({
      concurrent: calls,
      prompt_tokens: Math.max(1, Math.floor(share * (slot_tokens_max - OUTPUT_TOKENS))),
      output_tokens: Math.min(OUTPUT_TOKENS, slot_tokens_max - 1),
    })),
  )
}

/** A backend that tells of every step how long it took. A step that swaps or copies is left out: its time is not the model's. */
export function observed(backend: Backend, clock: () => number, onSpan: (span: Span) => void): Backend {
  return watched(backend, clock, {
    onStep: (plan, duration_us) => {
      if (!movesKv(plan) && plan.work.length > 0) onSpan(spanOfStep(plan, duration_us))
    },
  })
}

export function movesKv({ operations }: StepPlan): boolean {
  return operations.some(({ op }) => op === 'save' || op === 'restore' || op === 'copy')
}

export interface DriveOptions {
  points: readonly Point[]
  /** Lowest token and one past the highest. */
  vocabulary: readonly [number, number]
  onPoint?: (done: number) => void
}

export async function driveEngine(driver: EngineDriver, options: DriveOptions): Promise<void> {
  const fresh = freshTokens(1, options.vocabulary)
  for (const [index, point] of options.points.entries()) {
    const calls = Array.from({ length: point.concurrent }, (_, i) =>
      playCall(driver, `calibrate-${index}-${i}`, fresh(point.prompt_tokens), point.output_tokens),
    )
    await Promise.all(calls)
    options.onPoint?.(index + 1)
  }
}

/** Sent at once, in their order, each with tokens of its own. `number`: of the trial. */
export async function playCalls(
  driver: EngineDriver,
  calls: readonly { prompt_tokens: number; output_tokens: number }[],
  vocabulary: readonly [number, number],
  number: number,
): Promise<void> {
  const fresh = freshTokens(2 + number, vocabulary)
  await Promise.all(
    calls.map(({ prompt_tokens, output_tokens }, at) =>
      playCall(driver, `trial-${number}-${at}`, fresh(prompt_tokens), output_tokens),
    ),
  )
}

function freshTokens(seed: number, [low, high]: readonly [number, number]): (tokens: number) => number[] {
  const random = seededRandom(seed)
  return (tokens) => Array.from({ length: tokens }, () => low + Math.floor(random() * (high - low)))
}

function playCall(driver: EngineDriver, lease: string, prompt: number[], max_output_tokens: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const verdict = driver.submit(
      {
        ...{ lease, tenant: 'calibrate', tenant_weight: 1, program: lease, thread: '0' },
        ...{ class: 'class', sequence: null, open_elsewhere_us: 0, program_output_tokens: 0 },
        ...{ settled_service_us: 0, critical_path_us: 0, program_wait_us: 0, cache_salt: lease },
        ...{ prompt, max_output_tokens, sampling: { temperature: 0, top_p: 1, seed: 1 } },
      },
      {
        token: () => undefined,
        ended: (reason) => (reason === 'failed' ? reject(new Error(`${lease} failed`)) : resolve()),
      },
    )
    if (!verdict.ok) reject(new Error(`${lease} was not taken: ${verdict.message}`))
  })
}
