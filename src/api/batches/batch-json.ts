/** Batches as clients see them: OpenAI's objects. */
import { z } from '@hono/zod-openapi'
import { type BatchState, BatchStatus } from '../../core/batch/batch-state.ts'
import { COMPLETION_WINDOW_RULE, completionSeconds } from '../../core/batch/completion-window.ts'
import { Metadata } from '../../protocol/openai.ts'
import { BATCH_ENDPOINTS } from '../../relay/batch-lines.ts'
import { ExpiresAfter, FileId, seconds } from '../files/file-schemas.ts'

export const BATCHES_PAGE_MAX = 100

export const BatchStart = z.object({
  input_file_id: FileId,
  endpoint: z.enum(BATCH_ENDPOINTS as [string, ...string[]], {
    error: `An endpoint of a batch is one of ${BATCH_ENDPOINTS.join(', ')}.`,
  }),
  completion_window: z.string().refine((text) => completionSeconds(text) !== null, COMPLETION_WINDOW_RULE),
  metadata: Metadata.nullish(),
  output_expires_after: ExpiresAfter.nullish(),
})

const Time = z.number().int().nullable()

export const BatchObject = z
  .object({
    id: z.string(),
    object: z.literal('batch'),
    endpoint: z.string(),
    errors: z
      .object({
        object: z.literal('list'),
        data: z.array(
          z.object({
            code: z.string(),
            line: z.number().int().nullable(),
            message: z.string(),
            param: z.string().nullable(),
          }),
        ),
      })
      .nullable(),
    input_file_id: z.string(),
    completion_window: z.string(),
    status: BatchStatus,
    output_file_id: z.string().nullable(),
    error_file_id: z.string().nullable(),
    created_at: z.number().int(),
    in_progress_at: Time,
    expires_at: z.number().int(),
    finalizing_at: Time,
    completed_at: Time,
    failed_at: Time,
    expired_at: Time,
    cancelling_at: Time,
    cancelled_at: Time,
    request_counts: z.object({
      total: z.number().int(),
      completed: z.number().int(),
      failed: z.number().int(),
    }),
    usage: z.object({
      input_tokens: z.number().int(),
      input_tokens_details: z.object({ cached_tokens: z.number().int() }),
      output_tokens: z.number().int(),
      output_tokens_details: z.object({ reasoning_tokens: z.number().int() }),
      total_tokens: z.number().int(),
    }),
    metadata: z.record(z.string(), z.string()).nullable(),
  })
  .openapi('Batch')
export type BatchObject = z.infer<typeof BatchObject>

export const BatchList = z
  .object({
    object: z.literal('list'),
    data: z.array(BatchObject),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
    has_more: z.boolean(),
  })
  .openapi('BatchList')

export function batchJson(state: BatchState): BatchObject {
  const { status, faults, output, errors, tokens } = state
  const ended = (as: BatchState['ending']) => (status === as ? timeOf(state.ended_at_ms) : null)
  // Files are named once they are there.
  const fileOf = ({ file, parts }: BatchState['output']) =>
    state.ended_at_ms === null || parts.length === 0 ? null : file
  return {
    ...{ id: state.id, object: 'batch', endpoint: state.endpoint },
    errors: faults.length === 0 ? null : { object: 'list', data: faults },
    input_file_id: state.input.file,
    completion_window: state.completion_window,
    status,
    ...{ output_file_id: fileOf(output), error_file_id: fileOf(errors) },
    created_at: seconds(state.created_at_ms),
    in_progress_at: timeOf(state.in_progress_at_ms),
    expires_at: seconds(state.expires_at_ms),
    finalizing_at: timeOf(state.finalizing_at_ms),
    completed_at: ended('completed'),
    failed_at: ended('failed'),
    expired_at: ended('expired'),
    cancelling_at: timeOf(state.cancelling_at_ms),
    cancelled_at: ended('cancelled'),
    request_counts: { total: state.total, completed: state.completed, failed: state.failed },
    usage: {
      ...{ input_tokens: tokens.input, input_tokens_details: { cached_tokens: tokens.cached } },
      ...{ output_tokens: tokens.output, output_tokens_details: { reasoning_tokens: tokens.reasoning } },
      total_tokens: tokens.input + tokens.output,
    },
    metadata: state.metadata,
  }
}

function timeOf(ms: number | null): number | null {
  return ms === null ? null : seconds(ms)
}
