/** Calls of the Responses API through the relay: scripted engines, real ResponsesActors. */
import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { responsesActor } from '../actors/stubs.ts'
import { runCall } from './run-call.ts'
import { delta, type Engine, failing, MODEL, Script, UNRESTRICTED, type World, world } from './testing/world.ts'

type Json = Record<string, unknown>

function ask(body: Json, headers: Record<string, string> = {}): Request {
  const init = { method: 'POST', body: JSON.stringify({ model: MODEL, ...body }), headers }
  return new Request('http://switchyard.test/v1/responses', init)
}

/** Answers every call with its prompt's last message, and keeps the bodies. */
function echoing(tenant: string): { it: World; bodies: Json[] } {
  const bodies: Json[] = []
  const engine: Engine = async (request) => {
    const body = (await request.json()) as { messages: { content: unknown }[] }
    bodies.push(body)
    const script = new Script().chunk(delta(`to ${String(body.messages.at(-1)?.content)}`))
    return script.write('data: [DONE]\n\n').end().response
  }
  // The actors are real, and a machine may be slow.
  const store = { timeout_ms: 60_000, report: (event: string) => void reports.push(event) }
  const reports: string[] = []
  const deps = {
    // With inference, which reads answers too.
    authenticate: async () => ({ status: 'tenant' as const, identity: { ...UNRESTRICTED, inference: true } }),
    store: () => ({ ...store, responses: (shard: number) => responsesActor(env, tenant, shard) }),
  }
  return { it: world({ engines: { e0: engine }, deps }), bodies }
}

async function made(it: World, body: Json): Promise<Json> {
  const response = await runCall(ask(body), 'responses', it.deps)
  const json = (await response.json()) as Json
  expect(json, JSON.stringify(json)).toMatchObject({ object: 'response' })
  return json
}

async function refused(it: World, body: Json): Promise<Json> {
  const response = await runCall(ask(body), 'responses', it.deps)
  const { error } = (await response.json()) as { error: Json }
  return { status: response.status, ...error }
}

const textOf = (response: Json): unknown => (response.output as { content: { text: string }[] }[])[0]?.content[0]?.text

describe('a response that is stored', () => {
  it('is not asked for by input that is no item', async () => {
    const { it, bodies } = echoing('no-items')
    for (const input of [[null], [null, 5], ['x'], [[]], [{ id: 5 }]]) {
      expect(await refused(it, { input }), JSON.stringify(input)).toMatchObject({ status: 400 })
    }
    expect(bodies).toEqual([])
  })

  it('is continued by its id, over any number of turns', async () => {
    const { it, bodies } = echoing('chain')
    const one = await made(it, { input: 'one' })
    const two = await made(it, { input: 'two', previous_response_id: one.id, instructions: 'Be brief.' })
    const three = await made(it, { input: [{ role: 'user', content: 'three' }], previous_response_id: two.id })
    expect(textOf(three)).toBe('to three')
    expect(three.previous_response_id).toBe(two.id)
    const user = (content: string) => ({ role: 'user', content })
    const assistant = (content: string) => ({ role: 'assistant', content })
    expect(bodies.map((body) => body.messages)).toEqual([
      [user('one')],
      [{ role: 'system', content: 'Be brief.' }, user('one'), assistant('to one'), user('two')],
      [user('one'), assistant('to one'), user('two'), assistant('to two'), user('three')],
    ])
  })

  it('can be continued by two calls at once, which do not see each other', async () => {
    const { it, bodies } = echoing('branches')
    const one = await made(it, { input: 'one' })
    await Promise.all(['left', 'right'].map((input) => made(it, { input, previous_response_id: one.id })))
    expect(bodies.slice(1).map(({ messages }) => (messages as Json[]).length)).toEqual([3, 3])
  })

  it('lends its items to calls that refer to them', async () => {
    const { it, bodies } = echoing('references')
    const one = await made(it, { input: 'one' })
    const id = (one.output as Json[])[0]?.id
    await made(it, {
      input: [
        { role: 'user', content: 'one' },
        { type: 'item_reference', id },
        { role: 'user', content: 'two' },
      ],
    })
    expect(bodies[1]?.messages).toMatchObject([{ content: 'one' }, { content: 'to one' }, { content: 'two' }])
  })

  it('is kept before a streaming client sees its end', async () => {
    const { it } = echoing('streamed')
    const response = await runCall(ask({ input: 'one', stream: true }), 'responses', it.deps)
    const text = await response.text()
    const id = /"id":"(resp_\w+)"/.exec(text)?.[1]
    expect(text).toContain('event: response.completed')
    expect(textOf(await made(it, { input: 'two', previous_response_id: id }))).toBe('to two')
  })

  it('knows its program: what continues it belongs there, as a child of its call', async () => {
    const { it } = echoing('identity')
    const first = await runCall(ask({ input: 'one' }, { 'X-Program-Id': 'p' }), 'responses', it.deps)
    const one = (await first.json()) as Json
    await made(it, { input: 'two', previous_response_id: one.id })
    const parent = first.headers.get('x-call-id')
    expect(it.saidTo('admit')).toMatchObject([{ program: 'p' }, { program: 'p', parents: [parent] }])
    const own = await runCall(
      ask({ input: 'x', previous_response_id: one.id }, { 'X-Program-Id': 'q' }),
      'responses',
      it.deps,
    )
    await own.text()
    expect(it.saidTo('admit').at(-1)).toMatchObject({ program: 'q' })
  })

  it('is not kept with store: false', async () => {
    const { it } = echoing('unkept')
    const one = await made(it, { input: 'one', store: false })
    expect(one.store).toBe(false)
    expect(await refused(it, { input: 'two', previous_response_id: one.id })).toMatchObject({
      ...{ status: 404, code: 'previous_response_not_found', param: 'previous_response_id' },
    })
  })

  it('costs its client nothing when the store fails', async () => {
    const responses = { put: async () => Promise.reject(new Error('the object is gone')) }
    const engine: Engine = () => new Script().chunk(delta('hi')).write('data: [DONE]\n\n').end().response
    const it = world({ engines: { e0: engine }, responses })
    expect(textOf(await made(it, { input: 'one' }))).toBe('hi')
    expect(it.reports).toContain('response_not_kept')
  })
})

