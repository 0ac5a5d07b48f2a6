/**
 * What a call says of its program, thread and parents: in headers, metadata and body (docs/api.md, "Which program a call
 * belongs to").
 *
 * The most explicit name decides. Names that disagree with it are listed, so that the call's entry shows them. A malformed
 * id in a header that is meant for us, in `metadata.program_id` or in a session header is refused by name. It is never
 * skipped, since the call would silently join another program. A session field of the body may hold any text: one that is no
 * id is hashed into one. A malformed traceparent is ignored, as its standard demands.
 *
 * A trace id is returned apart from the program: whether it names one depends on what other calls said
 * (core/conversation/conversation-table.ts). Ids are not scoped here. The caller scopes them by tenant, and no id is trusted
 * beyond its tenant.
 */
import type { ProgramSource } from '../../protocol/index.ts'
import { PARENTS_MAX } from '../program/program-state.ts'
import { hash64Hex } from '../wire/hash.ts'
import { parseTraceparent } from '../wire/trace-context.ts'
import { sessionFields } from './session-fields.ts'
import { SESSION_HEADERS, type SessionHeaders } from './session-headers.ts'

/** As protocol/ids.ts has it. */
const ID_CHARS_MAX = 128
/** Bytes of X-Parent-Calls that are looked at: every parent of the most that may be named, at full length. */
export const PARENT_CALLS_CHARS_MAX = PARENTS_MAX * (ID_CHARS_MAX + 2)

const PRINTABLE_ASCII = /^[\x20-\x7e]+$/

export type IdentityVerdict =
  | {
      ok: true
      /** Null: nothing explicit names it. */
      program: string | null
      source: ProgramSource
      /** Headers and fields that name another program than the one that was chosen. */
      overruled: string[]
      thread: string | null
      /** The thread is the session's main one. A call that arrives while it has an open call starts a thread. */
      main_thread: boolean
      /** A session names the program, and nothing names this call's own thread in it. */
      by_session: boolean
      parents: string[] | null
      app: string | null
      /** Trace id of a valid traceparent. */
      trace: string | null
    }
  | { ok: false; param: string; message: string }

/** Reads a header by its lower-case name; null if absent. `Headers.get` fits. */
export type HeaderGetter = (name: string) => string | null | undefined

/** Where the answer that this call continues was stored: of `previous_response_id` and `conversation`. */
export interface StoredIdentity {
  /** The field that names it. */
  field: string
  program: string
  thread: string | null
  /** The call that gave the stored answer; null: not known. */
  parent: string | null
}

interface IdentityInput {
  header: HeaderGetter
  metadata: Readonly<Record<string, string>> | null | undefined
  body?: Readonly<Record<string, unknown>>
  stored?: StoredIdentity | null
}

interface Named {
  value: string
  source: ProgramSource
  /** The header or field. */
  name: string
}

interface Session {
  program: Named
  thread: string | null
  main_thread: boolean
  by_session: boolean
  parents: string[] | null
}

export function identify({ header, metadata, body, stored }: IdentityInput): IdentityVerdict {
  const reader = new IdReader(header, metadata ?? {})
  const thread_id = reader.metadata('thread_id')
  const session =
    explicitSession(reader) ??
    headerSession(reader) ??
    fieldSession(body ?? {}, metadata ?? {}) ??
    storedSession(stored ?? null) ??
    sessionNamed(thread_id)
  const names_thread = session?.program === thread_id ? null : thread_id
  const thread = reader.header('X-Thread-Id') ?? names_thread
  const parents = reader.parentCalls() ?? session?.parents ?? null
  const app = reader.header('X-App')
  const trace = parseTraceparent(header('traceparent'))?.trace ?? null
  if (reader.fault !== null) return { ok: false, ...reader.fault }
  return {
    ok: true,
    program: session?.program.value ?? null,
    source: session?.program.source ?? 'none',
    overruled:
      session === null
        ? []
        : overruled(session.program, { header, metadata, body: body ?? {}, stored: stored ?? null }),
    thread: thread?.value ?? session?.thread ?? null,
    main_thread: thread === null && session?.main_thread === true,
    by_session: thread === null && parents === null && session?.by_session === true,
    parents,
    app: app?.value ?? null,
    trace,
  }
}

function explicitSession(reader: IdReader): Session | null {
  return sessionNamed(reader.header('X-Program-Id') ?? reader.metadata('program_id'))
}

function sessionNamed(program: Named | null): Session | null {
  return program === null ? null : { program, thread: null, main_thread: false, by_session: false, parents: null }
}

function headerSession(reader: IdReader): Session | null {
  for (const names of SESSION_HEADERS) {
    const own = reader.header(names.program)
    if (own !== null) return sessionOf(own, names, reader)
  }
  return null
}

