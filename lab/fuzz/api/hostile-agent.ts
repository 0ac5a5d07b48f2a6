/**
 * An enrolled agent that sends nonsense: links on which valid and mutated frames follow each other, and a data plane that
 * answers calls with anything but an answer. Its pace is below what closes a link, so that every frame is read.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { PROTOCOL_VERSION, PROTOCOL_VERSION_MIN } from '../../../src/protocol/index.ts'
import type { Random } from '../../chaos/random.ts'
import { hostileJson, hostileText, mutated } from './hostile-values.ts'

const FRAME_INTERVAL_MS = 120
const FRAMES_PER_LINK_MAX = 25
/** Hello, status, four that are changed, JSON of any shape, and no JSON. */
const FRAME_KINDS = 8
const OPEN_TIMEOUT_MS = 10_000
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

export interface HostileAgentOptions {
  url: string
  id: string
  token: string
  region: string
  model: string
  random: Random
}

export interface HostileSeen {
  links: number
  /** Attempts that were refused. */
  refused: number
  frames: number
  /** Calls that reached its data plane. */
  calls: number
}

/** Goes on until `stopped`. */
export async function runHostileAgent(options: HostileAgentOptions, stopped: AbortSignal): Promise<HostileSeen> {
  const seen: HostileSeen = { links: 0, refused: 0, frames: 0, calls: 0 }
  const server = createServer((request, response) => {
    seen.calls += 1
    request.resume()
    const { random } = options
    const kind = random.between(0, 5)
    if (kind === 0) response.destroy()
    else if (kind === 1) response.writeHead(random.pick([100, 204, 301, 400, 401, 500, 599])).end()
    else if (kind === 2) response.writeHead(200, { location: 'http://127.0.0.1:1/' }).end(hostileText(random))
    else {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(': accepted\n\n')
      const frame = kind === 3 ? hostileJson(random) : mutated(CHUNK, random)
      response.end(`data: ${JSON.stringify(frame)}\n\n${random.chance(0.5) ? 'data: [DONE]\n\n' : ''}`)
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  while (!stopped.aborted) {
    await oneLink(options, `http://127.0.0.1:${port}`, seen, stopped)
    await sleep(FRAME_INTERVAL_MS)
  }
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  return seen
}

const CHUNK = {
  id: 'x',
  object: 'chat.completion.chunk',
  choices: [{ index: 0, delta: { role: 'assistant', content: 'x' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
}

async function oneLink(
  { url, id, token, region, model, random }: HostileAgentOptions,
  plane: string,
  seen: HostileSeen,
  stopped: AbortSignal,
): Promise<void> {
  const query = new URLSearchParams({ region, model })
  // Node's WebSocket takes headers, which the type of the standard does not know.
  const init = { headers: { authorization: `Bearer ${token}` } } as never
  const link = new WebSocket(`${url.replace('http', 'ws')}/agents/v1/link?${query}`, init)
  const { promise: opened, resolve } = Promise.withResolvers<boolean>()
  link.addEventListener('open', () => resolve(true))
  link.addEventListener('error', () => resolve(false))
  link.addEventListener('close', () => resolve(false))
  const timer = setTimeout(() => resolve(false), OPEN_TIMEOUT_MS)
  const isOpen = await opened
  clearTimeout(timer)
  if (isOpen) seen.links += 1
  else seen.refused += 1
  const engine = `${id}-e0`
  const frames = random.between(1, FRAMES_PER_LINK_MAX)
  for (let at = 0; at < frames && link.readyState === WebSocket.OPEN; at += 1) {
    if (stopped.aborted) break
    // A link that begins as it should gets further.
    const kind = at < 2 && random.chance(0.8) ? at : random.between(0, FRAME_KINDS - 1)
    link.send(frame({ id, engine, region, model, plane, random }, kind, seen.frames))
    seen.frames += 1
    await sleep(FRAME_INTERVAL_MS)
  }
  link.close()
}

interface FrameWorld {
  id: string
  engine: string
  region: string
  model: string
  plane: string
  random: Random
}

function frame(
  { id, engine, region, model, plane, random }: FrameWorld,
  kind: number,
  seq: number,
): string | Uint8Array<ArrayBuffer> {
  const size = { seats: 4, kv_capacity_tokens: 8192, context_tokens_max: 4096, prefill_tokens_per_s: null }
  const hello = {
    type: 'hello',
    protocol: { min: PROTOCOL_VERSION_MIN, max: PROTOCOL_VERSION },
    ...{ agent: id, region, model, url: plane, now_ms: Date.now() },
    engines: [{ id: engine, epoch: 'epoch-1', kind: 'emulated', model, ...size, speed_factor: 1 }],
  }
  const idle = { state: 'ready', waiting: 0, running: 0, queued_tokens: 0, kv_used_tokens: 0, bytes_per_token: null }
  const status = { type: 'status', seq, engines: [{ id: engine, epoch: 'epoch-1', ...idle, leases_seen: [] }] }
  if (kind <= 1) return JSON.stringify(kind === 0 ? hello : status)
  if (kind <= 5) return JSON.stringify(mutated(kind <= 3 ? hello : status, random))
  if (kind === 6) return JSON.stringify(hostileJson(random))
  return random.chance(0.5) ? hostileText(random) : Uint8Array.from({ length: 64 }, () => random.between(0, 255))
}
