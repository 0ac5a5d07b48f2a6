/** Calls as bytes on a socket, for clients that leave or read as no HTTP client does. */
import { connect, type Socket } from 'node:net'
import type { Fleet } from '../../../lab/chaos/fleet.ts'
import { MODEL } from './fleet-calls.ts'

/** Raw bytes of a call, so that a client can leave between any two of them. */
export function rawCall(fleet: Fleet, program: string, body: object): { head: string; body: string } {
  const text = JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: program }], stream: true, ...body })
  const { port, secrets } = fleet
  const head = [
    'POST /v1/chat/completions HTTP/1.1',
    `Host: 127.0.0.1:${port}`,
    `Authorization: Bearer ${secrets.apiKey}`,
    `X-Program-Id: ${program}`,
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(text)}`,
  ]
  return { head: `${head.join('\r\n')}\r\n\r\n`, body: text }
}

export async function opened(fleet: Fleet): Promise<Socket> {
  const socket = connect(fleet.port, '127.0.0.1')
  // A connection that the other side resets is what some of these tests make.
  socket.on('error', () => undefined)
  await new Promise<void>((resolve) => socket.once('connect', () => resolve()))
  return socket
}
