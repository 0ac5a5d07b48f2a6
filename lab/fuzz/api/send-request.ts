/** Sends a drawn request as it is. Node's client sends bodies with every method and headers that fetch would refuse. */
import { type Agent, request } from 'node:http'
import type { DrawnRequest } from './draw-request.ts'

/** Past it an answer is not read on: a stream of a fuzzed call is short. */
const ANSWER_BYTES_MAX = 1024 * 1024
export const ANSWER_TIMEOUT_MS = 60_000
const SHOWN_CHARS = 200

export type Sent =
  | { end: 'answered'; status: number; headers: string; text: string }
  /** The client left, as drawn. */
  | { end: 'left' }
  /** No valid request could be made of it, on this side. */
  | { end: 'not_sent' }
  /** The connection was closed, or nothing came in time. */
  | { end: 'broken'; reason: string }

export function sendRequest(url: string, agent: Agent, drawn: DrawnRequest): Promise<Sent> {
  return new Promise((resolve) => {
    const { method, path, headers, body, leaves_after_ms } = drawn
    const { hostname, port } = new URL(url)
    const length = body === null ? {} : { 'content-length': body.length }
    let sending: ReturnType<typeof request>
    try {
      sending = request({ agent, hostname, port, method, path, headers: { ...headers, ...length } })
    } catch {
      resolve({ end: 'not_sent' })
      return
    }
    let came = 'nothing came'
    const timer = setTimeout(() => sending.destroy(new Error(`no end in time: ${came}`)), ANSWER_TIMEOUT_MS)
    const leaving = leaves_after_ms === null ? undefined : setTimeout(() => sending.destroy(), leaves_after_ms)
    const done = (sent: Sent): void => {
      clearTimeout(timer)
      clearTimeout(leaving)
      resolve(sent)
    }
    sending.on('error', (error) => {
      done(leaves_after_ms === null ? { end: 'broken', reason: error.message } : { end: 'left' })
    })
    sending.on('upgrade', (response, socket) => {
      socket.destroy()
      done({ end: 'answered', status: response.statusCode ?? 0, headers: '', text: '' })
    })
    sending.on('response', (response) => {
      const parts: Buffer[] = []
      let bytes = 0
      const { 'x-call-id': call, 'x-engine-id': engine } = response.headers
      const began = `${response.statusCode} of call ${call ?? 'none'} on ${engine ?? 'no engine'}`
      came = began
      response.on('data', (part: Buffer) => {
        bytes += part.length
        came = `${began}, ${bytes} bytes, at last ${JSON.stringify(part.toString('utf8').slice(-SHOWN_CHARS))}`
        if (bytes <= ANSWER_BYTES_MAX) parts.push(part)
      })
      response.on('error', () => undefined)
      response.on('close', () => {
        const text = Buffer.concat(parts).toString('utf8')
        if (response.complete || leaves_after_ms === null) {
          const headers = response.rawHeaders.join('\n')
          done({ end: 'answered', status: response.statusCode ?? 0, headers, text })
        } else done({ end: 'left' })
      })
    })
    sending.end(body ?? undefined)
  })
}
