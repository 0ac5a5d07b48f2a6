/**
 * What the agent itself answers when a call cannot be served. `http_status` is what the Worker sees before the stream;
 * `status` inside is what a client would get if nothing else can serve it, and `retryable` whether another engine may try.
 */
import type { StreamError } from '../../../src/protocol/index.ts'

export interface Refusal {
  http_status: number
  error: StreamError
}

function streamError(status: number, code: string, message: string, retryable: boolean): StreamError {
  const type = status < 500 ? 'invalid_request_error' : 'server_error'
  return { error: { message, type, param: null, code }, status, retryable }
}

/** A ticket, lease or epoch that this agent does not honour: never the client's mistake, so the client's status is a 5xx. */
function refusal(
  http_status: number,
  client_status: number,
  code: string,
  message: string,
  retryable: boolean,
): Refusal {
  return { http_status, error: streamError(client_status, code, message, retryable) }
}

export const REFUSALS = {
  ticket_invalid: (reason: string) => refusal(401, 502, 'ticket_invalid', `the ticket is not valid: ${reason}`, true),
  ticket_wrong_engine: refusal(
    403,
    502,
    'ticket_wrong_engine',
    'the ticket is for another agent, engine or model',
    true,
  ),
  lease_over: refusal(404, 404, 'lease_over', 'this agent has no open response of that lease', false),
  lease_used: refusal(409, 502, 'lease_used', 'the lease of this ticket was used before', false),
  epoch_gone: refusal(409, 503, 'epoch_gone', 'the engine has restarted since the ticket was written', true),
  draining: refusal(503, 503, 'draining', 'the engine takes no further calls', true),
  engine_down: refusal(503, 503, 'engine_down', 'the engine is down', true),
  engine_full: {
    http_status: 429,
    error: {
      error: {
        message: 'the agent holds as many calls as it can',
        type: 'rate_limit_error',
        param: null,
        code: 'engine_full',
      },
      status: 429,
      retryable: true,
      retry_after_s: 1,
    },
  },
  disk_full: refusal(503, 503, 'agent_disk_full', "the agent's disk takes no records, so it serves no calls", true),
  outbox_full: refusal(503, 503, 'outbox_full', 'the agent cannot keep further records', true),
  not_linked: refusal(503, 503, 'not_linked', 'the agent has not reached its control plane yet', true),
  metrics_unauthorised: refusal(401, 401, 'invalid_metrics_token', 'metrics are read with their token', false),
  not_found: refusal(404, 404, 'not_found', 'no such path', false),
  method_not_allowed: refusal(405, 405, 'method_not_allowed', 'no such method on this path', false),
  request_too_large: refusal(413, 413, 'request_too_large', 'the body is larger than the agent takes', false),
  resume_malformed: refusal(400, 502, 'resume_malformed', 'the body does not say where the answer goes on', false),
  invalid_json: refusal(400, 400, 'invalid_json', 'the body is not JSON', false),
} as const

export const ERRORS = {
  client_gone: streamError(499, 'client_gone', 'the client left before the end', false),
  reader_too_slow: streamError(499, 'reader_too_slow', 'the client reads more slowly than the engine writes', false),
  cancelled: streamError(409, 'cancelled', 'the call was cancelled', false),
  program_deadline: streamError(402, 'program_deadline_exceeded', "the deadline of the call's program is over", false),
  program_ended: streamError(409, 'program_ended', 'the program of this call was ended', false),
  agent_draining: streamError(503, 'agent_draining', 'the agent was stopped before the call ended', true),
  disk_full: streamError(503, 'agent_disk_full', "the agent's disk takes no records, so it serves no calls", true),
  engine_failed: streamError(502, 'engine_failed', 'the engine failed', true),
} as const
