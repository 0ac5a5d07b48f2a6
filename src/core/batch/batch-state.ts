/**
 * What a batch's actor keeps of it, and what D1's row has. `done` is the place up to which results lie in R2: whatever is
 * lost with a process, the batch goes on from there.
 */
import { z } from 'zod'
import { Count, Id } from '../../protocol/index.ts'
import { ModelLengths } from '../application/output-lengths.ts'
import { FilePart } from './file-part.ts'

/** Requests of one batch. */
export const BATCH_REQUESTS_MAX = 1_000_000
/** Faults of lines that are told. Validation ends at the last of them. */
export const FAULTS_MAX = 100

/** OpenAI's. */
export const BatchStatus = z.enum([
  'validating',
  'failed',
  'in_progress',
  'finalizing',
  'completed',
  'expired',
  'cancelling',
  'cancelled',
])
export type BatchStatus = z.infer<typeof BatchStatus>

/** How a batch that has ended is called. */
const Ending = BatchStatus.extract(['failed', 'completed', 'expired', 'cancelled'])
export type BatchEnding = z.infer<typeof Ending>

export const Fault = z.object({
  code: z.string(),
  line: z.number().int().positive().nullable(),
  message: z.string(),
  param: z.string().nullable(),
})

/**
 * `requests`: before it; blank lines are none. `unit`: requests of the line that begins there which are before it, too. A
 * line of a batch is one request, so there it is 0.
 */
export const Place = z.object({ offset: Count, lines: Count, requests: Count, unit: Count.default(0) })
export type Place = z.infer<typeof Place>
export const START: Place = { offset: 0, lines: 0, requests: 0, unit: 0 }

export const BatchTokens = z.object({ input: Count, cached: Count, output: Count, reasoning: Count })
export type BatchTokens = z.infer<typeof BatchTokens>
export const NO_TOKENS: BatchTokens = { input: 0, cached: 0, output: 0, reasoning: 0 }

const Time = Count.nullable()
export const OutputFile = z.object({ file: Id, parts: z.array(FilePart) })
export type OutputFile = z.infer<typeof OutputFile>

export const BatchState = z.object({
  id: Id,
  tenant: Id,
  /** Id of the API key that its lines are served for. */
  key: Id,
  endpoint: z.string(),
  input: z.object({ file: Id, parts: z.array(FilePart) }),
  completion_window: z.string(),
  metadata: z.record(z.string(), z.string()).nullable(),
  /** Null: output files are kept until they are deleted. */
  output_expires_after_s: Count.nullable(),
  status: BatchStatus,
  /** Where it ends up. Null: not decided. */
  ending: Ending.nullable(),
  faults: z.array(Fault),
  /** In validation: up to where lines are checked. Then: up to where results are in R2. */
  done: Place,
  /** Requests. 0 until all lines are checked. */
  total: Count,
  /** Of those before `done`. */
  completed: Count,
  failed: Count,
  tokens: BatchTokens,
  /** Of a sample of answers: batch-lengths.ts. */
  lengths: z.array(ModelLengths).default([]),
  /** Answers with a status of 200. */
  output: OutputFile,
  /** All other results. */
  errors: OutputFile,
  created_at_ms: Count,
  in_progress_at_ms: Time,
  expires_at_ms: Count,
  finalizing_at_ms: Time,
  cancelling_at_ms: Time,
  ended_at_ms: Time,
})
export type BatchState = z.infer<typeof BatchState>

export type NewBatch = Pick<
  BatchState,
  | 'id'
  | 'tenant'
  | 'key'
  | 'endpoint'
  | 'input'
  | 'completion_window'
  | 'metadata'
  | 'output_expires_after_s'
  | 'created_at_ms'
  | 'expires_at_ms'
>

/** `files`: ids of its output and its errors. */
export function newBatch(given: NewBatch, files: { output: string; errors: string }): BatchState {
  return {
    ...given,
    ...{ status: 'validating', ending: null, faults: [], done: START, total: 0, completed: 0, failed: 0 },
    ...{ tokens: NO_TOKENS, lengths: [] },
    output: { file: files.output, parts: [] },
    errors: { file: files.errors, parts: [] },
    ...{ in_progress_at_ms: null, finalizing_at_ms: null, cancelling_at_ms: null, ended_at_ms: null },
  }
}

export function addTokens(to: BatchTokens, of: BatchTokens): BatchTokens {
  return {
    input: to.input + of.input,
    cached: to.cached + of.cached,
    output: to.output + of.output,
    reasoning: to.reasoning + of.reasoning,
  }
}
