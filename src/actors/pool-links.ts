/**
 * Frames of the agents' links: what may come in, what it means for the socket it came on, and what a socket remembers.
 * A hibernated object keeps only its sockets, so who a socket belongs to stands in its attachment, with the last report.
 */
import { z } from 'zod'
import { FRAME_BYTES_MAX, Id, PROTOCOL_VERSION, PROTOCOL_VERSION_MIN, Status, UpMessage } from '../protocol/index.ts'

/** Says which agent a link belongs to. Set by the Worker after it checked the token; nothing else reaches the actor. */
export const AGENT_HEADER = 'x-switchyard-agent'
/** Attachments hold at most 16 KiB; a larger report is not kept and its engines count as idle until they report again. */
export const ATTACHMENT_BYTES_MAX = 12 * 1024

const Attachment = z.object({
  agent: Id,
  /** `waiting`: no hello yet. `replaced`: another link of the same agent took over. */
  state: z.enum(['waiting', 'joined', 'replaced']),
  report: Status.nullable(),
})
export type Attachment = z.infer<typeof Attachment>

export function readAttachment(socket: WebSocket): Attachment {
  return Attachment.parse(socket.deserializeAttachment())
}

export function writeAttachment(socket: WebSocket, attachment: Attachment): void {
  const kept = JSON.stringify(attachment).length <= ATTACHMENT_BYTES_MAX ? attachment : { ...attachment, report: null }
  socket.serializeAttachment(kept)
}

export type Frame =
  | { status: 'message'; message: UpMessage }
  | { status: 'refused'; code: 'malformed' | 'protocol_version'; reason: string }

/** Only as much of a hello as every version has, so that a version we do not speak is told so and not called malformed. */
const AnyHello = z.object({ type: z.literal('hello'), protocol: z.object({ min: z.number(), max: z.number() }) })

export function readFrame(data: string | ArrayBuffer): Frame {
  if (typeof data !== 'string') return malformed('frames are text')
  if (new TextEncoder().encode(data).byteLength > FRAME_BYTES_MAX) return malformed(`over ${FRAME_BYTES_MAX} bytes`)
  const json = parseJson(data)
  const hello = AnyHello.safeParse(json)
  if (hello.success) {
    const { min, max } = hello.data.protocol
    if (max < PROTOCOL_VERSION_MIN || min > PROTOCOL_VERSION) {
      const reason = `versions ${PROTOCOL_VERSION_MIN} to ${PROTOCOL_VERSION} are spoken here, not ${min} to ${max}`
      return { status: 'refused', code: 'protocol_version', reason: closeReason(reason) }
    }
  }
  const message = UpMessage.safeParse(json)
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

function malformed(reason: string): Frame {
  return { status: 'refused', code: 'malformed', reason: closeReason(reason) }
}

/** A close frame's reason has at most 123 bytes; ours are ASCII but for what a sender put into a message. */
function closeReason(reason: string): string {
  return reason.replace(/[^\x20-\x7e]/g, ' ').slice(0, 120)
}
