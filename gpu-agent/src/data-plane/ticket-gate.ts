/**
 * Decides whether a ticket opens a call here: signature and lifetime by the keys that the pools sent (corrected by their
 * clock), then agent, engine, model and epoch, then whether that engine takes calls. The lease is claimed later, when the
 * body has been read, so that a broken upload does not use it up.
 */
import { importTicketKey, type TicketClaims, verifyTicket, type Welcome } from '../../../src/protocol/index.ts'
import type { ServedEngine } from '../served-engine.ts'
import { REFUSALS, type Refusal } from './stream-errors.ts'

const TICKET_KEY_BYTES = 32
const BEARER = /^Bearer +(\S+)$/i

export type GateVerdict = { ok: true; claims: TicketClaims; engine: ServedEngine } | ({ ok: false } & Refusal)

export interface TicketGateOptions {
  agent: string
  engines: ReadonlyMap<string, ServedEngine>
  wall_ms: () => number
  /** True while the whole agent drains. */
  draining: () => boolean
}

export class TicketGate {
  readonly #options: TicketGateOptions
  /** Newest keys of each link; a link that is lost keeps its last ones, one that is dismissed none. */
  readonly #keys_by_link = new Map<string, ReadonlyMap<string, CryptoKey>>()
  #keys: ReadonlyMap<string, CryptoKey> = new Map()
  #clock_offset_ms = 0

  constructor(options: TicketGateOptions) {
    this.#options = options
  }

  /** Takes the keys of a pool's welcome; keys of the wrong length are a control plane's bug and are refused as a whole. */
  async welcome(link: string, welcome: Welcome): Promise<{ ok: true } | { ok: false; message: string }> {
    const keys = new Map<string, CryptoKey>()
    for (const { kid, key } of welcome.ticket_keys) {
      const bytes = new Uint8Array(Buffer.from(key, 'base64url'))
      if (bytes.length !== TICKET_KEY_BYTES) {
        return { ok: false, message: `ticket key ${kid} has ${bytes.length} bytes, not ${TICKET_KEY_BYTES}` }
      }
      keys.set(kid, await importTicketKey(bytes))
    }
    this.#keys_by_link.set(link, keys)
    this.setClock(welcome.clock_offset_ms)
    this.#collect()
    return { ok: true }
  }

  /** Control plane's wall clock minus ours. */
  setClock(offset_ms: number): void {
    this.#clock_offset_ms = offset_ms
  }

  /** Tickets under the keys of this link open nothing from here on. */
  forget(link: string): void {
    this.#keys_by_link.delete(link)
    this.#collect()
  }

  #collect(): void {
    this.#keys = new Map([...this.#keys_by_link.values()].flatMap((of_link) => [...of_link]))
  }

  async judge(authorization: string | undefined): Promise<GateVerdict> {
    const read = await this.read(authorization)
    return read.ok ? this.recheck(read.claims) : read
  }

  /** The claims of a ticket that this control plane signed for this agent or another, and that has not expired. */
  async read(
    authorization: string | undefined,
  ): Promise<{ ok: true; claims: TicketClaims } | ({ ok: false } & Refusal)> {
    const token = BEARER.exec(authorization ?? '')?.[1]
    if (token === undefined) return { ok: false, ...REFUSALS.ticket_invalid('absent') }
    if (this.#keys.size === 0) return { ok: false, ...REFUSALS.not_linked }
    const now_s = (this.#options.wall_ms() + this.#clock_offset_ms) / 1000
    const verdict = await verifyTicket(token, this.#keys, now_s)
    return verdict.ok ? verdict : { ok: false, ...REFUSALS.ticket_invalid(verdict.reason) }
  }

  /** What can have changed while the body came in. */
  recheck(claims: TicketClaims): GateVerdict {
    const engine = this.#options.engines.get(claims.engine)
    if (claims.agent !== this.#options.agent || engine === undefined || engine.description.model !== claims.model) {
      return { ok: false, ...REFUSALS.ticket_wrong_engine }
    }
    if (engine.epoch !== claims.epoch) return { ok: false, ...REFUSALS.epoch_gone }
    const state = this.#options.draining() ? 'draining' : engine.state
    if (state === 'down') return { ok: false, ...REFUSALS.engine_down }
    if (state === 'draining') return { ok: false, ...REFUSALS.draining }
    return { ok: true, claims, engine }
  }
}
