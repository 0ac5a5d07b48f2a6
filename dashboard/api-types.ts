/** What the page reads of the API's answers. Their whole shapes are in /openapi.json. */
import * as z from 'zod'

export const Session = z.object({ role: z.enum(['operator', 'tenant']), tenant: z.string().nullable() })
export type Session = z.infer<typeof Session>

export const pageOf = <T extends z.ZodType>(item: T) =>
  z.object({ data: z.array(item), has_more: z.boolean(), next_cursor: z.string().nullable() })

export const EndedProgram = z.object({
  id: z.string(),
  run: z.string(),
  app: z.string().nullable(),
  started_at: z.string(),
  ended_at: z.string().nullable(),
  calls: z.number(),
  service_s: z.number(),
})

export const Key = z.object({
  id: z.string(),
  name: z.string(),
  created_at: z.string(),
  revoked_at: z.string().nullable(),
})

export const Granted = z.object({
  lease: z.string(),
  at: z.string(),
  tenant: z.string(),
  program: z.string(),
  engine: z.string(),
  reason: z.string(),
  load: z.number(),
  prompt_tokens_estimate: z.number(),
})

const Quantiles = z.object({
  p10: z.number().nullable(),
  p50: z.number().nullable(),
  p90: z.number().nullable(),
  p99: z.number().nullable(),
})

export const KnownClass = z.object({
  class: z.string(),
  ends: z.number(),
  output_tokens: Quantiles,
  calls: Quantiles,
  service_s: Quantiles,
  tool_s: Quantiles,
})
export type KnownClass = z.infer<typeof KnownClass>

export const ClassCurve = KnownClass.extend({
  tools: z.array(z.object({ name: z.string().nullable(), kind: z.string(), uses: z.number(), duration_s: Quantiles })),
  index: z.array(z.object({ output_tokens: z.number(), index: z.number(), expected_remaining_tokens: z.number() })),
})

export const AuditEntry = z.object({
  id: z.string(),
  at: z.string(),
  actor: z.string(),
  action: z.string(),
  object: z.string(),
  before: z.record(z.string(), z.unknown()).nullable(),
  after: z.record(z.string(), z.unknown()).nullable(),
})

const Percentiles = z.object({ p50: z.number(), p95: z.number() })

export const Trend = z.object({
  class: z.string(),
  day: z.string(),
  programs: z.number(),
  response_s: Percentiles,
  wait_s: Percentiles,
})
export type Trend = z.infer<typeof Trend>

export const Trends = z.object({ is_whole: z.boolean(), data: z.array(Trend) })

export const Spend = z.object({
  period: z.string().optional(),
  name: z.string().nullable().optional(),
  tenant: z.string().optional(),
  calls: z.number(),
  prompt_tokens: z.number(),
  cached_tokens: z.number(),
  output_tokens: z.number(),
  service_us: z.number(),
  cost_nanos: z.number(),
})
export type Spend = z.infer<typeof Spend>

const NodeProgress = z.object({
  id: z.string(),
  model: z.string(),
  requests: z.number(),
  waiting: z.number(),
  running: z.number(),
  completed: z.number(),
  failed: z.number(),
})

export const Application = z.object({
  id: z.string(),
  name: z.string(),
  status: z.string(),
  created_at: z.number(),
  ended_at: z.number().nullable(),
  estimated_end_at: z.number().nullable(),
  request_counts: z.object({ total: z.number(), completed: z.number(), failed: z.number() }),
  nodes: z.array(NodeProgress),
})
export type Application = z.infer<typeof Application>

export const Applications = z.object({ data: z.array(Application), has_more: z.boolean() })
