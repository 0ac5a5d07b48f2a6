/**
 * Whose contexts are on a server, as far as an agent in front of it can know, and whether another program's fit.
 *
 * A program is in while a call of it is at the server, and for a bounded time after that, since its tool runs and its next call
 * comes. Contexts beyond the server's KV cache make it evict or preempt by itself, and then nobody's prefix survives. So a
 * program that does not fit waits as a whole.
 *
 * Tokens are counted once where they are shared. What a class of programs shares is what the server found cached for their
 * first calls: a system prompt, and tools. The calls of one program share its cached prefix in the same way. Classes of two
 * tenants are two classes, also where their names are equal.
 *
 * For how long a place is kept: rent or buy (engine/memory/hold-time.ts), at most HOLD_US_MAX.
 */
import { buyUs } from '../memory/hold-time.ts'
import type { OrderedCall } from '../types.ts'
import type { UsedTokens } from './limits/rate-limits.ts'

/** A tool that takes longer loses its program's place, and no more than that. */
export const HOLD_US_MAX = 20_000_000
/** A provider's prompt cache keeps a prefix for five minutes after its last use (OpenAI, Anthropic). */
export const PROVIDER_CACHE_US = 300_000_000
/** Programs whose contexts are remembered after their place has been given up. */
export const PROGRAMS_KEPT_MAX = 4096
export const CLASSES_KEPT_MAX = 1024
/** Until answers have been seen. */
const OUTPUT_TOKENS_FIRST = 256
const OUTPUT_WEIGHT = 1 / 16

export interface CallSize {
  /** Answers that it asks for, each of which takes a seat of the server. Left out: one. */
  choices?: number
  prompt_tokens: number
  /** Of its answer, at most. */
  output_tokens_max: number
}

/** What is known of the server. */
export interface ServerLimits {
  /** KV of the server; null: it is not known, and every program fits. */
  kv_tokens: number | null
  /** Calls that the server runs at once, for the cost of keeping a place. */
  slots: number
  /** How long it keeps a prefix after its last use; left out: until others need its room. */
  cache_life_us?: number | undefined
  /** What computing a prompt token takes; null: not known yet. */
  prefill_us_per_token: number | null
}

interface InProgram {
  class: string
  /** Calls at the server, by lease: their tokens with the output that is expected. */
  readonly open: Map<string, number>
  /** Of its last call. */
  context_tokens: number
  /** Until when it is in without a call. */
  until_us: number
}

export class ProgramRoom {
  readonly #limits: () => ServerLimits
  readonly #in = new Map<string, InProgram>()
  /** Last contexts, the one idle for longest first: what a program's next call probably finds cached. */
  readonly #contexts = new Map<string, { tokens: number; at_us: number }>()
  /** Tokens that the programs of a class share. */
  readonly #shared = new Map<string, number>()
  #caches = false
  #output_tokens = OUTPUT_TOKENS_FIRST

  constructor(limits: () => ServerLimits) {
    this.#limits = limits
  }

  get programs(): number {
    return this.#in.size
  }

