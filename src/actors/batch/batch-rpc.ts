/** What the API may ask of a batch's actor. One object per tenant and batch, named by `batchActorName`. */
import type { BatchState, NewBatch } from '../../core/batch/batch-state.ts'

export interface BatchRpc {
  /** Rejects if D1 does not take the batch; asking again with the same id is right. `files`: ids of its output and errors. */
  start(batch: NewBatch, files: { output: string; errors: string }): Promise<BatchState>
  /** Null: it has ended, and D1 has it. */
  describe(): Promise<BatchState | null>
  /** As `describe`, after no more of its lines are started. */
  cancel(): Promise<BatchState | null>
}

export function batchActorName(tenant: string, batch: string): string {
  return JSON.stringify([tenant, batch])
}
