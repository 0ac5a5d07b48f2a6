/**
 * One application: checks its lines, runs its nodes and keeps what they answer. It works in its alarm, a slice at a time, so
 * that a restart of anything goes on by itself.
 *
 * Keeps true:
 * - D1's row follows the status. It is written before the actor forgets an application that has completed.
 * - An application that was stopped before it completed keeps its results for KEPT_MS, and goes on from them when it is sent
 *   again.
 * - A failure of R2, D1 or this code ends a slice and not the application: the next slice begins from what is stored.
 */
import { DurableObject } from 'cloudflare:workers'
import {
  type ApplicationEnding,
  type ApplicationReport,
  type ApplicationState,
  type Definition,
  type NewApplication,
  newApplication,
  resumed,
} from '../../core/application/application-state.ts'
import { checkedGraph, type Graph } from '../../core/application/graph.ts'
import { inputGone } from '../../core/application/output-line.ts'
import { type BackoffBounds, backoffMs } from '../../core/backoff.ts'
import type { Env } from '../../env.ts'
import { logFailure } from '../../platform/log.ts'
import { putApplication } from '../../store/applications.ts'
import { withDeadline } from '../../store/d1-deadline.ts'
import { deleteParts } from '../../store/file-contents.ts'
import { publishFile } from '../../store/files.ts'
import { joined } from '../../store/segments.ts'
import { type BatchLinesFetcher, callLine, type LineCall, type LineOutcome } from '../batch/line-call.ts'
import { addFault, Validation } from '../batch/validation.ts'
import type { ApplicationRpc, NodeOutput } from './application-rpc.ts'
import { ApplicationRun } from './application-run.ts'
import { ApplicationStorage } from './application-storage.ts'
import { BorrowedHosts } from './borrowed-hosts.ts'
import { inputRules } from './input-rules.ts'

/** The alarm comes again after it, and D1's row is written. */
const RUN_SLICE_MS = 10_000
const RETRY: BackoffBounds = { min_ms: 1_000, max_ms: 60_000 }
/** Of one that did not complete, from its end. */
export const KEPT_MS = 30 * 86_400_000

type Step = 'more' | 'over'

interface Loaded {
  /** Changed in place. */
  state: ApplicationState
  definition: Definition
  graph: Graph
}

