/**
 * An application as planners see it: several models over fixed inputs, and what each takes from the others (SamuLLM §3, Fig. 5). Only counts matter
 * for a plan, so prompts are given by their tokens.
 *
 * A node has one kind of input:
 *   requests     prompts of its own (ensembling: every node has all of them; routing: each node has its share)
 *   documents    chunks that are worked through in order, each together with the output for the chunk before: a self-loop, fused into one node
 *   from         outputs of other nodes: of one, each output `each` times; of several, the outputs of equal number together in one prompt
 */
import { z } from 'zod'

export const APPLICATION_NODES_MAX = 64
export const APPLICATION_REQUESTS_MAX = 1_000_000
const TOKENS_MAX = 10_000_000

const Tokens = z.int().min(1).max(TOKENS_MAX)
const Requests = z.int().min(1).max(APPLICATION_REQUESTS_MAX)

export const ApplicationNodeId = z
  .string()
  .regex(/^[\w.-]{1,64}$/, 'letters, digits, dot, dash and underscore, at most 64')

/** Output lengths as an empirical distribution: 101 quantiles, 0 % to 100 %, and their mean. */
export const OutputLengths = z.object({
  quantiles: z.array(z.number().min(1)).length(101),
  mean_tokens: z.number().min(1),
})
export type OutputLengths = z.infer<typeof OutputLengths>

export const ApplicationNode = z.strictObject({
  id: ApplicationNodeId,
  model: z.string().min(1).max(200),
  max_output_tokens: Tokens.optional(),
  /** Added to every prompt. */
  template_tokens: z.int().min(0).max(TOKENS_MAX).default(0),
  requests: z
    .union([z.array(Tokens).min(1).max(APPLICATION_REQUESTS_MAX), z.strictObject({ count: Requests, tokens: Tokens })])
    .optional(),
  documents: z
    .strictObject({
      chunks: z.array(z.int().min(1).max(100_000)).min(1).max(APPLICATION_REQUESTS_MAX),
      chunk_tokens: Tokens,
    })
    .optional(),
  from: z
    .strictObject({
      nodes: z.array(z.string()).min(1).max(APPLICATION_NODES_MAX),
      each: z.int().min(1).max(1000).default(1),
    })
    .optional(),
  /** Lengths that are known, one for each request, in their order. */
  output_tokens: z.array(Tokens).optional(),
  /** Lengths that its answers had before, to draw from. Left out: those of its model. */
  output_lengths: OutputLengths.optional(),
})
export type ApplicationNode = z.infer<typeof ApplicationNode>

export const ApplicationTokens = z.strictObject({
  name: z.string().min(1).max(200),
  nodes: z.array(ApplicationNode).min(1).max(APPLICATION_NODES_MAX),
})
export type ApplicationTokens = z.infer<typeof ApplicationTokens>
