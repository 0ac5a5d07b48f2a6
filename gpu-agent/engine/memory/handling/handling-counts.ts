/**
 * What became of the contexts of programs whose tools ran, by the handling that was decided. Of each handling `decided` is the
 * sum of those that returned, and over all handlings of those that are away or were given up.
 */
import { HANDLINGS, type Handling } from './waste.ts'

/** Since the start. */
export interface HandlingCounts {
  /** Contexts for which it was decided when their call ended. */
  decided: number
  /** Whose programs came back. */
  returned: number
  /** Of calls that came back and ran: tokens of the context that their prompt goes on from, and of them those that were at hand. */
  context_tokens: number
  cached_tokens: number
}

export interface ToolCounts {
  preserve: HandlingCounts
  discard: HandlingCounts
  swap: HandlingCounts
  /** Contexts whose tools run. */
  away: number
  /** Pins that ended because a call needed their room. */
  relieved: number
  /** Preserved contexts that were swapped or dropped because their tools took longer than expected. */
  revised: number
  /** Contexts that were put back before their program came. */
  prefetched: number
  /** Images that were dropped for others: of programs that were expected to be away for longer. */
  displaced: number
  /** Given up: their programs did not come back in time, or went on elsewhere. */
  expired: number
  /** For how long steps waited for images of programs while their tools ran. */
  swap_us: number
}

const NONE: HandlingCounts = Object.freeze({ decided: 0, returned: 0, context_tokens: 0, cached_tokens: 0 })

export const NO_TOOLS: ToolCounts = Object.freeze({
  ...{ preserve: NONE, discard: NONE, swap: NONE },
  ...{ away: 0, relieved: 0, revised: 0, prefetched: 0, displaced: 0, expired: 0, swap_us: 0 },
})

export class HandlingTally {
  relieved = 0
  revised = 0
  prefetched = 0
  displaced = 0
  expired = 0
  swap_us = 0
  readonly #of: Readonly<Record<Handling, HandlingCounts>> = {
    preserve: { ...NONE },
    discard: { ...NONE },
    swap: { ...NONE },
  }

  decided(handling: Handling): void {
    this.#of[handling].decided += 1
  }

  returned(handling: Handling): void {
    this.#of[handling].returned += 1
  }

  found(handling: Handling, context_tokens: number, cached_tokens: number): void {
    this.#of[handling].context_tokens += context_tokens
    this.#of[handling].cached_tokens += cached_tokens
  }

  counts(away: number): ToolCounts {
    const { preserve, discard, swap } = this.#of
    const { relieved, revised, prefetched, displaced, expired, swap_us } = this
    return {
      ...{ preserve: { ...preserve }, discard: { ...discard }, swap: { ...swap } },
      ...{ away, relieved, revised, prefetched, displaced, expired, swap_us },
    }
  }
}

/** The counts of several engines together. */
export function addTools(a: ToolCounts, b: ToolCounts): ToolCounts {
  const of = (handling: Handling): HandlingCounts => ({
    decided: a[handling].decided + b[handling].decided,
    returned: a[handling].returned + b[handling].returned,
    context_tokens: a[handling].context_tokens + b[handling].context_tokens,
    cached_tokens: a[handling].cached_tokens + b[handling].cached_tokens,
  })
  const handled = Object.fromEntries(HANDLINGS.map((handling) => [handling, of(handling)])) as Record<
    Handling,
    HandlingCounts
  >
  return {
    ...handled,
    away: a.away + b.away,
    relieved: a.relieved + b.relieved,
    revised: a.revised + b.revised,
    prefetched: a.prefetched + b.prefetched,
    displaced: a.displaced + b.displaced,
    expired: a.expired + b.expired,
    swap_us: a.swap_us + b.swap_us,
  }
}
