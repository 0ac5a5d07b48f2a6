/** What brings a ProgramActor's changes to its storage and to its tenant, where nothing else has: see program-flush.ts. */
export type OpeningWrite = 'alarm' | 'timer'

/**
 * From the first change to its flush, unless a settlement flushes before. The platform may drop an object that has been idle
 * for ten seconds, and what it has not written is lost with it.
 */
export const OPENING_DELAY_MS = 5_000
