/**
 * The links of agents to one Durable Object, a PoolActor or the HostsActor. They may outlive the object's memory (hibernation).
 *
 * Keeps true:
 * - An agent has one link that is joined. A newer one takes its place once it has said hello.
 * - A link that never says hello is closed.
 * - An agent that the operator removed is gone at once, although its token may still be valid for a while.
 * - An agent that sends more than its budget loses its links and opens none for a while (link-guard.ts).
 */
import type { z } from 'zod'
import { HELLO_UNITS, OPENING_UNITS } from '../core/pool/link-budget.ts'
import { apiError } from '../platform/api-error.ts'
import { logFailure } from '../platform/log.ts'
import { CLOSE } from '../protocol/index.ts'
import { flagAgent } from '../store/agent-flags.ts'
import {
  type Attachment,
  closeLink,
  HELLO_TIMEOUT_MS,
  helloDueMs,
  makeRoomForLink,
  newAttachment,
  readAttachment,
  readFrame,
  type Versions,
  writeAttachment,
} from './link-frames.ts'
import { LinkGuard } from './link-guard.ts'
import { RefusedAgents } from './refused-agents.ts'

/** For the opening of a link (core/pool/link-budget.ts). The budget of one is back sooner. */
const OPENING_RETRY_AFTER_S = 1

export interface AgentLinksOptions<M extends { type: string }> {
  ctx: DurableObjectState
  db: D1Database
  /** Open sockets at a time. */
  links_max: number
  frames: z.ZodType<M>
  versions: Versions
  /** What of the object is named where an agent's flood is noted. */
  place: Readonly<Record<string, string>>
  /** The agent's last link is gone, or may send no more. */
  leave(agent: string): Promise<void>
  alarmBy(due_ms: number): Promise<void>
}

function tooManyFrames(retry_after_s: number): Response {
  const message = 'The agent opens links, or sends over them, more often than it may. Open one after Retry-After.'
  return apiError(429, { message, code: 'link_budget_exceeded' }, { 'retry-after': String(retry_after_s) })
}

export class AgentLinks<M extends { type: string }> {
  readonly #options: AgentLinksOptions<M>
  readonly #guard: LinkGuard
  readonly #refusedAgents = new RefusedAgents()

