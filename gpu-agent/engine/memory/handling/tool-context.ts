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
