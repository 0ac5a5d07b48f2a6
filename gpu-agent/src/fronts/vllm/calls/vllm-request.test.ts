import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { FRAME_BYTES_MAX } from '../../../../../src/core/wire/sse.ts'
import { until } from '../../../testing/harness.ts'
import { ANSWER_BYTES_MAX, ERROR_BYTES_MAX, VllmHttp, type VllmRequestEnd } from './vllm-request.ts'

async function served(answer: RequestListener) {
  const sockets: Socket[] = []
  const server = createServer(answer)
  server.on('connection', (socket: Socket) => sockets.push(socket))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const upstream = new VllmHttp()
  onTestFinished(() => {
    upstream.close()
    server.closeAllConnections()
    server.close()
  })
  const target = { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, api_key: null }
  const post = () => {
    const heard = { data: [] as string[], accepted: 0, end: null as VllmRequestEnd | null }
    const request = upstream.post(target, '/v1/completions', 'lease', '{}', {
      accepted: () => {
        heard.accepted += 1
      },
      data: (data) => heard.data.push(data),
      ended: (end) => {
        if (heard.end !== null) throw new Error('ended twice')
        heard.end = end
      },
    })
    return { heard, request, over: until(() => heard.end !== null) }
  }
  return { post, sockets, server }
}

const STREAM = { 'content-type': 'text/event-stream' }
const frame = (bytes: number): string => `data: ${'x'.repeat(bytes - 'data: \n\n'.length)}\n\n`

test('an event may have its bound of bytes, and one more ends the stream', async () => {
  let bytes = FRAME_BYTES_MAX
  const { post } = await served((_, response) => response.writeHead(200, STREAM).end(`${frame(bytes)}data: [DONE]\n\n`))
  const at = post()
  await at.over
  expect(at.heard).toMatchObject({ accepted: 1, end: { kind: 'done' } })
  expect(at.heard.data).toHaveLength(1)
  bytes += 1
  const past = post()
  await past.over
  expect(past.heard).toMatchObject({ data: [], end: { kind: 'cut' } })
})

test('an error’s body may have its bound of bytes, and of a longer one the beginning counts', async () => {
  let bytes = ERROR_BYTES_MAX
  const { post } = await served((_, response) => response.writeHead(400).end('x'.repeat(bytes)))
  const at = post()
  await at.over
  expect(at.heard.end).toMatchObject({ kind: 'refused', status: 400, body: 'x'.repeat(bytes) })
  bytes = ERROR_BYTES_MAX * 20
  const past = post()
  await past.over
  expect(past.heard.end?.kind === 'refused' && past.heard.end.body.length <= ERROR_BYTES_MAX).toBe(true)
})

test('an answer in one piece that never ends is cut at its bound, and no more of it is read', async () => {
  const megabyte = ' '.repeat(1024 * 1024)
  let sent_bytes = 0
  const { post } = await served((_, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    const more = (): void => {
      while (!response.destroyed && response.write(megabyte)) sent_bytes += megabyte.length
      sent_bytes += megabyte.length
    }
    response.on('drain', more)
    more()
  })
  const endless = post()
  await endless.over
  expect(endless.heard).toMatchObject({ data: [], end: { kind: 'refused', status: 413 } })
  // What the sockets between hold comes on top of it.
  expect(sent_bytes).toBeLessThan(3 * ANSWER_BYTES_MAX)
})

test('comments are no data, and what is no stream is no answer', async () => {
  const bodies = [': ping\n\ndata: 1\n\ndata: [DONE]\n\n', 'data: 1\n\n']
  const { post } = await served((_, response) => response.writeHead(200, STREAM).end(bodies.shift()))
  const whole = post()
  await whole.over
  expect(whole.heard).toMatchObject({ data: ['1'], end: { kind: 'done' } })
  const cut = post()
  await cut.over
  expect(cut.heard).toMatchObject({ data: ['1'], end: { kind: 'cut' } })
  const plain = await served((_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('hello'))
  const html = plain.post()
  await html.over
  expect(html.heard).toMatchObject({ accepted: 0, end: { kind: 'refused', status: 200 } })
})

test('a connection is used again, and a request on one that was just closed is sent once more', async () => {
  let answered = 0
  const { post, sockets } = await served((request, response) => {
    answered += 1
    request.resume()
    // The second request finds the connection closed.
    if (answered === 2) request.socket.resetAndDestroy()
    else response.writeHead(200, STREAM).end('data: [DONE]\n\n')
  })
  await post().over
  const second = post()
  await second.over
  expect(second.heard.end).toEqual({ kind: 'done' })
  expect(answered).toBe(3)
  expect(sockets).toHaveLength(2)
})

test('a fresh connection that is reset is not tried again', async () => {
  const { post } = await served((request) => request.socket.resetAndDestroy())
  const { heard, over } = post()
  await over
  expect(heard.end).toMatchObject({ kind: 'unreachable' })
})

test('an aborted request closes its connection and says nothing more', async () => {
  let closed = false
  const { post } = await served((request, response) => {
    request.resume()
    response.on('close', () => {
      closed = true
    })
    response.writeHead(200, STREAM).write('data: 1\n\n')
  })
  const { heard, request } = post()
  await until(() => heard.data.length === 1)
  request.abort()
  await until(() => closed)
  expect(heard.end).toBeNull()
})
