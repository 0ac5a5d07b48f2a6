/**
 * Requests that no HTTP client makes: broken, ambiguous or unfinished on the wire. workerd or the Worker answers, or closes.
 * CONNECT is not among them: workerd answers it with a bare 500 and does not ask the Worker (docs/faults.md).
 */
import { connect } from 'node:net'
import type { Random } from '../../chaos/random.ts'
import { hostileText } from './hostile-values.ts'

const ANSWER_TIMEOUT_MS = 2_000

export interface RawAnswer {
  /** Null: the connection was closed without an answer, or none came. */
  status: number | null
  text: string
  request: string
}

const RAW: readonly ((host: string, key: string, random: Random) => string)[] = [
  (host) => `GET http://${host}/v1/models HTTP/1.1\r\nHost: other\r\n\r\n`,
  (_, __, random) => `${hostileText(random)} ${hostileText(random)} HTTP/1.1\r\nHost: x\r\n\r\n`,
  () => 'GET / HTTP/0.9\r\n\r\n',
  () => 'GET /v1/models HTTP/1.1\r\n\r\n',
  (host, key) =>
    `GET /v1/models HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${key}\r\nAuthorization: Bearer x\r\n\r\n`,
  (host, key) =>
    `POST /v1/chat/completions HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${key}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  (host, key) =>
    `POST /v1/chat/completions HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${key}\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n`,
  (host, key) =>
    `POST /v1/chat/completions HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${key}\r\nContent-Length: 100\r\n\r\n{"model"`,
  (host) => `POST /v1/chat/completions HTTP/1.1\r\nHost: ${host}\r\nContent-Length: -1\r\n\r\n`,
  (host, key) => `GET /v1/programs/%ff%fe HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${key}\r\n\r\n`,
  (host, key) => `GET /v1/programs/%zz?limit=%zz HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${key}\r\n\r\n`,
  (host) => `GET /${'a/'.repeat(4000)} HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
  (host) => `GET /v1/models HTTP/1.1\r\nHost: ${host}\r\nX-Big: ${'x'.repeat(100_000)}\r\n\r\n`,
  (host) => `OPTIONS * HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
  (host) =>
    `GET /agents/v1/link?region=x&model=y HTTP/1.1\r\nHost: ${host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n`,
  (host) => `GET //v1//models/../../x HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
]

export function sendRaw(url: string, key: string, random: Random): Promise<RawAnswer> {
  const { hostname, port, host } = new URL(url)
  const request = random.pick(RAW)(host, key, random)
  return new Promise((resolve) => {
    let text = ''
    const socket = connect(Number(port), hostname, () => socket.write(request))
    const done = (): void => {
      const status = /^HTTP\/1\.[01] (\d{3})/.exec(text)?.[1]
      resolve({ status: status === undefined ? null : Number(status), text, request: request.replace(key, 'KEY') })
    }
    socket.setTimeout(ANSWER_TIMEOUT_MS, () => socket.destroy())
    socket.on('data', (part) => {
      text += part.toString('latin1')
      // One answer is enough. The connection may stay open for another request.
      socket.setTimeout(50)
    })
    socket.on('error', () => undefined)
    socket.on('close', done)
  })
}
