import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import { afterEach, expect, it } from 'vitest'
import { completeCall } from './complete-call.ts'

const BODY = JSON.stringify({
  choices: [{ text: 'one two' }],
  usage: {
    ...{ prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 },
    switchyard: { ttft_s: 0.1, tpot_s: 0.1 },
  },
})
const ANSWER = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-call-id: c1\r\ncontent-length: ${BODY.length}\r\n\r\n`
const REFUSAL = 'HTTP/1.1 503 Service Unavailable\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n'

let server: Server | null = null
afterEach(() => {
  server?.close()
  server = null
})

/** Requests are answered in turn, and by the last one from then on. */
async function serving(
  ...answers: readonly ((socket: Socket) => void)[]
): Promise<{ url: string; asked: () => number }> {
  let asked = 0
  server = createServer((socket) => {
    // Broken by this side.
    socket.on('error', () => undefined)
    socket.on('data', (chunk) => {
      if (!chunk.includes('POST ')) return
      const answer = answers[Math.min(asked, answers.length - 1)]
      asked += 1
      answer?.(socket)
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server has no port')
  return { url: `http://127.0.0.1:${address.port}`, asked: () => asked }
}

const ask = (url: string) =>
  completeCall({ url, api_key: 'k', model: 'm' }, { program: 'p', prompt: 'go', parents: [], output_tokens: 2 })
const reset = (socket: Socket): void => void socket.resetAndDestroy()
const close = (socket: Socket): void => void socket.end()
const serve = (socket: Socket): void => void socket.end(`${ANSWER}${BODY}`)
const refuse = (socket: Socket): void => void socket.end(REFUSAL)

it.each([
  ['resets', reset],
  ['closes', close],
])('asks again when the server %s the connection before the answer begins', async (_, breaks) => {
  const { url, asked } = await serving(breaks, refuse, serve)
  expect(await ask(url)).toMatchObject({ call_id: 'c1', text: 'one two', retries: 2 })
  expect(asked()).toBe(3)
})

it('does not ask again when the answer has begun', async () => {
  const { url, asked } = await serving((socket) => {
    socket.write(`${ANSWER}${BODY.slice(0, 5)}`, () => socket.resetAndDestroy())
  })
  await expect(ask(url)).rejects.toThrow()
  expect(asked()).toBe(1)
})