  /** Of all programs that are in. */
  get used_tokens(): number {
    const classes = new Set<string>()
    let tokens = 0
    for (const program of this.#in.values()) {
      const shared = this.#shared.get(program.class) ?? 0
      if (!classes.has(program.class)) tokens += shared
      classes.add(program.class)
      tokens += Math.max(0, footprint(program, this.#caches) - shared)
    }
    return tokens
  }

  isIn(program: string): boolean {
    return this.#in.has(program)
  }

  fits(call: OrderedCall, size: CallSize): boolean {
    const { kv_tokens } = this.#limits()
    if (kv_tokens === null) return true
    const shared = this.#shared.get(classKey(call)) ?? 0
    return this.used_tokens + Math.max(0, this.#tokensOf(size) - shared) <= kv_tokens
  }

  /** What of its prompt the program's next call probably finds cached. */
  residentTokens(program: string, now_us: number): number {
    const context = this.#caches ? this.#contexts.get(program) : undefined
    if (context === undefined) return 0
    const { cache_life_us = Number.POSITIVE_INFINITY } = this.#limits()
    return now_us - context.at_us <= cache_life_us ? context.tokens : 0
  }

  sent(call: OrderedCall, size: CallSize): void {
    const { lease, program } = call
    const known = this.#in.get(program)
    const entry = known ?? { class: classKey(call), open: new Map<string, number>(), context_tokens: 0, until_us: 0 }
    entry.open.set(lease, this.#tokensOf(size))
    this.#in.set(program, entry)
  }

  takenBack({ lease, program }: OrderedCall): void {
    const entry = this.#in.get(program)
    if (entry === undefined) return
    entry.open.delete(lease)
    if (entry.open.size === 0 && entry.context_tokens === 0) this.#in.delete(program)
  }

  /** As CallQueue.ended. */
  ended(call: OrderedCall, prompt_tokens: number, used: UsedTokens | null, now_us: number): void {
    const { lease, program, sequence } = call
    const entry = this.#in.get(program)
    if (entry === undefined) return
    entry.open.delete(lease)
    if (used !== null) {
      const context_tokens = used.prompt_tokens + used.output_tokens
      const output_tokens = Math.max(0, context_tokens - prompt_tokens)
      this.#counted(program, classKey(call), output_tokens, used.cached_tokens)
      entry.context_tokens = context_tokens
      if (sequence !== null) this.#keep(program, context_tokens, now_us)
    }
    entry.until_us = now_us + (sequence === null ? 0 : this.#holdUs(entry.context_tokens))
    if (entry.open.size === 0 && entry.until_us <= now_us) this.#in.delete(program)
  }

  /** Programs whose time is over lose their places. */
  expire(now_us: number): void {
    if (this.#limits().kv_tokens === null && this.#in.size <= PROGRAMS_KEPT_MAX) return
    for (const [program, { open, until_us }] of this.#in) {
      if (open.size === 0 && until_us <= now_us) this.#in.delete(program)
    }
  }

  #holdUs(tokens: number): number {
    const { kv_tokens, slots, prefill_us_per_token } = this.#limits()
    if (kv_tokens === null || prefill_us_per_token === null) return 0
    return Math.min(HOLD_US_MAX, buyUs(tokens, { capacity_tokens: kv_tokens, slots, prefill_us_per_token }))
  }

  #counted(program: string, of_class: string, output_tokens: number, cached_tokens: number | null): void {
    this.#output_tokens += (output_tokens - this.#output_tokens) * OUTPUT_WEIGHT
    if (cached_tokens === null) return
    if (cached_tokens > 0) this.#caches = true
    if (this.#contexts.has(program)) return
    const before = this.#shared.get(of_class)
    this.#shared.delete(of_class)
    // The first program of a class finds nothing, and later ones what it left.
    this.#shared.set(of_class, before === undefined || before === 0 ? cached_tokens : Math.min(before, cached_tokens))
    trim(this.#shared, CLASSES_KEPT_MAX)
  }

  #keep(program: string, tokens: number, at_us: number): void {
    this.#contexts.delete(program)
    this.#contexts.set(program, { tokens, at_us })
    trim(this.#contexts, PROGRAMS_KEPT_MAX)
  }

  #tokensOf({ prompt_tokens, output_tokens_max }: CallSize): number {
    return prompt_tokens + Math.min(output_tokens_max, Math.ceil(this.#output_tokens))
  }
}

function classKey({ tenant, class: name }: OrderedCall): string {
  return `${tenant}\0${name}`
}

/** Where the server caches prefixes, calls of one program share its last context. */
function footprint({ open, context_tokens }: InProgram, caches: boolean): number {
  const shared = caches ? context_tokens : 0
  let tokens = shared
  for (const of_call of open.values()) tokens += Math.max(0, of_call - shared)
  return Math.max(tokens, context_tokens)
}

function trim(map: Map<string, unknown>, entries_max: number): void {
  for (const oldest of map.keys()) {
    if (map.size <= entries_max) return
    map.delete(oldest)
  }
}
