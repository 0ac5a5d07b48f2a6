/**
 * PoolActor: one per region, model and shard. It holds core's PoolTable in memory, membership in SQLite, and the agents'
 * links, which may outlive the object's memory (hibernation). Loads are never stored: a report is old after a second.
 *
 * Keeps true:
 * - An engine is known only by the latest link of its agent.
 * - After a wake a member whose link is open was last heard of when its last frame came, and its last report counts.
 *   Another member counts as heard of at that moment: its link may have ended with the object's process.
 * - An alarm drops a member that does not come back.
 * What holds of every link: agent-links.ts. What the shards of a pool know of each other: shard-directory.ts.
 */
import { DurableObject } from 'cloudflare:workers'
import { eq } from 'drizzle-orm'
import { z } from 'zod'
import { agentUrlFault } from '../core/pool/agent-url.ts'
import { BALANCER_DEFAULT, BALANCER_NAMES, type Balancer, createBalancer } from '../core/pool/balancers/index.ts'
import { NO_ENGINE_RETRY_AFTER_S } from '../core/pool/choose-engine.ts'
import { agentOfEngine } from '../core/pool/choose-shards.ts'
import { CREDITS_MS, LEASES_BY_CREDIT_MAX } from '../core/pool/lease-credits.ts'
import type { ShardMember } from '../core/pool/pool-shards.ts'
import { AGENTS_PER_POOL_MAX, PoolTable } from '../core/pool/pool-table.ts'
import type { LeaseReason, PoolSnapshot } from '../core/pool/pool-types.ts'
import { type LeaseGranted, RecentLeases } from '../core/pool/recent-leases.ts'
import { spilledReason } from '../core/pool/regions.ts'
import type { Env } from '../env.ts'
import { sleep, within } from '../platform/deadline.ts'
import {
  CLOSE,
  deriveTicketKey,
  Hello,
  Id,
  LEASES_SEEN_MAX,
  POSITIONS_MAX,
  PROTOCOL_VERSION,
  PROTOCOL_VERSION_MIN,
  type QueuePosition,
  type Replay,
  type Status,
  UpMessage,
} from '../protocol/index.ts'
import { AgentLinks } from './agent-links.ts'
import type { LeaseReply, LeaseRequest, PoolFigures, PoolRpc, RememberedPool } from './contracts.ts'
import {
  type Attachment,
  base64url,
  closeLink,
  isEngineOf,
  joinedLinks,
  readAttachment,
  sendFrame,
  writeAttachment,
} from './link-frames.ts'
import { LinkQuestions } from './link-questions.ts'
import { PoolClasses } from './pool-classes.ts'
import { ReportWatch } from './report-watch.ts'
import { ShardDirectory } from './shard-directory.ts'
import { ActorDatabase } from './storage/actor-database.ts'
import { poolMigrations } from './storage/migrations.gen.ts'
import { members } from './storage/pool-schema.ts'
import { classActor } from './stubs.ts'

/** Open sockets: one for every agent, and as many again that are being replaced. */
export const LINKS_MAX = 2 * AGENTS_PER_POOL_MAX
/** A member without a link is dropped after this long. */
export const MEMBER_RETURN_MS = 60_000
/** A page that is drawn each second, and a person at a terminal, do not wait longer for an agent that does not tell. */
const POSITIONS_ANSWER_MS = 1_000
/** Close code of RFC 6455 for "try again later". */
const CLOSE_TRY_AGAIN = 1013

/** A lease is answered after this with what has been read. The relay asks again where nobody was heard; it waits longer than this. */
const ANSWER_WHILE_READING_MS = 400

const PoolName = z.tuple([Id, Id, z.number().int().min(0)])

/** Where an isolate grants itself leases. */
const AT_HOME = { reason: 'pinned', pin: true } as const
const NOTHING_LEASED = { ticket_kid: null, snapshot: null, charges: [] }
const OTHER_SHARD = 'the pool has no room for another agent here; open the link again'

/** A status under way for less has not seen a clock move. Tickets allow three times as much. */
const CLOCK_MOVED_MS = 10_000

