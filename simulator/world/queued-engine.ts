/**
 * The agent's queue in front of a server that does not order calls (docs/any-engine.md): an engine that serves first come, first served,
 * or a hosted API with limits. It is the agent's own CallQueue, with its Concurrency or its RateLimits, on the virtual clock: it
 * decides on each event and every DECIDE_US, and looks at the load every LOOK_US, as gpu-agent/src/fronts/attached/server-queue.ts
 * does in real time.
 *
 * A call's service and wait are those of the server behind the queue, plus the time in the queue as wait.
 */
import { CallQueue, type NoRoom, type QueueEntry, type QueueLimits } from '../../gpu-agent/engine/queue/call-queue.ts'
import { Concurrency } from '../../gpu-agent/engine/queue/concurrency.ts'
import type { EndedCall } from '../../gpu-agent/engine/scheduler.ts'
import type { EngineCall } from '../../gpu-agent/engine/types.ts'
import { modelledServiceUs } from '../../src/core/call/service.ts'
import type { LeaseCharge } from '../../src/protocol/index.ts'
import { Timer, TURN } from './timeline.ts'
import { type QueuePlace, WAITING_CALLS_MAX, type WorldEngine, type WorldEngineSizes } from './world-engine.ts'

const DECIDE_US = 50_000
const LOOK_US = 250_000
/** A call that would wait for longer is never sent. */
const WAIT_US_MAX = Number.MAX_SAFE_INTEGER
const TIMERS_PER_ENGINE = 2

/** What serves the calls that the queue lets through. */
export interface Behind {
  /** Answers later, by QueuedEngine's methods. */
  submit(call: EngineCall, entry: QueueEntry, now_us: number): void
  status: WorldEngine['status']
  openCharges(): LeaseCharge[]
  /** Whether it reports how many calls wait in its own queue. */
  readonly reports: boolean
}

export interface QueuedEngineOptions extends QueuePlace {
  sizes: WorldEngineSizes
  /** Null: its memory limits nothing. */
  kv_tokens: number | null
  limits: QueueLimits | null
  /** Calls let through at once. Null: learned from the server's reports. */
  seats: number | null
  behind: Behind
}

interface OpenCall {
  call: EngineCall
  entry: QueueEntry
  /** Output that the queue knows of, and when the last of it came. */
  output_tokens: number
  output_us: number
}

export class QueuedEngine implements WorldEngine {
  readonly id: string
  readonly agent: string
  readonly epoch: string
  readonly region: string
  readonly index: number
  readonly sizes: WorldEngineSizes
  refusals = 0
  readonly #options: QueuedEngineOptions
  readonly #queue: CallQueue
  readonly #concurrency: Concurrency
  readonly #open = new Map<string, OpenCall>()
  readonly #deciding: Timer
  readonly #looking: Timer
  // Since the last look.
  #work_us = 0
  #ttft_us: number[] = []

