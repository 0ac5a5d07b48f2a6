/**
 * Ids that cross a boundary: clients name programs and threads, we name calls, leases, engines and epochs.
 * Every id is 1 to 128 printable ASCII characters, so that it survives an HTTP header, a URL and a log line unchanged.
 */
import { z } from 'zod'

export const ID_CHARS_MAX = 128

const PRINTABLE_ASCII = /^[\x20-\x7e]+$/

/** A client's or our own id. No control characters, no leading or trailing space. */
export const Id = z
  .string()
  .min(1, 'an id must not be empty')
  .max(ID_CHARS_MAX, `an id has at most ${ID_CHARS_MAX} characters`)
  .regex(PRINTABLE_ASCII, 'an id consists of printable ASCII characters')
  .refine((id) => id === id.trim(), 'an id neither starts nor ends with a space')
  .refine((id) => id !== '.' && id !== '..', 'an id is not "." or "..", which a URL resolves')

/** Non-negative integer microseconds. Integers, so that sums over records equal sums over ledger rows exactly. */
export const Microseconds = z.number().int().nonnegative().max(Number.MAX_SAFE_INTEGER)

/** Non-negative integer count (tokens, calls, preemptions, blocks). */
export const Count = z.number().int().nonnegative().max(Number.MAX_SAFE_INTEGER)
