import { Agent, createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import type { DrawnRequest } from './draw-request.ts'
import { Presence, sendAll } from './fuzz-api.ts'
import { sendRequest } from './send-request.ts'

const REQUEST = { method: 'GET', path: '/', headers: {}, body: null, leaves_after_ms: null } as unknown as DrawnRequest

test('a system is gone once it has refused connections for a while, and not while it answers in between', async () => {
  const server = createServer((_, response) => response.end('here'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const agent = new Agent({ keepAlive: false })
  const presence = new Presence()
  const send = async () => presence.saw(await sendRequest(`http://127.0.0.1:${port}`, agent, REQUEST))
  const sendMany = () => Promise.all(Array.from({ length: 150 }, send))
  const close = () => new Promise((resolve) => server.close(resolve))

  await sendMany()
  expect(presence.is_gone).toBe(false)

  await close()
  await sendMany()
  expect(presence.is_gone).toBe(false)

  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  await send()
  await close()
  await sendMany()
  expect(presence.is_gone).toBe(false)

  await sendMany()
  expect(presence.is_gone).toBe(true)
})

test('requests are sent until there are enough, or until the time is over', async () => {
  const sent: number[] = []
  const send = async (at: number): Promise<void> => {
    sent.push(at)
    await new Promise((resolve) => setImmediate(resolve))
  }
  const within = { requests: 10, until_ms: Number.POSITIVE_INFINITY, at_once: 3 }
  expect(await sendAll(within, new Presence(), send)).toBe(10)
  expect(sent).toEqual(Array.from({ length: 10 }, (_, at) => at))

  const until_ms = performance.now() + 20
  const count = await sendAll({ requests: Number.MAX_SAFE_INTEGER, until_ms, at_once: 3 }, new Presence(), send)
  expect(performance.now()).toBeGreaterThanOrEqual(until_ms)
  expect(sent.length).toBe(10 + count)
})
