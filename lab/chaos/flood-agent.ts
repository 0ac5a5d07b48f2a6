/**
 * An enrolled agent that sends frames to its pool as fast as its sockets take them, and links again as soon as it is closed.
 * It writes raw WebSocket frames, so that it costs little and can ignore that its link was closed (`--deaf 1`). It is a
 * process of its own, so that it slows nothing but what it floods. It prints one JSON line per second and per close.
 *
 *   node lab/chaos/flood-agent.ts --control-url URL --id AGENT --region R --model M --frames hello|status --links N --deaf 0|1
 */
import { randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { parseArgs } from 'node:util'
import { z } from 'zod'
import { PROTOCOL_VERSION, PROTOCOL_VERSION_MIN } from '../../src/protocol/index.ts'

const FRAMES_PER_WRITE = 100
const LINK_AGAIN_MS = 50
const TOLD_EVERY_MS = 1000
const OPCODE_TEXT = 0x81
const OPCODE_CLOSE = 0x88

const Flags = z.object({
  'control-url': z.url(),
  id: z.string(),
  region: z.string(),
  model: z.string(),
  frames: z.enum(['hello', 'status']),
  links: z.coerce.number().int().min(1).max(16),
  /** 1: it goes on after a close. */
  deaf: z.enum(['0', '1']),
})
const names = Object.keys(Flags.shape) as (keyof typeof Flags.shape)[]
const options = Object.fromEntries(names.map((name) => [name, { type: 'string' as const }]))
const flags = Flags.parse(parseArgs({ options }).values)
const token = process.env.SWITCHYARD_AGENT_TOKEN ?? ''

const engine = `${flags.id}-e0`
const hello = JSON.stringify({
  type: 'hello',
  protocol: { min: PROTOCOL_VERSION_MIN, max: PROTOCOL_VERSION },
  ...{ agent: flags.id, region: flags.region, model: flags.model },
  // Port 9 discards: a call that is leased here finds no engine.
  url: 'http://127.0.0.1:9',
  engines: [
    {
      ...{ id: engine, epoch: 'epoch-1', kind: 'emulated', model: flags.model, seats: 1, kv_capacity_tokens: 1024 },
      ...{ context_tokens_max: 1024, prefill_tokens_per_s: null, speed_factor: 1 },
    },
  ],
  now_ms: Date.now(),
})

const sent = { links: 0, frames: 0, refused: 0 }
let seq = 0

function tell(event: Record<string, unknown>): void {
  process.stdout.write(`${JSON.stringify(event)}\n`)
}

/** `draining`: it takes no calls, so it slows others' calls only. */
function status(): string {
  seq += 1
  const load = { waiting: 0, running: 0, queued_tokens: 0, kv_used_tokens: 0, leases_seen: [], bytes_per_token: null }
  return JSON.stringify({
    type: 'status',
    seq,
    engines: [{ id: engine, epoch: 'epoch-1', state: 'draining', ...load }],
  })
}

/** A client's text frame, masked with zeros. */
function frameOf(text: string): Buffer {
  const body = Buffer.from(text)
  const head = Buffer.alloc(8)
  head[0] = OPCODE_TEXT
  head[1] = 0x80 | 126
  head.writeUInt16BE(body.length, 2)
  return Buffer.concat([head, body])
}

function burst(): Buffer {
  return Buffer.concat(
    Array.from({ length: FRAMES_PER_WRITE }, () => frameOf(flags.frames === 'hello' ? hello : status())),
  )
}

function link(): void {
  const { hostname, port } = new URL(flags['control-url'])
  const socket = connect(Number(port), hostname)
  let is_open = false
  let is_closed = false
  const flood = (): void => {
    if (socket.destroyed) return
    sent.frames += FRAMES_PER_WRITE
    if (socket.write(burst())) setImmediate(flood)
    else socket.once('drain', flood)
  }
  const closed = (frame: Buffer): void => {
    if (is_closed) return
    is_closed = true
    tell({ event: 'closed', code: frame.readUInt16BE(2), reason: frame.subarray(4, 2 + (frame[1] ?? 0)).toString() })
    if (flags.deaf === '0') socket.end()
  }
  socket.on('connect', () => {
    const query = new URLSearchParams({ model: flags.model, region: flags.region })
    const head = [
      `GET /agents/v1/link?${query} HTTP/1.1`,
      `Host: ${hostname}:${port}`,
      `Authorization: Bearer ${token}`,
      'Upgrade: websocket',
      'Connection: Upgrade',
      'Sec-WebSocket-Version: 13',
      `Sec-WebSocket-Key: ${randomBytes(16).toString('base64')}`,
    ]
    socket.write(`${head.join('\r\n')}\r\n\r\n`)
  })
  socket.on('data', (bytes) => {
    if (!is_open && bytes.toString('latin1').startsWith('HTTP/1.1 101')) {
      is_open = true
      sent.links += 1
      if (sent.links === 1) tell({ event: 'ready' })
      socket.write(frameOf(hello))
      flood()
    } else if (!is_open) {
      sent.refused += 1
      socket.destroy()
    } else {
      const at = bytes.indexOf(OPCODE_CLOSE)
      if (at !== -1 && bytes.length >= at + 4) closed(bytes.subarray(at))
    }
  })
  socket.on('error', () => undefined)
  socket.on('close', () => {
    setTimeout(link, LINK_AGAIN_MS)
  })
}

for (let n = 0; n < flags.links; n += 1) link()
setInterval(() => tell({ event: 'sent', ...sent }), TOLD_EVERY_MS)
