/**
 * PoolActor: one per region, model and shard. core's PoolTable in memory, membership in SQLite, and the agents' links,
 * which may outlive the object's memory (hibernation). Loads are never stored: a report is old after a second.
 *
 * It keeps true: an engine is known by the latest link of its agent only; after a wake every member counts as heard of at
 * that moment, with its last report if its link still stands; one that does not come back is dropped by an alarm.
 */
import { DurableObject } from 'cloudflare:workers'
import { eq } from 'drizzle-orm'
import { z } from 'zod'
import type { PoolSnapshot } from '../core/balancer.ts'
import { AGENTS_PER_POOL_MAX, PoolTable } from '../core/balancer.ts'
import type { Env } from '../env.ts'
import {
  CLOSE,
  type DownMessage,
  deriveTicketKey,
  Hello,
  Id,
  LEASES_SEEN_MAX,
  PROTOCOL_VERSION,
  type Status,
} from '../protocol/index.ts'
import { type LeaseReply, type LeaseRequest, type PoolRpc, TICKET_KEY_ID } from './contracts.ts'
import { logFailure } from './log.ts'
import { AGENT_HEADER, type Attachment, readAttachment, readFrame, writeAttachment } from './pool-links.ts'
import { ActorDatabase } from './storage/actor-database.ts'
import { poolMigrations } from './storage/migrations.gen.ts'
import { members } from './storage/pool-schema.ts'

/** Open sockets: every agent's, and as many again that are being replaced. */
export const LINKS_MAX = 2 * AGENTS_PER_POOL_MAX
/** A member without a link is dropped when it has not come back for this long. */
export const MEMBER_RETURN_MS = 60_000
/** Close code of RFC 6455 for "try again later". */
const CLOSE_TRY_AGAIN = 1013

const PoolName = z.tuple([Id, Id, z.number().int()])

