/**
 * The control plane on the virtual clock, over the same process table, pools and region walk that serve traffic. A call goes
 * the way that it goes in service: admit (process table), ask the pools nearest first, travel to the engine, come back with
 * its record. A message between regions takes half of their round trip. A record may come later than its answer.
 */
import type { EndedCall } from '../../gpu-agent/engine/scheduler.ts'
import type { EngineCall, Measurement } from '../../gpu-agent/engine/types.ts'
import type { CallForecast } from '../../src/core/call/forecast.ts'
import type { ServiceReading } from '../../src/core/call/service.ts'
import type { Balancer } from '../../src/core/pool/balancers/balancer.ts'
import { FIRST_SHARD } from '../../src/core/pool/pool-shards.ts'
import type { Pin } from '../../src/core/pool/pool-types.ts'
import { type RegionVerdict, RegionWalk } from '../../src/core/pool/regions.ts'
import { type OpenCharge, openElsewhereUs } from '../../src/core/pool/reported-charges.ts'
import { type Admission, ProcessTable } from '../../src/core/program/process-table.ts'
import { type CallRecord, RECORD_VERSION } from '../../src/protocol/index.ts'
import { classOf } from './class-knowledge.ts'
import { MODEL } from './pool.ts'
import type { ProgramRun } from './program-run.ts'
import { ProgramPrompts } from './prompts.ts'
import type { SimShards } from './shards.ts'
import type { Timeline } from './timeline.ts'
import type { WorldEngine } from './world-engine.ts'

export interface ControlPlaneOptions {
  timeline: Timeline
  reading: ServiceReading
  balancer: Balancer
  pools: ReadonlyMap<string, SimShards>
  /** One way, in microseconds. */
  delayUs: (from: string, to: string) => number
  /** Every call's KV is its own: nothing is reused, not even within a program. */
  prefix_cache: boolean
  programs_max: number
  /** Programs have the class that their clients name; otherwise all share one. */
  labelled: boolean
  /** From the end of an answer until its record has come. */
  record_us: number
  /** The forecast that engines get with a call. Null: none. */
  forecast: (run: ProgramRun, index: number) => CallForecast | null
  onIssue: (run: ProgramRun) => void
  /** The client has the answer's end. */
  onCall: (run: ProgramRun, index: number, measured: Measurement) => void
  onRecord: (run: ProgramRun, measured: Measurement) => void
  /** The client has all answers. */
  onProgram: (run: ProgramRun) => void
  /** The control plane knows that the program has ended, and has all its records. */
  onEnd: (run: ProgramRun) => void
}

type Choice = Extract<RegionVerdict, { status: 'leased' }>

interface CallOnItsWay {
  run: ProgramRun
  index: number
  lease: string
  admitted: Extract<Admission, { status: 'admitted' }>
  pin: Pin | null
  prompt: Uint32Array
  /** What the pool that was asked last knew of the program's open leases. */
  charges: readonly OpenCharge[]
}

interface OpenLease {
  run: ProgramRun
  index: number
  engine: WorldEngine
  thread: string
  run_id: string
}

const MS_PER_US = 1 / 1000

export class ControlPlane {
  readonly #options: ControlPlaneOptions
  readonly #table: ProcessTable
  /** Regions by delay from each one, computed when first asked for. */
  readonly #nearest = new Map<string, readonly string[]>()
  readonly #open = new Map<string, OpenLease>()
  /** Engines that have answered calls of the program. */
  readonly #engines = new Map<ProgramRun, Set<WorldEngine>>()
  #runs = 0

