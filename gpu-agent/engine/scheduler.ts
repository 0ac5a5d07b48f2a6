/**
 * The engine's scheduler: Autellix Algorithm 1 as a pure, synchronous state machine. It reads no clock: each method takes
 * the time. driver.ts drives it in the real engine, and the simulator drives the same code on a virtual clock.
 *
 * One step is `plan` (who computes what), the backend's work, and `commit` (the results and their cost). Between plan and
 * commit, calls may arrive, be cancelled or be finished. A call that is in the step ends at its commit.
 *
 * A step has at most `seats` calls and `max_step_tokens` tokens. Calls that lack one token (decodes) come first, so a long
 * prompt never delays text that is flowing. The remaining tokens go to prompts in chunks, in the order of seats.
 */
import type { ServiceTokens } from '../../src/core/call/service.ts'
import type { QueuePosition } from '../../src/protocol/queue-position.ts'
import { SINGLE_STEP, type Stretch, stretchOf, type TokenAt, takeDecodes } from './decode-stretch.ts'
import { invariant } from './invariant.ts'
import type { ToolCounts } from './memory/handling/handling-counts.ts'
import { ImageStore } from './memory/image-store.ts'
import type { KvCache } from './memory/kv-cache.ts'
import { Placement } from './memory/placement.ts'
import type { HoldCounts } from './memory/program-hold.ts'
import type { CallState } from './order/call-state.ts'
import { Heap } from './order/heap.ts'
import { ProgramOrder } from './order/program-order.ts'
import { refusalOf, type SubmitVerdict } from './refusal.ts'
import { type DeadlineNode, isOverdueBefore, ScheduledCall } from './scheduled-call.ts'
import type { SchedulerConfig } from './scheduler-config.ts'
import type { CommitResult, EndedCall, SchedulerStatus } from './scheduler-results.ts'
import { takeSample } from './step-sample.ts'
import { stepWork } from './step-work.ts'
import type { EndReason, EngineCall, FailureCode, StepOutcome, StepPlan, StepWork } from './types.ts'

export type { CommitResult, EndedCall, SchedulerStatus, SubmitVerdict }

/** Online calls are expected for so long after the last one. */
const ONLINE_EXPECTED_US = 60_000_000

type EndOfCall = readonly [call: ScheduledCall, reason: EndReason]

export class Scheduler {
  readonly config: SchedulerConfig
  readonly #calls = new Map<string, ScheduledCall>()
  readonly #order: ProgramOrder<ScheduledCall>
  readonly #kv: KvCache<ScheduledCall>
  readonly #images: ImageStore
  readonly #placement: Placement
  readonly #deadlines = new Heap<DeadlineNode>(isOverdueBefore)
  /** Calls that advance in the step under way or advanced in the last one. */
  readonly #running: ScheduledCall[] = []
  /** The step under way: `#flight[i]` is the call of `#plan.work[i]`, and `#charged[i]` its place in the order. */
  #plan: StepPlan | null = null
  readonly #flight: ScheduledCall[] = []
  readonly #charged: CallState<ScheduledCall>[] = []
  #step = 0
  #planned_us = Number.NEGATIVE_INFINITY
  #now_us = Number.NEGATIVE_INFINITY
  #online_calls = 0
  #online_last_us = Number.NEGATIVE_INFINITY

  /** `order`: orders the calls. Tests and recorders pass a wrapper. */
  constructor(config: SchedulerConfig, order: ProgramOrder<ScheduledCall> = new ProgramOrder(config)) {
    this.config = config
    this.#order = order
    this.#images = new ImageStore(config.swap)
    this.#placement = new Placement(config, this.#images)
    this.#kv = this.#placement.kv
  }

