/**
 * A wire between two processes that can be cut, frozen and slowed, so that faults of a network are real ones: sockets that
 * close, sockets that say nothing, bytes that come late.
 *
 * `cut` resets what is open and refuses what comes. `frozen` closes nothing and passes nothing, also no end of a
 * connection: what a host without power or a broken route look like. Frozen connections go on where they were once the wire
 * is open again. Bytes are held back at the sender, never piled up here, except for what is on its way for `delay_ms`.
 *
 * `holdAfter` freezes one connection after so many events of its answer. A test that cuts the wire once it has read an event may
 * find on a busy machine that the whole answer has passed. Of a held one it has not.
 */
import { createServer, type Server, Socket } from 'node:net'

export type WireState = 'open' | 'cut' | 'frozen'

/** Bytes that may be on their way in one direction of one connection while it is slowed. */
const DELAYED_BYTES_MAX = 8 * 1024 * 1024

const EVENT_END = '\n\n'

interface Pair {
  near: Socket
  far: Socket
  /** What is due while the wire, or this connection, is frozen, in order. Node tells of an end also on a paused socket. */
  held: (() => void)[]
  /** Its answer is the one that `holdAfter` is about. */
  is_to_hold: boolean
}

export class TcpProxy {
  readonly #server: Server
  readonly #target: { host: string; port: number }
  readonly #pairs = new Set<Pair>()
  #state: WireState = 'open'
  /** Of what flows towards the target. */
  delay_ms = 0
  #hold: { asked: string; events_left: number } | null = null

  private constructor(target: { host: string; port: number }) {
    this.#target = target
    this.#server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (near) => this.#accept(near))
  }

  static async open(target: { host: string; port: number }): Promise<TcpProxy> {
    const proxy = new TcpProxy(target)
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve))
    return proxy
  }

  get port(): number {
    const address = this.#server.address()
    if (address === null || typeof address === 'string') throw new Error('the proxy does not listen')
    return address.port
  }

  get state(): WireState {
    return this.#state
  }

  set(state: WireState): void {
    this.#state = state
    this.#hold = null
    for (const pair of this.#pairs) {
      if (state === 'cut') this.#reset(pair)
      else if (state === 'frozen') freeze(pair)
      else this.#thaw(pair)
    }
  }

  /**
   * Of the answer to the next request that contains `asked`, `events` events pass. If it has more, its connection is frozen then.
   * The next `set` is the end of it, whether or not so many have passed.
   */
  holdAfter(events: number, asked: string): void {
    this.#hold = { asked, events_left: events }
  }

  /** Whether `holdAfter` has frozen a connection. */
  get isHolding(): boolean {
    return [...this.#pairs].some(({ is_to_hold, held }) => is_to_hold && held.length > 0)
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    for (const pair of this.#pairs) this.#reset(pair)
    await closed
  }

  #accept(near: Socket): void {
    const pair: Pair = { near, far: new Socket({ allowHalfOpen: true }), held: [], is_to_hold: false }
    if (this.#state === 'cut') {
      near.resetAndDestroy()
      return
    }
    this.#pairs.add(pair)
    near.setNoDelay(true)
    pair.far.setNoDelay(true)
    near.on('data', (bytes: Buffer) => {
      if (this.#hold !== null && bytes.includes(this.#hold.asked)) pair.is_to_hold = true
    })
    this.#carry(pair, near, pair.far, () => this.delay_ms)
    this.#carry(pair, pair.far, near, () => 0)
    if (this.#state === 'open') this.#thaw(pair)
  }

  /** How much of `bytes` may pass before their connection is held. */
  #passing(pair: Pair, from: Socket, bytes: Buffer): number {
    if (this.#hold === null || !pair.is_to_hold || from === pair.near) return bytes.length
    let end = 0
    for (;;) {
      const next = bytes.indexOf(EVENT_END, end)
      if (next < 0) return bytes.length
      if (this.#hold.events_left === 0) break
      this.#hold.events_left -= 1
      end = next + EVENT_END.length
    }
    this.#hold = null
    return end
  }

  #carry(pair: Pair, from: Socket, to: Socket, delay_ms: () => number): void {
    let under_way_bytes = 0
    let last: Promise<void> = Promise.resolve()
    const later = (work: () => void): void => {
      const due_ms = performance.now() + delay_ms()
      last = last.then(async () => {
        const left_ms = due_ms - performance.now()
        if (left_ms > 0) await new Promise((resolve) => setTimeout(resolve, left_ms))
        if (this.#state === 'frozen' || pair.held.length > 0) pair.held.push(work)
        else work()
      })
    }
    from.on('data', (all: Buffer) => {
      const passing = this.#passing(pair, from, all)
      const bytes = passing < all.length ? all.subarray(0, passing) : all
      under_way_bytes += bytes.length
      const pass = (): void => {
        under_way_bytes -= bytes.length
        if (!to.write(bytes)) from.pause()
      }
      if (under_way_bytes > DELAYED_BYTES_MAX) from.pause()
      if (delay_ms() === 0 && under_way_bytes === bytes.length) pass()
      else later(pass)
      if (bytes === all) return
      from.pause()
      pair.held.push(() => to.write(all.subarray(bytes.length)))
    })
    to.on('drain', () => {
      if (this.#state === 'open' && pair.held.length === 0) from.resume()
    })
    from.on('end', () => later(() => to.end()))
    from.on('error', () => this.#ended(pair, to))
    from.on('close', () => this.#ended(pair, to))
  }

  /** One side is gone without having ended in order, or both have ended. A frozen wire carries no such news. */
  #ended(pair: Pair, other: Socket): void {
    if (this.#state === 'frozen') return
    if (other.readableEnded && other.writableEnded) this.#pairs.delete(pair)
    else if (other.destroyed || !other.writableEnded) this.#reset(pair)
  }

  #thaw(pair: Pair): void {
    const { near, far } = pair
    // What one side did while nothing passed is told to the other at last.
    if (near.destroyed || far.destroyed) {
      this.#reset(pair)
      return
    }
    for (const work of pair.held.splice(0)) work()
    if (far.pending && !far.connecting) far.connect(this.#target)
    near.resume()
    far.resume()
  }

  #reset(pair: Pair): void {
    this.#pairs.delete(pair)
    for (const socket of [pair.near, pair.far]) {
      if (!socket.destroyed) socket.resetAndDestroy()
    }
  }
}

function freeze({ near, far }: Pair): void {
  near.pause()
  far.pause()
}
