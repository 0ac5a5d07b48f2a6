import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Id } from '../../protocol/ids.ts'
import { PARENTS_MAX } from '../program/program-state.ts'
import { AGENT_REQUESTS } from '../testing/agent-requests.ts'
import { identify, PARENT_CALLS_CHARS_MAX, type StoredIdentity } from './identity.ts'
import { USER_ID_CHARS_MAX } from './session-fields.ts'
import { SESSION_HEADERS } from './session-headers.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const TRACEPARENT = `00-${TRACE}-b7ad6b7169203331-01`

interface Call {
  headers?: Record<string, string>
  metadata?: Record<string, string>
  body?: Record<string, unknown>
  stored?: StoredIdentity
}

/** Case matters to no header: the getter is asked for lower case. */
function ofCall({ headers = {}, metadata, body, stored }: Call) {
  const lower = new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
  return identify({ header: (name) => lower.get(name) ?? null, metadata, body: body ?? {}, stored: stored ?? null })
}
function known(call: Call) {
  const verdict = ofCall(call)
  return verdict.ok ? verdict : expect.unreachable()
}

describe('the program', () => {
  it('is none when nothing names one', () => {
    expect(ofCall({})).toEqual({
      ...{ ok: true, program: null, source: 'none', overruled: [] },
      ...{ thread: null, main_thread: false, by_session: false, parents: null, app: null, trace: null },
    })
  })

  it('is named by the most explicit source, and every other name is listed as overruled', () => {
    const stored = { field: 'previous_response_id', program: 'from stored', thread: null, parent: 'c1' }
    const named: [Call, string, string][] = [
      [{ metadata: { thread_id: 'thread' } }, 'thread', 'metadata'],
      [{ stored }, 'from stored', 'body'],
      [{ metadata: { user_id: 'user_1_account__session_5d1c' } }, '5d1c', 'metadata'],
      [{ metadata: { trace_id: 'trace' } }, 'trace', 'metadata'],
      [{ metadata: { conversation_id: 'conversation' } }, 'conversation', 'metadata'],
      [{ metadata: { session_id: 'session' } }, 'session', 'metadata'],
      [{ body: { session_id: 'in body' } }, 'in body', 'body'],
      ...SESSION_HEADERS.map(({ program }): [Call, string, string] => [
        { headers: { [program]: program } },
        program,
        'header',
      ]).reverse(),
      [{ metadata: { program_id: 'from metadata' } }, 'from metadata', 'metadata'],
      [{ headers: { 'X-Program-Id': 'from header' } }, 'from header', 'header'],
    ]
    const call = { headers: { traceparent: TRACEPARENT }, metadata: {}, body: {} }
    for (const [index, [more, program, source]] of named.entries()) {
      Object.assign(call.headers, more.headers)
      Object.assign(call.metadata, more.metadata)
      Object.assign(call.body, more.body)
      const found = known({ ...call, ...(index === 0 ? {} : { stored }) })
      expect(found).toMatchObject({ program, source, trace: TRACE })
      // thread_id names the thread once another source names the program, and is no second name.
      expect(found.overruled).toHaveLength(Math.max(0, index - 1))
    }
  })

  it('is not named by an empty header, nor by what an object inherits', () => {
    expect(known({ headers: { 'X-Program-Id': '  ', session_id: 's' } }).program).toBe('s')
    expect(known({ metadata: Object.create({ program_id: 'inherited' }) }).program).toBeNull()
    expect(known({ body: Object.create({ session_id: 'inherited' }) }).program).toBeNull()
  })

  it('is not named by fields that name a user, a cache or a class', () => {
    const body = { prompt_cache_key: 'k', user: 'u', safety_identifier: 's' }
    expect(known({ body, metadata: { user_id: 'u' } }).program).toBeNull()
  })

  it('is said to be a session’s, as long as the call names no thread and no parents in it', () => {
    const session = { 'x-litellm-session-id': 's' }
    expect(known({ headers: session }).by_session).toBe(true)
    expect(known({ headers: { 'x-session-id': 's', 'x-parent-session-id': 'p' } }).by_session).toBe(true)
    expect(known({ body: { session_id: 's' } }).by_session).toBe(true)
    expect(known({ headers: { ...session, 'X-Thread-Id': 't' } }).by_session).toBe(false)
    expect(known({ headers: { ...session, 'X-Parent-Calls': 'c' } }).by_session).toBe(false)
    expect(known({ headers: { 'x-claude-code-session-id': 's', 'x-claude-code-agent-id': 'a' } }).by_session).toBe(
      false,
    )
    expect(known({ headers: { 'X-Program-Id': 'p' } }).by_session).toBe(false)
    expect(known({ metadata: { thread_id: 'p' } }).by_session).toBe(false)
  })

  it('counts names that agree as one', () => {
    const headers = { 'X-Program-Id': 'p', 'x-session-id': 'p' }
    expect(known({ headers, metadata: { session_id: 'p' } }).overruled).toEqual([])
    expect(known({ headers, metadata: { session_id: 'q' } }).overruled).toEqual(['metadata.session_id'])
  })

  it('is not refused for a malformed name that is overruled', () => {
    const found = known({ headers: { 'X-Program-Id': 'p', 'x-session-id': 'a\u0000' } })
    expect(found).toMatchObject({ program: 'p', overruled: ['x-session-id'] })
  })
})