  /** `call.prompt` has at least one token, `max_output_tokens` is at least 1, and no open call has its lease. */
  submit(call: EngineCall, now_us: number): SubmitVerdict {
    this.#advance(now_us)
    invariant(call.prompt.length > 0 && call.max_output_tokens > 0, 'a call has a prompt and room for output')
    invariant(!this.#calls.has(call.lease), 'a lease is submitted once')
    invariant(call.deadline_us === undefined || call.deadline_us > 0, 'a deadline lies ahead')
    const queues = {
      waiting: this.#calls.size - this.#running.length,
      drain: this.#order.drain,
      queue: this.#order.queueOf(call),
    }
    const refusal = refusalOf(call, this.config, queues, now_us)
    if (refusal !== null) return refusal
    const scheduled = new ScheduledCall(call, now_us)
    this.#placement.arrived(scheduled, now_us)
    const tokens = { prompt_tokens: call.prompt.length, resident_tokens: this.#placement.residentTokens(scheduled) }
    scheduled.order = this.#order.arrive(call, tokens, scheduled, now_us)
    scheduled.outlook = this.#order.outlook(scheduled.order)
    this.#calls.set(call.lease, scheduled)
    if (call.offline !== true) this.#online_calls += 1
    this.#placement.open(scheduled, now_us)
    if (call.deadline_us !== undefined) this.#deadlines.push(scheduled.deadline)
    return { ok: true }
  }

  /** The client left. Returns the end if it is immediate. Null: it comes with the step under way, or the lease is unknown. */
  cancel(lease: string, now_us: number): EndedCall | null {
    return this.#endEarly(lease, 'cancelled', now_us)
  }

  /** The front has all the text that it wants, since it saw a stop string. Returns as `cancel` does. */
  finish(lease: string, now_us: number): EndedCall | null {
    return this.#endEarly(lease, 'stop', now_us)
  }

  /** Every open call ends as failed, since the backend lost its state. The scheduler cannot be used afterwards. */
  fail(now_us: number): EndedCall[] {
    this.#advance(now_us)
    this.#plan = null
    this.#flight.length = 0
    return Array.from(this.#calls.values(), (call) => this.#end(call, 'failed', now_us, 'engine_lost'))
  }

  /** The program goes on elsewhere or has ended: what is kept of its context while its tool runs is dropped. */
  discard(program: string, now_us: number): void {
    this.#advance(now_us)
    this.#placement.discard(program, now_us)
  }

  /**
   * What the next step computes. Its work is empty if and only if no call is open. With firm pins it may be empty too: calls
   * wait for a program to come back, or until `resumes_us`.
   */
  plan(now_us: number): StepPlan {
    this.#advance(now_us)
    invariant(this.#plan === null, 'a step is committed before the next is planned')
    const step = this.#step
    this.#placement.begin(now_us)
    const seated = this.#order.decide(now_us)
    const flight = this.#flight
    let stranded = false
    for (const { owner } of seated) {
      if (this.#placement.place(owner, step)) flight.push(owner)
      else stranded = true
    }
    if (stranded)
      for (const guest of this.#placement.guests(this.config.seats - flight.length, step)) flight.push(guest)
    const first = seated[0]?.owner
    if (flight.length === 0 && first !== undefined && this.#placement.force(first, step)) flight.push(first)
    this.#tellResidency(now_us)
    this.#countPreemptions(step, now_us)
    const work = stepWork(flight, this.#kv.slots, step, this.config, this.#offlineTokens(now_us))
    invariant(
      work.length > 0 || this.#calls.size === 0 || this.#placement.isFirm,
      'some call advances while one is open',
    )
    // An empty plan is not executed, so it must not take operations with it.
    if (work.length === 0) return { step, operations: [], work }
    this.#plan = { step, operations: this.#kv.takeOperations(), work }
    this.#planned_us = now_us
    this.#step += 1
    return this.#plan
  }

  /** While no call is open: when `planContexts` has something to do. Infinity: never. */
  get contexts_due_us(): number {
    return this.#placement.contexts_due_us
  }

  /** A step that only moves contexts of programs whose tools run. No call is open. Null: none has to be moved. */
  planContexts(now_us: number): StepPlan | null {
    this.#advance(now_us)
    invariant(this.#plan === null && this.#calls.size === 0, 'calls have contexts moved in their steps')
    this.#placement.begin(now_us)
    const operations = this.#kv.takeOperations()
    if (operations.length === 0) return null
    this.#plan = { step: this.#step, operations, work: [] }
    this.#planned_us = now_us
    this.#step += 1
    return this.#plan
  }

  /** The outcome of the plan under way, which ran from `started_us` to `ended_us`. */
  commit(plan: StepPlan, outcome: StepOutcome, started_us: number, ended_us: number): CommitResult {
    invariant(plan === this.#plan, 'the plan under way is committed')
    invariant(Number.isSafeInteger(started_us) && Number.isSafeInteger(ended_us), 'times are integers')
    invariant(started_us >= this.#planned_us && ended_us >= started_us, 'a step runs after it was planned')
    this.#advance(ended_us)
    const result: CommitResult = { ended: [], prompts: [], embeddings: [], tokens: [], ledger: [] }
    const wall_us = ended_us - started_us
    const ends: EndOfCall[] = []
    this.#placement.moved(plan.operations, outcome.moved_us)
    if (plan.work.length === 0) {
      this.#plan = null
      return result
    }
    let computed_tokens = 0
    for (let index = 0; index < this.#flight.length; index++) {
      const call = this.#flight[index] as ScheduledCall
      const work = plan.work[index] as StepWork
      computed_tokens += work.to - work.from
      const reason = this.#commitCall(call, work, plan.step, outcome, wall_us, ended_us, result)
      if (reason !== null) ends.push([call, reason])
    }
    this.#placement.stepped(computed_tokens, this.#flight.length, wall_us)
    const charged = this.#takeFlight()
    for (const [call, reason] of ends) result.ended.push(this.#end(call, reason, ended_us))
    this.#order.settle(charged, ended_us)
    this.#endOverdue(ended_us, result.ended)
    return result
  }

  /** How many steps the planned one can go on unchanged. */
  stretch(): Stretch {
    const flight = this.#flight
    if (this.#plan === null || this.#order.seated_calls !== flight.length) return SINGLE_STEP
    const deadline_us = this.#deadlines.peek()?.due_us ?? Number.POSITIVE_INFINITY
    const until_us = Math.min(this.#order.steady_until_us, deadline_us, this.#placement.held_until_us)
    return stretchOf(this.#plan, flight, this.#kv, this.#order, until_us)
  }

  /**
   * Instead of `commit`: commits the step under way and the steps after it, one after another, as far as `stretch` allowed.
   * `token` returns the token of a call at a position. Tokens and ledger are not returned: no client reads a stream on a
   * virtual clock.
   */
  commitStretch(plan: StepPlan, token: TokenAt, started_us: number, ends_us: readonly number[]): EndedCall[] {
    invariant(plan === this.#plan && ends_us.length > 0, 'the plan under way is committed')
    const ended_us = ends_us[ends_us.length - 1] as number
    const steps = ends_us.length
    this.#advance(ended_us)
    this.#step += steps - 1
    const decoded: ServiceTokens = { uncached_prompt_tokens: 0, cached_prompt_tokens: 0, output_tokens: steps }
    const ends: EndOfCall[] = []
    for (let index = 0; index < this.#flight.length; index++) {
      const call = this.#flight[index] as ScheduledCall
      call.placed_step = this.#step - 1
      takeDecodes(call, plan.work[index] as StepWork, token, steps)
      this.#order.charge(call.order, decoded, ended_us - started_us, ended_us)
      this.#placement.decoded(call, steps)
      // It may have come back from its image in the first of the steps.
      this.#order.resident(call.order, call.computed_tokens, ended_us)
      if (call.output.length === call.call.max_output_tokens) ends.push([call, 'length'])
    }
    // By recent use, prefixes of programs with open calls give blocks too. Single steps would have told that before.
    this.#tellResidency(ended_us)
    const charged = this.#takeFlight()
    const ended = ends.map(([call, reason]) => this.#end(call, reason, ended_us))
    this.#order.settleDecodes(charged, started_us, ends_us)
    this.#endOverdue(ended_us, ended)
    return ended
  }

  /** Decisions taken, and whether the step that comes `steps` after the planned one takes one. */
  get decisions(): number {
    return this.#order.decisions
  }

  decidesIn(steps: number): boolean {
    return this.#order.decidesIn(steps)
  }

  /** What open calls have been charged so far: lease, wall and modelled microseconds. */
  *openCharges(): Generator<[lease: string, wall_us: number, modelled_us: number]> {
    for (const [lease, { order }] of this.#calls) {
      if (order.service_wall_us > 0) yield [lease, order.service_wall_us, order.service_modelled_us]
    }
  }

  /** Where these calls are in the order. Those that are not open are left out. */
  positions(leases: readonly string[], now_us: number): QueuePosition[] {
    return leases.flatMap((lease) => {
      const call = this.#calls.get(lease)
      if (call === undefined) return []
      const { arrived_us, service_wall_us } = call.order
      const waited_us = Math.max(0, now_us - arrived_us - service_wall_us)
      return [{ lease, waits: !call.running, waited_us, ...this.#order.position(call.order) }]
    })
  }

  status(): SchedulerStatus {
    return {
      waiting: this.#calls.size - this.#running.length,
      running: this.#running.length,
      queued_tokens: this.#placement.queued_tokens,
      kv_used_tokens: this.#kv.held_blocks * this.config.block_tokens,
      image_tokens: this.#images.used_tokens,
    }
  }

  /** When pins give way, if calls wait for them. */
  get resumes_us(): number {
    return this.#placement.held_until_us
  }

  /** Tokens of contexts that are pinned while their programs' tools run, beyond `kv_used_tokens`. */
  get pinned_tokens(): number {
    return this.#placement.pinned_blocks * this.config.block_tokens
  }

  /** What became of contexts while tools ran, under a policy that handles them. */
  get tools(): ToolCounts {
    return this.#placement.tools
  }

  /** Contexts of programs whose tools run. */
  get holds(): HoldCounts {
    return this.#placement.holds
  }

  #advance(now_us: number): void {
    invariant(now_us >= this.#now_us, 'time does not run backwards')
    this.#now_us = now_us
  }

  #endEarly(lease: string, reason: EndReason, now_us: number): EndedCall | null {
    this.#advance(now_us)
    const call = this.#calls.get(lease)
    if (call === undefined) return null
    if (!call.in_flight) return this.#end(call, reason, now_us)
    call.ending ??= reason
    return null
  }

  /** Calls whose KV left the slots to make room are ranked again, from the next decision on. */
  #tellResidency(now_us: number): void {
    for (const call of this.#placement.takeLost()) {
      const tokens = this.#placement.residentTokens(call)
      this.#order.resident(call.order, tokens, now_us, call.image === null ? tokens : 0)
    }
  }

  /** Of prompts of offline calls in a step. */
  #offlineTokens(now_us: number): number {
    const { max_step_tokens, offline_prefill_tokens = max_step_tokens } = this.config
    const expects_online = this.#online_calls > 0 || now_us - this.#online_last_us < ONLINE_EXPECTED_US
    return expects_online ? offline_prefill_tokens : max_step_tokens
  }

  /** A call advances if its `placed_step` is `step`. A call that ran and does not advance was preempted. */
  #countPreemptions(step: number, now_us: number): void {
    const running = this.#running
    for (const call of running) {
      if (call.placed_step === step) continue
      call.running = false
      call.order.preemptions += 1
      call.pause(now_us)
    }
    running.length = 0
    for (const call of this.#flight) {
      if (!call.running) call.resume(now_us)
      call.running = true
      running.push(call)
    }
  }

  /** Makes the ledger row of the call's tokens and charge in the step. Returns why the call ends with it, if it does. */
  #commitCall(
    call: ScheduledCall,
    work: StepWork,
    step: number,
    outcome: StepOutcome,
    wall_us: number,
    ended_us: number,
    { prompts, embeddings, tokens, ledger }: CommitResult,
  ): EndReason | null {
    const { lease, from, to } = work
    call.in_flight = false
    this.#placement.computed(call, to)
    this.#order.resident(call.order, to, ended_us)
    const { output, reason } = takeSample(call, work, outcome)
    const sample = work.samples && call.ending === null ? outcome.sampled.get(lease) : undefined
    if (sample?.prompt_logprobs !== undefined) prompts.push({ lease, logprobs: sample.prompt_logprobs })
    if (sample?.embedding !== undefined) embeddings.push({ lease, embedding: sample.embedding })
    if (output !== null) tokens.push({ lease, token: output.token, logprobs: output.logprobs })
    const sampled_tokens = output === null ? 0 : 1
    const read = sample?.embedding === undefined ? 0 : 1
    const charged = { ...call.order.reached(from, to), output_tokens: sampled_tokens, embeddings: read }
    const modelled_us = this.#order.charge(call.order, charged, wall_us, ended_us)
    const { epoch } = this.config
    ledger.push({ epoch, step, lease, wall_us, modelled_us, computed_tokens: to - from, sampled_tokens })
    return reason
  }

  /** The step under way is over. Returns the places of its calls; the array is the scheduler's own. */
  #takeFlight(): readonly CallState<ScheduledCall>[] {
    const charged = this.#charged
    charged.length = 0
    for (const { order } of this.#flight) charged.push(order)
    this.#flight.length = 0
    this.#plan = null
    return charged
  }

  /** Runs between steps, so that it ends no call that is in one. While a call is open there is a next step. */
  #endOverdue(now_us: number, ended: EndedCall[]): void {
    for (
      let node = this.#deadlines.peek();
      node !== undefined && node.due_us <= now_us;
      node = this.#deadlines.peek()
    ) {
      ended.push(this.#end(node.call, 'failed', now_us, 'deadline_exceeded'))
    }
  }

  #end(call: ScheduledCall, reason: EndReason, now_us: number, failure: FailureCode | null = null): EndedCall {
    const { lease, offline = false } = call.call
    this.#calls.delete(lease)
    if (!offline) {
      this.#online_calls -= 1
      this.#online_last_us = now_us
    }
    this.#placement.close(call, reason === 'stop' || reason === 'length' ? now_us : null)
    this.#order.ended(call.order, now_us)
    if (call.deadline.heap_index !== -1) this.#deadlines.remove(call.deadline)
    if (call.running) this.#running.splice(this.#running.indexOf(call), 1)
    return { lease, reason, failure, measurement: call.measurement(now_us) }
  }
}
