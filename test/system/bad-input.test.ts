/**
 * What a careless or hostile client sends, against the running system: a precise error each time, and nothing lost.
 */
import { connect } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventually, System } from './support/system.ts'

let system: System
const MODEL = 'emulated-8b'

beforeAll(async () => {
  system = await System.start({ engine: 'emulated' })
})
afterAll(async () => {
  await system.remove()
})

interface ErrorAnswer {
  status: number
  error: { message: string; type: string; param: string | null; code: string | null }
  headers: Headers
}

async function chat(
  body: unknown,
  init: { apiKey?: string | null; headers?: Record<string, string> } = {},
): Promise<ErrorAnswer> {
  const response = await system.fetch('/v1/chat/completions', {
    method: 'POST',
    body: typeof body === 'string' ? body : JSON.stringify(body),
    ...init,
  })
  const json = (await response.json()) as { error: ErrorAnswer['error'] }
  return { status: response.status, error: json.error, headers: response.headers }
}

const good = { model: MODEL, messages: [{ role: 'user', content: 'hello' }], max_tokens: 2 }

describe('a request body', () => {
  it('that is not JSON is a 400', async () => {
    const { status, error } = await chat('{"model": ')
    expect(status).toBe(400)
    expect(error.type).toBe('invalid_request_error')
    expect(error.message).toMatch(/JSON/)
  })

  it('with a wrong type is a 400 that names the field', async () => {
    const cases: [object, RegExp][] = [
      [{ ...good, messages: 'hello' }, /^messages/],
      [{ ...good, messages: [] }, /^messages/],
      [{ ...good, temperature: 'hot' }, /^temperature/],
      [{ ...good, max_tokens: -1 }, /^max_tokens/],
      [{ messages: good.messages }, /^model/],
      [{ ...good, messages: [{ role: 'wizard', content: 'x' }] }, /^messages/],
      [{ ...good, stream: 'yes' }, /^stream/],
    ]
    for (const [body, param] of cases) {
      const { status, error } = await chat(body)
      expect(status, JSON.stringify(body)).toBe(400)
      expect(error.param, JSON.stringify(body)).toMatch(param)
    }
  })

  it('over the limit is a 413, and one just under it is read', async () => {
    const limit = 4 * 1024 * 1024
    const { status, error } = await chat({ ...good, messages: [{ role: 'user', content: 'x'.repeat(limit) }] })
    expect(status).toBe(413)
    expect(error.code).toBe('request_too_large')
    const under = await chat({ ...good, messages: [{ role: 'user', content: 'x'.repeat(limit - 1000) }] })
    expect(under.error.code).toBe('context_length_exceeded')
  })

  it('that is packed, nested without end, of broken characters or names what every object has is answered in kind', async () => {
    const send = (body: BodyInit, headers: Record<string, string> = {}) =>
      system.fetch('/v1/chat/completions', { method: 'POST', body, headers })
    expect((await send(gzipSync(JSON.stringify(good)), { 'content-encoding': 'br' })).status).toBe(415)
    expect((await send(gzipSync(JSON.stringify(good)), { 'content-encoding': 'gzip' })).status).toBe(200)
    const bomb = gzipSync(JSON.stringify({ ...good, x: ' '.repeat(64 * 1024 * 1024) }))
    expect((await send(bomb, { 'content-encoding': 'gzip' })).status).toBe(413)
    expect((await send(`{"model":${'['.repeat(100_000)}`)).status).toBe(400)
    expect((await send(new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x7d]))).status).toBe(400)
    const { status } = await chat(`{"__proto__":{"priority":1},${JSON.stringify(good).slice(1)}`)
    expect(status).toBe(200)
    expect((await chat({ ...good, model: '__proto__' })).error.code).toBe('model_not_found')
    expect((await chat(good, { headers: { 'X-Program-Id': '__proto__' } })).status).toBe(200)
    expect((await system.fetch('/v1/programs/__proto__')).status).toBe(200)
  })

  it('that names an unknown model is a 404', async () => {
    const { status, error } = await chat({ ...good, model: 'gpt-17' })
    expect(status).toBe(404)
    expect(error.code).toBe('model_not_found')
  })
})

describe('a key', () => {
  it('that is missing or unknown is a 401', async () => {
    expect((await chat(good, { apiKey: null })).status).toBe(401)
    const { status, error } = await chat(good, { apiKey: `sk-sy-${'0'.repeat(40)}` })
    expect(status).toBe(401)
    expect(error.code).toBe('invalid_api_key')
  })

  it('of a tenant opens no admin route, and the admin key no tenant route', async () => {
    expect((await system.fetch('/admin/v1/pools')).status).toBe(401)
    expect((await chat(good, { apiKey: system.dev.adminKey })).status).toBe(401)
  })
})

describe('an id', () => {
  it('with control characters or over 128 characters is a 400 that names its header or field', async () => {
    const cases: [object, Record<string, string>, RegExp][] = [
      [good, { 'X-Program-Id': 'x'.repeat(129) }, /x-program-id/i],
      [good, { 'X-Thread-Id': 'x'.repeat(129), 'X-Program-Id': 'p' }, /x-thread-id/i],
      [good, { 'X-Program-Id': 'a\tb' }, /x-program-id/i],
      [good, { 'X-Program-Id': '..' }, /x-program-id/i],
      [{ ...good, metadata: { program_id: 'a\u0007b' } }, {}, /program_id/],
    ]
    for (const [body, headers, param] of cases) {
      const { status, error } = await chat(body, { headers })
      expect(status, JSON.stringify(headers)).toBe(400)
      expect(error.param ?? '', JSON.stringify(headers)).toMatch(param)
    }
  })

  it('of 128 characters is accepted', async () => {
    const { status } = await chat(good, { headers: { 'X-Program-Id': 'x'.repeat(128) } })
    expect(status).toBe(200)
  })
})

