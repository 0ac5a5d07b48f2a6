/**
 * What a client is told of fields that had no effect: in a response header, bounded in size, and in the call's entry of the
 * process table.
 */
import { NO_FIELDS, type NotedFields } from './request-fields.ts'

export const WARNINGS_HEADER = 'X-Switchyard-Warnings'
/** From an agent to the relay: hints of the body that its engine does not apply, separated by commas. */
export const NOT_APPLIED_HEADER = 'X-Switchyard-Not-Applied'
/** Of the response header. */
export const WARNINGS_CHARS_MAX = 1024

/** The fields of one call that the relay has not bound to anything. */
export interface FieldNotes {
  /** Dropped. */
  ignored: NotedFields
  /** Sent on. The engine applies them or says that it does not. */
  hints: NotedFields
}

export const NO_FIELD_NOTES: FieldNotes = { ignored: NO_FIELDS, hints: NO_FIELDS }

export interface FieldWarnings {
  ignored: readonly string[]
  /** Hints. */
  not_applied: readonly string[]
  /** How many further fields were left out of the lists. */
  more: number
}

/** `not_applied`: the agent's header. Null: there is nothing to warn of. */
export function fieldWarnings({ ignored, hints }: FieldNotes, not_applied: string | null): FieldWarnings | null {
  if (ignored.fields.length + hints.fields.length === 0) return null
  const named = new Set(not_applied?.split(',').map((field) => field.trim()) ?? [])
  const warnings = {
    ignored: ignored.fields.map(({ field }) => field),
    not_applied: hints.fields.filter(({ field, sent_as }) => named.has(sent_as ?? field)).map(({ field }) => field),
    more: ignored.more,
  }
  return warnings.ignored.length + warnings.not_applied.length === 0 ? null : warnings
}

/** `ignored=store, ignored=messages[].name, not_applied=verbosity, more=2`. Whole entries only, up to WARNINGS_CHARS_MAX. */
export function warningsHeader({ ignored, not_applied, more }: FieldWarnings): string {
  const entries = [...ignored.map((field) => `ignored=${field}`), ...not_applied.map((field) => `not_applied=${field}`)]
  const room = WARNINGS_CHARS_MAX - ', more='.length - String(Number.MAX_SAFE_INTEGER).length
  let text = ''
  let left_out = more
  for (const entry of entries) {
    const next = text === '' ? entry : `${text}, ${entry}`
    if (next.length <= room) text = next
    else left_out += 1
  }
  return left_out === 0 ? text : `${text}, more=${left_out}`
}
