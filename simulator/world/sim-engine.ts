/**
 * One engine on the virtual clock: the engine's own Scheduler over the emulated model, with the profile's step durations and
 * the scheduler's own time per decision on top. It plays the driver's part: plan, let the step take its time, commit.
 *
 * Where the scheduler says that the next steps are all alike, they are one event (`jump`). A call that arrives in between makes
 * the engine catch up first, so the results are the same as with single steps: the steps that had ended by then are committed,
 * and the one under way ends when it would have. A status request leaves the steps after it as they are.
 */
import {
  EmulatedModel,
  stepDurationUs,
  stepSizeUs,
  withMoves,
} from '../../gpu-agent/engine/backends/emulated/emulated-backend.ts'
import type { LatencyProfile } from '../../gpu-agent/engine/backends/emulated/profiles/profile.ts'
import { SINGLE_STEP } from '../../gpu-agent/engine/decode-stretch.ts'
import { invariant } from '../../gpu-agent/engine/invariant.ts'
import { type EndedCall, Scheduler, type SchedulerStatus } from '../../gpu-agent/engine/scheduler.ts'
import type { SchedulerConfig } from '../../gpu-agent/engine/scheduler-config.ts'
import type { EngineCall, StepOutcome, StepPlan } from '../../gpu-agent/engine/types.ts'
import type { LeaseCharge } from '../../src/protocol/index.ts'
import { type Timeline, Timer, TURN } from './timeline.ts'
import type { WorldEngine, WorldEngineSizes } from './world-engine.ts'

export interface DecisionWatch {
  nowUs(): number
  /** A decision and the plan of the step that begins with it took this long. */
  onDecision(real_us: number): void
}

export interface SimEngineOptions {
  id: string
  /** The agent that fronts it. */
  agent: string
  region: string
  /** Position among all engines. */
  index: number
  profile: LatencyProfile
  scheduler: SchedulerConfig
  /** The scheduler's own time, added to a step that begins with a decision. */
  decision_us: number
  jump: boolean
  timeline: Timeline
  onEnded: (ended: EndedCall, now_us: number) => void
  /** After each step, and after each jump of several. */
  onStepped?: (engine: SimEngine, steps: number) => void
  decision_watch?: DecisionWatch
  /** A call has a token. Only for engines that take every step by itself. */
  onSampled?: (lease: string, now_us: number) => void
}

export class SimEngine implements WorldEngine {
  readonly id: string
  readonly agent: string
  readonly epoch: string
  readonly region: string
  readonly index: number
  readonly profile: LatencyProfile
  readonly scheduler: Scheduler
  /** Steps taken. */
  steps = 0
  /** Events that they took. */
  events = 0
  busy_us = 0
  /** When the last step that was committed ended. */
  stepped_us = 0
  /** How often it moved a call's KV out. */
  swaps = 0
  readonly #options: SimEngineOptions
  readonly #model = new EmulatedModel()
  readonly #token = (lease: string, position: number) => this.#model.token(lease, position)
  readonly #planning: Timer
  readonly #ending: Timer
  #open_calls = 0
  /** The step under way and those alike that follow it: when it began, and when each ends. */
  #plan: StepPlan | null = null
  #started_us = 0
  #ends_us: number[] = []
  /** The step under way is one of a stretch, if only of one step. */
  #stretches = false

  constructor(options: SimEngineOptions) {
    this.#options = options
    this.id = options.id
    this.agent = options.agent
    this.epoch = options.scheduler.epoch
    this.region = options.region
    this.index = options.index
    this.profile = options.profile
    this.scheduler = new Scheduler(options.scheduler)
    this.#planning = new Timer(TURN.plan, options.index, (now_us) => this.#begin(now_us, options.jump))
    this.#ending = new Timer(TURN.step_end, options.index, (now_us) => this.#end(now_us))
  }

  get sizes(): WorldEngineSizes {
    const { config } = this.scheduler
    return {
      seats: config.seats,
      kv_capacity_tokens: config.capacity_blocks * config.block_tokens,
      context_tokens_max: config.slot_tokens_max,
      prefill_tokens_per_s: 1e6 / this.profile.per_prefill_token_us,
    }
  }

