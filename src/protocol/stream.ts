/**
 * What an agent's data plane answers to POST /v1/chat/completions and /v1/completions (bearer: a ticket).
 *
 * A call that is accepted, its body valid and queued, is answered 200 text/event-stream at once, with ACCEPTED_HEADER. Then
 * `: queued` every 2 s while it waits or is preempted, then OpenAI chunks as data events, then `data: [DONE]`. Where the
 * headers went before, the comment `: accepted` comes at once. Otherwise it may come later, for a Worker that does not know the
 * header. What goes wrong after the headers is one `event: error` whose data is a StreamError, and the end.
 * Before the headers it is a plain HTTP status with the same JSON body.
 *
 * The `id` of a data event names the tokens behind it, or says how many they are (resume.ts).
 *
 * GET LEASE_PATH + lease (bearer: a ticket of that lease) tells whether that response is still open: 200 if it is, 404 if
 * the agent has no such lease any more.
 */
import { z } from 'zod'
import { RESUME_BYTES_MAX } from './resume.ts'

/** A client's body, as a Worker takes it. */
export const BODY_BYTES_MAX = 4 * 1024 * 1024
/** A Worker writes the body again: fields of ours are added, and numbers may come out longer (1e20 has 21 digits). */
const DISPATCH_SLACK_BYTES = 64 * 1024
/** What an agent takes. No Worker sends more, so that no body is refused where its client cannot know the bound. */
export const DISPATCHED_BODY_BYTES_MAX = BODY_BYTES_MAX + DISPATCH_SLACK_BYTES
/** The same of a call that is resumed. */
export const RESUMED_BODY_BYTES_MAX = DISPATCHED_BODY_BYTES_MAX + RESUME_BYTES_MAX

export const LEASE_PATH = '/v1/leases/'
/** How long an agent gives a reader for the rest of a response that has ended, and how long a Worker waits for those bytes. */
export const LEASE_READ_OUT_MS = 120_000
export const KEEPALIVE_INTERVAL_MS = 2000
/** Its value is of no account. */
export const ACCEPTED_HEADER = 'X-Switchyard-Accepted'
export const COMMENT_ACCEPTED = 'accepted'
export const COMMENT_QUEUED = 'queued'
export const DONE = '[DONE]'
export const EVENT_ERROR = 'error'
export const RETRY_AFTER_S_MAX = 86_400

export const ErrorBody = z.object({
  message: z.string(),
  type: z.string(),
  param: z.string().nullable(),
  code: z.string().nullable(),
})
export type ErrorBody = z.infer<typeof ErrorBody>

export const StreamError = z.object({
  error: ErrorBody,
  /** HTTP status that a client gets if nothing was sent yet. */
  status: z.number().int().min(400).max(599),
  /** Whether another engine may be tried: false for the client's own mistakes. */
  retryable: z.boolean(),
  /** When the engine expects to have room, if it knows. */
  retry_after_s: z.number().positive().max(RETRY_AFTER_S_MAX).optional(),
})
export type StreamError = z.infer<typeof StreamError>
