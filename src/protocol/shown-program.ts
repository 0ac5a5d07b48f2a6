/**
 * A program and its calls as the page and the terminal read them from the API, and the words for why an engine was chosen.
 * The API's own schemas (/openapi.json) have every field. What an earlier control plane does not tell has a default.
 */
import * as z from 'zod'
import { LivePosition } from './live.ts'

const Measured = {
  prompt_tokens: z.number(),
  cached_tokens: z.number(),
  output_tokens: z.number(),
  /** Time of engine steps in which it ran. */
  service_wall_s: z.number(),
  /** As it was charged: in the reading that orders calls. */
  service_s: z.number(),
  wait_s: z.number(),
  preemptions: z.number(),
  /** Of engines that failed, computed again to go on from it. */
  resumed_tokens: z.number().default(0),
  recomputed_tokens: z.number(),
  swapped_out_tokens: z.number(),
  swapped_in_tokens: z.number(),
  swap_s: z.number(),
}

/** What an engine did with a context while a tool ran. */
const Kv = z.object({ handling: z.string(), reason: z.string() }).nullable().default(null)

const Lease = z.object({
  agent: z.string(),
  engine: z.string(),
  region: z.string(),
  reason: z.string().nullable(),
  state: z.enum(['open', 'lost', 'settled']),
  outcome: z.string().nullable(),
  error_code: z.string().nullable(),
  opened_at: z.string(),
  first_token_s: z.number().nullable(),
  /** When it was preempted, after its arrival on the engine. */
  pauses: z.array(z.object({ from_s: z.number(), to_s: z.number(), moved: z.boolean() })).default([]),
  ...Measured,
})

export const ShownCall = z.object({
  id: z.string(),
  rank: z.number().nullable(),
  expected_remaining_tokens: z.number().nullable(),
  /** Of an open call, if it was asked for. */
  position: LivePosition.nullable().default(null),
  thread: z.string(),
  parents: z.array(z.string()),
  source: z.string().nullable(),
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
  kv: Kv,
  leases: z.array(Lease),
  ...Measured,
  /** Of `wait_s`, before an attached server. Null: not told apart. */
  queue_wait_s: z.number().nullable().default(null),
  server_wait_s: z.number().nullable().default(null),
})
export type ShownCall = z.infer<typeof ShownCall>

const ShownTool = z.object({
  name: z.string().nullable(),
  since: z.string(),
  expected_s: z.number().nullable(),
  kv: Kv,
})

export const ShownProgram = z.object({
  id: z.string(),
  run: z.string(),
  state: z.enum(['running', 'ended']),
  app: z.string().nullable(),
  class: z.string(),
  source: z.string().nullable(),
  regions: z.array(z.string()).nullable(),
  /** Among the tenant's own programs, without its class's. Null: it has ended. */
  weight: z.number().nullable().default(null),
  started_at: z.string(),
  ended_at: z.string().nullable(),
  end_reason: z.enum(['explicit', 'stale']).nullable(),
  critical_path_s: z.number(),
  engines: z.array(z.object({ engine: z.string(), region: z.string(), model: z.string() })),
  activity: z.enum(['reasoning', 'acting']).nullable(),
  tools: z.array(ShownTool),
  calls: z.number(),
  open_calls: z.number(),
  ...Measured,
})
export type ShownProgram = z.infer<typeof ShownProgram>

/** Why the balancer chose an engine: `label` for a table, `because` for a sentence. docs/api.md has the same reasons. */
const LEASE_REASONS: Readonly<Record<string, { label: string; because: string }>> = {
  least_used: { label: 'least load', because: 'that engine was the least used' },
  pin_created: {
    label: 'first engine of this program',
    because: 'the program had no engine yet: the least used one became its own',
  },
  pinned: { label: 'holds this program’s context', because: 'that engine holds the program’s context' },
  pin_gone: {
    label: 'its engine was gone',
    because: 'the engine with the program’s context is gone, draining, silent or was started again',
  },
  pin_overloaded: {
    label: 'its engine was too busy',
    because: 'waiting at the engine with the program’s context would have cost more than computing it again',
  },
  spilled: { label: 'nearer region was full', because: 'the nearest region was too full' },
  replaced: { label: 'another engine failed', because: 'another engine failed before its first token' },
  snapshot: {
    label: 'pool did not answer, chosen from memory',
    because: 'the pool did not answer, and what was last known of it decided',
  },
}

/** Null for a reason that this version does not know. */
export function leaseReason(reason: string): { label: string; because: string } | null {
  return LEASE_REASONS[reason] ?? null
}