  constructor(options: AgentLinksOptions<M>) {
    this.#options = options
    const { ctx } = options
    this.#guard = new LinkGuard({
      storage: ctx.storage,
      waitUntil: (work) => ctx.waitUntil(work),
      abort: (reason) => ctx.abort(reason),
    })
  }

  restore(): Promise<void> {
    return this.#guard.restore()
  }

  /** The upgrade of a link that the Worker has already authorised. */
  async open(request: Request): Promise<Response> {
    const { ctx, links_max, alarmBy } = this.#options
    const now_ms = Date.now()
    const link = newAttachment(request.headers, now_ms)
    if (this.#refusedAgents.refuses(link.agent, link.ticket_kid, now_ms)) return new Response(null, { status: 403 })
    const barred_s = this.#guard.barredS(link.agent, now_ms)
    if (barred_s > 0) return tooManyFrames(barred_s)
    if (!this.#guard.takesUnits(link.agent, OPENING_UNITS, now_ms)) return tooManyFrames(OPENING_RETRY_AFTER_S)
    makeRoomForLink(ctx.getWebSockets(link.agent))
    if (this.open_links.length >= links_max) return new Response(null, { status: 503 })
    const [client, server] = Object.values(new WebSocketPair()) as [WebSocket, WebSocket]
    ctx.acceptWebSocket(server, [link.agent])
    writeAttachment(server, link)
    await alarmBy(now_ms + HELLO_TIMEOUT_MS)
    return new Response(null, { status: 101, webSocket: client })
  }

  /** What a frame says. Null: nothing that counts, and what follows from it is done. */
  read(socket: WebSocket, data: string | ArrayBuffer): { link: Attachment; message: M } | null {
    const { frames, versions } = this.#options
    const now_ms = Date.now()
    if (socket.readyState !== WebSocket.OPEN) {
      this.#guard.late(socket, data, () => readAttachment(socket).agent, now_ms)
      return null
    }
    const link = readAttachment(socket)
    if (link.state === 'replaced') return null
    if (!this.#guard.takes(link.agent, data, now_ms)) return this.#flooded(link, now_ms)
    const frame = readFrame(data, frames, versions)
    if (frame.status === 'refused') {
      this.refuse(socket, link, CLOSE[frame.code], frame.reason)
      return null
    }
    const { message } = frame
    const isHello = message.type === 'hello'
    if (isHello && !this.#guard.takesUnits(link.agent, HELLO_UNITS, now_ms)) return this.#flooded(link, now_ms)
    return { link, message }
  }

  /** Closes the agent's other links: this one has said hello. */
  takeOver(socket: WebSocket, agent: string): void {
    for (const other of this.of(agent)) {
      if (other !== socket) closeLink(other, CLOSE.replaced, 'another link of this agent took over')
    }
  }

  refuse(socket: WebSocket, link: Attachment, code: number, reason: string): void {
    const { ctx, leave } = this.#options
    if (link.state === 'joined') ctx.waitUntil(leave(link.agent))
    writeAttachment(socket, { ...link, state: 'replaced', report: null })
    socket.close(code, reason)
  }

  /** Links under the key `except_kid` stay. */
  refuseAgent(agent: string, except_kid: string | null): void {
    this.#refusedAgents.add(agent, except_kid, Date.now())
    for (const socket of this.of(agent)) {
      if (readAttachment(socket).ticket_kid === except_kid) continue
      closeLink(socket, CLOSE.dismissed, 'the operator removed this agent or replaced its token')
    }
  }

  /** Only the agent's current link removes the agent when it closes. */
  async closed(socket: WebSocket): Promise<void> {
    const link = readAttachment(socket)
    if (link.state !== 'joined' || this.joined(link.agent, socket) !== null) return
    await this.#options.leave(link.agent)
  }

  async failed(socket: WebSocket, error: unknown): Promise<void> {
    logFailure('link_broken', error, { agent: readAttachment(socket).agent })
    await this.closed(socket)
  }

  /** Closes links that have not said hello in time. Returns when the next one is due; null: none waits. */
  closeSilent(now_ms: number): number | null {
    for (const socket of this.open_links) {
      const { state, opened_at_ms } = readAttachment(socket)
      if (state !== 'waiting' || now_ms - opened_at_ms < HELLO_TIMEOUT_MS) continue
      closeLink(socket, CLOSE.malformed, 'no hello in time')
    }
    return helloDueMs(this.open_links)
  }

  get open_links(): WebSocket[] {
    return this.#options.ctx.getWebSockets().filter((socket) => socket.readyState === WebSocket.OPEN)
  }

  /** All of the agent's, the closed ones too. */
  of(agent: string): WebSocket[] {
    return this.#options.ctx.getWebSockets(agent)
  }

  /** The agent's link that has said hello. */
  joined(agent: string, except: WebSocket | null = null): WebSocket | null {
    const open = this.of(agent).filter((socket) => socket !== except && socket.readyState === WebSocket.OPEN)
    return open.find((socket) => readAttachment(socket).state === 'joined') ?? null
  }

  /** Ends every link of the agent. */
  #flooded({ agent }: Attachment, now_ms: number): null {
    const isFirst = this.#guard.barredS(agent, now_ms) === 0
    const barred_s = this.#guard.bar(agent, now_ms)
    if (isFirst) this.#options.ctx.waitUntil(this.#flag(agent, barred_s, now_ms))
    for (const socket of this.of(agent)) {
      if (socket.readyState !== WebSocket.OPEN) continue
      closeLink(socket, CLOSE.flooded, `more frames than an agent may send; no link for ${barred_s} s`)
    }
    this.#options.ctx.waitUntil(this.#options.leave(agent))
    return null
  }

  async #flag(agent: string, barred_s: number, now_ms: number): Promise<void> {
    const { db, place } = this.#options
    const flag = { agent, action: 'agent.flooded' as const, seen: { ...place, barred_s } }
    await flagAgent(db, flag, now_ms).catch((error: unknown) => logFailure('agent_not_flagged', error, { agent }))
  }
}
