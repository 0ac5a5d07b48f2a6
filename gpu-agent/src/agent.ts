/**
 * One agent: its engines with their links to pools, the outbox, the data plane and the sender.
 * Composes them and holds no logic of its own but the order of starting and ending.
 *
 * Start: outbox (leases of a former process get their records), engines, listener, links, sender. Drain is the reverse:
 * no further calls, the calls under way, the records, the rest. Nothing is lost by skipping any of it: kill -9 is as
 * safe for the accounts as a drain, only less kind to clients.
 */
import type { ClassData, EngineDescription, TicketClaims } from '../../src/protocol/index.ts'
import {
  type AgentOptions,
  CANCEL_LIMIT_MS,
  CLOSE_GRACE_MS,
  DRAIN_LIMIT_MS,
  type EngineStart,
  FLUSH_LIMIT_MS,
  PRUNE_INTERVAL_MS,
} from './agent-options.ts'
import { CallForecasts } from './classes/call-forecasts.ts'
import { KnownClasses } from './classes/known-classes.ts'
import { DataPlane } from './data-plane/data-plane.ts'
import { DISK_WAIT_MS } from './data-plane/disk-wait.ts'
import { AgentMetrics } from './data-plane/metrics.ts'
import { SpanSender } from './data-plane/span-sender.ts'
import { ERRORS } from './data-plane/stream-errors.ts'
import { TicketGate } from './data-plane/ticket-gate.ts'
import { EngineSet, type EngineSurroundings } from './engine-set.ts'
import { messageOf } from './events.ts'
import { monotonicUs } from './fronts/local/scheduler-of.ts'
import { Lending } from './lending/lending.ts'
import { Replays } from './link/replays.ts'
import { type Outbox, openOutbox } from './outbox/outbox.ts'
import type { OpenLease } from './outbox/record.ts'
import { RecordSender } from './outbox/record-sender.ts'

const FLUSH_POLL_MS = 20

export class AgentStartError extends Error {
  readonly stage: 'outbox' | 'engine' | 'listen'

  constructor(stage: 'outbox' | 'engine' | 'listen', message: string) {
    super(message)
    this.stage = stage
  }
}

export class Agent {
  readonly #options: AgentOptions
  readonly #wall_ms: () => number
  readonly #random: () => number
  readonly #engines: EngineSet
  readonly #gate: TicketGate
  readonly #metrics: AgentMetrics
  readonly #spans: SpanSender | null
  readonly #replays: Replays
  #outbox: Outbox | null = null
  #classes = new KnownClasses()
  #lost: readonly OpenLease[] = []
  #data_plane: DataPlane | null = null
  #lending: Lending | null = null
  #sender: RecordSender | null = null
  #prune: NodeJS.Timeout | null = null
  #disk_wait: NodeJS.Timeout | null = null
  #draining: Promise<void> | null = null
  #stopping: Promise<void> | null = null
  #url = ''

