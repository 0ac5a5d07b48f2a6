/**
 * The limits of a hosted API as providers enforce them, one account per key. Pure: each method takes the time in provider seconds.
 *
 * `bucket`: a token bucket that starts full and is refilled evenly (OpenAI, Anthropic). `window`: a fixed window that begins with
 * the provider's clock and is empty again at its end (several gateways, Azure's ten seconds). What a call takes is either reserved
 * when it is admitted and never given back (`reserved`: prompt and the most that it may write, as OpenAI and Azure count) or
 * counted as it is used (`used`: the uncached prompt at admission, output as it is written, as Anthropic counts).
 */

export type LimitQuantity = 'requests' | 'input' | 'output' | 'tokens'

export interface ProviderLimit {
  quantity: LimitQuantity
  amount: number
  per_s: number
}

export interface LimitState extends ProviderLimit {
  remaining: number
  /** Until nothing of it is used. */
  reset_s: number
}

export interface CallCost {
  requests: number
  input: number
  output: number
}

export type Admission = { ok: true } | { ok: false; limit: ProviderLimit; retry_after_s: number }

interface Account {
  limit: ProviderLimit
  /** In `bucket`: what is left. In `window`: what is used of it. */
  level: number
  at_s: number
}

export class ProviderAccount {
  readonly #shape: 'bucket' | 'window'
  readonly #accounts: readonly Account[]
  /** Admitted by quantity, for the proofs of tests and benchmarks. */
  readonly taken: Record<LimitQuantity, number> = { requests: 0, input: 0, output: 0, tokens: 0 }

  constructor(limits: readonly ProviderLimit[], shape: 'bucket' | 'window') {
    this.#shape = shape
    this.#accounts = limits.map((limit) => ({ limit, level: shape === 'bucket' ? limit.amount : 0, at_s: 0 }))
  }

  admit(cost: CallCost, now_s: number): Admission {
    for (const account of this.#accounts) {
      this.#advance(account, now_s)
      const needed = amountOf(cost, account.limit.quantity)
      const missing = needed - this.#left(account)
      if (missing <= 0) continue
      return { ok: false, limit: account.limit, retry_after_s: this.#untilS(account, missing, now_s) }
    }
    this.take(cost, now_s)
    return { ok: true }
  }

  /** Also of output that is counted as it is written: it may take more than is left. */
  take(cost: CallCost, now_s: number): void {
    for (const account of this.#accounts) {
      this.#advance(account, now_s)
      const amount = amountOf(cost, account.limit.quantity)
      account.level += this.#shape === 'bucket' ? -amount : amount
    }
    for (const quantity of ['requests', 'input', 'output', 'tokens'] as const) {
      this.taken[quantity] += amountOf(cost, quantity)
    }
  }

  states(now_s: number): LimitState[] {
    return this.#accounts.map((account) => {
      this.#advance(account, now_s)
      const { limit } = account
      const remaining = Math.max(0, Math.floor(this.#left(account)))
      return { ...limit, remaining, reset_s: this.#untilS(account, limit.amount - this.#left(account), now_s) }
    })
  }

  #left({ limit, level }: Account): number {
    return this.#shape === 'bucket' ? level : limit.amount - level
  }

  /** Until `missing` more is left. */
  #untilS({ limit, at_s }: Account, missing: number, now_s: number): number {
    if (missing <= 0) return 0
    if (this.#shape === 'bucket') return (missing * limit.per_s) / limit.amount
    return at_s + limit.per_s - now_s
  }

  #advance(account: Account, now_s: number): void {
    const { limit } = account
    if (this.#shape === 'bucket') {
      const gained = ((now_s - account.at_s) * limit.amount) / limit.per_s
      account.level = Math.min(limit.amount, account.level + Math.max(0, gained))
      account.at_s = now_s
      return
    }
    if (now_s < account.at_s + limit.per_s) return
    account.at_s = Math.floor(now_s / limit.per_s) * limit.per_s
    account.level = 0
  }
}

export function amountOf({ requests, input, output }: CallCost, quantity: LimitQuantity): number {
  if (quantity === 'tokens') return input + output
  return { requests, input, output }[quantity]
}
