import { expect, it, onTestFinished } from 'vitest'
import { PROBE_CALLS_MAX, PROBE_TOKENS_MAX, probeServer } from './probe-server.ts'
import { isLocalUrl } from './server-options.ts'
import { attachFront } from './testing/attached-front.ts'
import { PlainServer } from './testing/plain-server.ts'

async function plain(): Promise<PlainServer> {
  const server = await new PlainServer({ step_ms: 0, completions: true }).listen()
  onTestFinished(() => server.close())
  return server
}

it('sees what a server does, within its bounds of calls and tokens', async () => {
  const server = await plain()
  const behaviour = await probeServer({ url: server.url, api_key: null }, 'plain', false)
  expect(behaviour).toMatchObject({
    ...{ usage_in_streams: true, cached_tokens: null, tools: null, logprobs: false, choices: false },
    ...{ schemas: false, stops_when_left: null },
  })
  expect(behaviour.calls).toBe(server.served.length)
  expect(behaviour.calls).toBeLessThanOrEqual(PROBE_CALLS_MAX)
  expect(behaviour.tokens).toBeLessThanOrEqual(PROBE_TOKENS_MAX)
})

it('what was seen to be missing is refused by name', async () => {
  const server = await plain()
  const { serve, events } = await attachFront(server.url, {}, { probe: true })
  expect(events[0]).toMatchObject({ behaviour: { choices: false, logprobs: false }, unknown: expect.any(Array) })
  const { sink } = serve({ n: 2 })
  await sink.over
  expect(sink.error).toMatchObject({ status: 400, error: { code: 'unsupported_parameter', param: 'n' } })
})

it('a field that the server itself refuses is one that it lacks; a server that hangs up proves nothing', async () => {
  const server = await plain()
  const given = { url: server.url, api_key: null }
  server.answer = (_, response) => void response.writeHead(400, { 'content-type': 'application/json' }).end('{}')
  expect(await probeServer(given, 'plain', false)).toMatchObject({ tools: false, schemas: false, choices: false })
  server.answer = (request) => void request.destroy()
  expect(await probeServer(given, 'plain', true)).toMatchObject({ tools: null, schemas: null, stops_when_left: null })
})

it.each([
  ['http://127.0.0.1:11434', true],
  ['http://localhost:8000', true],
  ['http://[::1]:8000', true],
  ['http://192.168.1.7', true],
  ['http://172.20.0.2', true],
  ['http://gpu.local:8000', true],
  ['http://172.32.0.1', false],
  ['https://api.example.com', false],
  ['http://127.0.0.1.example.com', false],
  ['http://8.8.8.8', false],
])('calls that cost nothing: %s is local: %s', (url, local) => {
  expect(isLocalUrl(url)).toBe(local)
})
