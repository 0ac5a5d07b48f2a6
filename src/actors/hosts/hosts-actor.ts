/**
 * HostsActor: one for the deployment. Hosts that lend GPUs are linked to it (protocol/host.ts), and it lends them to offline applications stage by
 * stage (SamuLLM §4.3). An agent of the plan, the coordinator, makes the plan and chooses each stage. This object keeps the plan, so another agent
 * takes over when a coordinator is lost.
 *
 * Keeps true:
 * - What a host is to run is stored before the host is told. A host that links again is told again.
 * - Each stage has an epoch of its own that no earlier stage had. Answers of a coordinator about an earlier stage count for nothing.
 * - An application that does not ask for LOAN_IDLE_MS loses its hosts. A host that is gone for HOST_RETURN_MS ends the loan.
 * - A host whose own model an online call misses returns. Its application keeps its plan and waits.
 * - Applications learn nothing of each other but that they wait.
 */
import { DurableObject } from 'cloudflare:workers'
import { chooseHosts, type HostChoice, type HostWish, type KnownHost } from '../../core/hosts/choose-hosts.ts'
import { blockerOf, type Loan, nodesDone, sameLoan, wantedOf } from '../../core/hosts/loan.ts'
import { nodeEngines } from '../../core/hosts/node-engines.ts'
import type { Env } from '../../env.ts'
import { log } from '../../platform/log.ts'
import {
  HOST_DOWN_BYTES_MAX,
  HOST_LEASE_MS,
  HOST_PROTOCOL_VERSION,
  type HostDownMessage,
  type HostHello,
  HostUpMessage,
} from '../../protocol/host.ts'
import { CLOSE } from '../../protocol/index.ts'
import { tenantById } from '../../store/tenants.ts'
import { AgentLinks } from '../agent-links.ts'
import {
  HOME_KEPT_MS,
  type HostReport,
  type HostsRpc,
  type PlanReply,
  type PlanRequest,
  type RunReply,
  type RunRequest,
} from '../hosts-rpc.ts'
import { type Attachment, isEngineOf, readAttachment, sendFrame, writeAttachment } from '../link-frames.ts'
import { Mutex } from '../mutex.ts'
import { Coordinators } from './coordinators.ts'
import { hasOnlineCalls } from './home-use.ts'
import { HOSTS_MAX, HostBook } from './host-book.ts'
import { LOANS_MAX, LoanBook } from './loan-book.ts'
import { servingAgents } from './serving-agents.ts'

/** Open sockets: one for every host, and as many again that are being replaced. */
const LINKS_MAX = 2 * HOSTS_MAX
/** A host that is lent may be without a link for so long. */
export const HOST_RETURN_MS = 60_000
/** A stage is sent again after so long, which renews the host's lease. */
const RENEW_MS = HOST_LEASE_MS / 4
const CLOSE_TRY_AGAIN = 1013

