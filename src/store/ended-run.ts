/** A run that has ended, as its ProgramActor hands it to the archive. */
import type { endedPrograms } from './archive-schema.ts'

export type StoredProgram = typeof endedPrograms.$inferSelect

/** Its calls, which lie nowhere yet (segments.ts). */
export interface EncodedRun {
  body: Uint8Array
  calls_per_chunk: number
  chunk_bytes: number[]
}

export interface EndedRun {
  /** Where its calls lie is not known yet. */
  row: StoredProgram
  /** Null: it has none. */
  calls: EncodedRun | null
}
