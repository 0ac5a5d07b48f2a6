/** What brings a ProgramActor's changes to its storage and to its tenant, where nothing else has: see program-flush.ts. */
export type OpeningWrite = 'alarm' | 'timer'

/**
 * From the first change to its flush, unless a settlement flushes before. The platform may drop an object that has been idle
 * for ten seconds, and what it has not written is lost with it. An alarm that is set is billed as a row, so it comes as late as
 * that allows.
 */
export const OPENING_DELAY_MS: Readonly<Record<OpeningWrite, number>> = { alarm: 8_000, timer: 5_000 }
