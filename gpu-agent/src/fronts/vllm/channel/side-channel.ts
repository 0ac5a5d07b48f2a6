/**
 * The agent's end of the side channel (docs/vllm-plugin.md): one Unix socket to the plug-in in the engine's process, JSON lines.
 * A connection that is lost is made again after a pause that doubles, and the engine then sends again what was not
 * acknowledged; a record that came before is not told twice, by its epoch and number.
 *
 * A line longer than LINE_BYTES_MAX ends the connection. Of what has arrived, at most LINES_PER_TURN are read in one turn
 * of the event loop, and the socket is not read meanwhile, so an engine cannot keep the agent from its other work.
 */
import { connect, type Socket } from 'node:net'
import { type BackoffBounds, backoffMs } from '../../../../../src/core/backoff.ts'
import type { QueuePosition } from '../../../../../src/protocol/index.ts'
import { messageOf } from '../../../events.ts'
import { AckTracker } from './ack-tracker.ts'
import {
  CHANNEL_VERSION,
  type Charges,
  type EngineHello,
  type EngineMessage,
  type EnginePositions,
  type EngineRecord,
  type EngineReport,
  readMessage,
} from './channel-messages.ts'
import type { ToldClass } from './class-teller.ts'

/** The longest message, 1,024 charges of ids of 128 characters, has 200 KB. */
export const LINE_BYTES_MAX = 1024 * 1024
export const LINES_PER_TURN = 512
export const RECONNECT_PAUSE: BackoffBounds = { min_ms: 100, max_ms: 5000 }
/** A connection that lasted so long was no failure: one that two agents take from each other lasts for moments. */
const STABLE_MS = 10_000
/** Acknowledgements are cumulative: one for all that became safe meanwhile. */
const ACK_DELAY_MS = 20
/** Tables that the engine has not read. Past it no more are sent. */
const CLASSES_UNREAD_BYTES_MAX = 1024 * 1024
/** A change is applied before the engine's next step, and an idle engine may have none. */
export const OPTIONS_ANSWER_MS_MAX = 30_000
/** An engine answers before its next step. A longer step is not waited for. */
export const POSITIONS_ANSWER_MS_MAX = 800
const LF = 10

export interface SideChannelListener {
  /** Connected. Comes before anything else of a connection. */
  hello(hello: EngineHello): void
  record(record: EngineRecord): void
  charges(charges: Charges): void
  status(report: EngineReport): void
  /** The connection is lost, and is being made again. `failures`: so many in a row, without one that lasted. */
  lost(reason: string, failures: number): void
  /** The plug-in speaks another version: it is not tried again. */
  incompatible(sentence: string): void
  ignored(what: 'unknown' | 'malformed' | 'repeated'): void
}

export type OptionsVerdict =
  | { status: 'applied' }
  | { status: 'refused'; reason: string }
  /** The engine may be idle: it applies the last wish before its next step. Or nothing of this connection reached it. */
  | { status: 'unanswered'; reason: string }

export interface SideChannelOptions {
  path: string
  listener: SideChannelListener
  random?: () => number
  pause?: BackoffBounds
  options_answer_ms_max?: number
  positions_answer_ms_max?: number
}

export class SideChannel {
  readonly #options: SideChannelOptions
  #socket: Socket | null = null
  #pending: Buffer[] = []
  #draining = false
  #epoch: string | null = null
  #acks = new AckTracker()
  #ack: NodeJS.Timeout | null = null
  #failures = 0
  #stable: NodeJS.Timeout | null = null
  #retry: NodeJS.Timeout | null = null
  #closed = false
  /** Changes of options that wait for their answer. */
  readonly #asked = new Map<number, (verdict: OptionsVerdict) => void>()
  /** Questions where calls are that wait for their answer. */
  readonly #questions = new Map<number, (positions: QueuePosition[]) => void>()
  #asks = 0

  constructor(options: SideChannelOptions) {
    this.#options = options
  }

