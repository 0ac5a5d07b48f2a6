import { Agent, createServer, get, IncomingMessage, ServerResponse } from 'node:http'
import { type AddressInfo, createConnection, Socket } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import { NOTHING_MEASURED } from '../../../src/protocol/index.ts'
import type { CallEnd } from '../fronts/engine-front.ts'
import { CallStream, STREAM_TIMES, type StreamTimes } from './call-stream.ts'
import { ERRORS } from './stream-errors.ts'

const COMPLETED: CallEnd = {
  outcome: 'completed',
  finish_reason: 'stop',
  error: null,
  measurement: NOTHING_MEASURED,
  last_chunks: [],
}

interface Stream {
  stream: CallStream
  reader: Socket
  /** The server's side has closed the response, whole or not. */
  closed: Promise<void>
}

/** A stream to a reader that takes nothing until the test lets it. */
async function streamTo(times: Partial<StreamTimes>): Promise<Stream> {
  const { promise, resolve } = Promise.withResolvers<Stream>()
  const server = createServer((_request, response) => {
    const stream = new CallStream(response, { ...STREAM_TIMES, ...times }, () => {})
    resolve({ stream, reader, closed: new Promise((close) => response.on('close', close)) })
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  const reader = createConnection({ port: (server.address() as AddressInfo).port, host: '127.0.0.1' })
  reader.on('error', () => {})
  reader.pause()
  reader.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n')
  onTestFinished(() => {
    reader.destroy()
    server.close()
    server.closeAllConnections()
  })
  return promise
}

async function tailOf(reader: Socket): Promise<string> {
  let tail = ''
  reader.on('data', (part) => {
    tail = (tail + part.toString('latin1')).slice(-200)
  })
  const closed = new Promise((resolve) => reader.on('close', resolve))
  reader.resume()
  await closed
  return tail
}

/** What was said so far has been written. */
function written(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve))
}

const MIB = 1024 * 1024

test('bytes that are not read may reach the bound, and one byte past it the stream is broken', async () => {
  const { stream } = await streamTo({ unread_bytes_max: 64 * MIB, keepalive_ms: 60_000 })
  // Fills the kernel's socket buffers, so that from here on every byte stays unread.
  expect(stream.chunk({ text: 'x'.repeat(32 * MIB) })).toBe(true)
  expect(stream.chunk({ text: 'x'.repeat(31 * MIB) })).toBe(true)
  expect(stream.chunk({ text: 'x'.repeat(2 * MIB) })).toBe(false)
  expect(stream.chunk({})).toBe(false)
})

test('a finished response whose reader does not take it in time is cut', async () => {
  const { stream, reader, closed } = await streamTo({
    unread_bytes_max: 256 * MIB,
    keepalive_ms: 60_000,
    read_out_ms: 50,
  })
  for (let n = 0; n < 64; n += 1) stream.chunk({ text: 'x'.repeat(MIB) })
  stream.finish(COMPLETED, ERRORS.cancelled)
  await closed
  expect(await tailOf(reader)).not.toContain('[DONE]')
})

test('the same response to a reader that takes it is whole', async () => {
  const { stream, reader } = await streamTo({ unread_bytes_max: 256 * MIB, keepalive_ms: 60_000 })
  for (let n = 0; n < 64; n += 1) stream.chunk({ text: 'x'.repeat(MIB) })
  stream.finish(COMPLETED, ERRORS.cancelled)
  const tail = tailOf(reader)
  reader.on('data', (part) => part.includes('[DONE]') && reader.end())
  expect(await tail).toContain('data: [DONE]\n\n')
})

test('last chunks that do not fit any more leave the response broken and not complete', async () => {
  const { stream, reader, closed } = await streamTo({ unread_bytes_max: 16 * MIB, keepalive_ms: 60_000 })
  stream.chunk({ text: 'x'.repeat(15 * MIB) })
  stream.finish({ ...COMPLETED, last_chunks: [{ text: 'x'.repeat(2 * MIB) }] }, ERRORS.cancelled)
  await closed
  expect(await tailOf(reader)).not.toContain('[DONE]')
})

test('what comes at once goes out in one write', async () => {
  const writes: string[] = []
  const response = new ServerResponse(new IncomingMessage(new Socket()))
  response.write = (text: string) => writes.push(text) > 0
  response.end = ((text: string) => {
    writes.push(text)
    return response
  }) as typeof response.end
  const stream = new CallStream(response, STREAM_TIMES, () => {})
  onTestFinished(() => void response.destroy())
  const delta = (fields: object) => ({ choices: [{ index: 0, delta: fields }] })
  const event = (data: object) => `data: ${JSON.stringify(data)}\n\n`
  stream.accepted()
  stream.chunk(delta({ role: 'assistant' }))
  stream.chunk(delta({ content: 'a' }))
  expect(writes).toEqual([])
  await written()
  expect(writes).toEqual([`: accepted\n\n${event(delta({ role: 'assistant' }))}${event(delta({ content: 'a' }))}`])
  stream.chunk(delta({ content: 'b' }))
  stream.finish({ ...COMPLETED, last_chunks: [{ usage: 1 }] }, ERRORS.cancelled)
  await written()
  expect(writes.slice(1)).toEqual([`${event(delta({ content: 'b' }))}${event({ usage: 1 })}data: [DONE]\n\n`])
})

test('an event that goes early does not shorten the next one', async () => {
  vi.useFakeTimers()
  onTestFinished(() => {
    vi.useRealTimers()
  })
  const sizes: number[] = []
  const response = new ServerResponse(new IncomingMessage(new Socket()))
  response.write = (text: string) => {
    const { choices } = JSON.parse(text.slice('data: '.length)) as { choices: [{ delta: { content: string } }] }
    return sizes.push(choices[0].delta.content.length) > 0
  }
  const stream = new CallStream(response, STREAM_TIMES, () => {})
  const { after_ms, interval_ms } = STREAM_TIMES.events
  for (let ms = 0; ms < 200; ms += 1) {
    stream.chunk({ choices: [{ index: 0, delta: { content: 'x' } }] })
    await written()
    vi.advanceTimersByTime(1)
  }
  const whole = sizes.slice(1)
  expect(whole.length).toBeGreaterThan(3)
  expect(new Set(whole)).toEqual(new Set([after_ms]))
  // The last one goes when it is due, and nothing has to follow it.
  vi.advanceTimersByTime(interval_ms)
  await written()
  expect(sizes.reduce((sum, size) => sum + size)).toBe(200)
  response.destroy()
})

test('calls over one connection leave nothing on it, and the next one is not cut by the last', async () => {
  const listeners: number[] = []
  const server = createServer((request, response) => {
    const { socket } = request
    listeners.push(socket.eventNames().reduce((sum, name) => sum + socket.listenerCount(name), 0))
    const stream = new CallStream(response, { ...STREAM_TIMES, read_out_ms: 20 }, () => {})
    stream.chunk({})
    setTimeout(() => stream.finish(COMPLETED, ERRORS.cancelled), listeners.length === 3 ? 60 : 0)
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  onTestFinished(() => {
    agent.destroy()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  for (let n = 0; n < 4; n += 1) {
    const body = await new Promise<string>((resolve, reject) => {
      const request = get({ port, host: '127.0.0.1', agent }, (response) => {
        let text = ''
        response.on('data', (part) => {
          text += part
        })
        response.on('end', () => resolve(text))
        response.on('error', reject)
      })
      request.on('error', reject)
    })
    expect(body).toBe('data: {}\n\ndata: [DONE]\n\n')
  }
  expect(new Set(listeners.slice(1)).size).toBe(1)
})