function sessionOf(own: Named, names: SessionHeaders, reader: IdReader): Session {
  const session = { by_session: true, parents: null }
  if (names.parent !== undefined) {
    return { ...session, program: reader.header(names.parent) ?? own, thread: own.value, main_thread: true }
  }
  if (names.thread === undefined) return { ...session, program: own, thread: null, main_thread: false }
  const thread = reader.header(names.thread)
  const main_thread = thread === null
  return { ...session, program: own, thread: thread?.value ?? own.value, main_thread, by_session: main_thread }
}

function fieldSession(
  body: Readonly<Record<string, unknown>>,
  metadata: Readonly<Record<string, string>>,
): Session | null {
  const [field] = sessionFields(body, metadata)
  if (field === undefined) return null
  const program = { value: idOf(field.value), source: field.source, name: field.name }
  return { program, thread: null, main_thread: false, by_session: true, parents: null }
}

function storedSession(stored: StoredIdentity | null): Session | null {
  if (stored === null) return null
  const { field, program, thread, parent } = stored
  // The thread follows from the parent: a second call that continues one answer starts a thread.
  const parents = parent === null ? null : [parent]
  const named = { value: program, source: 'body' as const, name: field }
  return { program: named, thread: parent === null ? thread : null, main_thread: false, by_session: false, parents }
}

/** What names another program than `chosen`. Texts are compared as sent, so a malformed one counts as different. */
function overruled(chosen: Named, input: Required<IdentityInput>): string[] {
  const { header, metadata, body, stored } = input
  const named: [name: string, value: string | null | undefined][] = [
    ['X-Program-Id', header('x-program-id')],
    ['metadata.program_id', metadata?.program_id],
  ]
  for (const { program, parent } of SESSION_HEADERS) {
    const own = header(program)
    const root = own == null || parent === undefined ? null : header(parent)
    named.push(root == null || root === '' ? [program, own] : [parent ?? program, root])
  }
  for (const { name, value } of sessionFields(body ?? {}, metadata ?? {})) named.push([name, idOf(value)])
  if (stored !== null && stored !== undefined) named.push([stored.field, stored.program])
  const others = named.filter(([name, value]) => {
    const id = withoutSpaces(value ?? '')
    return id !== '' && id !== chosen.value && name !== chosen.name
  })
  return [...new Set(others.map(([name]) => name))]
}

/** The text itself where it is an id. */
function idOf(text: string): string {
  const id = withoutSpaces(text)
  const isId = id.length <= ID_CHARS_MAX && PRINTABLE_ASCII.test(id) && id !== '.' && id !== '..'
  return isId ? id : `session-${hash64Hex(text)}`
}

/** Reads ids and keeps the first fault that it finds; a faulty id reads as absent. */
class IdReader {
  fault: { param: string; message: string } | null = null
  #header: HeaderGetter
  #metadata: Readonly<Record<string, string>>

  constructor(header: HeaderGetter, metadata: Readonly<Record<string, string>>) {
    this.#header = header
    this.#metadata = metadata
  }

  header(name: string): Named | null {
    return this.#id(this.#header(name.toLowerCase()), name, 'header')
  }

  metadata(key: string): Named | null {
    return this.#id(Object.hasOwn(this.#metadata, key) ? this.#metadata[key] : null, `metadata.${key}`, 'metadata')
  }

  /** Null: not declared. Empty: declared to depend on nothing. */
  parentCalls(): string[] | null {
    const param = 'X-Parent-Calls'
    const value = this.#header(param.toLowerCase())
    if (value == null) return null
    if (value.length > PARENT_CALLS_CHARS_MAX) {
      return this.#fail(param, `${param} is longer than ${PARENT_CALLS_CHARS_MAX} characters.`)
    }
    const parents = new Set<string>()
    for (const part of value.split(',')) {
      const parent = this.#id(part, param, 'header')
      if (parent !== null) parents.add(parent.value)
    }
    if (parents.size > PARENTS_MAX) {
      return this.#fail(param, `${param} names ${parents.size} calls, more than ${PARENTS_MAX}.`)
    }
    return [...parents]
  }

  /** Empty counts as absent: proxies forward unset variables as empty headers. */
  #id(value: string | null | undefined, name: string, source: ProgramSource): Named | null {
    const id = withoutSpaces(value ?? '')
    if (id === '') return null
    if (id.length > ID_CHARS_MAX) {
      return this.#fail(name, `${name} has ${id.length} characters, more than ${ID_CHARS_MAX}.`)
    }
    if (!PRINTABLE_ASCII.test(id)) return this.#fail(name, `${name} may hold printable ASCII characters only.`)
    // As the last part of a URL they name something else: the program could not be read or ended.
    if (id === '.' || id === '..') return this.#fail(name, `${name} may not be "." or "..".`)
    return { value: id, source, name }
  }

  #fail(param: string, message: string): null {
    this.fault ??= { param, message }
    return null
  }
}

/** Without spaces at either end; other white space stays and is refused. Linear, unlike a pattern that ends in ` +$`. */
function withoutSpaces(value: string): string {
  let from = 0
  let to = value.length
  while (from < to && value[from] === ' ') from += 1
  while (to > from && value[to - 1] === ' ') to -= 1
  return value.slice(from, to)
}