  constructor(options: AgentOptions) {
    this.#options = options
    this.#wall_ms = options.wall_ms ?? Date.now
    this.#random = options.random ?? Math.random
    this.#engines = new EngineSet({
      options,
      metrics: () => this.#metrics,
      wall_ms: this.#wall_ms,
      cancel: (leases) => this.#data_plane?.cancel(leases, ERRORS.agent_draining),
    })
    this.#replays = new Replays({
      engine: (id) => this.#engines.engines.get(id),
      open: () => this.#outbox?.openSums() ?? [],
      monotonic_us: monotonicUs,
    })
    this.#gate = new TicketGate({
      agent: options.id,
      engines: this.#engines.engines,
      wall_ms: this.#wall_ms,
      draining: () => this.#draining !== null,
    })
    const { id: agent, region, otlp } = options
    this.#spans = otlp === null || otlp === undefined ? null : new SpanSender(otlp, { agent, region })
    this.#metrics = new AgentMetrics({
      engines: () => this.#engines.all.map((engine) => ({ id: engine.id, state: engine.state, ...engine.load })),
      spans_dropped: () => this.#spans?.dropped ?? 0,
      open_calls: () => this.openCalls,
      outbox_depth: () => this.#outbox?.depth ?? 0,
      classes: () => ({ known: this.#classes.size, ends: this.#classes.ends }),
      links: () => this.#engines.links,
    })
  }

  /** Base URL of the data plane as Workers reach it. */
  get url(): string {
    return this.#url
  }

  get engines(): readonly EngineDescription[] {
    return this.#engines.descriptions
  }

  get openCalls(): number {
    return this.#data_plane?.openCalls ?? 0
  }

  /** Whether every pool has welcomed this agent. */
  get linked(): boolean {
    const { links } = this.#engines
    return links.length > 0 && links.every((link) => link.linked)
  }

  /** Resolves when calls can be served (a call also needs a link's keys). Throws AgentStartError; nothing is left behind. */
  async start(): Promise<void> {
    try {
      this.#openOutbox()
      await this.#startEngines()
      await this.#listen()
    } catch (error) {
      await this.stop()
      throw error
    }
    this.#startLinks()
    this.#startLending()
    this.#sender?.start()
    this.#prune = setInterval(() => this.#outbox?.prune(), PRUNE_INTERVAL_MS)
    const engines = this.engines.map(({ id, epoch, model }) => ({ id, epoch, model }))
    const { id, region } = this.#options
    this.#options.report({ event: 'ready', agent: id, region, url: this.#url, engines })
  }

  /** Takes no further calls, ends those under way (cancelling what is left after `limit_ms`), sends the records, stops. */
  drain(limit_ms: number = DRAIN_LIMIT_MS): Promise<void> {
    this.#draining ??= this.#drain(limit_ms)
    return this.#draining
  }

  /** Ends at once; calls under way fail. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop()
    return this.#stopping
  }

  #openOutbox(): void {
    const { data_dir, report, fatal, tuning, engines } = this.#options
    const outlive = new Set(engines.filter(({ outlives_agent }) => outlives_agent === true).map(({ id }) => id))
    const stays_open = ({ engine }: TicketClaims): boolean => outlive.has(engine)
    const onFailing = (failing: boolean): void => this.#diskTurned(failing)
    const opening = openOutbox({
      data_dir,
      report,
      fatal,
      onFailing,
      wall_ms: this.#wall_ms,
      stays_open,
      ...tuning?.outbox,
    })
    if (opening.status !== 'open') throw new AgentStartError('outbox', opening.message)
    this.#outbox = opening.outbox
    this.#classes = new KnownClasses(opening.outbox.keptClasses())
    this.#lost = opening.left_open
    for (const record of opening.recovered) this.#metrics.settled(record, 1)
    if (opening.recovered.length > 0) report({ event: 'recovered', leases: opening.recovered.length })
    if (opening.left_open.length > 0) report({ event: 'recovering', leases: opening.left_open.length })
  }

  /** Engines go on writing their ledgers while calls run, so a disk that stays full ends those under way. */
  #diskTurned(failing: boolean): void {
    if (this.#disk_wait !== null) clearTimeout(this.#disk_wait)
    this.#disk_wait = null
    if (!failing) this.#options.report({ event: 'outbox_writes_again' })
    else {
      const end = (): void => void this.#data_plane?.cancelAll(ERRORS.disk_full)
      this.#disk_wait = setTimeout(end, this.#options.tuning?.disk_wait_ms ?? DISK_WAIT_MS)
    }
  }

  async #startEngines(): Promise<void> {
    const { engines, start_together = false } = this.#options
    if (start_together) await Promise.all(engines.map((engine) => this.#startEngine(engine)))
    else for (const engine of engines) await this.#startEngine(engine)
  }

  async #startEngine(start: EngineStart): Promise<void> {
    try {
      await this.#engines.start(start, this.#surroundings())
    } catch (error) {
      throw new AgentStartError('engine', `engine ${start.id}: ${messageOf(error)}`)
    }
  }

  #surroundings(): EngineSurroundings {
    if (this.#outbox === null) throw new Error('the outbox is opened first')
    return {
      ...{ outbox: this.#outbox, classes: this.#classes, lost: this.#lost },
      recorded: () => this.#sender?.notify(),
    }
  }

  async #listen(): Promise<void> {
    const { id, listen, public_url, tuning, report, metrics_token = null } = this.#options
    const outbox = this.#outbox
    if (outbox === null) throw new Error('the outbox is opened first')
    this.#sender = new RecordSender({
      ...this.#options,
      agent: id,
      outbox,
      metrics: this.#metrics,
      random: this.#random,
      ...tuning?.sender,
    })
    const context = {
      outbox,
      metrics: this.#metrics,
      spans: this.#spans,
      report,
      wall_ms: this.#wall_ms,
      clock: monotonicUs,
      disk_wait_ms: tuning?.disk_wait_ms ?? DISK_WAIT_MS,
      recorded: () => this.#sender?.notify(),
      forecasts: new CallForecasts(this.#classes),
    }
    this.#data_plane = new DataPlane({
      gate: this.#gate,
      context,
      health: () => this.#health(),
      metrics_token,
      ...tuning?.data_plane,
    })
    try {
      const { address, family, port } = await this.#data_plane.listen(listen.host, listen.port)
      this.#url = public_url ?? `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
    } catch (error) {
      this.#data_plane = null
      throw new AgentStartError('listen', `cannot listen on ${listen.host}:${listen.port}: ${messageOf(error)}`)
    }
  }

  #startLinks(): void {
    this.#engines.openLinks({
      options: this.#options,
      url: this.#url,
      gate: this.#gate,
      random: this.#random,
      wall_ms: this.#wall_ms,
      holdEngines: (ids, held) => this.#holdEngines(ids, held),
      cancel: (leases) => this.#data_plane?.cancel(leases, ERRORS.program_ended),
      classes: (classes) => this.#classesTold(classes),
      discard: (engine, program) => this.#engines.engines.get(engine)?.front.discard?.(program),
      replay: (question) => this.#replays.answer(question),
      openSums: () => this.#outbox?.openSums() ?? [],
      isOpen: (lease) => this.#outbox?.isOpen(lease) ?? false,
      ignored: () => this.#metrics.messageIgnored(),
      refused: (model, reason) => this.#refused(model, reason),
    })
  }

  /** A pool that refuses only a lent engine says nothing about this agent. */
  #refused(model: string, reason: string): void {
    if (this.#lending !== null && !this.#lending.host.isHomeModel(model)) this.#lending.host.poolRefused(model, reason)
    else if (this.#engines.links.every(({ refused }) => refused)) this.#options.refused?.(reason)
  }

  #startLending(): void {
    const { lend = null } = this.#options
    if (lend === null) return
    this.#lending = new Lending({
      ...{ options: this.#options, lend, random: this.#random },
      models: new Map(this.engines.map(({ id, model }) => [id, model])),
      start: (engine) => this.#engines.start(engine, { ...this.#surroundings(), lost: [] }),
      end: (id, limit_ms) => this.#engines.end(id, limit_ms, this.#surroundings().outbox),
      isUp: (id) => this.#engines.engines.get(id)?.state !== 'down',
      ignored: () => this.#metrics.messageIgnored(),
    })
    this.#lending.start()
  }

  #classesTold(classes: readonly ClassData[]): void {
    const changed = this.#classes.take(classes)
    if (changed.length === 0) return
    this.#outbox?.keepClasses(changed)
    this.#engines.classes(changed)
  }

  /** An empty list means all engines. */
  #holdEngines(ids: readonly string[], held: boolean): void {
    const engines = this.#engines.hold(ids, held)
    if (engines.length === 0) return
    const names = engines.map(({ id }) => id)
    this.#options.report({ event: held ? 'engines_held' : 'engines_released', engines: names, calls: this.openCalls })
  }

  #health(): { ok: boolean; body: object } {
    const engines = this.#engines.all.map(({ id, epoch, state }) => ({ id, epoch, state }))
    const serves = this.linked && engines.some(({ state }) => state === 'ready')
    // While lent, engines come and go, and there may be none for a moment.
    const ok = this.#draining === null && (serves || this.#lending?.host.lent === true)
    const status = this.#draining === null ? (ok ? 'ok' : 'unavailable') : 'draining'
    return { ok, body: { status, agent: this.#options.id, linked: this.linked, engines } }
  }

  async #drain(limit_ms: number): Promise<void> {
    const { report } = this.#options
    report({ event: 'draining', calls: this.openCalls, limit_ms, reason: 'asked to stop' })
    await this.#lending?.stop()
    // Whether its calls have ended is seen by the calls themselves.
    for (const engine of this.#engines.all) void this.#engines.drain(engine)
    let calls_cancelled = 0
    if ((await this.#data_plane?.idle(limit_ms)) === false) {
      calls_cancelled = this.#data_plane?.cancelAll(ERRORS.agent_draining) ?? 0
      await this.#data_plane?.idle(CANCEL_LIMIT_MS)
    }
    const give_up_ms = performance.now() + FLUSH_LIMIT_MS
    const records_left = (): number => this.#outbox?.depth ?? 0
    while (records_left() > 0 && performance.now() < give_up_ms && this.#stopping === null) {
      await new Promise((resolve) => setTimeout(resolve, FLUSH_POLL_MS))
    }
    report({ event: 'drained', calls_cancelled, records_left: records_left() })
    await this.stop()
  }

  async #stop(): Promise<void> {
    await this.#lending?.stop()
    if (this.#prune !== null) clearInterval(this.#prune)
    if (this.#disk_wait !== null) clearTimeout(this.#disk_wait)
    this.#data_plane?.cancelAll(ERRORS.agent_draining)
    await this.#engines.stop()
    await this.#data_plane?.close(CLOSE_GRACE_MS)
    await this.#sender?.stop()
    await this.#spans?.stop()
    this.#outbox?.close()
    this.#options.report({ event: 'stopped' })
  }
}