describe('a session field of the body', () => {
  it('that is no id is hashed into one, so that different sessions stay apart', () => {
    const program = (session_id: string) => known({ body: { session_id } }).program
    expect(program('séance')).toMatch(/^session-[0-9a-f]{16}$/)
    expect(program('séance')).toBe(program('séance'))
    expect(program('x'.repeat(129))).not.toBe(program('x'.repeat(130)))
  })

  it('inside of metadata.user_id is found in both of its forms', () => {
    const program = (user_id: string) => known({ metadata: { user_id } }).program
    expect(program('user_9f_account_1c_session_5d1c0a3e')).toBe('5d1c0a3e')
    expect(program('{"device_id":"d","account_uuid":"","session_id":"5d1c0a3e"}')).toBe('5d1c0a3e')
    for (const other of ['{"session_id":5}', '{"session', '{}', 'alice', 'a_session_'])
      expect(program(other)).toBeNull()
  })

  it(`is looked for in a metadata.user_id of up to ${USER_ID_CHARS_MAX} characters`, () => {
    const user_id = (chars: number) => ({ metadata: { user_id: `${'u'.repeat(chars - 10)}_session_s` } })
    expect(known(user_id(USER_ID_CHARS_MAX)).program).toBe('s')
    expect(known(user_id(USER_ID_CHARS_MAX + 1)).program).toBeNull()
  })

  it('that is no text names nothing', () => {
    expect(known({ body: { session_id: 5 } }).program).toBeNull()
    expect(known({ body: { session_id: { a: 1 } } }).program).toBeNull()
  })
})

describe('metadata.thread_id', () => {
  it('names the thread where another source names the program, and the program where none does', () => {
    const metadata = { thread_id: 't' }
    expect(known({ metadata, headers: { 'X-Program-Id': 'p' } })).toMatchObject({ program: 'p', thread: 't' })
    expect(known({ metadata })).toMatchObject({ program: 't', thread: null, source: 'metadata' })
  })
})

describe('a stored response', () => {
  const stored = { field: 'previous_response_id', program: 'p', thread: 't1', parent: 'c7' }

  it('gives the program and the parent, from which the thread follows', () => {
    expect(known({ stored })).toMatchObject({ program: 'p', source: 'body', parents: ['c7'], thread: null })
  })

  it('gives the thread where its call is not known', () => {
    expect(known({ stored: { ...stored, parent: null } })).toMatchObject({ thread: 't1', parents: null })
  })

  it('gives way to parents that the client declares', () => {
    expect(known({ stored, headers: { 'X-Parent-Calls': 'c1' } }).parents).toEqual(['c1'])
  })
})

describe('threads of coding agents', () => {
  it.each(AGENT_REQUESTS.map((request) => [request.name, request] as const))('%s', (_, request) => {
    const { program, thread } = request
    const found = known({ headers: { ...request.headers } })
    expect({ program: found.program ?? found.trace, thread: found.thread }).toEqual({ program, thread })
  })

  it('that name themselves as their parent are root sessions', () => {
    const headers = { 'x-dynamo-session-id': 's', 'x-dynamo-parent-session-id': 's' }
    expect(known({ headers })).toMatchObject({ program: 's', thread: 's' })
  })

  it('give way to X-Thread-Id and to metadata.thread_id', () => {
    const headers = { 'x-claude-code-session-id': 's', 'x-claude-code-agent-id': 'a' }
    const metadata = { thread_id: 'other' }
    expect(known({ headers: { ...headers, 'X-Thread-Id': 'mine' }, metadata }).thread).toBe('mine')
    expect(known({ headers, metadata }).thread).toBe('other')
  })

  it('are the session’s main thread unless the client names one', () => {
    const headers = { 'x-claude-code-session-id': 's' }
    expect(known({ headers })).toMatchObject({ thread: 's', main_thread: true })
    expect(known({ headers: { ...headers, 'X-Thread-Id': 's' } }).main_thread).toBe(false)
    expect(known({ headers: { ...headers, 'x-claude-code-agent-id': 'a' } }).main_thread).toBe(false)
    expect(known({ headers: { 'x-session-id': 's', 'x-parent-session-id': 'root' } }).main_thread).toBe(true)
  })

  it('do not apply to a program that is named otherwise', () => {
    const headers = { 'X-Program-Id': 'p', 'x-claude-code-session-id': 's', 'x-claude-code-agent-id': 'a' }
    expect(known({ headers }).thread).toBeNull()
  })
})

