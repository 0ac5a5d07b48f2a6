/**
 * What a backend's prefill, its decode and its swap cost on this machine, measured once at start on a short text, so that the
 * scheduler can choose between swapping, keeping and computing again, and the balancer knows what leaving a program's engine costs.
 * One chunk of prefill and a few images: about a second on a laptop's core. The least of several runs counts for each
 * figure: other work of the machine only adds time.
 */
import type { SwapCosts } from '../../types.ts'

const RUNS = 3

export interface MeasuredCosts {
  prefill_tokens_per_s: number
  /** Of a step in which a few calls decode. */
  step_us: number
  /** Null: the backend has no place for images. */
  swap: SwapCosts | null
}

/** What is measured: all on one slot that is empty before and after. Microsecond clock. */
export interface Measurable {
  clock: () => number
  /** Computes `tokens` further tokens in the slot. */
  prefill: (tokens: number) => Promise<void>
  /** A step as it usually is: a few calls have one token each. */
  decode: () => Promise<void>
  /** Moves all that the slot holds out, and back. Null: not possible. */
  swap: { save: () => Promise<void>; restore: () => Promise<void> } | null
}

/** `few` and `many`: tokens of the two lengths between which costs are taken to be linear. */
export async function measureCosts(backend: Measurable, few: number, many: number): Promise<MeasuredCosts> {
  await backend.prefill(few)
  const short = await measureSwap(backend)
  const prefill_us = await timeUs(backend.clock, () => backend.prefill(many - few))
  const long = await measureSwap(backend)
  let step_us = Number.POSITIVE_INFINITY
  for (let run = 0; run < RUNS; run++) step_us = Math.min(step_us, await timeUs(backend.clock, backend.decode))
  const computing = { prefill_tokens_per_s: ((many - few) * 1e6) / prefill_us, step_us }
  if (short === null || long === null) return { ...computing, swap: null }
  const perToken = (direction: 'save_us' | 'restore_us') =>
    Math.max(1, Math.ceil((long[direction] - short[direction]) / (many - few)))
  const save_us_per_token = perToken('save_us')
  const restore_us_per_token = perToken('restore_us')
  const base_us = Math.max(0, Math.max(short.save_us, short.restore_us) - few * save_us_per_token)
  return { ...computing, swap: { save_us_per_token, restore_us_per_token, base_us } }
}

async function measureSwap({ clock, swap }: Measurable): Promise<{
  save_us: number
  restore_us: number
} | null> {
  if (swap === null) return null
  let save_us = Number.POSITIVE_INFINITY
  let restore_us = Number.POSITIVE_INFINITY
  for (let run = 0; run < RUNS; run++) {
    save_us = Math.min(save_us, await timeUs(clock, swap.save))
    restore_us = Math.min(restore_us, await timeUs(clock, swap.restore))
  }
  return { save_us, restore_us }
}

async function timeUs(clock: () => number, work: () => Promise<void>): Promise<number> {
  const started_us = clock()
  await work()
  return Math.max(1, Math.floor(clock() - started_us))
}