export class HostsActor extends DurableObject<Env> implements HostsRpc {
  private readonly links: AgentLinks<HostUpMessage>
  private readonly book: HostBook
  private readonly loans: LoanBook
  private readonly coordinators = new Coordinators({
    isLinked: (agent) => this.links.joined(agent) !== null,
    send: (agent, message) => this.send(agent, message),
  })
  /** By application: what it asks for is done in the order in which it asks. */
  private readonly turns = new Map<string, { mutex: Mutex; waiting: number }>()
  private alarmAtMs: number | null = null

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    this.book = new HostBook(ctx.storage)
    this.loans = new LoanBook(ctx.storage)
    this.links = new AgentLinks({
      ...{ ctx, db: env.DB, links_max: LINKS_MAX, frames: HostUpMessage, place: { link: 'host' } },
      versions: { min: HOST_PROTOCOL_VERSION, max: HOST_PROTOCOL_VERSION },
      leave: (agent) => this.leave(agent),
      alarmBy: (due_ms) => this.alarmBy(due_ms),
    })
    ctx.blockConcurrencyWhile(async () => {
      const now_ms = Date.now()
      await this.links.restore()
      await this.book.restore(now_ms, (agent) => this.links.joined(agent) !== null)
      await this.loans.restore(now_ms)
    })
  }

  async plan(request: PlanRequest): Promise<PlanReply> {
    return this.inTurn(request, () => this.makePlan(request))
  }

  async run(request: RunRequest): Promise<RunReply> {
    return this.inTurn(request, () => this.goOn(request))
  }

  async release(named: { tenant: string; application: string }): Promise<void> {
    await this.inTurn(named, async () => {
      const loan = this.loans.of(named)
      if (loan !== undefined) await this.end(loan)
    })
  }

  async returnFor({ model, regions }: { model: string; regions: readonly string[] }): Promise<void> {
    const able = this.book.all.filter(({ hello, draining }) => {
      const has_model = regions.includes(hello.region) && hello.home.some((one) => one.model === model)
      return has_model && !draining && this.links.joined(hello.agent) !== null
    })
    const chosen = able.find(({ hello }) => this.loans.lentTo(hello.agent) === undefined) ?? able[0]
    if (chosen === undefined) return
    chosen.home_until_ms = Date.now() + HOME_KEPT_MS
    const loan = this.loans.lentTo(chosen.hello.agent)
    if (loan !== undefined) await this.inTurn(loan, () => this.recall(loan, model))
  }

  async hosts(): Promise<HostReport[]> {
    return this.book.all.map(({ hello: { agent, region, gpus, lend, models }, status, draining }) => {
      const loan = this.loans.lentTo(agent)
      const lent_to =
        loan === undefined ? null : { tenant: loan.tenant, application: loan.application, since_ms: loan.since_ms }
      const names = models.map(({ model }) => model)
      const linked = this.links.joined(agent) !== null
      return { agent, region, linked, draining, gpus, lend, models: names, lent_to, engines: status?.engines ?? null }
    })
  }

  async drainAgent({ agent, draining }: { agent: string; draining: boolean }): Promise<void> {
    for (const socket of this.links.of(agent)) writeAttachment(socket, { ...readAttachment(socket), draining })
    await this.book.drain(agent, draining)
    const loan = draining ? this.loans.lentTo(agent) : undefined
    if (loan !== undefined) await this.inTurn(loan, () => this.end(loan))
  }

  async refuseAgent({ agent, except_kid }: { agent: string; except_kid: string | null }): Promise<void> {
    this.links.refuseAgent(agent, except_kid)
    if (except_kid === null) await this.book.forget(agent)
  }

  override async fetch(request: Request): Promise<Response> {
    return this.links.open(request)
  }

  override async webSocketMessage(socket: WebSocket, data: string | ArrayBuffer): Promise<void> {
    const read = this.links.read(socket, data)
    if (read === null) return
    const { link, message } = read
    if (message.type === 'hello') return this.hello(socket, link, message)
    if (link.state !== 'joined') return this.links.refuse(socket, link, CLOSE.malformed, `${message.type} before hello`)
    if (message.type === 'status') this.book.told(link.agent, message)
    else this.coordinators.answered(link.agent, message)
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
    for (const loan of this.loans.ended(now_ms)) {
      log('info', 'loan_not_kept', { tenant: loan.tenant, application: loan.application, state: loan.state })
      await this.inTurn(loan, () => this.endIfIdle(loan))
    }
    const due = [hello_due_ms, this.loans.ends_ms].filter((due_ms) => due_ms !== null)
    if (due.length > 0) await this.alarmBy(Math.min(...due))
  }

  private async makePlan(request: PlanRequest): Promise<PlanReply> {
    const { tenant, application, nodes, regions } = request
    const borrower = await tenantById(this.env.DB, tenant)
    const may_borrow = borrower?.borrow_gpus_max ?? 0
    if (may_borrow === 0) {
      const message = `The tenant may not borrow GPUs. An operator allows it with: switchyard tenants update ${tenant} --borrow-gpus N`
      return { status: 'refused', reason: 'may_not_borrow', message }
    }
    const before = this.loans.of(request)
    if (before !== undefined) await this.end(before)
    if (this.loans.running >= LOANS_MAX)
      return { status: 'refused', reason: 'no_answer', message: 'Too many applications run or wait. Ask again later.' }
    const gpus_max = Math.min(may_borrow, request.gpus_max ?? may_borrow)
    const models = new Set(nodes.nodes.map(({ model }) => model))
    const choice = await this.choose({ models, regions: regions === null ? null : new Set(regions), gpus_max })
    if (!choice.ok) return { status: 'refused', reason: 'no_host', message: choice.reason }
    if (JSON.stringify(nodes).length > HOST_DOWN_BYTES_MAX / 2) {
      const message = `The application is described by more than ${HOST_DOWN_BYTES_MAX / 2} bytes. Give requests as a count with a mean.`
      return { status: 'refused', reason: 'no_plan', message }
    }
    const { hosts } = choice
    const answer = await this.coordinators.plan(request, hosts)
    if (answer.status === 'refused') return { status: 'refused', reason: 'no_plan', message: answer.reason }
    if (answer.status === 'no_answer') {
      return { status: 'refused', reason: 'no_answer', message: 'No host has answered with a plan. Ask again.' }
    }
    const now_ms = Date.now()
    const loan: Loan = {
      ...{ tenant, application, plan_id: crypto.randomUUID(), plan: answer.plan, hosts },
      ...{ coordinator: answer.coordinator, state: 'planned', since_ms: now_ms, asked_ms: now_ms },
      ...{ epoch: 0, done: [], placed: [] },
    }
    await this.loans.put(loan)
    await this.alarmAtEnd()
    return { status: 'planned', plan_id: loan.plan_id, plan: loan.plan, hosts }
  }

  private async goOn({ tenant, application, plan_id, done }: RunRequest): Promise<RunReply> {
    const loan = this.loans.of({ tenant, application })
    if (loan?.plan_id !== plan_id) {
      return { status: 'lost', message: 'There is no such plan, or its hosts were not kept by asking for them.' }
    }
    const now_ms = Date.now()
    loan.asked_ms = now_ms
    const gone = this.goneHost(loan, now_ms)
    if (gone !== null) {
      await this.end(loan)
      return { status: 'lost', message: gone }
    }
    const ended = nodesDone(loan.plan, done)
    if (ended.length === loan.plan.nodes.length) {
      await this.end(loan)
      return { status: 'done' }
    }
    const waits = loan.state === 'lent' ? null : await this.lend(loan)
    if (waits !== null) return { status: 'waiting', message: waits }
    const same = ended.length === loan.done.length && ended.every((node) => loan.done.includes(node))
    const stays = same && loan.epoch > 0 ? null : await this.nextStage(loan, ended)
    if (stays !== null) return { status: 'waiting', message: stays }
    this.renew(loan)
    const nodes = nodeEngines(loan, done, (agent) => this.book.of(agent)?.status ?? null)
    return { status: 'running', epoch: loan.epoch, nodes }
  }

  /** Why the application has to wait; null: it has the hosts. */
  private async lend(loan: Loan): Promise<string | null> {
    const names = new Set(loan.hosts.map(({ agent }) => agent))
    await this.noticeHomeUse(names)
    const models = new Set(loan.plan.nodes.map(({ model }) => model))
    const choice = await this.choose({ models, regions: null, gpus_max: Number.MAX_SAFE_INTEGER }, names)
    const now_ms = Date.now()
    // From here to the state `lent` nothing is waited for, so no other loan comes between.
    const blocker = blockerOf(loan, this.loans.all)
    const able = choice.ok && choice.hosts.length === loan.hosts.length
    if (blocker === null && able) {
      Object.assign(loan, { state: 'lent', since_ms: now_ms })
      await this.loans.put(loan)
      const { tenant, application } = loan
      log('info', 'hosts_lent', { tenant, application, hosts: [...names].join(' ') })
      return null
    }
    if (loan.state === 'planned') {
      Object.assign(loan, { state: 'waiting', since_ms: now_ms })
      await this.loans.put(loan)
    }
    await this.alarmAtEnd()
    if (blocker !== null) return 'The hosts are lent to another application, or another one asked for them earlier.'
    return choice.ok ? 'Not all hosts of the plan can be lent at this moment.' : choice.reason
  }

  /** Why there is no stage; null: hosts were told the next one. */
  private async nextStage(loan: Loan, done: readonly number[]): Promise<string | null> {
    const chosen = await this.coordinators.stage(loan, done)
    if (chosen === null) return 'No host of the plan answers which stage is next.'
    const epoch = await this.loans.nextEpoch()
    Object.assign(loan, { ...chosen, epoch, done: [...done] })
    await this.loans.put(loan)
    for (const { agent } of loan.hosts) this.stage(agent)
    return null
  }

  /** Sends each host its stage again if the last time is long ago. */
  private renew(loan: Loan): void {
    for (const { agent } of loan.hosts) {
      const host = this.book.of(agent)
      if (host !== undefined && Date.now() - host.staged_ms >= RENEW_MS) this.stage(agent)
    }
  }

  /** Tells a host what it is to run: what a loan says, or nothing but its home engines. */
  private stage(agent: string): void {
    const loan = this.loans.lentTo(agent)
    const at = loan?.hosts.findIndex((host) => host.agent === agent) ?? -1
    const lent = loan !== undefined && loan.epoch > 0
    const engines = lent ? wantedOf(loan, at) : []
    const epoch = lent ? loan.epoch : this.loans.epoch
    this.send(agent, { type: 'stage', epoch, lease_ms: HOST_LEASE_MS, engines })
    const host = this.book.of(agent)
    if (host !== undefined) host.staged_ms = Date.now()
  }

  /** Its hosts return. It has to wait for them again, behind those that wait. */
  private async recall(loan: Loan, model: string): Promise<void> {
    const current = this.loans.of(loan)
    if (current?.plan_id !== loan.plan_id || current.state !== 'lent') return
    await this.loans.nextEpoch()
    Object.assign(current, { state: 'waiting', since_ms: Date.now(), epoch: 0, done: [], placed: [] })
    await this.loans.put(current)
    for (const { agent } of current.hosts) this.stage(agent)
    log('info', 'hosts_recalled', { tenant: loan.tenant, application: loan.application, model })
  }

  /** Hosts that came back for online calls stay while they have some. */
  private async noticeHomeUse(agents: ReadonlySet<string>): Promise<void> {
    for (const host of this.book.all) {
      const { agent, region, home } = host.hello
      if (!agents.has(agent) || !isNeededAtHome(host)) continue
      const models = new Set(home.map(({ model }) => model))
      for (const model of models) {
        if (await hasOnlineCalls(this.env, { region, model, agent })) host.home_until_ms = Date.now() + HOME_KEPT_MS
      }
    }
  }

  private async end(loan: Loan): Promise<void> {
    const current = this.loans.of(loan)
    if (current?.plan_id !== loan.plan_id) return
    const was_lent = current.state === 'lent'
    if (was_lent) await this.loans.nextEpoch()
    await this.loans.delete(current)
    if (!was_lent) return
    for (const { agent } of current.hosts) this.stage(agent)
    log('info', 'hosts_returned', { tenant: loan.tenant, application: loan.application })
  }

  /** It may have asked while its end waited. */
  private async endIfIdle(loan: Loan): Promise<void> {
    if (this.loans.ended(Date.now()).some((one) => sameLoan(one, loan))) await this.end(loan)
  }

  private goneHost(loan: Loan, now_ms: number): string | null {
    for (const { agent } of loan.hosts) {
      const host = this.book.of(agent)
      if (host === undefined) return `The agent ${agent} was removed.`
      if (host.draining) return `The operator drains the agent ${agent}.`
      if (host.lost_ms !== null && now_ms - host.lost_ms >= HOST_RETURN_MS)
        return `The agent ${agent} has had no link for ${HOST_RETURN_MS / 1000} s.`
    }
    return null
  }

  /** `only`: no others, and what they are lent to does not count. */
  private async choose(wish: HostWish, only: ReadonlySet<string> | null = null): Promise<HostChoice> {
    const known = this.book.all
      .filter(({ hello }) => only === null || only.has(hello.agent))
      .map((host): KnownHost => {
        const { hello, draining } = host
        const linked = this.links.joined(hello.agent) !== null
        const needed_at_home = isNeededAtHome(host)
        // A plan may be for hosts that are not free yet.
        const lent = only === null && (needed_at_home || this.loans.lentTo(hello.agent) !== undefined)
        return { ...hello, draining, linked, lent, needed_at_home: only !== null && needed_at_home }
      })
    return chooseHosts(known, wish, await servingAgents(this.env, known))
  }

  private async hello(socket: WebSocket, link: Attachment, hello: HostHello): Promise<void> {
    if (hello.agent !== link.agent)
      return this.links.refuse(socket, link, CLOSE.unauthorised, 'the token belongs to another agent')
    if (!hello.home.every(({ id }) => isEngineOf(link.agent, id)))
      return this.links.refuse(
        socket,
        link,
        CLOSE.malformed,
        'engine ids are the agent id, "-" and a label without "-"',
      )
    if (!(await this.book.joined(hello, link.draining)))
      return this.links.refuse(socket, link, CLOSE_TRY_AGAIN, 'there is no room for another host')
    if (socket.readyState !== WebSocket.OPEN) return
    this.links.takeOver(socket, link.agent)
    writeAttachment(socket, { ...readAttachment(socket), state: 'joined', heard_at_ms: Date.now() })
    sendFrame(socket, { type: 'welcome', protocol: HOST_PROTOCOL_VERSION })
    this.stage(link.agent)
  }

  private async leave(agent: string): Promise<void> {
    this.book.left(agent, Date.now())
    this.coordinators.left(agent)
  }

  /** To a host without a link it is not sent; it is told when it links. */
  private send(agent: string, message: HostDownMessage): void {
    const socket = this.links.joined(agent)
    if (socket !== null) sendFrame(socket, message)
  }

  private async inTurn<T>(of: { tenant: string; application: string }, work: () => Promise<T>): Promise<T> {
    const key = JSON.stringify([of.tenant, of.application])
    const turn = this.turns.get(key) ?? { mutex: new Mutex(), waiting: 0 }
    this.turns.set(key, turn)
    turn.waiting += 1
    try {
      return await turn.mutex.run(work)
    } finally {
      turn.waiting -= 1
      if (turn.waiting === 0) this.turns.delete(key)
    }
  }

  private async alarmAtEnd(): Promise<void> {
    if (this.loans.ends_ms !== null) await this.alarmBy(this.loans.ends_ms)
  }

  private async alarmBy(due_ms: number): Promise<void> {
    if (this.alarmAtMs !== null && this.alarmAtMs <= due_ms) return
    this.alarmAtMs = due_ms
    await this.ctx.storage.setAlarm(due_ms)
  }
}

function isNeededAtHome({ home_until_ms }: { home_until_ms: number }): boolean {
  return Date.now() < home_until_ms
}