export class PoolActor extends DurableObject<Env> implements PoolRpc {
  private readonly storage: ActorDatabase
  private readonly shard: number
  private readonly shards: ShardDirectory
  private table: PoolTable
  /** By agent: id of the key that signs its tickets. */
  private readonly ticketKids = new Map<string, string>()
  private readonly recent = new RecentLeases()
  private reports = new ReportWatch(Date.now())
  private readonly links: AgentLinks<UpMessage>
  private readonly openQuestions = new LinkQuestions<readonly string[]>()
  private readonly replayQuestions = new LinkQuestions<Replay>()
  private readonly positionQuestions = new LinkQuestions<readonly QueuePosition[]>(POSITIONS_ANSWER_MS)
  private readonly classes: PoolClasses
  /** By agent: the row that is stored. A hello that changes nothing writes nothing. */
  private readonly rows = new Map<string, string>()
  /** When members without a link are dropped; null: none is waited for. */
  private membersDueMs: number | null = null
  /** When the alarm is set to fire. Null: unknown. */
  private alarmAtMs: number | null = null
  private readonly leases: Partial<Record<LeaseReason, number>> = {}
  private refused = 0
  /** Isolates may lease by credit until then (core/pool/lease-credits.ts), also by credits of the object before this one. */
  private creditsUntilMs = Date.now() + CREDITS_MS

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    const [region, model, shard] = PoolName.parse(JSON.parse(ctx.id.name ?? 'null'))
    this.storage = new ActorDatabase(ctx.storage, poolMigrations)
    this.shard = shard
    this.shards = new ShardDirectory({
      ...{ env, pool: { region, model, shard }, storage: this.storage },
      waitUntil: (work) => ctx.waitUntil(work),
      agents: () => this.table.agents,
    })
    this.links = new AgentLinks({
      ...{ ctx, db: env.DB, links_max: LINKS_MAX, frames: UpMessage, place: { region, model } },
      versions: { min: PROTOCOL_VERSION_MIN, max: PROTOCOL_VERSION },
      leave: (agent) => this.leave(agent),
      alarmBy: (due_ms) => this.alarmBy(due_ms),
    })
    this.classes = new PoolClasses({
      actorOf: (tenant, name) => classActor(this.env, tenant, name),
      waitUntil: (work) => ctx.waitUntil(work),
      send: (frame) => {
        for (const socket of joinedLinks(ctx.getWebSockets())) socket.send(frame)
      },
    })
    this.table = new PoolTable({ region, model }, balancerOf(env))
    ctx.blockConcurrencyWhile(() => this.restore({ region, model }))
  }

  async lease(request: LeaseRequest): Promise<LeaseReply> {
    const reading = this.table.agents.length === 0 ? null : this.reports.reading(Date.now())
    const is_reading = reading !== null && (await within(reading, ANSWER_WHILE_READING_MS)).status === 'late'
    const now_ms = Date.now()
    this.shards.tell(false)
    const view = this.shards.view(request.shards_version)
    const shards = view === null ? {} : { shards: view }
    // The isolate knows the pin's shard from here on.
    if (view !== null && request.pin !== null && this.shards.elsewhere(agentOfEngine(request.pin.engine)) !== null) {
      return { status: 'none', retry_after_s: NO_ENGINE_RETRY_AFTER_S, ...NOTHING_LEASED, ...shards }
    }
    const choice = this.table.choose({ ...request, now_ms }, now_ms)
    const snapshot = request.snapshot_version === this.table.version ? null : this.remembered(now_ms)
    if (choice.status === 'none' && !is_reading) this.refused += 1
    if (choice.status !== 'leased') return { ...choice, ...NOTHING_LEASED, snapshot, is_reading, ...shards }
    const { lease, tenant, program, call, prompt_tokens_estimate } = request
    const { agent, engine, pin, load } = choice
    const reason = request.spilled ? spilledReason(choice.reason) : choice.reason
    this.leases[reason] = (this.leases[reason] ?? 0) + 1
    const asked = { lease, tenant, program, call, prompt_tokens_estimate }
    this.recent.add({ ...asked, agent, engine, pin, load, reason, at_ms: now_ms })
    const charges = this.table.chargesOf(request)
    this.classes.leased(tenant, request.class, now_ms)
    const credits = this.creditsOn(choice, now_ms)
    const more = credits > 0 ? { credits } : {}
    return { ...choice, ticket_kid: this.ticketKids.get(agent) ?? null, snapshot, charges, ...more, ...shards }
  }

  async leasedByCredit(leases: Parameters<PoolRpc['leasedByCredit']>[0]): ReturnType<PoolRpc['leasedByCredit']> {
    const now_ms = Date.now()
    const credits: Record<string, number> = {}
    for (const { class: of_class, epoch, at_ms, ...lease } of leases.slice(0, LEASES_BY_CREDIT_MAX)) {
      const load = this.table.leasedByCredit({ ...lease, epoch }, now_ms)
      if (load === null) continue
      this.leases.pinned = (this.leases.pinned ?? 0) + 1
      this.recent.add({ ...lease, ...AT_HOME, load, at_ms: Math.min(at_ms, now_ms) })
      this.classes.leased(lease.tenant, of_class, now_ms)
      credits[lease.engine] ??= this.creditsOn(lease, now_ms)
    }
    return credits
  }

  private creditsOn(at: { agent: string; engine: string }, now_ms: number): number {
    const credits = this.table.creditsOn(at, now_ms)
    if (credits > 0) this.creditsUntilMs = now_ms + CREDITS_MS
    return credits
  }

  /** Resolves when no isolate holds a credit that was given before. */
  private async creditsLapsed(): Promise<void> {
    const left_ms = Math.min(CREDITS_MS, this.creditsUntilMs - Date.now())
    if (left_ms > 0) await sleep(left_ms)
  }

  async recentLeases(limit: number): Promise<LeaseGranted[]> {
    const others = await this.shards.fromOthers((shard) => shard.recentLeases(limit))
    if (others.length === 0) return this.recent.latest(limit)
    const all = [...this.recent.latest(limit), ...others.flat()]
    return all.sort((a, b) => b.at_ms - a.at_ms).slice(0, limit)
  }

  async drainAgent(request: Parameters<PoolRpc['drainAgent']>[0]): Promise<void> {
    const { agent, draining } = request
    const elsewhere = this.shards.elsewhere(agent)
    if (elsewhere !== null) return elsewhere.drainAgent(request)
    for (const socket of this.ctx.getWebSockets(agent)) writeAttachment(socket, { ...readAttachment(socket), draining })
    if (!this.table.setDraining(agent, draining, Date.now())) return
    const db = await this.storage.stored()
    db?.update(members).set({ draining }).where(eq(members.agent, agent)).run()
    const socket = this.links.joined(agent)
    if (socket !== null) sendFrame(socket, { type: draining ? 'drain' : 'undrain', engines: [] })
    if (draining) await this.creditsLapsed()
  }

  async refuseAgent({ agent, except_kid }: Parameters<PoolRpc['refuseAgent']>[0]): Promise<void> {
    await Promise.all(this.shards.others.map((shard) => shard.refuseAgent({ agent, except_kid })))
    this.links.refuseAgent(agent, except_kid)
    if (this.ticketKids.get(agent) === except_kid) return
    const had_engines = this.table.agents.includes(agent)
    await this.leave(agent)
    if (had_engines) await this.creditsLapsed()
  }

  async noticeClass({ tenant, class: name }: { tenant: string; class: string }): Promise<void> {
    this.classes.leased(tenant, name, Date.now())
  }

  async release(lease: string): Promise<void> {
    this.table.released(lease)
  }

  /** An agent without a link gets no message. Its calls end with it, or when their client leaves. */
  async cancel(leases: readonly { lease: string; agent: string }[]): Promise<void> {
    const { here } = await this.shards.passOn(leases, async (shard, some) => [await shard.cancel(some)])
    for (const [agent, held] of Map.groupBy(here, (lease) => lease.agent)) {
      const socket = this.links.joined(agent)
      if (socket === null) continue
      for (let from = 0; from < held.length; from += LEASES_SEEN_MAX) {
        const some = held.slice(from, from + LEASES_SEEN_MAX)
        sendFrame(socket, { type: 'cancel', leases: some.map(({ lease }) => lease) })
      }
    }
  }

  /** An agent without a link gets no message: its engine discards the KV when its own bounds say so. */
  async discardContext(asked: Parameters<PoolRpc['discardContext']>[0]): Promise<void> {
    const { agent, ...left } = asked
    const elsewhere = this.shards.elsewhere(agent)
    if (elsewhere !== null) return elsewhere.discardContext(asked)
    const socket = this.links.joined(agent)
    if (socket !== null) sendFrame(socket, { type: 'handle', handling: 'discard', ...left })
  }

  async askForLost(leases: Parameters<PoolRpc['askForLost']>[0]): Promise<string[]> {
    const { here, told: lost } = await this.shards.passOn(leases.slice(0, LEASES_SEEN_MAX), (shard, some) =>
      shard.askForLost(some),
    )
    const byAgent = Map.groupBy(here, ({ agent }) => agent)
    await Promise.all(
      [...byAgent].map(async ([agent, held]) => {
        const socket = this.links.joined(agent)
        if (socket === null) return
        const asked = held.map(({ lease }) => lease)
        const open = await this.openQuestions.ask(agent, (id) => sendFrame(socket, { type: 'ask', id, leases: asked }))
        if (open === null) return
        const present = new Set(open)
        lost.push(...asked.filter((lease) => !present.has(lease)))
      }),
    )
    return lost
  }

  async replay(question: Parameters<PoolRpc['replay']>[0]): Promise<Replay> {
    const { agent, ...asked } = question
    const elsewhere = this.shards.elsewhere(agent)
    if (elsewhere !== null) return elsewhere.replay(question)
    const socket = this.links.joined(agent)
    if (socket === null) return { status: 'unknown', reason: 'gone' }
    const replay = await this.replayQuestions.ask(agent, (id) => sendFrame(socket, { type: 'replay', id, ...asked }))
    return replay ?? { status: 'unknown', reason: 'silent' }
  }

  async positions(leases: Parameters<PoolRpc['positions']>[0]): Promise<QueuePosition[]> {
    const passed = await this.shards.passOn(leases.slice(0, POSITIONS_MAX), (shard, some) => shard.positions(some))
    const byAgent = Map.groupBy(passed.here, ({ agent }) => agent)
    const told = await Promise.all(
      [...byAgent].map(async ([agent, held]) => {
        const socket = this.links.joined(agent)
        if (socket === null) return []
        const asked = held.map(({ lease }) => lease)
        const answer = await this.positionQuestions.ask(agent, (id) =>
          sendFrame(socket, { type: 'positions', id, leases: asked }),
        )
        return (answer ?? []).filter(({ lease }) => asked.includes(lease))
      }),
    )
    return [...passed.told, ...told.flat()]
  }

  async describe(now_ms: number): Promise<PoolSnapshot> {
    const others = await this.shards.fromOthers((shard) => shard.describe(now_ms))
    return wholePool(this.table.snapshot(Date.now()), others)
  }

  async figures(): Promise<PoolFigures> {
    const others = await this.shards.fromOthers((shard) => shard.figures())
    const snapshots = others.map(({ snapshot }) => snapshot)
    const leases = { ...this.leases }
    for (const other of others) {
      for (const [reason, count] of Object.entries(other.leases) as [LeaseReason, number][]) {
        leases[reason] = (leases[reason] ?? 0) + count
      }
    }
    const refused = others.reduce((sum, other) => sum + other.refused, this.refused)
    return { snapshot: wholePool(this.table.snapshot(Date.now()), snapshots), leases, refused }
  }

  async placeAgent(agent: string): Promise<number | null> {
    return this.shards.place(agent)
  }

  async shardJoined(member: ShardMember): Promise<number | null> {
    return this.shards.joined(member)
  }

  async shardHas(told: { shard: number; agents: readonly string[] }): Promise<void> {
    await this.shards.has(told)
  }

  async moveAgent(agent: string): Promise<void> {
    for (const socket of this.links.of(agent)) closeLink(socket, CLOSE_TRY_AGAIN, OTHER_SHARD)
    await this.leave(agent)
  }

  /** The upgrade of a link that the Worker has already authorised. */
  override fetch(request: Request): Promise<Response> {
    return this.links.open(request)
  }

  override async webSocketMessage(socket: WebSocket, data: string | ArrayBuffer): Promise<void> {
    const read = this.links.read(socket, data)
    if (read === null) return
    const { link, message } = read
    if (message.type === 'status') return this.status(socket, link, message)
    if (message.type === 'open') return this.openQuestions.answered(link.agent, message.id, message.leases)
    if (message.type === 'replayed') return this.replayQuestions.answered(link.agent, message.id, message.replay)
    if (message.type === 'positions') return this.positionQuestions.answered(link.agent, message.id, message.positions)
    await this.hello(socket, link, message)
  }

  override async webSocketClose(socket: WebSocket): Promise<void> {
    await this.links.closed(socket)
  }

  override async webSocketError(socket: WebSocket, error: unknown): Promise<void> {
    await this.links.failed(socket, error)
  }

  /** May fire twice, late, or for nothing. It does what is due and sets itself again. */
  override async alarm(): Promise<void> {
    this.alarmAtMs = null
    const now_ms = Date.now()
    const hello_due_ms = this.links.closeSilent(now_ms)
    if (this.membersDueMs !== null && now_ms >= this.membersDueMs) {
      this.membersDueMs = null
      for (const agent of this.table.agents) {
        if (this.links.joined(agent) === null) await this.leave(agent)
      }
    }
    const due = [hello_due_ms, this.membersDueMs].filter((due_ms) => due_ms !== null)
    if (due.length > 0) await this.alarmBy(Math.min(...due))
  }

  private async alarmBy(due_ms: number): Promise<void> {
    if (this.alarmAtMs !== null && this.alarmAtMs <= due_ms) return
    this.alarmAtMs = due_ms
    await this.ctx.storage.setAlarm(due_ms)
  }

  private remembered(now_ms: number): RememberedPool {
    const ticket_kids = Object.fromEntries(this.ticketKids)
    return { ...this.table.snapshot(now_ms), ...(this.shards.isFirst ? {} : { shard: this.shard }), ticket_kids }
  }

  private async hello(socket: WebSocket, link: Attachment, hello: Hello): Promise<void> {
    if (hello.agent !== link.agent) {
      return this.links.refuse(socket, link, CLOSE.unauthorised, 'the token belongs to another agent')
    }
    if (!hello.engines.every(({ id }) => isEngineOf(link.agent, id))) {
      return this.links.refuse(
        socket,
        link,
        CLOSE.malformed,
        'engine ids are the agent id, "-" and a label without "-"',
      )
    }
    const fault = agentUrlFault(hello.url, this.env.AGENT_URL_HOSTS)
    if (fault !== null) return this.links.refuse(socket, link, CLOSE.unauthorised, fault)
    const key = await deriveTicketKey(this.env.TICKET_SECRET, link.ticket_kid, link.agent)
    if (!(await this.shards.takes(this.memberOf(hello)))) return this.moveAgent(hello.agent)
    const now_ms = Date.now()
    const joined = this.table.agentJoined(hello, now_ms)
    if (joined !== 'joined') this.shards.tell(true)
    if (joined === 'wrong_pool') return this.links.refuse(socket, link, CLOSE.malformed, 'hello names another pool')
    if (joined === 'engine_taken')
      return this.links.refuse(socket, link, CLOSE.malformed, 'hello names an engine that is taken')
    if (joined === 'full')
      return this.links.refuse(socket, link, CLOSE_TRY_AGAIN, 'the pool has no room for another agent')
    this.links.takeOver(socket, link.agent)
    // Read again: the operator may have changed it while the key was derived.
    const { draining, ticket_kid } = readAttachment(socket)
    this.ticketKids.set(link.agent, ticket_kid)
    this.table.setDraining(link.agent, draining, now_ms)
    const clock_offset_ms = now_ms - hello.now_ms
    writeAttachment(socket, { ...link, draining, state: 'joined', report: null, heard_at_ms: now_ms, clock_offset_ms })
    sendFrame(socket, {
      type: 'welcome',
      protocol: Math.min(hello.protocol.max, PROTOCOL_VERSION),
      ticket_keys: [{ kid: ticket_kid, key: base64url(key) }],
      clock_offset_ms,
    })
    if (draining) sendFrame(socket, { type: 'drain', engines: [] })
    for (const frame of this.classes.frames()) socket.send(frame)
    const row = JSON.stringify([{ ...hello, now_ms: 0 }, ticket_kid, draining])
    if (this.rows.get(link.agent) === row) return
    const db = await this.storage.writable()
    const member = { hello: JSON.stringify(hello), joined_at_ms: now_ms, ticket_kid, draining }
    this.rows.set(link.agent, row)
    db.insert(members)
      .values({ agent: link.agent, ...member })
      .onConflictDoUpdate({ target: members.agent, set: member })
      .run()
  }

  private status(socket: WebSocket, link: Attachment, status: Status): void {
    if (link.state !== 'joined') {
      this.links.refuse(socket, link, CLOSE.malformed, 'status before hello')
      return
    }
    const now_ms = Date.now()
    this.reports.read(link.agent, this.table.agents.length, now_ms)
    if (this.table.agentStatus(link.agent, status, now_ms) !== 'applied') return
    // Charges are reported again within a second, and an attachment is small.
    const engines = status.engines.map(({ charges: _, ...engine }) => ({ ...engine, leases_seen: [] }))
    const clock_offset_ms = status.now_ms === undefined ? link.clock_offset_ms : now_ms - status.now_ms
    const moved = Math.abs((clock_offset_ms ?? 0) - (link.clock_offset_ms ?? 0)) > CLOCK_MOVED_MS
    const told = moved ? { clock_offset_ms } : {}
    if (moved && clock_offset_ms !== null) sendFrame(socket, { type: 'clock', clock_offset_ms })
    writeAttachment(socket, { ...link, ...told, report: { ...status, engines }, heard_at_ms: now_ms })
  }

  private memberOf({ agent, engines }: Hello): ShardMember {
    const seats = engines.reduce((sum, engine) => sum + engine.seats, 0)
    return { agent, shard: this.shard, engines: engines.length, seats }
  }

  private async leave(agent: string): Promise<void> {
    this.table.agentLeft(agent, Date.now())
    this.ticketKids.delete(agent)
    this.rows.delete(agent)
    this.shards.tell(true)
    const db = await this.storage.stored()
    db?.delete(members).where(eq(members.agent, agent)).run()
  }

  private async restore(pool: { region: string; model: string }): Promise<void> {
    const now_ms = Date.now()
    await this.links.restore()
    const db = await this.storage.stored()
    const rows = db?.select().from(members).limit(AGENTS_PER_POOL_MAX).all() ?? []
    // No ticket can be signed for a member without a key id. It comes back through its link.
    const known = rows.filter(({ ticket_kid }) => ticket_kid !== '')
    const hellos = known.map(({ hello }) => Hello.parse(JSON.parse(hello)))
    // Isolates compare versions for equality, so a restarted table must not reuse numbers.
    this.table = PoolTable.restore(pool, hellos, now_ms, now_ms, balancerOf(this.env))
    await this.shards.restore(
      hellos.map((hello) => this.memberOf(hello)),
      now_ms,
    )
    let unlinked = 0
    let heard_at_ms = Number.NEGATIVE_INFINITY
    for (const { agent, ticket_kid, draining } of known) {
      this.ticketKids.set(agent, ticket_kid)
      this.table.setDraining(agent, draining, now_ms)
      const socket = this.links.joined(agent)
      if (socket === null) unlinked += 1
      if (socket === null) continue
      const link = readAttachment(socket)
      const at_ms = link.heard_at_ms ?? now_ms
      this.table.heardOf(agent, at_ms)
      if (link.report !== null) this.table.agentStatus(agent, link.report, at_ms)
      heard_at_ms = Math.max(heard_at_ms, at_ms)
    }
    // Reports may be queued behind what woke the object.
    if (heard_at_ms !== Number.NEGATIVE_INFINITY) this.reports = new ReportWatch(heard_at_ms)
    if (unlinked === 0) return
    this.membersDueMs = now_ms + MEMBER_RETURN_MS
    const hello_due_ms = this.links.closeSilent(now_ms) ?? this.membersDueMs
    await this.alarmBy(Math.min(hello_due_ms, this.membersDueMs))
  }
}

/** One snapshot of all engines, in the words of the first shard's. */
function wholePool(first: PoolSnapshot, others: readonly PoolSnapshot[]): PoolSnapshot {
  return others.length === 0 ? first : { ...first, engines: [first, ...others].flatMap(({ engines }) => engines) }
}

/** Throws if the variable names no balancer: the system must not run with one that its operator did not choose. */
function balancerOf({ BALANCER: name = BALANCER_DEFAULT }: Env): Balancer {
  const known = BALANCER_NAMES.find((one) => one === name)
  if (known === undefined) throw new Error(`BALANCER must be one of ${BALANCER_NAMES.join(', ')}, not ${name}`)
  return createBalancer(known)
}
