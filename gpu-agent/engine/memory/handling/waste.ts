/**
 * What to do with a program's KV while its tool runs: the handling that wastes least memory (InferCept, Abhyankar et al. 2024,
 * equations 1 to 3, as LAMPS §2.3 restates them). A pure choice: sizes, times and costs in, verdict out.
 * `switchyard_vllm/handling/waste.py` is the same choice for vLLM, held to this one by golden traces.
 *
 *     preserve   T_tool · C · M                                  the context lies idle while the tool runs
 *     discard    T_fwd(C) · C · M + T_fwd(C) · C_other · M       it is computed again, and the rest of the batch waits for that
 *     swap       2 · T_swap(C) · C_batch · M                     it is moved out and back, and the whole batch waits
 *
 * C is the context of the call that ends, C_other that of the other calls in its batch, C_batch their sum, and M the bytes of
 * KV for a token. Waste is memory times time, in byte-seconds. The times are curves that the engine's owner measured.
 *
 * Preserving alone depends on the tool. So with several tools that may follow, the expected waste needs their mean duration
 * (`expectedTool`) and nothing else of them. A tool that lasts much longer than predicted is the costly mistake (LAMPS §4.2): a context that
 * was preserved is decided again then, as if the tool lasted as long again as it has lasted so far.
 */
export const HANDLINGS = ['preserve', 'discard', 'swap'] as const
export type Handling = (typeof HANDLINGS)[number]

/** Time of work on so many tokens: base + per_token · max(0, tokens − free_tokens) + per_pair · tokens² ÷ 2. None: no time. */
export interface TimeCurve {
  base_us: number
  /** While so few are computed, reading the weights hides them. */
  free_tokens: number
  per_token_us: number
  /** For each pair of a token and a token before it: attention. */
  per_pair_us: number
}

export interface MemoryCosts {
  /** T_fwd: computing a context of so many tokens. */
  forward: TimeCurve
  /** T_swap: moving it, one way. Null: KV cannot be moved. */
  swap: TimeCurve | null
  kv_bytes_per_token: number
}

/** What is in memory when a call ends in a tool. */
export interface Batch {
  context_tokens: number
  /** Of the other calls in the batch. */
  other_tokens: number
}

/** Byte-seconds. `swap` null: it cannot be swapped. */
export interface Waste {
  preserve: number
  discard: number
  swap: number | null
}

export interface HandlingChoice {
  handling: Handling
  waste: Waste
}

/** A tool that has lasted so many times as long as predicted is decided again. */
export const REVISE_FACTOR = 2
/** No context is preserved for longer. */
export const PRESERVE_US_MAX = 300_000_000
const US_PER_S = 1e6

export function curveUs({ base_us, free_tokens, per_token_us, per_pair_us }: TimeCurve, tokens: number): number {
  if (tokens <= 0) return 0
  return base_us + per_token_us * Math.max(0, tokens - free_tokens) + (per_pair_us * tokens * tokens) / 2
}

export function wasteOf(costs: MemoryCosts, { context_tokens, other_tokens }: Batch, tool_us: number): Waste {
  const { forward, swap, kv_bytes_per_token } = costs
  const byteSeconds = (us: number, tokens: number) => (us / US_PER_S) * tokens * kv_bytes_per_token
  const batch_tokens = context_tokens + other_tokens
  return {
    preserve: byteSeconds(tool_us, context_tokens),
    discard: byteSeconds(curveUs(forward, context_tokens), batch_tokens),
    swap: swap === null ? null : byteSeconds(2 * curveUs(swap, context_tokens), batch_tokens),
  }
}

/** In this order: of equal ones the one that moves and computes less. */
const BY_EFFORT: readonly Handling[] = ['preserve', 'swap', 'discard']

/** Of those allowed. Where none of them can be done, the context is discarded. */
export function leastWaste(waste: Waste, allowed: readonly Handling[] = HANDLINGS): Handling {
  let least: Handling = 'discard'
  let least_waste = Number.POSITIVE_INFINITY
  for (const handling of BY_EFFORT) {
    const wasted = waste[handling]
    if (wasted === null || wasted >= least_waste || !allowed.includes(handling)) continue
    least = handling
    least_waste = wasted
  }
  return least
}

export function chooseHandling(
  costs: MemoryCosts,
  batch: Batch,
  tool_us: number,
  allowed: readonly Handling[] = HANDLINGS,
): HandlingChoice {
  const waste = wasteOf(costs, batch, tool_us)
  return { handling: leastWaste(waste, allowed), waste }
}

/** For how long a preserved context is kept before it is decided again. */
export function reviseAfterUs(tool_us: number): number {
  return Math.min(PRESERVE_US_MAX, REVISE_FACTOR * tool_us)
}

/** The choice for a context that has been preserved for so long. From PRESERVE_US_MAX on it is preserved no longer. */
export function reviseHandling(
  costs: MemoryCosts,
  batch: Batch,
  preserved_us: number,
  allowed: readonly Handling[] = HANDLINGS,
): HandlingChoice {
  const left = preserved_us < PRESERVE_US_MAX ? allowed : allowed.filter((handling) => handling !== 'preserve')
  return chooseHandling(costs, batch, preserved_us, left)
}

/** How a policy has contexts handled while tools run. */
export interface HandlingRule {
  /** What it chooses from. One: always that. */
  allowed: readonly Handling[]
  /** Contexts are swapped only as far as moving them hides under the next step (InferCept's swap budget). */
  hidden_swaps: boolean
  /** A preserved context whose tool exceeds its forecast is decided again. False: it is kept until the bound. */
  revises: boolean
  /** `relieved`: a pin ends before a call goes without its room. `firm`: calls wait for its room (LAMPS' figure 3). */
  pins: 'relieved' | 'firm'
}
