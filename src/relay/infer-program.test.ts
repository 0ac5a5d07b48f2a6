import { describe, expect, it } from 'vitest'
import type { ConversationRpc } from '../actors/contracts.ts'
import { conversationTurn } from '../core/conversation/conversation-turn.ts'
import { MessageHash } from '../core/conversation/message-hash.ts'
import { runCall } from './run-call.ts'
import { ADMITTED, answering, chat, failing, PROGRAM, UNRESTRICTED, type WorldOptions, world } from './testing/world.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const TRACEPARENT = { traceparent: `00-${TRACE}-b7ad6b7169203331-01` }
const KEY = [1, 2] as const

function inferring(options: WorldOptions = {}) {
  const identity = { ...UNRESTRICTED, inference: true }
  const authenticate = async () => ({ status: 'tenant' as const, identity })
  const program = { admit: async () => ADMITTED }
  return world({ engines: { e0: answering('Hello.') }, program, ...options, deps: { authenticate, ...options.deps } })
}

const joining = (place: Partial<Awaited<ReturnType<ConversationRpc['place']>>>) => ({
  conversation: { place: async () => ({ program: 'p1', source: 'answer' as const, parents: ['c0'], ...place }) },
})

describe('a call that names no program', () => {
  it('joins the one that its conversation says, with its parents, and says why', async () => {
    const it = inferring(joining({}))
    const response = await runCall(chat(), 'chat', it.deps)
    expect(response.headers.get('x-program-id')).toBe('p1')
    expect(it.saidTo('admit')).toMatchObject([{ program: 'p1', source: 'answer', parents: ['c0'] }])
    await response.text()
    await it.settled()
    expect(it.saidTo('place')).toHaveLength(1)
  })

  it.each([true, false])('reports what it was answered after the end, streamed: %s', async (stream) => {
    const it = inferring()
    const response = await runCall(chat({ stream }), 'chat', it.deps)
    await response.text()
    await it.settled()
    const answer = new MessageHash(KEY).answer({ content: 'Hello.' })
    expect(it.saidTo('answered')).toEqual([{ call: response.headers.get('x-call-id'), answer }])
  })

  it('reports that it failed', async () => {
    const it = inferring({ engines: { e0: failing({ code: 'bad', retryable: false, status: 400 }, 400) } })
    await (await runCall(chat(), 'chat', it.deps)).text()
    await it.settled()
    expect(it.saidTo('answered')).toMatchObject([{ answer: null }])
  })

  it('keeps the parents that it declares', async () => {
    const it = inferring(joining({}))
    await runCall(chat({}, { 'X-Parent-Calls': 'mine' }), 'chat', it.deps)
    expect(it.saidTo('admit')).toMatchObject([{ parents: ['mine'] }])
  })

  it('proceeds alone if the ConversationActor is slow or broken, or as its trace says', async () => {
    const never = new Promise<never>(() => {})
    const slow = inferring({ conversation: { place: () => never }, times: { conversation_timeout_ms: 10 } })
    expect((await runCall(chat(), 'chat', slow.deps)).headers.get('x-program-id')).toBeNull()
    expect(slow.saidTo('admit')).toEqual([])
    const broken = inferring({ conversation: { place: () => Promise.reject(new Error('gone')) } })
    const response = await runCall(chat({}, TRACEPARENT), 'chat', broken.deps)
    expect(response.headers.get('x-program-id')).toBe(TRACE)
    expect(broken.saidTo('admit')).toMatchObject([{ source: 'trace' }])
    expect(broken.reports).toContain('conversation_failed')
  })
})

describe('a call of a session', () => {
  const turnOf = async (request: Request, inference = true) => {
    const it = inference ? inferring() : world({ engines: { e0: answering('Hello.') } })
    await (await runCall(request, 'chat', it.deps)).text()
    await it.settled()
    return it.saidTo('admit')[0]
  }

  it('tells its program where it stands in its conversation', async () => {
    const messages = [{ role: 'user', content: 'Hi' }]
    const turn = conversationTurn({ messages }, KEY)
    expect(await turnOf(chat({ messages }, { 'x-session-id': 's' }))).toMatchObject({ program: 's', turn })
    expect(await turnOf(chat({ messages, session_id: 's' }))).toMatchObject({ program: 's', turn })
  })

  it('does not if something more explicit names program or thread, or the tenant switched inference off', async () => {
    expect(await turnOf(chat({}, PROGRAM))).toMatchObject({ turn: null })
    expect(await turnOf(chat({}, { 'x-session-id': 's', 'X-Thread-Id': 't' }))).toMatchObject({ turn: null })
    expect(await turnOf(chat({}, { 'x-session-id': 's' }), false)).toMatchObject({ turn: null })
  })
})

describe('no conversation is followed', () => {
  it.each([
    ['of a call that names its program', chat({}, PROGRAM)],
    ['of a call whose session header names it', chat({}, { 'x-session-id': 's' })],
  ])('%s', async (_, request) => {
    const it = inferring()
    await (await runCall(request, 'chat', it.deps)).text()
    await it.settled()
    expect(it.said.filter(({ to }) => to === 'conversation')).toEqual([])
  })

  it('for a tenant that switched inference off: its trace is its program', async () => {
    const it = world({ engines: { e0: answering('Hello.') } })
    const response = await runCall(chat({}, TRACEPARENT), 'chat', it.deps)
    expect(response.headers.get('x-program-id')).toBe(TRACE)
    expect((await runCall(chat(), 'chat', it.deps)).headers.get('x-program-id')).toBeNull()
    expect(it.said.filter(({ to }) => to === 'conversation')).toEqual([])
  })
})