  constructor(options: ControlPlaneOptions) {
    this.#options = options
    this.#table = new ProcessTable({
      reading: options.reading,
      newRun: () => `r${this.#runs++}`,
      programs_max: options.programs_max,
    })
  }

  start(run: ProgramRun): void {
    for (const index of run.roots()) this.#issue(run, index)
  }

  /** An engine has ended a call. */
  ended({ lease, reason, measurement }: EndedCall): void {
    const open = this.#open.get(lease)
    if (open === undefined || reason !== 'length') throw new Error(`call ${lease} ended as ${reason}`)
    this.#open.delete(lease)
    const { timeline, delayUs } = this.#options
    const delay_us = delayUs(open.engine.region, open.run.place.region)
    timeline.send(delay_us, (now_us) => this.#answered(lease, open, measurement, now_us))
  }

  #issue(run: ProgramRun, index: number): void {
    const { timeline, labelled, onIssue } = this.#options
    const now_ms = timeline.now_us * MS_PER_US
    const { tenant } = run.place
    const call = run.program.calls[index] as (typeof run.program.calls)[number]
    const lease = `${run.name}/${index}`
    const { admission } = this.#table.admit({
      ...{ tenant, program: run.name, ...classOf(run.program, labelled), metadata: null, model: MODEL },
      ...{
        call: lease,
        thread: `${call.thread}`,
        parents: call.parents.map((parent) => `${run.name}/${parent}`),
        now_ms,
      },
    })
    if (admission.status !== 'admitted') throw new RangeError(`program ${run.program.id}: ${admission.message}`)
    onIssue(run)
    const prompt = run.prompts.prompt(index)
    this.#lease({ run, index, lease, admitted: admission, pin: admission.pin, prompt, charges: [] })
  }

  #lease(call: CallOnItsWay): void {
    const home = call.run.place.region
    const regions = this.#nearestTo(home)
    const { short_prompt_tokens } = this.#options.balancer
    const asked = { pin: call.pin, prompt_tokens_estimate: call.prompt.length }
    const shardsOf = (region: string, pin: Pin | null) => {
      const { pools, timeline } = this.#options
      return (pools.get(region) as SimShards).toAsk(home, call.run.name, pin, timeline.now_us)
    }
    this.#walk(call, new RegionWalk(regions, asked, undefined, short_prompt_tokens, shardsOf))
  }

  #walk(call: CallOnItsWay, walk: RegionWalk): void {
    const { timeline, pools, delayUs } = this.#options
    const question = walk.next()
    const verdict = walk.verdict()
    if (question === null) {
      if (verdict?.status === 'leased') this.#dispatch(call, verdict)
      else timeline.send(Math.round((verdict?.retry_after_s ?? 1) * 1e6), () => this.#lease(call))
      return
    }
    const delay_us = delayUs(call.run.place.region, question.region)
    timeline.send(delay_us, (now_us) => {
      const { region, shard = FIRST_SHARD, left_pin = false } = question
      const { choice, charges } = (pools.get(region) as SimShards).choose(
        call.run.place.region,
        shard,
        {
          ...{ tenant: call.run.place.tenant, program: call.run.name, lease: call.lease },
          ...{ prompt_tokens_estimate: call.prompt.length, pin: left_pin ? null : call.pin },
          ...{ excluded_engines: [], max_load: question.max_load, now_ms: now_us * MS_PER_US },
        },
        now_us,
      )
      timeline.send(delay_us, () => {
        walk.answer(choice)
        this.#walk({ ...call, charges }, walk)
      })
    })
  }

  #dispatch(call: CallOnItsWay, { region, choice, spilled }: Choice): void {
    const { timeline, pools, delayUs } = this.#options
    const { run, index, lease, admitted } = call
    const { agent, engine: engine_id, epoch, speed_factor, pin } = choice
    this.#table.get(run.place.tenant, run.name)?.leaseOpened({
      ...{
        run: admitted.run,
        call: lease,
        lease,
        agent,
        engine: engine_id,
        epoch,
        region,
        model: MODEL,
        speed_factor,
        pin,
      },
      ...{ reason: spilled ? 'spilled' : choice.reason, now_ms: timeline.now_us * MS_PER_US },
    })
    const pool = pools.get(region) as SimShards
    const engine = pool.engine(engine_id)
    this.#open.set(lease, { run, index, engine, thread: admitted.thread, run_id: admitted.run })
    timeline.send(delayUs(run.place.region, region), (now_us) => {
      engine.submit(this.#engineCall(call, engine_id), now_us)
      pool.reached(engine, lease, now_us)
    })
  }

  #engineCall({ run, index, lease, admitted, prompt, charges }: CallOnItsWay, engine: string): EngineCall {
    const { tenant, tenant_weight } = run.place
    const open_elsewhere_us = openElsewhereUs(charges, admitted.open_leases, engine, admitted.reading)
    const { settled_service_us, critical_path_us, program_wait_us, program_output_tokens, sequence, thread } = admitted
    const forecast = this.#options.forecast(run, index)
    return {
      ...(forecast === null ? {} : { forecast }),
      ...{ lease, tenant, tenant_weight, program: run.name, thread },
      ...{ class: admitted.class, sequence, settled_service_us, open_elsewhere_us, critical_path_us },
      ...{ program_wait_us, program_output_tokens },
      cache_salt: this.#options.prefix_cache ? tenant : lease,
      prompt,
      max_output_tokens: (run.program.calls[index] as (typeof run.program.calls)[number]).output_tokens,
      sampling: { temperature: 1, top_p: 1, seed: ProgramPrompts.seed(index) },
    }
  }

  /** The answer's end reaches the program's region. */
  #answered(lease: string, open: OpenLease, measured: Measurement, now_us: number): void {
    const { run, index } = open
    const { timeline, record_us, onCall, onProgram } = this.#options
    const record = this.#record(lease, open, measured, now_us)
    this.#enginesOf(run).add(open.engine)
    if (record_us === 0) this.#settle(run, record, measured, now_us)
    else timeline.send(record_us, (later_us) => this.#settle(run, record, measured, later_us))
    onCall(run, index, measured)
    for (const next of run.ended(index, now_us)) {
      timeline.send(next.at_us - now_us, () => this.#issue(run, next.index))
    }
    if (run.isEnded) onProgram(run)
  }

  /** The record reaches the program's region. With the last one the program ends, if its client says so. */
  #settle(run: ProgramRun, record: CallRecord, measured: Measurement, now_us: number): void {
    const { onRecord, onEnd } = this.#options
    this.#table.settle(record, now_us * MS_PER_US)
    onRecord(run, measured)
    if (!run.recorded() || run.program.client?.tells_end === false) return
    this.#table.end(run.place.tenant, run.name, now_us * MS_PER_US, 'explicit')
    onEnd(run)
    this.#discard(run)
  }

  /** Engines hear that the program has ended. */
  #discard(run: ProgramRun): void {
    const { timeline, delayUs } = this.#options
    for (const engine of this.#enginesOf(run)) {
      timeline.send(delayUs(run.place.region, engine.region), (now_us) => engine.discard?.(run.name, now_us))
    }
    this.#engines.delete(run)
  }

  #enginesOf(run: ProgramRun): Set<WorldEngine> {
    const engines = this.#engines.get(run) ?? new Set()
    this.#engines.set(run, engines)
    return engines
  }

  #record(lease: string, open: OpenLease, measured: Measurement, now_us: number): CallRecord {
    const { run, engine } = open
    return {
      ...{ v: RECORD_VERSION, lease, call: lease, tenant: run.place.tenant, program: run.name, run: open.run_id },
      ...{ thread: open.thread, class: 'tenant', agent: engine.agent, engine: engine.id, epoch: engine.epoch },
      ...{ region: engine.region, model: MODEL, outcome: 'completed', finish_reason: 'length', error_code: null },
      ...measured,
      ended_at_ms: Math.round(now_us * MS_PER_US),
    }
  }

  /** By delay, the nearest first; among equals in the order in which they were given. */
  #nearestTo(home: string): readonly string[] {
    const known = this.#nearest.get(home)
    if (known !== undefined) return known
    const { pools, delayUs } = this.#options
    const nearest = [...pools.keys()].sort((a, b) => delayUs(home, a) - delayUs(home, b))
    this.#nearest.set(home, nearest)
    return nearest
  }
}
