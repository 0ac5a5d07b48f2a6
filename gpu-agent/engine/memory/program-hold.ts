/**
 * Keeps the context of a program whose tool runs from being evicted for a call that can wait.
 *
 * Between two calls of a program no open call needs its context. Without a hold, the next call that waits for room takes it,
 * and the program computes it again when it comes back. If more programs are open than KV holds, every context is lost
 * before its next call, and the engine computes prompts instead of tokens. So a call that needs the blocks or the slot of
 * such a context waits, if its program runs before the call: until the program is back, or has been away for as long as
 * holding pays (hold-time.ts). Once the program is back, its context is kept as that of any waiting call (rank-retention.ts).
 *
 * A program's place is that of its last call: its next one is expected there. Its context is watched for as long as holding
 * could pay, whether or not it is held, so that the time to hold is known of each class (return-times.ts). A context counts
 * against calls of its own tenant alone, and classes are the tenant's own, so no tenant's tools delay another.
 * `switchyard_vllm/handling/program_hold.py` is the same for vLLM, held to this one by golden traces.
 */
import { invariant } from '../invariant.ts'
import { Heap, type HeapNode } from '../order/heap.ts'
import type { ScheduledCall } from '../scheduled-call.ts'
import { buyUs, type HoldCosts, type HoldTime } from './hold-time.ts'
import type { PrefillSpeed } from './prefill-speed.ts'
import { AwayPrograms, ReturnTimes } from './return-times.ts'

/** Contexts that are held or watched. Past it, the one whose time ends first is given up. */
export const CONTEXTS_MAX = 1024
/** No context is held or watched for longer. */
export const HOLD_US_MAX = 120_000_000
/** Classes of which return times are known. Past it, the one whose program ended a call longest ago is forgotten. */
export const CLASSES_MAX = 256

/** Since the start, but for `contexts`. `begun` is the sum of `contexts`, `returned`, `given_up` and `expired`. */
export interface HoldCounts {
  /** Held. */
  contexts: number
  begun: number
  /** Whose programs came back in time and found them. */
  returned: number
  /** Of which others took something for want of memory, or that made room for others at CONTEXTS_MAX. */
  given_up: number
  expired: number
  /** Decisions in which a call was held back. */
  held_back: number
}

interface ClassTimes {
  readonly times: ReturnTimes
  /** Its contexts. */
  readonly away: AwayPrograms
}

interface Context extends HeapNode {
  readonly program: string
  readonly tenant: string
  readonly class: ClassTimes
  /** Of the call that left it. */
  readonly lease: string
  readonly since_us: number
  readonly held_until_us: number
  readonly watched_until_us: number
  readonly number: number
  held: boolean
  /** While it was held, others took something of it. */
  lost: boolean
  /** When the first of the two times comes that has not come. */
  due_us: number
}

export class ProgramHold {
  readonly #sizes: Omit<HoldCosts, 'prefill_us_per_token'>
  readonly #speed: PrefillSpeed
  readonly #holdUs: HoldTime
  readonly #contexts = new Map<string, Context>()
  readonly #due = new Heap<Context>(isDueBefore)
  /** By tenant and class, the one whose program ended a call longest ago in front. */
  readonly #classes = new Map<string, ClassTimes>()
  /** Held contexts of each tenant that has any. */
  readonly #of_tenant = new Map<string, number>()
  #number = 0
  readonly #counts = { contexts: 0, begun: 0, returned: 0, given_up: 0, expired: 0, held_back: 0 }

  constructor(sizes: Omit<HoldCosts, 'prefill_us_per_token'>, speed: PrefillSpeed, holdUs: HoldTime) {
    this.#sizes = sizes
    this.#speed = speed
    this.#holdUs = holdUs
  }

