/**
 * What a balancer decides: which of a pool's engines gets a lease, and whether that pins the program to the engine. A
 * balancer holds no state between calls, except for round robin's turn. The request carries what it must know of the
 * program: its pin, and how much of its KV each engine of the pool holds. The snapshots carry what it must know of the
 * engines. regions.ts decides which regions are asked, and in which order.
 *
 * Every balancer passes balancer.contract.ts.
 */
import type { EngineChoice, EngineRequest, EngineSnapshot } from '../pool-types.ts'

export interface Balancer {
  readonly name: string
  /** A program whose prompt is longer is asked for in the region of its pin first. */
  readonly short_prompt_tokens: number
  /** Of engines with free seats it chooses the one with the program's context, if there is one (lease-credits.ts). Left out: it does not. */
  readonly stays_home?: true
  /** Same input, same choice; `engines` is not changed. */
  choose(region: string, engines: readonly EngineSnapshot[], request: EngineRequest): EngineChoice
}
