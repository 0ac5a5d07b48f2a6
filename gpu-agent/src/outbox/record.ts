/**
 * Makes the record of a lease from what its ticket claims and what its front measured, or, when the process that
 * measured is gone, from the ledger rows that it left on disk.
 */
import {
  type CallRecord,
  type Measurement,
  NOTHING_MEASURED,
  RECORD_VERSION,
  type StreamError,
  type TicketClaims,
} from '../../../src/protocol/index.ts'
import type { CallEnd } from '../fronts/engine-front.ts'

const ERROR_CODE_CHARS_MAX = 64
const AGENT_RESTARTED = 'agent_restarted'

/** Sums over the ledger rows of one lease. */
export interface LedgerSums {
  wall_us: number
  modelled_us: number
  computed_tokens: number
  sampled_tokens: number
}

/** A lease that is open on disk. */
export interface OpenLease {
  claims: TicketClaims
  /** Null: never counted. */
  prompt_tokens: number | null
  /** Of its ledger rows. */
  sums: LedgerSums
  /** Of its ledger rows; 0 without any. */
  last_step: number
}

/** The end of a call that never ran: it was refused, or its client left before it was queued. */
export function endWithoutService(outcome: 'cancelled' | 'failed', error: StreamError): CallEnd {
  return { outcome, finish_reason: null, error, measurement: NOTHING_MEASURED, last_chunks: [] }
}

/** `told`: what is known of the tools that a completed answer asked for. Null: the call did not complete. */
export function recordOf(
  claims: TicketClaims,
  end: CallEnd,
  ended_at_ms: number,
  told: Pick<CallRecord, 'tools' | 'expected_tool_us'> | null = null,
): CallRecord {
  const error_code = end.outcome === 'completed' ? null : (end.error?.error.code ?? end.outcome)
  return {
    v: RECORD_VERSION,
    ...identityOf(claims),
    outcome: end.outcome,
    finish_reason: end.finish_reason,
    error_code: error_code?.slice(0, ERROR_CODE_CHARS_MAX) ?? null,
    ...end.measurement,
    ...told,
    ended_at_ms,
  }
}

/**
 * The record of a lease whose process died. Its service is exactly the sum of its ledger rows. What else was measured died
 * with the process, unless its engine outlived it and told: then wait is 0, the first token unknown, and the duration at
 * least the service.
 */
export function recordOfLostCall(
  claims: TicketClaims,
  sums: LedgerSums,
  prompt_tokens: number | null,
  ended_at_ms: number,
  told: Measurement | null = null,
): CallRecord {
  const counted = { prompt_tokens: prompt_tokens ?? 0, output_tokens: sums.sampled_tokens, duration_us: sums.wall_us }
  return {
    v: RECORD_VERSION,
    ...identityOf(claims),
    outcome: 'failed',
    finish_reason: null,
    error_code: AGENT_RESTARTED,
    ...(told ?? { ...NOTHING_MEASURED, ...counted }),
    service_wall_us: sums.wall_us,
    service_modelled_us: sums.modelled_us,
    ended_at_ms,
  }
}

function identityOf(claims: TicketClaims) {
  const { lease, call, tenant, program, run, thread, agent, engine, epoch, region, model, lease_proof } = claims
  const proof = lease_proof === undefined ? {} : { lease_proof }
  return {
    lease,
    call,
    tenant,
    program,
    run,
    thread,
    class: claims.class,
    agent,
    engine,
    epoch,
    region,
    model,
    ...proof,
  }
}
