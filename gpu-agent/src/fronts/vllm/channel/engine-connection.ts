/**
 * What the front hears from one vLLM beside its calls' own streams: with the plug-in over the side channel, without it from
 * /metrics. One of these per address; a vLLM that comes back has another.
 */
import type { QueuePosition } from '../../../../../src/protocol/index.ts'
import type { LoadReport } from '../../attached/reported-load.ts'
import { MetricsPoll, POLL_MS } from '../../attached/server-metrics.ts'
import type { FrontCount } from '../../engine-front.ts'
import type { VllmAddress } from '../process/vllm-server.ts'
import type { Charges, EngineHello, EngineRecord, EngineReport } from './channel-messages.ts'
import type { ToldClass } from './class-teller.ts'
import { type OptionsVerdict, SideChannel } from './side-channel.ts'

/** How many calls are let through follows from the reports (engine/queue/concurrency.ts). */
const QUEUE_POLL_MS = 250

/** What an engine is, from its address and, with the plug-in, its own word. */
export interface EngineFacts {
  epoch: string
  seats: number
  kv_capacity_tokens: number
  context_tokens_max: number
  /** It takes tables of classes of programs. */
  takes_classes: boolean
  /** It can be told that a program goes on elsewhere or has ended. */
  takes_handle: boolean
  /** It can be asked where open calls are in its order. */
  takes_positions: boolean
  /** It goes on with answers that another engine began, from tokens below this. Null: it does not. */
  vocabulary_tokens: number | null
}

export interface ConnectionListener {
  /** The engine can be asked. Again after each time that the side channel was lost. */
  ready(facts: EngineFacts): void
  record(record: EngineRecord, epoch: string): void
  charges(charges: Charges): void
  /** `report` is null without the plug-in. */
  load(load: LoadReport, report: EngineReport | null): void
  incompatible(sentence: string): void
  counted(what: FrontCount): void
  /** For the operator. */
  report(message: string): void
}

export interface EngineConnectionOptions {
  address: VllmAddress
  listener: ConnectionListener
  /** Whether calls are open. */
  busy: () => boolean
  random: () => number
}

export class EngineConnection {
  readonly address: VllmAddress
  readonly #listener: ConnectionListener
  readonly #channel: SideChannel | null
  readonly #poll: MetricsPoll | null
  #facts: EngineFacts

  constructor({ address, listener, busy, random }: EngineConnectionOptions) {
    this.address = address
    this.#listener = listener
    const { epoch, seats, kv_capacity_tokens, context_tokens_max, socket, url, api_key } = address
    const sizes = { epoch, seats, kv_capacity_tokens, context_tokens_max }
    const takes = { takes_classes: false, takes_handle: false, takes_positions: false }
    this.#facts = { ...sizes, ...takes, vocabulary_tokens: null }
    this.#channel = socket === null ? null : this.#openChannel(socket, random)
    this.#poll =
      socket !== null || address.queued?.reports === false
        ? null
        : new MetricsPoll({
            ...{
              url,
              api_key,
              kv_capacity_tokens,
              wanted: busy,
              poll_ms: address.queued === null ? POLL_MS : QUEUE_POLL_MS,
            },
            reported: (load) => listener.load(load, null),
            failed: (reason) => listener.report(`the load of the server cannot be read from ${url}/metrics: ${reason}`),
          })
  }

  start(): void {
    if (this.#channel === null) this.#listener.ready(this.#facts)
    else this.#channel.start()
  }

  settle(epoch: string, number: number): void {
    this.#channel?.settle(epoch, number)
  }

  /** False: they were not sent. A plug-in that does not know of them would hang up. */
  tellClasses(classes: readonly ToldClass[]): boolean {
    return this.#facts.takes_classes && this.#channel?.tellClasses(classes) === true
  }

  /** The program goes on elsewhere or has ended. A plug-in that is not told keeps its KV until its own bounds end it. */
  discard(program: string): void {
    if (this.#facts.takes_handle) this.#channel?.discard(program)
  }

  /** Where these leases are in the plug-in's order. One that does not know the question would hang up. */
  async positions(leases: readonly string[]): Promise<readonly QueuePosition[]> {
    return this.#facts.takes_positions && this.#channel !== null ? this.#channel.positions(leases) : []
  }

  async changeOptions(options: Readonly<Record<string, unknown>>): Promise<OptionsVerdict> {
    return this.#channel === null
      ? { status: 'refused', reason: 'this vLLM runs without our plug-in' }
      : this.#channel.changeOptions(options)
  }

  close(): void {
    this.#channel?.close()
    this.#poll?.stop()
  }

  #openChannel(path: string, random: () => number): SideChannel {
    const listener = this.#listener
    return new SideChannel({
      path,
      random,
      listener: {
        hello: (hello) => this.#greeted(hello),
        record: (record) => listener.record(record, this.#facts.epoch),
        charges: (charges) => listener.charges(charges),
        status: (report) => listener.load(this.#loadOf(report), report),
        lost: (reason, failures) => {
          if (failures === 1) listener.report(`the side channel of vLLM is lost (${reason}) and is being opened again`)
        },
        incompatible: (sentence) => listener.incompatible(sentence),
        ignored: (what) => listener.counted(`message_${what}`),
      },
    })
  }

  #greeted(hello: EngineHello): void {
    this.#facts = {
      epoch: hello.epoch,
      seats: hello.seats ?? this.address.seats,
      kv_capacity_tokens: hello.kv_capacity_tokens ?? this.address.kv_capacity_tokens,
      context_tokens_max: hello.context_tokens_max ?? this.address.context_tokens_max,
      takes_classes: hello.classes === true,
      takes_handle: hello.handle === true,
      takes_positions: hello.positions === true,
      vocabulary_tokens: hello.vocabulary_tokens ?? null,
    }
    this.#listener.ready(this.#facts)
  }

  #loadOf({ waiting, running, queued_tokens, kv_used }: EngineReport): LoadReport {
    const kv_used_tokens = Math.round(kv_used * this.#facts.kv_capacity_tokens)
    return { waiting, running, queued_tokens, kv_used_tokens }
  }
}