export class ApplicationActor extends DurableObject<Env> implements ApplicationRpc {
  private readonly storage: ApplicationStorage
  /** As stored. Null: there is none. */
  private loaded: Loaded | null = null
  private validation: Validation | null = null
  private run: ApplicationRun | null = null
  private hosts: BorrowedHosts | null = null
  private failures = 0

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    this.storage = new ApplicationStorage(ctx.storage)
    ctx.blockConcurrencyWhile(() => this.load())
  }

  async start(given: NewApplication, definition: Definition, files: readonly string[]): Promise<ApplicationReport> {
    const { loaded } = this
    const next = loaded === null ? newApplication(given, files) : resumed(loaded.state, given, Date.now())
    if (next === null) return this.report()
    // One that no list shows must not run.
    await putApplication(this.d1, reportOf(next), definition)
    if (loaded === null) {
      this.validation = null
      this.loaded = { state: next, definition, graph: graphOf(definition) }
      await this.storage.putDefinition(definition)
    } else {
      // It went on meanwhile.
      Object.assign(loaded.state, resumed(loaded.state, given, Date.now()) ?? {})
    }
    await Promise.all([this.storage.putState(this.loaded?.state ?? next), this.ctx.storage.setAlarm(Date.now())])
    return this.report()
  }

  async describe(): Promise<ApplicationReport | null> {
    return this.loaded === null ? null : this.report()
  }

  async cancel(): Promise<ApplicationReport | null> {
    const { loaded } = this
    if (loaded === null || loaded.state.ending !== null) return this.describe()
    const { state } = loaded
    state.status = 'cancelling'
    state.ending = 'cancelled'
    this.run?.stop({ kind: 'cancelled' })
    await Promise.all([this.storage.putState(state), this.ctx.storage.setAlarm(Date.now())])
    return this.report()
  }

  async output(node: number): Promise<NodeOutput | null> {
    const { loaded } = this
    const state = loaded?.state.nodes[node]
    if (state === undefined) return null
    const packed = await this.storage.packs(node).load()
    const { done, output } = state
    const tail = packed.filter(({ request }) => request >= done.requests).sort((a, b) => a.request - b.request)
    return { parts: [...output.parts], tail: joined(tail.map(({ bytes }) => bytes)) }
  }

  override async alarm(): Promise<void> {
    const { loaded } = this
    if (loaded === null) return
    try {
      const step = await this.advance(loaded)
      this.failures = 0
      if (step === 'more') await this.ctx.storage.setAlarm(Date.now())
    } catch (error) {
      const { tenant, id } = loaded.state
      logFailure('application_not_advanced', error, { tenant, application: id })
      this.failures += 1
      await this.reload()
      await this.ctx.storage.setAlarm(Date.now() + backoffMs(this.failures, RETRY, Math.random()))
    }
  }

  private async load(): Promise<void> {
    const stored = await this.storage.load()
    this.loaded = stored === null ? null : { ...stored, graph: graphOf(stored.definition) }
  }

  /** What memory has may be half of a change. */
  private async reload(): Promise<void> {
    this.run?.stop({ kind: 'cancelled' })
    this.run = null
    this.validation = null
    await this.load()
  }

  private async advance(loaded: Loaded): Promise<Step> {
    const { state } = loaded
    if (state.ended_at_ms !== null) return this.forget(loaded, state.ended_at_ms)
    if (Date.now() >= state.expires_at_ms) state.ending ??= 'expired'
    if (state.ending === null && !state.is_checked) return this.validate(loaded)
    if (state.ending === null && state.hosts === null) return this.planHosts(loaded)
    if (state.status === 'planned' && state.ending === null) return this.waitForStart(loaded)
    if (state.is_checked && state.started_at_ms !== null && state.ending !== 'failed') return this.runNodes(loaded)
    return this.end(loaded, state.ending ?? 'failed')
  }

  private async validate({ state, definition, graph }: Loaded): Promise<Step> {
    this.validation ??= await Validation.resume(inputRules(state, graph), this.storage.ids, this.env.BUCKET)
    const checked = { faults: state.faults, place: state.checked }
    const found = await this.validation.check(checked, () => {
      state.checked = checked.place
      return this.storage.putState(state)
    })
    if (found === 'more') return 'more'
    this.validation = null
    state.checked = checked.place
    if (state.faults.length > 0) return this.end({ state, definition, graph }, 'failed')
    state.is_checked = true
    if (state.ending === null) state.status = state.start ? 'running' : 'planned'
    if (state.start) state.started_at_ms ??= Date.now()
    await Promise.all([this.storage.putState(state), this.storage.ids.drop()])
    await putApplication(this.d1, this.report(), definition)
    return 'more'
  }

  /** It waits until it is sent again to start, or expires. */
  private async planHosts({ state, definition, graph }: Loaded): Promise<Step> {
    this.hosts = new BorrowedHosts(this.env, graph)
    state.hosts = await this.hosts.plan(state)
    await this.storage.putState(state)
    await putApplication(this.d1, this.report(), definition)
    return 'more'
  }

  private async waitForStart({ state }: Loaded): Promise<Step> {
    await this.ctx.storage.setAlarm(state.expires_at_ms)
    return 'over'
  }

  /** Through an entrypoint of this Worker: batch/line-call.ts. */
  private serveLine(call: LineCall, signal: AbortSignal): Promise<LineOutcome> {
    const { BatchLines } = this.ctx.exports as unknown as { BatchLines: BatchLinesFetcher }
    return callLine(BatchLines, call, signal)
  }

  private async runNodes(loaded: Loaded): Promise<Step> {
    const { state, definition, graph } = loaded
    this.run ??= await ApplicationRun.resume(state, graph, this.storage, this.env.BUCKET, (call, signal) =>
      this.serveLine(call, signal),
    )
    const { run } = this
    if (state.ending !== null) run.stop({ kind: 'cancelled' })
    await this.keepHosts(loaded, run)
    const slice_ms = (state.hosts?.status === 'planned' ? this.hosts?.interval_ms : null) ?? RUN_SLICE_MS
    const slice = await run.slice(Math.min(Date.now() + slice_ms, untilOf(state)))
    if (slice.status === 'more') {
      await this.storage.putState(state)
      await putApplication(this.d1, this.report(), definition)
      return 'more'
    }
    if (slice.status === 'written') {
      return this.end(loaded, 'completed')
    }
    await run.store()
    const { stop } = slice
    if (stop === 'deleted') addFault(state, inputGone(state.input.file))
    else if (stop.kind === 'failed')
      addFault(state, { code: stop.code, line: null, message: stop.message, param: null })
    const ending =
      stop === 'deleted' || stop.kind === 'failed' ? 'failed' : stop.kind === 'limit_reached' ? stop.kind : null
    return this.end(loaded, ending ?? state.ending ?? 'cancelled')
  }

  private async keepHosts({ state, graph }: Loaded, run: ApplicationRun): Promise<void> {
    this.hosts ??= new BorrowedHosts(this.env, graph)
    const ready = await this.hosts.keep(state, run.done, Date.now())
    if (ready === null) state.hosts = await this.hosts.plan(state)
    else run.retryNow(ready)
  }

  private async end(loaded: Loaded, ending: ApplicationEnding): Promise<Step> {
    const { state, definition } = loaded
    const now_ms = Date.now()
    state.ending = ending
    await this.storage.putState(state)
    await (this.hosts ?? new BorrowedHosts(this.env, loaded.graph)).release(state)
    if (ending === 'completed') {
      const made = { purpose: 'application_output', created_at_ms: now_ms, expires_at_ms: null }
      for (const [number, { output }] of state.nodes.entries()) {
        const filename = `${state.id}_${definition.nodes[number]?.id}.jsonl`
        await publishFile(this.d1, state.tenant, { ...made, id: output.file, filename, parts: output.parts })
      }
    }
    state.status = ending
    state.ended_at_ms = now_ms
    await this.storage.putState(state)
    await putApplication(this.d1, this.report(), definition)
    this.run = null
    this.hosts = null
    return this.forget(loaded, now_ms)
  }

  /** One that may be sent again is kept for a while. */
  private async forget({ state, definition }: Loaded, ended_at_ms: number): Promise<Step> {
    // It was sent again meanwhile.
    if (state.ended_at_ms === null) return 'more'
    if (state.status !== 'completed' && state.is_checked) {
      if (Date.now() < ended_at_ms + KEPT_MS) {
        await this.ctx.storage.setAlarm(ended_at_ms + KEPT_MS)
        return 'over'
      }
      for (const { output } of state.nodes) await deleteParts(this.env.BUCKET, state.tenant, output.parts)
    }
    if (state.status === 'completed') await putApplication(this.d1, reportOf(state), definition)
    await this.storage.clear()
    this.loaded = null
    return 'over'
  }

  private report(): ApplicationReport {
    const { state } = this.loaded as Loaded
    return this.run === null ? reportOf(state) : { state, nodes: this.run.progress }
  }

  private get d1(): D1Database {
    return withDeadline(this.env.DB)
  }
}

function reportOf(state: ApplicationState): ApplicationReport {
  const nodes = state.nodes.map(({ completed, failed, tokens, lengths }) => ({
    ...{ completed, failed, running: 0, tokens, lengths },
  }))
  return { state, nodes }
}

function graphOf({ nodes }: Definition): Graph {
  const checked = checkedGraph(nodes)
  if (!checked.ok) throw new Error(`a graph was valid and is not: ${checked.message}`)
  return checked.graph
}

/** A slice ends where the application expires. */
function untilOf({ ending, expires_at_ms }: ApplicationState): number {
  return ending === null ? expires_at_ms : Number.POSITIVE_INFINITY
}
