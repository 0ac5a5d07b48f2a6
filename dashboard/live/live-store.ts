/**
 * Keeps one stream of events open while the page is visible, and opens another when it ends. The state stays as it was
 * meanwhile, with the time since when it is stale.
 */
import { LiveEvent } from '../../src/protocol/live.ts'
import { ApiFailure, send } from '../api.ts'
import { eventData } from './event-stream.ts'
import { type LiveState, NOTHING_YET, withEvent } from './live-state.ts'

const RETRY_MS = [1_000, 2_000, 4_000, 8_000, 15_000]
/** The Worker says something at least every ten seconds. */
const SILENCE_MS_MAX = 25_000

export type Connection =
  | { status: 'connecting' }
  | { status: 'live' }
  | { status: 'offline'; since_ms: number; reason: string }
  | { status: 'signed_out' }

export interface LiveSnapshot {
  state: LiveState
  connection: Connection
}

export class LiveStore {
  snapshot: LiveSnapshot = { state: NOTHING_YET, connection: { status: 'connecting' } }
  readonly #listeners = new Set<() => void>()
  #stop = new AbortController()
  #failures = 0

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  read = (): LiveSnapshot => this.snapshot

  start(): void {
    this.#stop.abort()
    this.#stop = new AbortController()
    void this.#follow(this.#stop.signal)
  }

  stop(): void {
    this.#stop.abort()
  }

  #set(change: Partial<LiveSnapshot>): void {
    this.snapshot = { ...this.snapshot, ...change }
    for (const listener of this.#listeners) listener()
  }

  async #follow(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const reason = await this.#read(signal)
      if (signal.aborted || reason === null) return
      const { connection, state } = this.snapshot
      const since_ms = connection.status === 'offline' ? connection.since_ms : state.at_ms || Date.now()
      this.#set({ connection: { status: 'offline', since_ms, reason } })
      const wait_ms = RETRY_MS[Math.min(this.#failures, RETRY_MS.length - 1)] ?? 15_000
      this.#failures += 1
      await new Promise((resolve) => setTimeout(resolve, wait_ms))
    }
  }

  /** Why the stream ended. Null: another one would be refused too. */
  async #read(stopped: AbortSignal): Promise<string | null> {
    const silent = new AbortController()
    let timer = setTimeout(() => silent.abort(), SILENCE_MS_MAX)
    try {
      const signal = AbortSignal.any([stopped, silent.signal])
      const { body } = await send('/page/live', { accept: 'text/event-stream', signal })
      if (body === null) return 'The answer was empty.'
      for await (const data of eventData(body)) {
        clearTimeout(timer)
        timer = setTimeout(() => silent.abort(), SILENCE_MS_MAX)
        this.#failures = 0
        const state = withEvent(this.snapshot.state, LiveEvent.parse(JSON.parse(data)))
        this.#set({ state, connection: { status: 'live' } })
      }
      return 'The connection was closed.'
    } catch (error) {
      if (error instanceof ApiFailure && (error.status === 401 || error.status === 403)) {
        this.#set({ connection: { status: 'signed_out' } })
        return null
      }
      return error instanceof ApiFailure ? error.message : 'The connection broke.'
    } finally {
      clearTimeout(timer)
      silent.abort()
    }
  }
}