export class PoolActor extends DurableObject<Env> implements PoolRpc {
  private readonly storage: ActorDatabase
  private table: PoolTable

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    const [region, model] = PoolName.parse(JSON.parse(ctx.id.name ?? 'null'))
    this.storage = new ActorDatabase(ctx.storage, poolMigrations)
    this.table = new PoolTable({ region, model })
    ctx.blockConcurrencyWhile(() => this.restore({ region, model }))
  }

  async lease(request: LeaseRequest): Promise<LeaseReply> {
    const now_ms = Date.now()
    const choice = this.table.choose({ ...request, now_ms }, now_ms)
    const isKnown = request.snapshot_version === this.table.version
    return { ...choice, snapshot: isKnown ? null : this.table.snapshot(now_ms) }
  }

  async release(lease: string): Promise<void> {
    this.table.released(lease)
  }

  /** An agent without a link is not told: its calls end with it, or when their client leaves. */
  async cancel(leases: readonly { lease: string; agent: string }[]): Promise<void> {
    for (const [agent, held] of Map.groupBy(leases, (lease) => lease.agent)) {
      const socket = this.socketOf(agent)
      if (socket === null) continue
      for (let from = 0; from < held.length; from += LEASES_SEEN_MAX) {
        const some = held.slice(from, from + LEASES_SEEN_MAX)
        send(socket, { type: 'cancel', leases: some.map(({ lease }) => lease) })
      }
    }
  }

  async describe(_now_ms: number): Promise<PoolSnapshot> {
    return this.table.snapshot(Date.now())
  }

  /** The upgrade of a link, already authorised by the Worker. */
  override async fetch(request: Request): Promise<Response> {
    const agent = Id.parse(request.headers.get(AGENT_HEADER))
    if (this.ctx.getWebSockets().length >= LINKS_MAX) return new Response(null, { status: 503 })
    const [client, server] = Object.values(new WebSocketPair()) as [WebSocket, WebSocket]
    this.ctx.acceptWebSocket(server, [agent])
    writeAttachment(server, { agent, state: 'waiting', report: null })
    return new Response(null, { status: 101, webSocket: client })
  }

  override async webSocketMessage(socket: WebSocket, data: string | ArrayBuffer): Promise<void> {
    const link = readAttachment(socket)
    if (link.state === 'replaced') return
    const frame = readFrame(data)
    if (frame.status === 'refused') return this.refuse(socket, link, CLOSE[frame.code], frame.reason)
    if (frame.message.type === 'hello') return this.hello(socket, link, frame.message)
    this.status(socket, link, frame.message)
  }

  override async webSocketClose(socket: WebSocket): Promise<void> {
    await this.left(socket, readAttachment(socket))
  }

  override async webSocketError(socket: WebSocket, error: unknown): Promise<void> {
    const link = readAttachment(socket)
    logFailure('link_broken', error, { agent: link.agent })
    await this.left(socket, link)
  }

  /** Drops members whose link did not come back after a restart. May fire twice. */
  override async alarm(): Promise<void> {
    for (const agent of this.table.agents) {
      if (this.socketOf(agent) === null) await this.leave(agent)
    }
  }

  private async hello(socket: WebSocket, link: Attachment, hello: Hello): Promise<void> {
    if (hello.agent !== link.agent) {
      return this.refuse(socket, link, CLOSE.unauthorised, 'the token belongs to another agent')
    }
    const key = await deriveTicketKey(this.env.TICKET_SECRET, TICKET_KEY_ID, link.agent)
    const now_ms = Date.now()
    const joined = this.table.agentJoined(hello, now_ms)
    if (joined === 'wrong_pool') return this.refuse(socket, link, CLOSE.malformed, 'hello names another pool')
    if (joined === 'engine_taken')
      return this.refuse(socket, link, CLOSE.malformed, 'hello names an engine that is taken')
    if (joined === 'full') return this.refuse(socket, link, CLOSE_TRY_AGAIN, 'the pool has no room for another agent')
    for (const other of this.ctx.getWebSockets(link.agent)) {
      if (other !== socket) replace(other)
    }
    writeAttachment(socket, { agent: link.agent, state: 'joined', report: null })
    send(socket, {
      type: 'welcome',
      protocol: Math.min(hello.protocol.max, PROTOCOL_VERSION),
      ticket_keys: [{ kid: TICKET_KEY_ID, key: base64url(key) }],
      clock_offset_ms: now_ms - hello.now_ms,
    })
    const db = await this.storage.writable()
    const member = { hello: JSON.stringify(hello), joined_at_ms: now_ms }
    db.insert(members)
      .values({ agent: link.agent, ...member })
      .onConflictDoUpdate({ target: members.agent, set: member })
      .run()
  }

  private status(socket: WebSocket, link: Attachment, status: Status): void {
    if (link.state !== 'joined') {
      this.refuse(socket, link, CLOSE.malformed, 'status before hello')
      return
    }
    if (this.table.agentStatus(link.agent, status, Date.now()) !== 'applied') return
    const engines = status.engines.map((engine) => ({ ...engine, leases_seen: [] }))
    writeAttachment(socket, { ...link, report: { ...status, engines } })
  }

  private refuse(socket: WebSocket, link: Attachment, code: number, reason: string): void {
    if (link.state === 'joined') this.ctx.waitUntil(this.leave(link.agent))
    writeAttachment(socket, { ...link, state: 'replaced', report: null })
    socket.close(code, reason)
  }

  /** Only the link that stands for its agent takes it along. */
  private async left(socket: WebSocket, link: Attachment): Promise<void> {
    if (link.state !== 'joined' || this.socketOf(link.agent, socket) !== null) return
    await this.leave(link.agent)
  }

  private async leave(agent: string): Promise<void> {
    this.table.agentLeft(agent, Date.now())
    const db = await this.storage.stored()
    db?.delete(members).where(eq(members.agent, agent)).run()
  }

  private socketOf(agent: string, except: WebSocket | null = null): WebSocket | null {
    const joined = this.ctx
      .getWebSockets(agent)
      .filter((socket) => socket !== except && socket.readyState === WebSocket.OPEN)
    return joined.find((socket) => readAttachment(socket).state === 'joined') ?? null
  }

  private async restore(pool: { region: string; model: string }): Promise<void> {
    const now_ms = Date.now()
    const db = await this.storage.stored()
    const rows = db?.select().from(members).limit(AGENTS_PER_POOL_MAX).all() ?? []
    const hellos = rows.map(({ hello }) => Hello.parse(JSON.parse(hello)))
    // Isolates compare versions for equality: a restarted table must not count through numbers that it used before.
    this.table = PoolTable.restore(pool, hellos, now_ms, now_ms)
    let unlinked = 0
    for (const { agent } of hellos) {
      const socket = this.socketOf(agent)
      if (socket === null) unlinked += 1
      const report = socket === null ? null : readAttachment(socket).report
      if (report !== null) this.table.agentStatus(agent, report, now_ms)
    }
    if (unlinked > 0) await this.ctx.storage.setAlarm(now_ms + MEMBER_RETURN_MS)
  }
}

function send(socket: WebSocket, message: DownMessage): void {
  socket.send(JSON.stringify(message))
}

function replace(socket: WebSocket): void {
  const link = readAttachment(socket)
  if (link.state === 'replaced') return
  writeAttachment(socket, { ...link, state: 'replaced', report: null })
  socket.close(CLOSE.replaced, 'another link of this agent took over')
}

function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '')
}
