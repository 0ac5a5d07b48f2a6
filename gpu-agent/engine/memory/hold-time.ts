/**
 * For how long the context of a program whose tool runs is held: a pure choice for each context, made when its call ends.
 *
 * Rent or buy. A context of n tokens that lies idle for t takes n ÷ capacity of the memory for that time, and 1 ÷ slots of
 * the slots. Computing it again takes n ÷ speed of the whole engine. The larger of the two shares of the engine, for t,
 * equals that at t = min(capacity, n · slots) ÷ speed. So holding for that time never costs more than twice the better
 * choice. InferCept (Abhyankar et al. 2024) compares the same two wastes for an estimated duration.
 * What is known of the class's tools makes it shorter: return-times.ts.
 */
import type { EngineCall } from '../types.ts'

/** The KV that a call left when its answer ended, while no other call of its program is open. */
export interface IdleContext {
  readonly call: EngineCall
  readonly tokens: number
}

/** What it is held against. */
export interface HoldCosts {
  capacity_tokens: number
  slots: number
  /** As measured. */
  prefill_us_per_token: number
}

/** Holding it for so long costs as much as computing it again, in microseconds. */
export function buyUs(tokens: number, { capacity_tokens, slots, prefill_us_per_token }: HoldCosts): number {
  return prefill_us_per_token * Math.min(capacity_tokens, tokens * slots)
}

/**
 * For how long it is held from the end of its call, in microseconds; 0: it is not held. `usual_us`: the best time for
 * programs of its class, at most `buy_us`.
 */
export type HoldTime = (context: IdleContext, buy_us: number, usual_us: () => number) => number

export const usualTime: HoldTime = (_context, _buy_us, usual_us) => usual_us()
