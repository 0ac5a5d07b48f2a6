/**
 * Cases of the choice between swap and recompute, with the engine's verdicts, as lines of JSON that the Python side replays:
 *   {"costs", "tokens", "wait_tokens", "room", "free_room", "images":[[id, tokens, room]…], "drop":[id…]}   drop null: computed again
 */
import { chooseSwap, type HandlingCosts, type SwapWish } from '../../gpu-agent/engine/memory/handling/swap-choice.ts'
import { generator } from './scenarios.ts'

export const HANDLING_FILE = 'swap-choice.jsonl'
const CASES = 400

export function handlingLines(): string {
  const below = generator(500)
  const lines = Array.from({ length: CASES }, () => line(costsOf(below), wishOf(below)))
  return `${lines.join('\n')}\n`
}

function line(costs: HandlingCosts, wish: SwapWish): string {
  const choice = chooseSwap(costs, wish)
  const images = wish.images.map(({ id, tokens, room }) => [id, tokens, room])
  return JSON.stringify({ costs, ...wish, images, drop: choice.swap ? choice.drop.map(({ id }) => id) : null })
}

/** Copying a token costs from nothing to more than computing it, and an operation from nothing to some hundred tokens. */
function costsOf(below: (bound: number) => number): HandlingCosts {
  return {
    base_us: below(3) * 700,
    save_us_per_token: below(12) / 4,
    restore_us_per_token: below(12) / 4,
    recompute_us_per_token: 1 + below(40) / 4,
  }
}

/** Stores with room, nearly full ones and full ones. */
function wishOf(below: (bound: number) => number): SwapWish {
  const tokens = below(3_000)
  const images = Array.from({ length: below(8) }, (_, id) => {
    const held_tokens = 1 + below(3_000)
    return { id, tokens: held_tokens, room: blocks(held_tokens) }
  })
  const wait_tokens = below(2) * below(tokens + 1)
  return { tokens, wait_tokens, room: blocks(tokens), free_room: below(3) * below(120), images: images.reverse() }
}

function blocks(tokens: number): number {
  return Math.ceil(tokens / 16)
}
