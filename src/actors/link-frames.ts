/**
 * Frames of the agents' links: which frames may come in, what they mean for their socket, and what a socket remembers. A
 * hibernated object keeps only its sockets. So a socket's attachment holds its owner and the last report.
 */
import { z } from 'zod'
import { agentOf } from '../core/pool/engine-id.ts'
import type { HostDownMessage } from '../protocol/host.ts'
import { CLOSE, type DownMessage, FRAME_BYTES_MAX, Id, Status } from '../protocol/index.ts'

/** Headers that name the owner of a link. The Worker sets them after it checked the token. Nothing else reaches the actor. */
export const AGENT_HEADER = 'x-switchyard-agent'
export const TICKET_KID_HEADER = 'x-switchyard-ticket-kid'
export const DRAINING_HEADER = 'x-switchyard-draining'
/** Open links of one agent: the current one, one that replaces it, and a margin for closes that are not noticed yet. */
export const LINKS_PER_AGENT_MAX = 4
/** A link without a hello for this long is closed. */
export const HELLO_TIMEOUT_MS = 10_000
/** Attachments hold at most 16 KiB. A larger report is not kept, and its engines count as idle until they report again. */
export const ATTACHMENT_BYTES_MAX = 12 * 1024

const Attachment = z.object({
  agent: Id,
  /** `waiting`: no hello yet. `replaced`: another link of the same agent took over. */
  state: z.enum(['waiting', 'joined', 'replaced']),
  report: Status.nullable(),
  /** Id of the key that signs the agent's tickets. */
  ticket_kid: Id,
  /** The operator drains the agent. */
  draining: z.boolean(),
  opened_at_ms: z.number(),
  /** When the last hello or status came. Null: unknown, in an attachment of an earlier version. */
  heard_at_ms: z.number().nullable().default(null),
  /** Our wall clock minus the agent's, as the agent was last told. Null: it was told nothing yet. */
  clock_offset_ms: z.number().nullable().default(null),
})
export type Attachment = z.infer<typeof Attachment>

export function readAttachment(socket: WebSocket): Attachment {
  return Attachment.parse(socket.deserializeAttachment())
}

export function writeAttachment(socket: WebSocket, attachment: Attachment): void {
  const kept = JSON.stringify(attachment).length <= ATTACHMENT_BYTES_MAX ? attachment : { ...attachment, report: null }
  socket.serializeAttachment(kept)
}

/** The owner of a link, from the Worker's headers. */
export function newAttachment(headers: Headers, opened_at_ms: number): Attachment {
  return {
    agent: Id.parse(headers.get(AGENT_HEADER)),
    ticket_kid: Id.parse(headers.get(TICKET_KID_HEADER)),
    draining: headers.get(DRAINING_HEADER) === 'true',
    ...{ state: 'waiting', report: null, opened_at_ms, heard_at_ms: opened_at_ms, clock_offset_ms: null },
  }
}

export function sendFrame(socket: WebSocket, message: DownMessage | HostDownMessage): void {
  socket.send(JSON.stringify(message))
}

/** The links whose agents have said hello. */
export function joinedLinks(links: readonly WebSocket[]): WebSocket[] {
  const open = links.filter((socket) => socket.readyState === WebSocket.OPEN)
  return open.filter((socket) => readAttachment(socket).state === 'joined')
}

/** Frames of the link are ignored from here on, even before the other side notices. */
export function closeLink(socket: WebSocket, code: number, reason: string): void {
  const link = readAttachment(socket)
  if (link.state === 'replaced') return
  writeAttachment(socket, { ...link, state: 'replaced', report: null })
  socket.close(code, reason)
}

/**
 * Whether an engine's id is the agent's id, `-` and a label without `-`. Pins and exclusions go by the engine's id. The
 * agent's id ends at the last `-`, so no agent can take an id that belongs to another.
 */
export function isEngineOf(agent: string, engine: string): boolean {
  return agentOf(engine) === agent && !engine.endsWith('-')
}

/** Closes an agent's oldest links that have not said hello, as many as needed to make room for one more. */
export function makeRoomForLink(links: readonly WebSocket[]): void {
  const open = links.filter((socket) => socket.readyState === WebSocket.OPEN)
  const waiting = open
    .filter((socket) => readAttachment(socket).state === 'waiting')
    .sort((a, b) => readAttachment(a).opened_at_ms - readAttachment(b).opened_at_ms)
  const surplus = open.length - LINKS_PER_AGENT_MAX + 1
  for (const socket of waiting.slice(0, Math.max(0, surplus))) {
    closeLink(socket, CLOSE.replaced, `an agent has at most ${LINKS_PER_AGENT_MAX} links to a pool`)
  }
}

/** When the hello timeout of the first of these links expires. Null: no link waits for a hello. */
export function helloDueMs(links: readonly WebSocket[]): number | null {
  const waiting = links.map(readAttachment).filter(({ state }) => state === 'waiting')
  return waiting.length === 0 ? null : Math.min(...waiting.map((link) => link.opened_at_ms)) + HELLO_TIMEOUT_MS
}

export type LinkFrame<M> =
  | { status: 'message'; message: M }
  | { status: 'refused'; code: 'malformed' | 'protocol_version'; reason: string }

/** The part of a hello that every version has. So an unsupported version is reported as such and not as malformed. */
const AnyHello = z.object({ type: z.literal('hello'), protocol: z.object({ min: z.number(), max: z.number() }) })

/** Of a protocol, as they are spoken here. */
export interface Versions {
  min: number
  max: number
}

export function readFrame<M>(data: string | ArrayBuffer, frames: z.ZodType<M>, spoken: Versions): LinkFrame<M> {
  if (typeof data !== 'string') return malformed('frames are text')
  if (new TextEncoder().encode(data).byteLength > FRAME_BYTES_MAX) return malformed(`over ${FRAME_BYTES_MAX} bytes`)
  const json = parseJson(data)
  const hello = AnyHello.safeParse(json)
  if (hello.success) {
    const { min, max } = hello.data.protocol
    if (max < spoken.min || min > spoken.max) {
      const reason = `versions ${spoken.min} to ${spoken.max} are spoken here, not ${min} to ${max}`
      return { status: 'refused', code: 'protocol_version', reason: closeReason(reason) }
    }
  }
  const message = frames.safeParse(json)
  if (!message.success) return malformed(z.prettifyError(message.error))
  return { status: 'message', message: message.data }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

function malformed(reason: string): LinkFrame<never> {
  return { status: 'refused', code: 'malformed', reason: closeReason(reason) }
}

/** A close frame's reason has at most 123 bytes. Ours are ASCII, except for text that a sender put into a message. */
function closeReason(reason: string): string {
  return reason.replace(/[^\x20-\x7e]/g, ' ').slice(0, 120)
}

/** A ticket key as `welcome` carries it. */
export function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '')
}
