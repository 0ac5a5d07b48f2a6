/** Through Node's own fetch and undici, and through the wrapped fetch of other runtimes, against a real HTTP server. */
import { request as undiciRequest } from 'undici'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { labelledFetch } from './fetch-hook.ts'
import { asStep, branch, configure, headers, program, step, tool } from './index.ts'
import { Recorder } from './testing/recorder.ts'

const OWN = ['x-program-id', 'x-thread-id', 'x-parent-calls', 'x-app', 'x-tool-time', 'x-program-regions']

let server: Recorder
let other: Recorder
beforeEach(async () => {
  ;[server, other] = await Promise.all([Recorder.start(), Recorder.start()])
  configure({ baseUrl: `${server.url}/v1`, apiKey: 'sk-test' })
})
afterEach(async () => {
  configure({})
  await Promise.all([server.stop(), other.stop()])
})

type Post = (url: string, body: string, headers?: Record<string, string>) => Promise<unknown>
const wrapped = labelledFetch(globalThis.fetch)
const CLIENTS: [string, Post][] = [
  ['fetch', async (url, body, headers = {}) => (await fetch(url, { method: 'POST', body, headers })).text()],
  [
    'fetch of a Request',
    async (url, body, headers = {}) => (await fetch(new Request(url, { method: 'POST', body, headers }))).text(),
  ],
  [
    'undici',
    async (url, body, headers = {}) => (await undiciRequest(url, { method: 'POST', body, headers })).body.text(),
  ],
  ['wrapped fetch', async (url, body, headers = {}) => (await wrapped(url, { method: 'POST', body, headers })).text()],
  [
    'wrapped fetch of a Request',
    async (url, body, headers = {}) => (await wrapped(new Request(url, { method: 'POST', body, headers }))).text(),
  ],
]
const ask = async (content: string) => {
  await (await fetch(`${server.url}/v1/calls`, { method: 'POST', body: content })).text()
}
const ownHeaders = (sent: object | undefined) => OWN.filter((name) => sent !== undefined && name in sent)

describe.each(CLIENTS)('%s', (_, post) => {
  it('says which program, thread and parents', async () => {
    await program(
      'clients',
      async () => {
        await tool('web search', () => null)
        await post(`${server.url}/v1/calls`, 'a')
        await post(`${server.url}/v1/calls`, 'b')
      },
      { regions: ['eu', 'us'], budget: { tokens: 500 }, hints: { expect_tool_s: 2.5 } },
    )
    const [first, second] = server.calls
    expect(first?.headers).toMatchObject({
      'x-program-id': expect.stringMatching(/^clients-/),
      'x-app': 'clients',
      'x-thread-id': 'main',
      'x-program-regions': 'eu,us',
      'x-program-budget': 'tokens=500',
      'x-program-hints': 'expect_tool_s=2.5',
      'x-tool-time': expect.stringMatching(/^web-search;dur=\d+$/),
    })
    expect(second?.headers).not.toHaveProperty('x-tool-time')
    expect(server.placed().b).toEqual(['main', ['a']])
  })

  it('gives no header to another host, nor along a redirect to one', async () => {
    await program('private', async () => {
      await post(`${other.url}/v1/calls`, 'direct')
      server.redirect = `${other.url}/v1/calls`
      await post(`${server.url}/v1/calls`, 'redirected')
    })
    expect(ownHeaders(server.calls[0]?.headers)).toContain('x-program-id')
    for (const { headers } of other.calls) expect(ownHeaders(headers)).toEqual([])
    expect(other.calls[0]?.body).toBe('direct')
  })

  it('adds nothing outside of programs, nor to a call that names its own', async () => {
    await post(`${server.url}/v1/calls`, 'outside')
    await program('mine', async () => {
      await post(`${server.url}/v1/calls`, 'theirs', { 'X-Program-Id': 'theirs' })
      await post(`${server.url}/v1/calls`, 'thread', { 'X-Thread-Id': 'their-thread' })
    })
    const [outside, theirs, thread] = server.calls
    expect(ownHeaders(outside?.headers)).toEqual([])
    expect(ownHeaders(theirs?.headers)).toEqual(['x-program-id'])
    expect(thread?.headers['x-thread-id']).toBe('their-thread')
  })
})

describe('redirects', () => {
  it.each(CLIENTS.filter(([name]) => name !== 'undici'))('%s arrives with its body', async (_, post) => {
    server.redirect = `${other.url}/v1/calls`
    await program('redirected', () => post(`${server.url}/v1/calls`, 'body'))
    expect(other.calls.map(({ method, body }) => [method, body])).toEqual([['POST', 'body']])
  })
})

