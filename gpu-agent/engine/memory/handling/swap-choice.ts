/**
 * Whether the KV of a preempted call is swapped out or computed again, and which images make room for it. A pure choice: costs
 * in, verdict out. `switchyard_vllm/handling/swap_choice.py` is the same choice for vLLM, held to this one by golden traces.
 *
 * An image is worth the time that it spares: computing its tokens again, less copying them back. What it took to save is
 * spent. So a call is swapped if that time, less what saving takes, is more than what the dropped images were worth.
 * InferCept (Abhyankar et al. 2024) and LAMPS choose by the same two times.
 *
 * A copy beside the forward pass costs the time of its transfer once. Where what it passes through is full, the forward pass
 * waits for the link as well, and with it every call of the step, as they do while a prompt is computed again. So that time
 * counts a second time: for the part of a call that is larger than the staging ring, and for calls that leave at once.
 *
 * Predictions are linear in tokens, with constants that the engine's owner measures. Short calls are dropped if an operation
 * has a base cost. Long calls are saved if copying a token is cheaper than computing it.
 */
import type { SwapCosts } from '../../types.ts'

export interface HandlingCosts extends SwapCosts {
  /** Cost of computing a token's KV again, in a prefill of usual length. */
  recompute_us_per_token: number
}

/** What may be dropped. `room` has the unit of the store's capacity: tokens, or blocks. */
export interface HeldImage {
  readonly id: number
  readonly tokens: number
  readonly room: number
}

export interface SwapWish {
  tokens: number
  /** Of them, those for which the forward pass waits until the link has taken others away. */
  wait_tokens: number
  room: number
  /** That no image takes. */
  free_room: number
  /** In any order. Those that must stay are left out. */
  images: readonly HeldImage[]
}

export type SwapChoice = { swap: false } | { swap: true; drop: readonly HeldImage[] }

/** Time to move KV out of a slot and back. */
export function swapUs(costs: SwapCosts, tokens: number): number {
  return 2 * costs.base_us + tokens * (costs.save_us_per_token + costs.restore_us_per_token)
}

/** What restoring so many tokens spares, against computing them again; below 0, it is the slower way. */
export function restoreGainUs(costs: HandlingCosts, tokens: number): number {
  return tokens * costs.recompute_us_per_token - (costs.base_us + tokens * costs.restore_us_per_token)
}

export function chooseSwap(
  costs: HandlingCosts,
  { tokens, wait_tokens, room, free_room, images }: SwapWish,
): SwapChoice {
  const wait_us = wait_tokens * costs.save_us_per_token
  const gain_us = tokens * costs.recompute_us_per_token - swapUs(costs, tokens) - wait_us
  if (tokens === 0 || gain_us <= 0) return { swap: false }
  const drop: HeldImage[] = []
  let missing_room = room - free_room
  let loss_us = 0
  for (const image of missing_room > 0 ? leastWorthFirst(costs, images) : []) {
    if (missing_room <= 0) break
    loss_us += worthUs(costs, image)
    if (loss_us >= gain_us) return { swap: false }
    drop.push(image)
    missing_room -= image.room
  }
  return missing_room > 0 ? { swap: false } : { swap: true, drop }
}

/** By worth for the room that they take; of equal ones the oldest first. */
function leastWorthFirst(costs: HandlingCosts, images: readonly HeldImage[]): HeldImage[] {
  const density = (image: HeldImage) => worthUs(costs, image) / image.room
  return [...images].sort((a, b) => density(a) - density(b) || a.id - b.id)
}

function worthUs(costs: HandlingCosts, { tokens }: HeldImage): number {
  return Math.max(0, restoreGainUs(costs, tokens))
}
