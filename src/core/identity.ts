/**
 * Which program, thread and parents a call belongs to, from its headers and metadata (design, "One call" 1).
 *
 * The program is named by X-Program-Id, else metadata.program_id, else a session header of the field, else the trace-id
 * of a W3C traceparent (an instrumented agent's trace is its program), else by nothing: such a call leaves no state.
 * The first that is present decides; one that is malformed is refused by name and never skipped, since the call would
 * silently join another program. A malformed traceparent is ignored, as its standard demands.
 *
 * Ids are not scoped here: the caller scopes them by tenant, and nothing of them is trusted beyond it.
 */
import { PARENTS_MAX } from './program-state.ts'
import { SESSION_HEADERS, type SessionHeaders } from './session-headers.ts'

/** As protocol/ids.ts has it. */
const ID_CHARS_MAX = 128
/** Bytes of X-Parent-Calls that are looked at: every parent of the most that may be named, at full length. */
export const PARENT_CALLS_CHARS_MAX = PARENTS_MAX * (ID_CHARS_MAX + 2)

const PRINTABLE_ASCII = /^[\x20-\x7e]+$/
const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/
const ALL_ZERO = /^0+$/

export type IdentityVerdict =
  | {
      ok: true
      program: string | null
      /** The header or metadata key that named the program; `none`. */
      source: string
      thread: string | null
      parents: string[] | null
      app: string | null
    }
  | { ok: false; param: string; message: string }

/** Reads a header by its lower-case name; null if absent. `Headers.get` fits. */
export type HeaderGetter = (name: string) => string | null | undefined

interface Named {
  value: string
  source: string
}

interface Session {
  program: Named
  thread: Named | null
}

/** A fault, thrown inside this file only: the lookups nest, and every one of them may find one. */
class IdentityFault extends Error {
  readonly param: string

  constructor(param: string, message: string) {
    super(message)
    this.param = param
  }
}

export function identify(
  header: HeaderGetter,
  metadata: Readonly<Record<string, string>> | null | undefined,
): IdentityVerdict {
  try {
    const session = explicitSession(header, metadata) ?? fieldSession(header) ?? traceSession(header)
    const thread = fromHeader(header, 'X-Thread-Id') ?? fromMetadata(metadata, 'thread_id') ?? session?.thread
    return {
      ok: true,
      program: session?.program.value ?? null,
      source: session?.program.source ?? 'none',
      thread: thread?.value ?? null,
      parents: parentCalls(header('x-parent-calls')),
      app: fromHeader(header, 'X-App')?.value ?? null,
    }
  } catch (error) {
    if (error instanceof IdentityFault) return { ok: false, param: error.param, message: error.message }
    throw error
  }
}

function explicitSession(header: HeaderGetter, metadata: Readonly<Record<string, string>> | null | undefined) {
  const program = fromHeader(header, 'X-Program-Id') ?? fromMetadata(metadata, 'program_id')
  return program === null ? null : { program, thread: null }
}

function fieldSession(header: HeaderGetter): Session | null {
  for (const names of SESSION_HEADERS) {
    const own = fromHeader(header, names.program)
    if (own !== null) return sessionOf(own, names, header)
  }
  return null
}

function sessionOf(own: Named, names: SessionHeaders, header: HeaderGetter): Session {
  const parent = names.parent === undefined ? null : fromHeader(header, names.parent)
  if (parent !== null && parent.value !== own.value) return { program: parent, thread: own }
  return { program: own, thread: names.thread === undefined ? null : fromHeader(header, names.thread) }
}

/** https://www.w3.org/TR/trace-context/#traceparent-header: version ff and all-zero ids are invalid; 00 has four fields. */
function traceSession(header: HeaderGetter): Session | null {
  const match = TRACEPARENT.exec(header('traceparent')?.trim() ?? '')
  if (match === null) return null
  const [, version = '', trace = '', parent = '', more] = match
  if (version === 'ff' || (version === '00' && more !== undefined)) return null
  if (ALL_ZERO.test(trace) || ALL_ZERO.test(parent)) return null
  return { program: { value: trace, source: 'traceparent' }, thread: null }
}

function fromHeader(header: HeaderGetter, name: string): Named | null {
  return named(header(name.toLowerCase()), name)
}

function fromMetadata(metadata: Readonly<Record<string, string>> | null | undefined, key: string): Named | null {
  const own = metadata != null && Object.hasOwn(metadata, key) ? metadata[key] : null
  return named(own, `metadata.${key}`)
}

/** Empty counts as absent: proxies forward unset variables as empty headers. */
function named(value: string | null | undefined, source: string): Named | null {
  const trimmed = value?.replace(/^ +| +$/g, '') ?? ''
  return trimmed === '' ? null : { value: checkedId(trimmed, source), source }
}

function checkedId(value: string, param: string): string {
  if (value.length > ID_CHARS_MAX) {
    throw new IdentityFault(param, `${param} has ${value.length} characters, more than ${ID_CHARS_MAX}.`)
  }
  if (!PRINTABLE_ASCII.test(value)) throw new IdentityFault(param, `${param} may hold printable ASCII characters only.`)
  return value
}

/** Null: not declared. Empty: declared to depend on nothing. */
function parentCalls(value: string | null | undefined): string[] | null {
  const param = 'X-Parent-Calls'
  if (value == null) return null
  if (value.length > PARENT_CALLS_CHARS_MAX) {
    throw new IdentityFault(param, `${param} is longer than ${PARENT_CALLS_CHARS_MAX} characters.`)
  }
  const ids = value.split(',').map((id) => id.trim())
  const parents = [...new Set(ids.filter((id) => id !== ''))]
  if (parents.length > PARENTS_MAX) {
    throw new IdentityFault(param, `${param} names ${parents.length} calls, more than ${PARENTS_MAX}.`)
  }
  return parents.map((id) => checkedId(id, param))
}