  /** The engine has room for every call of a simulation; one that exceeds its context is the workload's mistake. */
  submit(call: EngineCall, now_us: number): void {
    this.#catchUp(now_us, false)
    const verdict = this.scheduler.submit(call, now_us)
    if (!verdict.ok) throw new RangeError(`call ${call.lease} does not fit its engine: ${verdict.message}`)
    this.#model.admit(call)
    this.#open_calls += 1
    if (this.#plan === null) this.#options.timeline.set(this.#planning, now_us)
  }

  discard(program: string, now_us: number): void {
    this.#catchUp(now_us, false)
    this.scheduler.discard(program, now_us)
  }

  status(now_us: number): SchedulerStatus {
    this.#catchUp(now_us, this.#options.jump)
    return this.scheduler.status()
  }

  /** As of the status before it. */
  openCharges(): LeaseCharge[] {
    return [...this.scheduler.openCharges()]
  }

  #begin(now_us: number, jump: boolean): void {
    const plan = this.#planStep(now_us)
    if (plan.work.length === 0) {
      const { resumes_us } = this.scheduler
      if (this.#open_calls > 0 && Number.isFinite(resumes_us))
        this.#options.timeline.set(this.#planning, Math.max(now_us + 1, resumes_us))
      return
    }
    this.#plan = plan
    this.#started_us = now_us
    this.#ends_us = this.#endsOf(plan, now_us, jump)
    this.#options.timeline.set(this.#ending, this.#ends_us.at(-1) as number)
  }

  #planStep(now_us: number): StepPlan {
    const { decision_watch: watch } = this.#options
    if (watch === undefined) return this.scheduler.plan(now_us)
    const { decisions } = this.scheduler
    const started_us = watch.nowUs()
    const plan = this.scheduler.plan(now_us)
    if (this.scheduler.decisions > decisions) watch.onDecision(watch.nowUs() - started_us)
    return plan
  }

  #endsOf(plan: StepPlan, now_us: number, jump: boolean): number[] {
    const { profile, decision_us } = this.#options
    const overhead_us = (step: number) => (this.scheduler.decidesIn(step) ? decision_us : 0)
    let end_us = now_us + stepDurationUs(profile, plan) + overhead_us(0)
    const ends_us = [end_us]
    const stretch = this.#options.jump ? this.scheduler.stretch() : SINGLE_STEP
    this.#stretches = stretch !== SINGLE_STEP
    if (!(jump && this.#stretches)) return ends_us
    const { steps_max, until_us, charge_us } = stretch
    const calls = plan.work.length
    let kv_tokens = 0
    for (const { to } of plan.work) kv_tokens += to
    const wall = this.#options.scheduler.ordering === 'wall'
    const modelled_us = this.#options.scheduler.rates.decode_us_per_token
    let charged_us = wall ? end_us - now_us : modelled_us
    for (let step = 1; step < steps_max && end_us < until_us && charged_us < charge_us; step++) {
      kv_tokens += calls
      const step_us = stepSizeUs(profile, calls, kv_tokens, 0) + overhead_us(step)
      end_us += step_us
      charged_us += wall ? step_us : modelled_us
      ends_us.push(end_us)
    }
    return ends_us
  }

  #end(now_us: number): void {
    const plan = this.#plan
    invariant(plan !== null, 'a step that ends has begun')
    this.#commit(plan, this.#ends_us)
    if (this.#open_calls > 0) this.#options.timeline.set(this.#planning, now_us)
  }

  #commit(plan: StepPlan, ends_us: readonly number[]): void {
    const ended_us = ends_us[ends_us.length - 1] as number
    this.#plan = null
    this.events += 1
    this.steps += ends_us.length
    this.busy_us += ended_us - this.#started_us
    this.stepped_us = ended_us
    const ended = this.#stretches
      ? this.scheduler.commitStretch(plan, this.#token, this.#started_us, ends_us)
      : this.scheduler.commit(plan, this.#outcome(plan), this.#started_us, ended_us).ended
    this.#open_calls -= ended.length
    this.#options.onStepped?.(this, ends_us.length)
    const { onSampled } = this.#options
    if (onSampled !== undefined) {
      for (const { lease, samples } of plan.work) if (samples) onSampled(lease, ended_us)
    }
    for (const end of ended) {
      this.#model.release(end.lease)
      this.#options.onEnded(end, ended_us)
    }
  }

  #outcome(plan: StepPlan): StepOutcome {
    for (const { op } of plan.operations) if (op === 'save') this.swaps += 1
    return withMoves(this.#model.step(plan), this.profile, plan)
  }

  /** Commits what has ended by `now_us` of the steps that were taken at once, and leaves the one under way alone, or `jumps` on from it. */
  #catchUp(now_us: number, jumps: boolean): void {
    const plan = this.#plan
    const ends_us = this.#ends_us
    if (plan === null || ends_us.length === 1) return
    const { timeline } = this.#options
    let ended_steps = 0
    while (ended_steps < ends_us.length && (ends_us[ended_steps] as number) <= now_us) ended_steps++
    invariant(ended_steps < ends_us.length, 'a step that has ended was committed')
    if (ended_steps === 0) {
      if (jumps) return
      this.#ends_us = ends_us.slice(0, 1)
      timeline.set(this.#ending, ends_us[0] as number)
      return
    }
    timeline.cancel(this.#ending)
    const done_us = ends_us.slice(0, ended_steps)
    this.#commit(plan, done_us)
    const ended_us = done_us.at(-1) as number
    if (ended_us === now_us) timeline.set(this.#planning, now_us)
    else this.#begin(ended_us, jumps)
  }
}