  start(): void {
    this.#connect()
  }

  /** The record is safe: on disk, or nothing will be made of it. Numbers of an engine that is gone change nothing. */
  settle(epoch: string, number: number): void {
    if (epoch === this.#epoch && this.#acks.settle(number)) {
      this.#ack ??= setTimeout(() => this.#acknowledge(), ACK_DELAY_MS)
    }
  }

  /** Gives the plug-in its options anew, as a whole; what is left out has its default. */
  async changeOptions(options: Readonly<Record<string, unknown>>): Promise<OptionsVerdict> {
    if (this.#socket === null || this.#epoch === null) return unanswered('the side channel is not connected')
    const number = ++this.#asks
    const { promise, resolve } = Promise.withResolvers<OptionsVerdict>()
    const limit_ms = this.#options.options_answer_ms_max ?? OPTIONS_ANSWER_MS_MAX
    const timer = setTimeout(() => resolve(unanswered(`no answer within ${limit_ms} ms`)), limit_ms)
    this.#asked.set(number, resolve)
    this.#say({ type: 'options', number, options })
    const verdict = await promise
    clearTimeout(timer)
    this.#asked.delete(number)
    return verdict
  }

  /** Where these leases are in the engine's order: none where it does not answer in time. */
  async positions(leases: readonly string[]): Promise<QueuePosition[]> {
    if (this.#socket === null || this.#epoch === null) return []
    const number = ++this.#asks
    const { promise, resolve } = Promise.withResolvers<QueuePosition[]>()
    const timer = setTimeout(() => resolve([]), this.#options.positions_answer_ms_max ?? POSITIONS_ANSWER_MS_MAX)
    this.#questions.set(number, resolve)
    this.#say({ type: 'positions', number, leases })
    const positions = await promise
    clearTimeout(timer)
    this.#questions.delete(number)
    return positions
  }

  /** False: there is no connection, or the engine has too much to read. */
  tellClasses(classes: readonly ToldClass[]): boolean {
    if (this.#socket === null || this.#epoch === null) return false
    if (this.#socket.writableLength > CLASSES_UNREAD_BYTES_MAX) return false
    this.#say({ type: 'classes', classes })
    return true
  }

  /** The program goes on at another engine. What is said while there is no connection is not said again. */
  discard(program: string): void {
    if (this.#epoch !== null) this.#say({ type: 'handle', handling: 'discard', program })
  }

  /** Sends the last acknowledgement. Nothing is heard after it. */
  close(): void {
    this.#acknowledge()
    this.#closed = true
    for (const timer of [this.#retry, this.#stable]) if (timer !== null) clearTimeout(timer)
    this.#socket?.end()
    this.#socket?.destroySoon()
    this.#forget('the side channel was closed')
  }

  #connect(): void {
    const socket = connect(this.#options.path)
    this.#socket = socket
    let reason = 'the engine closed it'
    socket.on('connect', () => this.#say({ type: 'hello', v: CHANNEL_VERSION }))
    socket.on('data', (bytes: Buffer) => {
      if (this.#socket === socket) this.#heard(socket, bytes)
    })
    socket.on('error', (error) => {
      reason = messageOf(error)
    })
    socket.on('close', () => {
      if (this.#socket === socket) this.#lost(reason)
    })
  }

  #lost(reason: string): void {
    this.#forget(reason)
    if (this.#stable !== null) clearTimeout(this.#stable)
    if (this.#closed) return
    this.#failures += 1
    const { pause = RECONNECT_PAUSE, random = Math.random, listener } = this.#options
    this.#retry = setTimeout(() => this.#connect(), backoffMs(this.#failures, pause, random()))
    listener.lost(reason, this.#failures)
  }

  #forget(reason: string): void {
    this.#socket = null
    this.#pending = []
    this.#draining = false
    for (const answer of this.#asked.values()) answer(unanswered(reason))
    for (const answer of this.#questions.values()) answer([])
  }

  #heard(socket: Socket, bytes: Buffer): void {
    this.#pending.push(bytes)
    if (!this.#draining) this.#drain(socket)
  }

  /** Reads whole lines of what has come. The socket rests while some are left for another turn. */
  #drain(socket: Socket): void {
    let bytes = this.#pending.length === 1 ? (this.#pending[0] as Buffer) : Buffer.concat(this.#pending)
    let lines = 0
    let end = bytes.indexOf(LF)
    while (end !== -1 && lines < LINES_PER_TURN) {
      lines += 1
      if (end > LINE_BYTES_MAX) break
      this.#read(bytes.toString('utf8', 0, end))
      if (this.#socket !== socket) return
      bytes = bytes.subarray(end + 1)
      end = bytes.indexOf(LF)
    }
    this.#pending = [bytes]
    this.#draining = end !== -1 && end <= LINE_BYTES_MAX
    if (this.#draining) {
      socket.pause()
      setImmediate(() => {
        if (this.#socket === socket) this.#drain(socket)
      })
    } else if ((end === -1 ? bytes.length : end) > LINE_BYTES_MAX) {
      socket.destroy(new Error(`the engine said more than ${LINE_BYTES_MAX} bytes in one line`))
    } else socket.resume()
  }

  #read(line: string): void {
    const reading = readMessage(line)
    if (reading.kind === 'message') {
      this.#take(reading.message)
      return
    }
    this.#options.listener.ignored(reading.what)
    const { number } = reading
    if (number !== null && this.#epoch !== null && this.#acks.take(number)) this.settle(this.#epoch, number)
  }

  #take(message: EngineMessage): void {
    const { listener } = this.#options
    if (message.type === 'hello') {
      this.#greeted(message)
      return
    }
    // A plug-in says hello first.
    if (this.#epoch === null) listener.ignored('malformed')
    else if (message.type === 'record') this.#record(message)
    else if (message.type === 'charges') listener.charges(message)
    else if (message.type === 'status') listener.status(message)
    else if (message.type === 'positions') this.#questions.get(message.number)?.(positionsOf(message))
    else if (message.type === 'applied') this.#asked.get(message.number)?.({ status: 'applied' })
    else this.#asked.get(message.number)?.({ status: 'refused', reason: message.reason })
  }

  #greeted(hello: EngineHello): void {
    const { listener, path } = this.#options
    if (hello.v !== CHANNEL_VERSION) {
      this.#closed = true
      this.#socket?.destroy()
      listener.incompatible(
        `the plug-in behind ${path} speaks version ${hello.v} of the side channel and this agent version ` +
          `${CHANNEL_VERSION}: install the gpu-agent/vllm of this agent into the environment that vLLM runs in`,
      )
      return
    }
    this.#stable = setTimeout(() => {
      this.#failures = 0
    }, STABLE_MS).unref()
    if (hello.epoch !== this.#epoch) this.#acks = new AckTracker()
    this.#epoch = hello.epoch
    // What became safe while nothing could be said.
    this.#acknowledge()
    listener.hello(hello)
  }

  #record(record: EngineRecord): void {
    const { listener } = this.#options
    if (this.#acks.take(record.number)) listener.record(record)
    else listener.ignored('repeated')
  }

  #acknowledge(): void {
    if (this.#ack !== null) clearTimeout(this.#ack)
    this.#ack = null
    if (this.#acks.safe > 0) this.#say({ type: 'ack', number: this.#acks.safe })
  }

  /** What is said to a connection that is lost is said again after the next hello, or has lost its meaning. */
  #say(message: object): void {
    if (this.#socket?.writable === true) this.#socket.write(`${JSON.stringify(message)}\n`)
  }
}

function positionsOf({ positions }: EnginePositions): QueuePosition[] {
  return positions.map(([lease, waits, waited_us, before, order]) => ({ lease, waits, waited_us, before, order }))
}

function unanswered(reason: string): OptionsVerdict {
  return { status: 'unanswered', reason }
}
