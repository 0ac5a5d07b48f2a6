/**
 * What this isolate may lease without a request, what it must know of those engines, and what pools have not been told of yet
 * (core/pool/lease-credits.ts, credit-lease.ts).
 */
import type { LeaseByCredit } from '../actors/contracts.ts'
import { LEASES_BY_CREDIT_MAX, LeaseCredits } from '../core/pool/lease-credits.ts'
import type { EngineChoice, Pin } from '../core/pool/pool-types.ts'

type Chosen = Extract<EngineChoice, { status: 'leased' }>

/** A lease of the engine as its pool would answer it, without what is of the call. */
export interface CreditedEngine
  extends Pick<Chosen, 'agent' | 'engine' | 'epoch' | 'url' | 'speed_factor' | 'native_apis' | 'resumes'> {
  /** Id of the key that signs tickets for its agent. */
  ticket_kid: string
  /** Of the region's pool. Left out: the first. */
  shard?: number
}

/** Whose call it is. */
export interface Caller {
  tenant: string
  program: string | null
  model: string
}

interface Granted {
  lease: string
  ticket_kid: string | null
  shard: number | undefined
  credits: number
}

export class CreditBook {
  readonly credits = new LeaseCredits<CreditedEngine>()
  /** Leases that pools have not been told of, by region, model and shard. */
  readonly #untold = new Map<string, LeaseByCredit[]>()

  /** A pool has leased: the program is at home there, and there may be credits. */
  heard(
    caller: Caller,
    region: string,
    choice: Chosen,
    { lease, ticket_kid, shard, credits }: Granted,
    now_ms: number,
  ): void {
    if (ticket_kid === null || !choice.pin) return
    const { agent, engine, epoch, url, speed_factor, native_apis, resumes } = choice
    const at = { region, model: caller.model, engine, epoch }
    const can = { ...(native_apis === undefined ? {} : { native_apis }), ...(resumes === undefined ? {} : { resumes }) }
    const of_pool = { ticket_kid, ...(shard === undefined ? {} : { shard }) }
    this.credits.granted(at, { agent, engine, epoch, url, speed_factor, ...can, ...of_pool }, credits, now_ms)
    if (caller.program !== null) this.credits.stays(homeOf(caller), at, lease)
  }

  /** The program's latest lease is one by credit. */
  leased(caller: Caller, at: Pin, lease: string): void {
    if (caller.program !== null) this.credits.stays(homeOf(caller), at, lease)
  }

  /** Whether the program has no open lease elsewhere. A lease that is not known may be there. */
  isOnlyAt(caller: Caller, at: Pin, open_leases: readonly string[]): boolean {
    return this.credits.areThere(homeOf(caller), at, open_leases)
  }

  /** Whether it is worth waiting for the call's pin before a pool is asked. */
  mayTake(caller: Caller, now_ms: number): boolean {
    return caller.program !== null && this.credits.mayTake(homeOf(caller), now_ms)
  }

  /** `first`: no other waits to be told, so nothing will tell it. `full`: they are as many as a message has. */
  add(pool: string, lease: LeaseByCredit): 'first' | 'full' | 'more' {
    const untold = this.#untold.get(pool)
    if (untold === undefined) {
      this.#untold.set(pool, [lease])
      return 'first'
    }
    untold.push(lease)
    return untold.length >= LEASES_BY_CREDIT_MAX ? 'full' : 'more'
  }

  takeAll(pool: string): LeaseByCredit[] {
    const untold = this.#untold.get(pool) ?? []
    this.#untold.delete(pool)
    return untold
  }
}

function homeOf({ tenant, program, model }: Caller): string {
  return JSON.stringify([tenant, program, model])
}