  constructor(options: QueuedEngineOptions) {
    this.#options = options
    this.id = options.id
    this.agent = options.agent
    this.epoch = options.epoch
    this.region = options.region
    this.index = options.index
    this.sizes = options.sizes
    const { policy, ordering, kv_tokens, limits, seats, index } = options
    this.#concurrency = new Concurrency({ seats, server_seats: null })
    this.#queue = new CallQueue({
      ...{ policy, ordering, limits, seats: this.#concurrency.limit, wait_us_max: WAIT_US_MAX },
      server: () => ({ kv_tokens, takes_back: false, slots: this.#queue.seats, prefill_us_per_token: null }),
      ...{ waiting_calls_max: WAITING_CALLS_MAX, waiting_calls_per_tenant_max: WAITING_CALLS_MAX },
      changed: () => this.#soon(),
    })
    this.#deciding = new Timer(TURN.queue, index * TIMERS_PER_ENGINE, (now_us) => this.#decide(now_us))
    this.#looking = new Timer(TURN.queue, index * TIMERS_PER_ENGINE + 1, (now_us) => this.#look(now_us))
  }

  submit(call: EngineCall, now_us: number): void {
    const size = { prompt_tokens: call.prompt.length, output_tokens_max: call.max_output_tokens }
    const verdict = this.#queue.arrive(
      call,
      size,
      {
        send: () => this.#send(call.lease),
        takeBack: () => {
          throw new Error('nothing that lies behind is taken back from')
        },
        refuse: (why) => refuse(call, why),
      },
      now_us,
    )
    if (!verdict.ok) throw new RangeError(`call ${call.lease} does not fit the queue: ${verdict.message}`)
    this.#open.set(call.lease, { call, entry: verdict.entry, output_tokens: 0, output_us: now_us })
    if (!this.#looking.isSet) this.#options.timeline.set(this.#looking, now_us + LOOK_US)
  }

  status(now_us: number): ReturnType<WorldEngine['status']> {
    const { waiting, queued_tokens, ...behind } = this.#options.behind.status(now_us)
    const waits = [...this.#open.values()].filter(({ entry }) => entry.sent_us === null)
    const here_tokens = waits.reduce((sum, { call }) => sum + call.prompt.length, 0)
    return { ...behind, waiting: waiting + this.#queue.waiting, queued_tokens: queued_tokens + here_tokens }
  }

  openCharges(): LeaseCharge[] {
    return this.#options.behind.openCharges()
  }

  /** A token of the call has come. */
  sampled(lease: string, now_us: number): void {
    const open = this.#of(lease)
    const { entry } = open
    if (!entry.answered) this.#ttft_us.push(now_us - (entry.sent_us ?? now_us))
    const wall_us = entry.answered ? now_us - open.output_us : 0
    this.#queue.answered(entry)
    open.output_tokens += 1
    open.output_us = now_us
    this.#charge(open, { uncached_prompt_tokens: 0, cached_prompt_tokens: 0, output_tokens: 1 }, wall_us, now_us)
  }

  ended(ended: EndedCall, now_us: number): void {
    const { measurement } = ended
    const open = this.#of(ended.lease)
    const { prompt_tokens, cached_tokens, output_tokens } = measurement
    const rest = {
      uncached_prompt_tokens: prompt_tokens - cached_tokens,
      cached_prompt_tokens: cached_tokens,
      output_tokens: Math.max(0, output_tokens - open.output_tokens),
    }
    this.#queue.answered(open.entry)
    this.#charge(open, rest, 0, now_us)
    this.#queue.ended(open.entry, { prompt_tokens, output_tokens, cached_tokens }, now_us)
    this.#open.delete(ended.lease)
    const queued_us = open.entry.waited_us
    const { first_token_us, wait_us, duration_us } = measurement
    const measured = {
      ...measurement,
      wait_us: wait_us + queued_us,
      duration_us: duration_us + queued_us,
      first_token_us: first_token_us === null ? null : first_token_us + queued_us,
    }
    this.#options.onEnded({ ...ended, measurement: measured }, now_us)
  }

  /** The server refuses the call: it waits in its place again. */
  refused(lease: string, now_us: number): void {
    this.refusals += 1
    this.#queue.refused(this.#of(lease).entry, 0, now_us)
  }

  #charge({ entry }: OpenCall, tokens: Parameters<CallQueue['charge']>[1], wall_us: number, now_us: number): void {
    this.#work_us += modelledServiceUs(tokens)
    this.#queue.charge(entry, tokens, wall_us, now_us)
  }

  #send(lease: string): void {
    const { call, entry } = this.#of(lease)
    this.#options.behind.submit(call, entry, this.#options.timeline.now_us)
  }

  /** Calls that come at one microsecond are decided on together. */
  #soon(): void {
    const { timeline } = this.#options
    if (!this.#deciding.isSet || this.#deciding.at_us > timeline.now_us) timeline.set(this.#deciding, timeline.now_us)
  }

  #decide(now_us: number): void {
    this.#queue.decide(now_us)
    if (this.#queue.waiting > 0 && !this.#deciding.isSet) {
      this.#options.timeline.set(this.#deciding, now_us + DECIDE_US)
    }
  }

  #look(now_us: number): void {
    const { behind, limits, timeline, seats } = this.#options
    const { sent, waiting, unanswered } = this.#queue
    const waiting_there = behind.reports ? behind.status(now_us).waiting : null
    const load = { sent, waiting, unanswered, waiting_there, work_us: this.#work_us, ttft_us: this.#ttft_us }
    const learned = this.#concurrency.look({ now_us, ...load })
    this.#work_us = 0
    this.#ttft_us = []
    if (limits === null || seats !== null) this.#queue.resize(learned)
    if (this.#open.size > 0) timeline.set(this.#looking, now_us + LOOK_US)
  }

  #of(lease: string): OpenCall {
    const open = this.#open.get(lease)
    if (open === undefined) throw new Error(`call ${lease} is not in the queue`)
    return open
  }
}

function refuse({ lease, prompt, max_output_tokens }: EngineCall, { limit, needed }: NoRoom): never {
  const what = limit === null ? 'the limits' : `a limit of ${limit.amount} (${limit.quantity})`
  throw new RangeError(
    `call ${lease} has ${prompt.length} prompt tokens and up to ${max_output_tokens} of output, and needs ${needed} of ${what}: it never fits`,
  )
}
