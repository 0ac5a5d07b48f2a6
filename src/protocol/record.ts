/**
 * The record: what one lease cost, measured by the agent alone. One per lease; it is on the agent's disk before the
 * client sees the end, goes out in batches, and is sent again until acknowledged. `lease` makes it idempotent.
 */
import { z } from 'zod'
import { Count, Id, Microseconds } from './ids.ts'
import { Measurement } from './measurement.ts'
import { TOOLS_PER_CALL_MAX, ToolName } from './tools.ts'

export const RECORD_VERSION = 1
export const RECORDS_PER_BATCH_MAX = 200

export const Outcome = z.enum(['completed', 'cancelled', 'failed'])
export type Outcome = z.infer<typeof Outcome>

export const FinishReason = z.enum(['stop', 'length', 'tool_calls'])
export type FinishReason = z.infer<typeof FinishReason>

export const CallRecord = z.object({
  v: z.literal(RECORD_VERSION),
  lease: Id,
  call: Id,
  tenant: Id,
  program: Id,
  run: Id,
  thread: Id,
  class: Id,
  agent: Id,
  engine: Id,
  epoch: Id,
  region: Id,
  model: Id,
  /** As the ticket had it. A record without the right one is refused. */
  lease_proof: z.string().max(64).optional(),
  outcome: Outcome,
  finish_reason: FinishReason.nullable(),
  /** Code of the error that ended the lease, null when it completed. */
  error_code: z.string().max(64).nullable(),
  ...Measurement.shape,
  /** Tools that the first choice of a completed answer asked for, in order. Left out: the agent does not tell. */
  tools: z.array(ToolName).max(TOOLS_PER_CALL_MAX).optional(),
  /** From the end of the call to the next one of its program, as the agent expected it. Left out: not known. */
  expected_tool_us: Microseconds.optional(),
  /** The agent's wall clock at the end, for people to read; no duration is computed from it. */
  ended_at_ms: Count,
})
export type CallRecord = z.infer<typeof CallRecord>

/** Body of POST /agents/v1/records. */
export const RecordBatch = z.object({
  agent: Id,
  records: z.array(CallRecord).min(1).max(RECORDS_PER_BATCH_MAX),
})
export type RecordBatch = z.infer<typeof RecordBatch>

/**
 * Its answer: leases whose records storage has confirmed, and leases that were never granted as their records say, which
 * are not to be sent again. A lease in neither list is sent again.
 */
export const RecordAck = z.object({
  acknowledged: z.array(Id).max(RECORDS_PER_BATCH_MAX),
  refused: z.array(Id).max(RECORDS_PER_BATCH_MAX).optional(),
})
export type RecordAck = z.infer<typeof RecordAck>