/** What no HTTP client sends: the answer's first line. */
function firstLineOf(text: string): Promise<string> {
  const url = new URL(system.dev.url)
  return new Promise((resolve, reject) => {
    const socket = connect(Number(url.port), url.hostname, () => socket.write(text))
    let answer = ''
    socket.on('data', (chunk) => {
      answer += chunk.toString()
      socket.end()
    })
    socket.on('close', () => resolve(answer.split('\r\n')[0] ?? ''))
    socket.on('error', reject)
  })
}

describe('headers', () => {
  it('of 100 kB are refused and the server goes on', async () => {
    const line = await firstLineOf(`GET /v1/models HTTP/1.1\r\nHost: x\r\nX-Big: ${'x'.repeat(100_000)}\r\n\r\n`)
    expect(line).toMatch(/ 4\d\d /)
    expect((await system.fetch('/v1/models')).status).toBe(200)
  })
})

describe('a body where none is expected', () => {
  it.each([
    ['GET', '/v1/programs', 200],
    ['HEAD', '/v1/programs', 200],
    ['GET', '/v1/programs/nothing', 404],
    ['GET', '/v1/conversations/nothing', 404],
    ['GET', '/v1/models', 200],
    ['GET', '/admin/v1/pools', 200],
    ['HEAD', '/admin/v1/pools', 200],
  ])('is ignored: %s %s', async (method, path, status) => {
    const { adminKey, apiKey } = system.dev
    const key = path.startsWith('/admin') ? adminKey : apiKey
    const head = [`${method} ${path} HTTP/1.1`, 'Host: x', `Authorization: Bearer ${key}`, 'Content-Length: 2']
    const line = await firstLineOf(`${head.join('\r\n')}\r\n\r\n{}`)
    expect(line).toContain(` ${status} `)
  })
})

describe('tenants', () => {
  it('see another’s program as absent, and one name is two programs', async () => {
    const { apiKey: theirs } = await system.createTenant('other')
    const headers = { 'X-Program-Id': 'shared-name' }
    expect((await chat(good, { headers })).status).toBe(200)
    const foreign = await system.fetch('/v1/programs/shared-name', { apiKey: theirs })
    const absent = await system.fetch('/v1/programs/no-such-name', { apiKey: theirs })
    expect(foreign.status).toBe(404)
    expect(absent.status).toBe(404)
    const withoutName = (text: string) => text.replaceAll('shared-name', 'ID').replaceAll('no-such-name', 'ID')
    expect(withoutName(await foreign.text())).toBe(withoutName(await absent.text()))
    expect((await system.fetch('/v1/programs/shared-name', { apiKey: theirs, method: 'DELETE' })).status).toBe(404)
    expect((await chat(good, { headers, apiKey: theirs })).status).toBe(200)
    expect((await chat(good, { headers, apiKey: theirs })).status).toBe(200)
    const calls = async (apiKey?: string) =>
      (
        (await (
          await system.fetch('/v1/programs/shared-name/calls', apiKey === undefined ? {} : { apiKey })
        ).json()) as { data: unknown[] }
      ).data.length
    expect(await calls()).toBe(1)
    expect(await calls(theirs)).toBe(2)
  })
})

describe('a cache', () => {
  it('is shared by a tenant’s calls and with no other tenant, for every input', async () => {
    const { apiKey: theirs } = await system.createTenant('neighbour')
    const body = { ...good, messages: [{ role: 'user', content: 'a prompt that another tenant guesses '.repeat(40) }] }
    const cached = async (sent: object, apiKey?: string): Promise<number> => {
      const init = { method: 'POST', body: JSON.stringify(sent), ...(apiKey === undefined ? {} : { apiKey }) }
      const answer = (await (await system.fetch('/v1/chat/completions', init)).json()) as {
        usage: { prompt_tokens_details: { cached_tokens: number } }
      }
      return answer.usage.prompt_tokens_details.cached_tokens
    }
    expect(await cached(body)).toBe(0)
    expect(await cached(body)).toBeGreaterThan(0)
    const steering = { cache_salt: 'guess', session_id: 'x', user: 'local', priority: -1 }
    expect(await cached({ ...body, ...steering }, theirs)).toBe(0)
  })
})

describe('an unknown route', () => {
  it('is a 404 in the same shape', async () => {
    const response = await system.fetch('/v1/no-such-thing')
    expect(response.status).toBe(404)
    expect(((await response.json()) as { error: { type: string } }).error.type).toBe('invalid_request_error')
  })
})

it('engines report the bytes per token that they measure, and every pool tells them', async () => {
  expect((await chat(good)).status).toBe(200)
  const measured = await eventually('a pool with a measured ratio', async () => {
    const answer = await system.fetch('/admin/v1/pools', { apiKey: system.dev.adminKey })
    const { pools } = (await answer.json()) as { pools: { bytes_per_token: number | null }[] }
    return pools.find(({ bytes_per_token }) => bytes_per_token !== null)
  })
  expect(measured.bytes_per_token).toBeGreaterThan(0)
})
