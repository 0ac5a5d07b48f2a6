/**
 * What the planner knows of one model on `tp` GPUs: the constants of SamuLLM's per-iteration model (§2, §4.1, eq. 5), the sizes that its FLOPs
 * need (eq. 1 and 2), the KV cache that is left beside the weights, and how long loading takes.
 *
 *     t(iteration) = t_comp(FLOPs) + t_prep(B·s) + t_samp(S), each linear, with constants that depend on B
 *
 * Constants are given at a few B, the knots, and are linear in B between them: a log has one or two iterations for each B, too few for a line each.
 */
import { z } from 'zod'

/** Microseconds for each unit, and microseconds in any case. */
const Line = z.tuple([z.number(), z.number()])
const Lines = z.array(Line).min(1)

/**
 * One line for each knot. Units: GFLOP on one GPU, padded tokens B·s, tokens S. Of a decode iteration only the FLOPs of attention, 4·L·h·S, are counted:
 * the others, 2·c·B, are the same in all iterations of a B, and so part of its constant.
 */
const PhaseConstants = z.object({ compute: Lines, prepare: Lines, sample: Lines })
export type PhaseConstants = z.infer<typeof PhaseConstants>

export const ModelCosts = z.object({
  model: z.string().min(1),
  tp: z.int().min(1),
  /** `transferred`: no log of this model on so many GPUs; carried over from others. */
  basis: z.enum(['fitted', 'transferred']),
  /** Where it was measured. Left out: the file says it of all. */
  provenance: z.string().optional(),
  /**
   * Of the held-out rows of its own log; of a transferred one: of other models predicted in the same way. `run`: of calls that were simulated and then
   * run, above 0 where the simulation took longer.
   */
  error_percent: z.object({ prefill: z.number(), decode: z.number(), run: z.number().optional() }),
  layers: z.int().min(1),
  hidden: z.int().min(1),
  /** c: elements of the weight matrices in matrix products. */
  elements: z.number().min(1),
  max_model_tokens: z.int().min(2),
  /** Tokens of KV that fit beside the weights, on all `tp` GPUs together. Not positive: the weights do not fit. */
  kv_tokens: z.int(),
  loading_s: z.number().min(0),
  /** For each further replica that loads at the same time. */
  loading_per_replica_s: z.number().min(0),
  /** How its engine is set up, where it is not as the logged ones were (runs/engine-settings.ts). */
  engine: z
    .object({
      ...{ seats: z.int().min(1), block_tokens: z.int().min(1), step_tokens: z.int().min(1) },
      /** Null: prompts are not padded. */
      padding_tokens_max: z.int().min(0).nullable().optional(),
    })
    .optional(),
  knots: z.array(z.int().min(1)).min(1),
  prefill: PhaseConstants,
  decode: PhaseConstants,
})
export type ModelCosts = z.infer<typeof ModelCosts>

export const CostsFile = z.object({ provenance: z.string(), models: z.array(ModelCosts) })

/** FLOPs of a prefill iteration over all GPUs (eq. 1 times tp): B requests, each padded to s tokens. */
export function prefillFlops({ elements, layers, hidden }: FlopSizes, calls: number, longest: number): number {
  return 2 * elements * calls * longest + 4 * layers * hidden * calls * longest ** 2
}

/** FLOPs of attention in a decode iteration over all GPUs (eq. 2 times tp, less 2·c·B): requests of S tokens together. */
export function attentionFlops({ layers, hidden }: FlopSizes, tokens: number): number {
  return 4 * layers * hidden * tokens
}

export type FlopSizes = Pick<ModelCosts, 'elements' | 'layers' | 'hidden'>
