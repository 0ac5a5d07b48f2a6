/** Whether a run may open another call: its bounds, and what a client is told at them. */
import { type Admission, CALLS_PER_RUN_MAX, OPEN_CALLS_PER_PROGRAM_MAX } from './program-state.ts'
import { STALE_AFTER_MS } from './staleness.ts'

/**
 * Null: it may. A run that has made all its calls takes none before it has ended, by request or by going stale; one with
 * too many open calls takes the next as soon as one of them ends.
 */
export function admissionRefusal(calls: number, open_calls: number): Extract<Admission, { status: 'refused' }> | null {
  if (calls >= CALLS_PER_RUN_MAX) {
    const message = `the program has made ${CALLS_PER_RUN_MAX} calls, the most that one run may make: end it`
    return { status: 'refused', code: 'program_calls_exceeded', message, retry_after_s: STALE_AFTER_MS / 1000 }
  }
  if (open_calls >= OPEN_CALLS_PER_PROGRAM_MAX) {
    const message = `the program has ${OPEN_CALLS_PER_PROGRAM_MAX} calls open, the most that it may have at a time`
    return { status: 'refused', code: 'program_open_calls_exceeded', message, retry_after_s: 1 }
  }
  return null
}
