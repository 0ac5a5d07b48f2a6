/** One context of a program whose tool runs, as tool-contexts.ts keeps it, and which of two is needed or due first. Plain data. */
import type { HeapNode } from '../../order/heap.ts'
import type { ScheduledCall } from '../../scheduled-call.ts'
import type { Image } from '../image-store.ts'
import type { Slot } from '../kv-cache.ts'
import type { Handling, Waste } from './waste.ts'

/** What is done with a context when its time comes. */
export type Next = 'revise' | 'swap' | 'prefetch' | 'forget'

export interface ToolContext extends HeapNode {
  readonly program: string
  /** The call that left it. */
  readonly call: ScheduledCall
  readonly tokens: number
  /** As decided when its call ended. */
  readonly decided: Handling
  readonly waste: Waste
  readonly since_us: number
  /** Of the tool. */
  readonly expected_us: number
  readonly number: number
  /** Where it is pinned. Null: it is not. */
  slot: Slot<ScheduledCall> | null
  image: Image | null
  next: Next
  due_us: number
}

/** For how long it is expected to be away still. What is overdue is expected to last as long again as it has lasted. */
export function leftUs({ since_us, expected_us }: ToolContext, now_us: number): number {
  const away_us = now_us - since_us
  return away_us <= expected_us ? expected_us - away_us : away_us
}

export function isNeededBefore(a: ToolContext, b: ToolContext, now_us: number): boolean {
  const [a_us, b_us] = [leftUs(a, now_us), leftUs(b, now_us)]
  return a_us === b_us ? a.number < b.number : a_us < b_us
}

export function isDueBefore(a: ToolContext, b: ToolContext): boolean {
  return a.due_us < b.due_us || (a.due_us === b.due_us && a.number < b.number)
}

/** Tokens of the contexts of `of`'s tenant, or of all if it is left out, for each unit of the tenant's weight. */
export function heldFor(contexts: readonly ToolContext[], of: ToolContext | null = null): number {
  let held_tokens = 0
  for (const { call, tokens } of contexts)
    if (of === null || call.call.tenant === of.call.call.tenant) held_tokens += tokens / call.call.tenant_weight
  return held_tokens
}

/** Of the tenant whose contexts take most for its weight, the one that is needed last. Null: there is none. */
export function lastNeeded(contexts: readonly ToolContext[], now_us: number): ToolContext | null {
  const [first, ...others] = contexts
  if (first === undefined) return null
  const { tenant } = first.call.call
  if (others.every(({ call }) => call.call.tenant === tenant)) return lastOf(contexts, now_us)
  const tenants = [...Map.groupBy(contexts, ({ call }) => call.call.tenant).values()]
  return lastOf(
    tenants.reduce((most, one) => (heldFor(one) > heldFor(most) ? one : most)),
    now_us,
  )
}

function lastOf(contexts: readonly ToolContext[], now_us: number): ToolContext | null {
  let last: ToolContext | null = null
  for (const context of contexts) if (last === null || isNeededBefore(last, context, now_us)) last = context
  return last
}