describe('branches', () => {
  it('are threads with exact parents, however their promises interleave', async () => {
    await program('fan-out', async () => {
      await ask('plan')
      await Promise.all(
        ['a', 'b', 'c'].map((name) =>
          branch(async () => {
            await ask(`${name}1`)
            await ask(`${name}2`)
          }),
        ),
      )
      await ask('join')
      await ask('end')
    })
    const placed = server.placed()
    const threads = ['a', 'b', 'c'].map((name) => {
      expect(placed[`${name}1`]?.[1]).toEqual(['plan'])
      expect(placed[`${name}2`]).toEqual([placed[`${name}1`]?.[0], [`${name}1`]])
      return placed[`${name}1`]?.[0]
    })
    expect(new Set(threads).size).toBe(3)
    expect(placed.join).toEqual(['main', ['a2', 'b2', 'c2']])
    expect(placed.end).toEqual(['main', ['join']])
  })

  it('are named by steps', async () => {
    const search = asStep('search', (content: string) => ask(content))
    await program('steps', async () => {
      await Promise.all([search('s1'), search('s2')])
      await step('write', () => ask('w'))
      await search('s3')
    })
    const placed = server.placed()
    expect([placed.s1?.[0], placed.s2?.[0]].toSorted()).toEqual(['search', 'search-2'])
    expect(placed.w).toEqual(['write', ['s1', 's2']])
    expect(placed.s3).toEqual(['search', ['w']])
  })

  it('need no names in a plain Promise.all of single calls', async () => {
    await program('plain', async () => {
      await ask('plan')
      await Promise.all(['a', 'b', 'c'].map(ask))
      await ask('join')
    })
    const placed = server.placed()
    expect(['a', 'b', 'c'].map((name) => placed[name]?.[1])).toEqual([['plan'], ['plan'], ['plan']])
    expect(placed.join).toEqual(['main', ['a', 'b', 'c']])
  })

  it('of two programs at once do not mix', async () => {
    const runs = await Promise.all(
      ['x', 'y'].map((id) =>
        program(
          id,
          async (run) => {
            await ask(`${id}1`)
            await ask(`${id}2`)
            return run.id
          },
          { id },
        ),
      ),
    )
    expect(runs).toEqual(['x', 'y'])
    for (const { headers, body } of server.calls) expect(headers['x-program-id']).toBe(body[0])
    expect(server.placed().y2).toEqual(['main', ['y1']])
  })
})

describe('the session', () => {
  it('is started and ended with the key', async () => {
    const id = await program('research', (run) => run.id, { metadata: { user: 'u1' } })
    const [start, end] = server.asked
    expect(start).toMatchObject({ method: 'POST', path: '/v1/programs' })
    expect(JSON.parse(start?.body ?? '')).toEqual({ id, app: 'research', metadata: { user: 'u1' } })
    expect(end).toMatchObject({ method: 'DELETE', path: `/v1/programs/${id}` })
    for (const { headers } of server.asked) expect(headers.authorization).toBe('Bearer sk-test')
  })

  it.each([404, 409, 500])('that was not started here (%i) is not ended here', async (status) => {
    server.start_status = status
    const warnings = vi.spyOn(console, 'warn').mockReturnValue()
    await program('shared', () => ask('a'), { id: 'shared/1' })
    warnings.mockRestore()
    expect(server.calls[0]?.headers['x-program-id']).toBe('shared/1')
    expect(server.asked.map(({ method }) => method)).toEqual(['POST', 'POST'])
  })

  it('with an open answer is left to end by itself', async () => {
    server.hold()
    const answer = await program('streaming', () => fetch(`${server.url}/v1/calls`, { method: 'POST', body: 'a' }))
    server.release()
    expect(await answer.text()).toBe('{}')
    expect(server.asked.some(({ method }) => method === 'DELETE')).toBe(false)
  })
})

describe('failures', () => {
  it('of the server leave the code running', async () => {
    const warnings = vi.spyOn(console, 'warn').mockReturnValue()
    expect(await program('nowhere', () => 7, { baseUrl: 'http://127.0.0.1:9' })).toBe(7)
    expect(await program('unset', () => headers()['x-thread-id'], { baseUrl: 'no url' })).toBe('main')
    expect(headers()).toEqual({})
    warnings.mockRestore()
  })

  it('of the code come through, and the program ends', async () => {
    const failing = program('failing', () =>
      step('s', () =>
        tool('t', () => {
          throw new Error('theirs')
        }),
      ),
    )
    await expect(failing).rejects.toThrow('theirs')
    expect(server.asked.map(({ method }) => method)).toEqual(['POST', 'DELETE'])
  })

  it.each(['', '.', '..', '研究', 'a,b\r\nX-Evil: 1', 'x'.repeat(1000)])(
    'are not caused by the name %j',
    async (name) => {
      await program(name, () => step(name, () => ask('a')))
      const sent = server.calls[0]?.headers
      const id = String(sent?.['x-program-id'])
      expect(id).toMatch(/^[\x21-\x2b\x2d-\x7e]{1,128}$/)
      expect(String(sent?.['x-thread-id'])).toMatch(/^[\x21-\x2b\x2d-\x7e]{1,128}$/)
      expect(sent).not.toHaveProperty('x-evil')
    },
  )
})