describe('ids that lead nowhere', () => {
  it.each([
    ['previous_response_id', { previous_response_id: 'resp_00ffff' }, 'previous_response_not_found'],
    ['previous_response_id', { previous_response_id: 'resp_zz' }, 'previous_response_not_found'],
    ['previous_response_id', { previous_response_id: 'msg_00ff' }, 'previous_response_not_found'],
    ['conversation', { conversation: 'conv_00ffff' }, 'conversation_not_found'],
    ['conversation', { conversation: { id: 'mine' } }, 'conversation_not_found'],
    ['input', { input: [{ type: 'item_reference', id: 'msg_00ffff0000' }] }, 'item_not_found'],
    ['input', { input: [{ type: 'item_reference', id: 'elsewhere' }] }, 'item_not_found'],
  ])('%s: %j is 404', async (param, body, code) => {
    const { it, bodies } = echoing('nowhere')
    expect(await refused(it, { input: 'x', ...body })).toMatchObject({ status: 404, param, code })
    expect(bodies).toEqual([])
  })

  it('a response of another tenant is absent, by every way to it', async () => {
    const owner = echoing('owner')
    const thief = echoing('thief')
    const one = await made(owner.it, { input: 'secret' })
    const item = (one.output as Json[])[0]?.id
    expect(await refused(thief.it, { input: 'x', previous_response_id: one.id })).toMatchObject({ status: 404 })
    expect(await refused(thief.it, { input: [{ type: 'item_reference', id: item }] })).toMatchObject({ status: 404 })
    expect(thief.bodies).toEqual([])
  })

  it('a store that does not answer is 503, since the call would lose its history', async () => {
    const responses = { history: async () => Promise.reject(new Error('the object is gone')) }
    const it = world({ responses })
    expect(await refused(it, { input: 'x', previous_response_id: 'resp_00ff' })).toMatchObject({
      ...{ status: 503, code: 'responses_unavailable' },
    })
  })
})

describe('a conversation', () => {
  it('gives its items to a response and gets the response’s', async () => {
    const { it, bodies } = echoing('talk')
    const actor = responsesActor(env, 'talk', 2)
    await actor.createConversation({ key: '02c1', created_at_ms: 1, metadata: {} })
    for (const input of ['one', 'two']) await made(it, { input, conversation: 'conv_02c1' })
    expect(bodies[1]?.messages).toMatchObject([{ content: 'one' }, { content: 'to one' }, { content: 'two' }])
    expect(await actor.conversationTurns('02c1')).toHaveLength(2)
  })
})

it('names the fields that had no effect', async () => {
  const { it } = echoing('warnings')
  const body = { input: 'x', service_tier: 'flex', tools: [{ type: 'web_search' }] }
  const response = await runCall(ask(body), 'responses', it.deps)
  await response.text()
  expect(response.headers.get('x-switchyard-warnings')).toBe('ignored=service_tier, ignored=tools[].web_search')
})

describe('an error of an engine', () => {
  const refusing: Engine = () =>
    failing({ code: 'invalid_value', status: 400, retryable: false }, 400)(new Request('http://x'))

  it('before the answer is a plain HTTP error', async () => {
    const it = world({ engines: { e0: refusing } })
    const response = await runCall(ask({ input: 'x', stream: true }), 'responses', it.deps)
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({ error: { code: 'invalid_value' } })
  })

  it('in the answer ends the stream as failed', async () => {
    const engine: Engine = () => new Script().chunk(delta('Hel')).end().response
    const it = world({ engines: { e0: engine } })
    const text = await (await runCall(ask({ input: 'x', stream: true }), 'responses', it.deps)).text()
    expect(text.match(/^event: .*$/gm)?.slice(-2)).toEqual(['event: error', 'event: response.failed'])
  })
})
