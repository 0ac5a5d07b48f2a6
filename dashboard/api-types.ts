/** What the page reads of the API's answers. Their whole shapes are in /openapi.json. */
import * as z from 'zod'

export const Session = z.object({ role: z.enum(['operator', 'tenant']), tenant: z.string().nullable() })
export type Session = z.infer<typeof Session>

const Measured = {
  prompt_tokens: z.number(),
  cached_tokens: z.number(),
  output_tokens: z.number(),
  wait_s: z.number(),
  preemptions: z.number(),
  swapped_out_tokens: z.number(),
  service_s: z.number(),
}

export const Program = z.object({
  id: z.string(),
  run: z.string(),
  state: z.enum(['running', 'ended']),
  app: z.string().nullable(),
  class: z.string(),
  source: z.string().nullable(),
  started_at: z.string(),
  ended_at: z.string().nullable(),
  end_reason: z.string().nullable(),
  critical_path_s: z.number(),
  engines: z.array(z.object({ engine: z.string(), region: z.string(), model: z.string() })),
  activity: z.enum(['reasoning', 'acting']).nullable(),
  tools: z.array(z.object({ name: z.string().nullable(), since: z.string(), expected_s: z.number().nullable() })),
  calls: z.number(),
  open_calls: z.number(),
  ...Measured,
})
export type Program = z.infer<typeof Program>

const Lease = z.object({
  agent: z.string(),
  engine: z.string(),
  region: z.string(),
  reason: z.string().nullable(),
  state: z.string(),
  outcome: z.string().nullable(),
  opened_at: z.string(),
  first_token_s: z.number().nullable(),
  ...Measured,
})

export const Call = z.object({
  id: z.string(),
  rank: z.number().nullable(),
  expected_remaining_tokens: z.number().nullable(),
  thread: z.string(),
  parents: z.array(z.string()),
  model: z.string(),
  state: z.enum(['open', 'ended']),
  outcome: z.string().nullable(),
  finish_reason: z.string().nullable(),
  error_code: z.string().nullable(),
  opened_at: z.string(),
  ended_at: z.string().nullable(),
  tools: z.array(z.object({ name: z.string(), returned: z.boolean(), duration_s: z.number().nullable() })),
  tool_s: z.number().nullable(),
  expected_tool_s: z.number().nullable(),
  leases: z.array(Lease),
  ...Measured,
})
export type Call = z.infer<typeof Call>

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
