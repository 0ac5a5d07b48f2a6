/**
 * What the page is told while it is open: one event at first and then one a second at most, each with what changed since the
 * last one. The Worker writes these events and the page parses them. All numbers are as the actors last reported them.
 */
import * as z from 'zod'

const Name = z.string()
const Amount = z.number().nonnegative()

export const LiveTool = z.object({ name: Name.nullable(), since: z.iso.datetime(), expected_s: Amount.nullable() })

/** Where an open call is in its engine's order at this moment (queue-position.ts). */
export const LivePosition = z.object({ waits: z.boolean(), waited_s: Amount, before: Amount, order: Name })
export type LivePosition = z.infer<typeof LivePosition>

/** What only the program itself knows. It is asked when its row in the tenant's index changes. */
export const LiveDetail = z.object({
  /** Time of engine steps in which its calls ran. */
  service_wall_s: Amount,
  wait_s: Amount,
  prompt_tokens: Amount,
  cached_tokens: Amount,
  engine: Name.nullable(),
  region: Name.nullable(),
  model: Name.nullable(),
  tools: z.array(LiveTool),
  /** Of its latest call that ended: a lower rank runs first. Null: not known, or its engine's policy has none. */
  rank: z.number().nullable(),
  /** By which it was ranked. Null: the policy does not learn, and the rank is the level, 0 for Q1. */
  expected_remaining_tokens: Amount.nullable(),
  /** Of its open call that has waited longest. Null: none is open, or its engine does not tell. */
  position: LivePosition.nullable(),
  /** Among the tenant's own programs, without its class's. Null: not known. */
  weight: z.number().nullable(),
})
export type LiveDetail = z.infer<typeof LiveDetail>

export const LiveProgram = z.object({
  id: Name,
  run: Name,
  app: Name.nullable(),
  class: Name,
  source: Name.nullable(),
  started_at_ms: z.number(),
  last_arrival_ms: z.number(),
  calls: Amount,
  open_calls: Amount,
  /** As it was charged: in the reading that orders calls. */
  service_s: Amount,
  output_tokens: Amount,
  /** Null: it has not been asked yet. */
  detail: LiveDetail.nullable(),
})
export type LiveProgram = z.infer<typeof LiveProgram>

export const LiveTenant = z.object({
  id: Name,
  /** Null for a tenant's own page, which knows only its id. */
  name: Name.nullable(),
  weight: z.number(),
  /** Running programs, those that are left out included. */
  running: Amount,
  output_tokens_per_s: Amount,
  /** Of the service that all tenants shown got in the last half minute. Null: nobody got any, or others are not shown. */
  service_share: Amount.nullable(),
  /** False: its actor did not answer, and the rows are those of its last answer. */
  reachable: z.boolean(),
  /** True: `changed` is all there is. False: rows that are not named stay as they are. */
  reset: z.boolean(),
  changed: z.array(LiveProgram),
  gone: z.array(Name),
})
export type LiveTenant = z.infer<typeof LiveTenant>

export const LiveEngine = z.object({
  engine: Name,
  agent: Name,
  kind: Name,
  state: z.enum(['ready', 'draining', 'down', 'silent']),
  seats: Amount,
  waiting: Amount,
  running: Amount,
  queued_tokens: Amount,
  kv_used_tokens: Amount,
  kv_capacity_tokens: Amount,
  leases_since_report: Amount,
})
export type LiveEngine = z.infer<typeof LiveEngine>

export const LivePool = z.object({
  region: Name,
  model: Name,
  reachable: z.boolean(),
  engines: z.array(LiveEngine),
})
export type LivePool = z.infer<typeof LivePool>

export const LiveEvent = z.object({
  at_ms: z.number(),
  tenants: z.array(LiveTenant),
  /** Null: the viewer is a tenant, or the pools are as they were. */
  pools: z.array(LivePool).nullable(),
  /** Beyond the bounds of the page. */
  tenants_left_out: Amount,
  pools_left_out: Amount,
})
export type LiveEvent = z.infer<typeof LiveEvent>