  get counts(): HoldCounts {
    return { ...this.#counts }
  }

  /** When `expire` does something. Infinity: never, as things are. */
  get next_expiry_us(): number {
    return this.#due.peek()?.due_us ?? Number.POSITIVE_INFINITY
  }

  /** The idle prefix that `call` left is held. */
  holds({ program, call }: ScheduledCall): boolean {
    const context = this.#contexts.get(program)
    return context?.held === true && context.lease === call.lease
  }

  /** Contexts of the tenant are held. */
  holdsOf(tenant: string): boolean {
    return this.#of_tenant.has(tenant)
  }

  /** `call` was answered, `tokens` of it stay in its slot, and no call of its program is open. */
  ended({ call, program }: ScheduledCall, tokens: number, now_us: number): void {
    this.expire(now_us)
    const { us_per_token } = this.#speed
    // A call without a sequence is a program of its own, which does not come back.
    if (call.sequence === null || us_per_token === null) return
    invariant(!this.#contexts.has(program), 'a program whose call ended was told to have come back')
    const buy_us = Math.min(buyUs(tokens, { ...this.#sizes, prefill_us_per_token: us_per_token }), HOLD_US_MAX)
    const of_class = this.#classOf(call.tenant, call.class)
    const usual_us = () => of_class.times.bestUs(buy_us, of_class.away, now_us)
    const hold_us = Math.round(Math.min(this.#holdUs({ call, tokens }, buy_us, usual_us), HOLD_US_MAX))
    const first = this.#due.peek()
    if (first !== undefined && this.#contexts.size >= CONTEXTS_MAX) this.#drop(first)
    this.#add({
      ...{ program, tenant: call.tenant, class: of_class, lease: call.lease, since_us: now_us },
      held_until_us: now_us + hold_us,
      watched_until_us: now_us + Math.max(hold_us, Math.round(buy_us)),
      ...{ number: this.#number++, held: hold_us > 0, lost: false, due_us: 0, heap_index: -1 },
    })
  }

  /** A call of the program has come. */
  arrived({ program }: ScheduledCall, now_us: number): void {
    this.expire(now_us)
    const context = this.#contexts.get(program)
    if (context === undefined) return
    this.#letGo(context, 'returned')
    this.#drop(context)
    context.class.times.seen(now_us - context.since_us, true)
  }

  /** Lets go of the contexts whose time is over. */
  expire(now_us: number): void {
    for (let first = this.#due.peek(); first !== undefined && first.due_us <= now_us; first = this.#due.peek()) {
      if (first.held) {
        this.#letGo(first, 'expired')
        first.due_us = first.watched_until_us
        this.#due.update(first)
      } else {
        this.#drop(first)
        first.class.times.seen(first.watched_until_us - first.since_us, false)
      }
    }
  }

  /** Something of the prefix that `call` left was taken. */
  lost(call: ScheduledCall): void {
    const context = this.#contexts.get(call.program)
    if (context?.held === true && context.lease === call.call.lease) context.lost = true
  }

  /** In this decision a call waits for what is held. */
  heldBack(): void {
    this.#counts.held_back += 1
  }

  #add(context: Context): void {
    const { tenant, held } = context
    context.due_us = held ? context.held_until_us : context.watched_until_us
    this.#contexts.set(context.program, context)
    this.#due.push(context)
    context.class.away.add(context.since_us)
    if (!held) return
    this.#counts.begun += 1
    this.#counts.contexts += 1
    this.#of_tenant.set(tenant, (this.#of_tenant.get(tenant) ?? 0) + 1)
  }

  /** It is not held any more, if it was. */
  #letGo(context: Context, why: 'returned' | 'given_up' | 'expired'): void {
    if (!context.held) return
    const { tenant } = context
    context.held = false
    this.#counts[context.lost ? 'given_up' : why] += 1
    this.#counts.contexts -= 1
    const left = (this.#of_tenant.get(tenant) ?? 0) - 1
    if (left > 0) this.#of_tenant.set(tenant, left)
    else this.#of_tenant.delete(tenant)
  }

  /** It is neither held nor watched any more. */
  #drop(context: Context): void {
    this.#letGo(context, 'given_up')
    this.#contexts.delete(context.program)
    this.#due.remove(context)
    context.class.away.remove(context.since_us)
  }

  #classOf(tenant: string, name: string): ClassTimes {
    const key = JSON.stringify([tenant, name])
    const known = this.#classes.get(key) ?? { times: new ReturnTimes(), away: new AwayPrograms() }
    this.#classes.delete(key)
    this.#classes.set(key, known)
    if (this.#classes.size > CLASSES_MAX) {
      const [oldest] = this.#classes.keys()
      this.#classes.delete(oldest as string)
    }
    return known
  }
}

function isDueBefore(a: Context, b: Context): boolean {
  return a.due_us < b.due_us || (a.due_us === b.due_us && a.number < b.number)
}