describe('traceparent', () => {
  it.each([
    ['all-zero trace', `00-${'0'.repeat(32)}-b7ad6b7169203331-01`],
    ['all-zero span', `00-${TRACE}-${'0'.repeat(16)}-01`],
    ['version ff', `ff-${TRACE}-b7ad6b7169203331-01`],
    ['version 00 with a fifth field', `${TRACEPARENT}-more`],
    ['upper case', TRACEPARENT.toUpperCase()],
    ['too short', TRACEPARENT.slice(1)],
    ['no traceparent at all', 'hello'],
  ])('that is invalid (%s) counts as absent', (_, traceparent) => {
    expect(known({ headers: { traceparent } }).trace).toBeNull()
  })

  it('of a later version may have more fields', () => {
    expect(known({ headers: { traceparent: `cc-${TRACE}-b7ad6b7169203331-01-what the future holds` } }).trace).toBe(
      TRACE,
    )
  })

  it('names no program by itself: that depends on what other calls said', () => {
    expect(known({ headers: { traceparent: TRACEPARENT } })).toMatchObject({
      program: null,
      source: 'none',
      trace: TRACE,
    })
  })
})

describe('parents and app', () => {
  it('are read from X-Parent-Calls, each once, and X-App', () => {
    expect(known({ headers: { 'X-Parent-Calls': 'a, b,,a ', 'X-App': 'research' } })).toMatchObject({
      parents: ['a', 'b'],
      app: 'research',
    })
  })

  it('are declared to be none by an empty list', () => {
    expect(known({ headers: { 'X-Parent-Calls': '' } }).parents).toEqual([])
  })

  it(`are at most ${PARENTS_MAX}`, () => {
    const list = (count: number) => Array.from({ length: count }, (_, index) => `call-${index}`).join(',')
    const declaring = (parents: string) => ({ headers: { 'X-Parent-Calls': parents } })
    expect(known(declaring(list(PARENTS_MAX))).parents).toHaveLength(PARENTS_MAX)
    expect(ofCall(declaring(list(PARENTS_MAX + 1)))).toMatchObject({ ok: false, param: 'X-Parent-Calls' })
    expect(ofCall(declaring(','.repeat(PARENT_CALLS_CHARS_MAX))).ok).toBe(true)
    expect(ofCall(declaring(','.repeat(PARENT_CALLS_CHARS_MAX + 1))).ok).toBe(false)
  })
})

describe('a malformed id', () => {
  it.each([
    [{ 'X-Program-Id': 'a\tb' }, null, 'X-Program-Id'],
    [{ 'X-Program-Id': 'é' }, null, 'X-Program-Id'],
    [{ 'X-Program-Id': 'x'.repeat(129) }, null, 'X-Program-Id'],
    [{}, { program_id: 'a\u0007b' }, 'metadata.program_id'],
    [{ 'x-claude-code-session-id': 'a\u0000' }, null, 'x-claude-code-session-id'],
    [{ 'x-claude-code-session-id': 's', 'x-claude-code-agent-id': '\u007f' }, null, 'x-claude-code-agent-id'],
    [{ 'X-Thread-Id': 'x'.repeat(129) }, null, 'X-Thread-Id'],
    [{ 'X-Parent-Calls': 'fine, not\u0001fine' }, null, 'X-Parent-Calls'],
    [{ 'X-App': '\u0001' }, null, 'X-App'],
    [{ 'X-Program-Id': '\t' }, null, 'X-Program-Id'],
    [{ 'X-Program-Id': '.' }, null, 'X-Program-Id'],
    [{}, { program_id: ' .. ' }, 'metadata.program_id'],
  ])('is refused by name: %j %j', (headers, metadata, param) => {
    const call = { headers: headers as Record<string, string>, ...(metadata === null ? {} : { metadata }) }
    expect(ofCall(call)).toMatchObject({ ok: false, param })
  })

  it('is refused even where a later source names a good one', () => {
    expect(ofCall({ headers: { 'X-Program-Id': 'a\u0000', session_id: 'good' } })).toMatchObject({
      ok: false,
      param: 'X-Program-Id',
    })
  })

  it('at the limit is taken', () => {
    expect(known({ headers: { 'X-Program-Id': 'x'.repeat(128) } }).program).toHaveLength(128)
  })

  it('never comes out: every accepted id is an id of the protocol', () => {
    const unit = fc.constantFrom('a', ' ', ',', '\t', '\u0000', '\u007f', 'é', '😀')
    const text = fc.oneof(fc.string({ maxLength: 140 }), fc.string({ unit, maxLength: 6 }))
    const names = ['X-Program-Id', 'X-Thread-Id', 'X-Parent-Calls', 'X-App', 'session_id', 'traceparent']
    fc.assert(
      fc.property(
        fc.dictionary(fc.constantFrom(...names), text),
        fc.dictionary(fc.constantFrom('program_id', 'session_id', 'thread_id', 'user_id'), text),
        fc.dictionary(fc.constantFrom('session_id'), text),
        (headers, metadata, body) => {
          const verdict = ofCall({ headers, metadata, body })
          if (!verdict.ok) return
          const ids = [verdict.program, verdict.thread, verdict.app, ...(verdict.parents ?? [])]
          for (const id of ids) if (id !== null) expect(Id.safeParse(id).success).toBe(true)
        },
      ),
    )
  })
})
