/**
 * The engines of an agent and its links to their pools, one link for each model that is served. Engines start and end while the agent runs: the link
 * of a model opens with its first engine and closes with its last one.
 *
 * Keeps true: an engine that ends takes no further calls, then those under way end or are cancelled after a bound, and only then it stops. Their
 * records are on disk by then.
 */
import type { LengthVerdict } from '../../src/core/tools/length-learner.ts'
import type { CallRecord, ClassData, EngineDescription } from '../../src/protocol/index.ts'
import type { LedgerRow } from '../engine/types.ts'
import { type AgentOptions, CANCEL_LIMIT_MS, type EngineStart } from './agent-options.ts'
import type { KnownClasses } from './classes/known-classes.ts'
import type { AgentMetrics } from './data-plane/metrics.ts'
import { messageOf } from './events.ts'
import type { ContextCounts, FrontCount, KvSwapCosts } from './fronts/engine-front.ts'
import type { Link } from './link/link.ts'
import { type PoolLinkOptions, poolLink } from './link/pool-link.ts'
import { type LostCall, lostCallsOf } from './outbox/lost-calls.ts'
import type { Outbox } from './outbox/outbox.ts'
import type { OpenLease } from './outbox/record.ts'
import { ServedEngine } from './served-engine.ts'

/** What an engine needs of the agent. */
export interface EngineSurroundings {
  outbox: Outbox
  classes: KnownClasses
  /** Leases that a former process of the agent left open. */
  lost: readonly OpenLease[]
  /** A record was made of one of them. */
  recorded: () => void
}

export interface EngineSetOptions {
  options: AgentOptions
  metrics: () => AgentMetrics
  wall_ms: () => number
  /** Cancels calls under way because their engine ends. */
  cancel: (leases: readonly string[]) => void
}

/** What a pool's link needs, but for the engines. */
type LinkContext = Omit<PoolLinkOptions, 'engines'>

export class EngineSet {
  readonly #options: EngineSetOptions
  readonly #engines = new Map<string, ServedEngine>()
  readonly #links = new Map<string, Link>()
  /** Engines whose costs of the swap the operator has been told. */
  readonly #swap_costs_told = new Set<string>()
  #link_context: LinkContext | null = null

  constructor(options: EngineSetOptions) {
    this.#options = options
  }

  /** By id. */
  get engines(): ReadonlyMap<string, ServedEngine> {
    return this.#engines
  }

  get all(): readonly ServedEngine[] {
    return [...this.#engines.values()]
  }

  get descriptions(): readonly EngineDescription[] {
    return this.all.map((engine) => engine.description)
  }

  get links(): readonly Link[] {
    return [...this.#links.values()]
  }

  /** Resolves when the engine is ready and told to its pool. Throws what the engine throws that cannot start. */
  async start({ id, create }: EngineStart, around: EngineSurroundings): Promise<void> {
    if (this.#engines.has(id)) throw new Error(`engine ${id} runs already`)
    const { outbox, classes } = around
    const metrics = this.#options.metrics()
    const events = {
      ledger: (rows: readonly LedgerRow[]) => outbox.ledger(rows),
      status: () => this.#changed(id),
      epoch: () => this.#epochChanged(id),
      counted: (what: FrontCount) => metrics.frontCounted(id, what),
      swapCosts: (costs: KvSwapCosts) => this.#swapCosts(id, costs),
      contexts: (counts: ContextCounts) => metrics.contexts(id, counts),
      lengths: (verdict: LengthVerdict) => metrics.lengths(id, verdict),
    }
    const engine = new ServedEngine(id, await create(events, this.#lostCallsOf(id, around), classes))
    this.#engines.set(id, engine)
    this.#tellPool(engine.description.model)
  }

  /** Ends an engine: no further calls, those under way for at most `limit_ms`, then it stops. */
  async end(id: string, limit_ms: number, outbox: Outbox): Promise<void> {
    const engine = this.#engines.get(id)
    if (engine === undefined) return
    const { model } = engine.description
    const drained = this.drain(engine)
    if (!(await within(drained, limit_ms))) {
      const open = [...outbox.openSums()].filter((lease) => lease.engine === id)
      this.#options.cancel(open.map(({ lease }) => lease))
      await within(drained, CANCEL_LIMIT_MS)
    }
    await engine.front.stop()
    this.#engines.delete(id)
    this.#swap_costs_told.delete(id)
    this.#tellPool(model)
  }

  /** From here on each model that is served has its link. */
  openLinks(context: LinkContext): void {
    this.#link_context = context
    for (const { model } of this.descriptions) this.#tellPool(model)
  }

  classes(changed: readonly ClassData[]): void {
    for (const { front } of this.all) front.classes?.(changed)
  }

  /** An empty list means all engines. */
  hold(ids: readonly string[], held: boolean): ServedEngine[] {
    const engines = this.all.filter((engine) => ids.length === 0 || ids.includes(engine.id))
    for (const engine of engines) {
      engine.hold(held)
      this.#changed(engine.id)
    }
    return engines
  }

  /** Takes no further calls; resolves when those under way have ended. */
  drain(engine: ServedEngine): Promise<void> {
    const drained = engine.drain().catch((error: unknown) => {
      this.#options.options.report({ event: 'engine_drain_failed', engine: engine.id, message: messageOf(error) })
    })
    this.#changed(engine.id)
    return drained
  }

  async stop(): Promise<void> {
    this.#link_context = null
    await Promise.all(this.all.map((engine) => engine.front.stop()))
    await Promise.all(this.links.map((link) => link.stop()))
  }

  #tellPool(model: string): void {
    const context = this.#link_context
    if (context === null) return
    const link = this.#links.get(model)
    const served = this.descriptions.some((one) => one.model === model)
    if (link !== undefined && served) link.describeAgain()
    else if (link !== undefined) {
      this.#links.delete(model)
      void link.stop()
    } else if (served) {
      const opened = poolLink(model, { ...context, engines: () => this.all })
      this.#links.set(model, opened)
      opened.start()
    }
  }

  #linkOf(engine: string): Link | undefined {
    const model = this.#engines.get(engine)?.description.model
    return model === undefined ? undefined : this.#links.get(model)
  }

  #changed(id: string): void {
    const engine = this.#engines.get(id)
    if (engine !== undefined) this.#linkOf(id)?.changed(engine.hasNewState ? 'state' : 'load')
  }

  #epochChanged(id: string): void {
    const engine = this.#engines.get(id)
    if (engine === undefined) return
    this.#swap_costs_told.delete(id)
    this.#options.options.report({ event: 'engine_epoch', engine: id, epoch: engine.epoch })
    this.#linkOf(id)?.describeAgain()
  }

  #swapCosts(engine: string, costs: KvSwapCosts): void {
    this.#options.metrics().swapCosts(engine, costs)
    if (!costs.measured || this.#swap_costs_told.has(engine)) return
    this.#swap_costs_told.add(engine)
    this.#options.options.report({ event: 'swap_costs', engine, ...costs })
  }

  #lostCallsOf(engine: string, { outbox, lost, recorded: done }: EngineSurroundings): LostCall[] {
    const recorded = (record: CallRecord): void => {
      this.#options.metrics().settled(record, 1)
      done()
    }
    const { report } = this.#options.options
    return lostCallsOf(engine, lost, { outbox, wall_ms: this.#options.wall_ms, report, recorded })
  }
}

/** Whether it settles in time. */
async function within(work: Promise<void>, limit_ms: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<false>()
  const timer = setTimeout(() => resolve(false), limit_ms)
  const settled = await Promise.race([work.then(() => true as const), promise])
  clearTimeout(timer)
  return settled
}
