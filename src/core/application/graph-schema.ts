/**
 * The graph of an application as its client gives it (SamuLLM §3, Fig. 5). The words are the planner's
 * (gpu-agent/planner/application.ts): there prompts are given by their tokens, here by a template over the lines of the
 * input.
 *
 * A node has one kind of input:
 *   requests     each line of the input (ensembling: every node takes all lines; routing: `where` gives each its share)
 *   documents    the chunks of a field of each line, in order, each together with the output for the chunk before
 *   from         outputs of other nodes for the same line: of one, each output `each` times; of several, together
 */
import { z } from 'zod'

/** The planner takes more; each node that runs holds results in the actor's memory. */
export const NODES_MAX = 32
export const EACH_MAX = 1000
export const CHUNKS_MAX = 10_000
export const CHUNK_CHARS_MIN = 100
const CHUNK_CHARS_MAX = 1_000_000
const WHERE_FIELDS_MAX = 8
const FIELD_CHARS_MAX = 128

export const NodeId = z.string().regex(/^[\w.-]{1,64}$/, 'letters, digits, dot, dash and underscore, at most 64')
const Field = z
  .string()
  .regex(/^[\w.-]+$/, 'letters, digits, dot, dash and underscore')
  .max(FIELD_CHARS_MAX)
const Scalar = z.union([z.string(), z.number(), z.boolean()])

/** Endpoints whose answers are text. */
export const ENDPOINTS = ['/v1/chat/completions', '/v1/completions', '/v1/responses', '/v1/messages'] as const
export type Endpoint = (typeof ENDPOINTS)[number]

const Documents = z.strictObject({
  /** It has the chunks as an array of texts, or one text that is cut. */
  field: Field,
  /** Texts are cut into chunks of at most so many characters. Left out: the field has an array. */
  chunk_chars: z.int().min(CHUNK_CHARS_MIN).max(CHUNK_CHARS_MAX).optional(),
})

export const NodeForm = z.strictObject({
  id: NodeId,
  model: z.string().min(1).max(200),
  endpoint: z
    .enum(ENDPOINTS, { error: `An endpoint of a node is one of ${ENDPOINTS.join(', ')}.` })
    .default(ENDPOINTS[0]),
  requests: z.literal('lines', { error: 'requests is "lines": a request for each line of the input' }).optional(),
  documents: Documents.optional(),
  from: z
    .strictObject({ nodes: z.array(NodeId).min(1).max(NODES_MAX), each: z.int().min(1).max(EACH_MAX).default(1) })
    .optional(),
  /** It takes only lines whose fields have these values. */
  where: z
    .record(Field, Scalar)
    .refine((where) => Object.keys(where).length <= WHERE_FIELDS_MAX, `at most ${WHERE_FIELDS_MAX} fields`)
    .optional(),
  /** Of its calls, but for the model: messages, prompt or input with placeholders, max_tokens, temperature and so on. */
  body: z.record(z.string(), z.unknown()),
})
export type NodeForm = z.infer<typeof NodeForm>

export const Nodes = z.array(NodeForm).min(1).max(NODES_MAX)
