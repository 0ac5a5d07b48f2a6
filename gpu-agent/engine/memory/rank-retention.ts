/** Keeps idle prefixes in the order of their programs' open calls, or of the calls that left them if they are held (retention.ts). */
import { runsBefore } from '../order/tenant-queue.ts'
import type { ScheduledCall } from '../scheduled-call.ts'
import type { ToolContexts } from './handling/tool-contexts.ts'
import type { ProgramHold } from './program-hold.ts'
import type { Retention } from './retention.ts'

/** What keeps prefixes of programs that have no open call. */
export interface Keepers {
  /** Whose contexts are held. Null: none. */
  hold?: ProgramHold | null
  /** Whose contexts are pinned. Null: none. */
  tools?: () => ToolContexts | null
  /** A call that begins takes nothing that is kept for an open call. */
  beginners_wait?: boolean
}

/** Of one program. */
interface OpenCalls {
  readonly calls: Set<ScheduledCall>
  /** The one that is served first, as of `order_changes`. Null: not known. */
  best: ScheduledCall | null
  order_changes: number
}

/**
 * It is told of the open calls. A scan of a program's calls for each idle prefix would make a decision cost as much as there
 * are open calls. So the best call is remembered until the order moves a call of the program, or one gets or loses a slot.
 */
export class RankRetention implements Retention<ScheduledCall> {
  /** By tenant and program, so bounded by the open calls. */
  readonly #programs = new Map<string, Map<string, OpenCalls>>()
  readonly #hold: ProgramHold | null
  readonly #tools: () => ToolContexts | null
  readonly #beginners_wait: boolean

  constructor({ hold = null, tools = () => null, beginners_wait = false }: Keepers = {}) {
    this.#hold = hold
    this.#tools = tools
    this.#beginners_wait = beginners_wait
  }

  opened(call: ScheduledCall): void {
    const { tenant } = call.call
    const programs = this.#programs.get(tenant) ?? new Map<string, OpenCalls>()
    this.#programs.set(tenant, programs)
    const open = programs.get(call.program)
    if (open === undefined) programs.set(call.program, { calls: new Set([call]), best: null, order_changes: 0 })
    else {
      open.calls.add(call)
      open.best = null
    }
  }

  closed(call: ScheduledCall): void {
    const { tenant } = call.call
    const programs = this.#programs.get(tenant)
    const open = programs?.get(call.program)
    if (programs === undefined || open === undefined) return
    open.calls.delete(call)
    if (open.best === call) open.best = null
    if (open.calls.size > 0) return
    programs.delete(call.program)
    if (programs.size === 0) this.#programs.delete(tenant)
  }

  /** The call got a slot, or lost it. */
  slotChanged(call: ScheduledCall): void {
    const open = this.#openOf(call)
    if (open !== undefined) open.best = null
  }

  /** The call's program has open calls. */
  isOpen(call: ScheduledCall): boolean {
    return this.#openOf(call) !== undefined
  }

  /** Open calls of the call's program. */
  callsOf(call: ScheduledCall): Iterable<ScheduledCall> {
    return this.#openOf(call)?.calls ?? []
  }

  /** The best call among those without a slot, since they will want the prefix. If all have slots, the best of those. */
  keptFor(prefix: ScheduledCall): ScheduledCall | null {
    const open = this.#openOf(prefix)
    if (open === undefined) return this.#hold?.holds(prefix) || this.#tools()?.isPinned(prefix) ? prefix : null
    if (open.best === null || open.best.order.program.order_changes !== open.order_changes) {
      for (const call of open.calls) if (open.best === null || isServedBefore(call, open.best)) open.best = call
      open.order_changes = open.best?.order.program.order_changes ?? 0
    }
    return open.best
  }

  isPinned(prefix: ScheduledCall): boolean {
    return this.#tools()?.isPinned(prefix) ?? false
  }

  /** No tenant's order of its own programs costs another tenant its prefixes. Between tenants, recent use decides. */
  outlasts(kept: ScheduledCall, other: ScheduledCall): boolean | null {
    const tools = this.#tools()
    if (tools !== null && kept !== other) {
      const [pinned, other_pinned] = [tools.isPinned(kept), tools.isPinned(other)]
      // What an open call waits for goes after what is pinned for one that may come.
      if (pinned !== other_pinned) return other_pinned
      if (pinned && kept.call.tenant === other.call.tenant) return tools.returnsBefore(kept, other)
    }
    return kept === other || kept.call.tenant !== other.call.tenant ? null : runsBefore(kept.order, other.order)
  }

  /** A waiting call that runs before the newcomer and has a seat was placed before it, or blocks its tenant for the step. */
  shieldsFrom({ call, order, started }: ScheduledCall): boolean {
    if ((this.#beginners_wait && !started) || this.#tools()?.firm) return true
    const best = order.tenant.unseated.peek()
    return (best !== undefined && runsBefore(best, order)) || (this.#hold?.holdsOf(call.tenant) ?? false)
  }

  isShielded(kept: ScheduledCall, newcomer: ScheduledCall): boolean {
    const tools = this.#tools()
    if (tools?.isPinned(kept)) return tools.firm
    if (kept === newcomer || kept.slot !== null || kept.call.tenant !== newcomer.call.tenant) return false
    return (this.#beginners_wait && !newcomer.started) || runsBefore(kept.order, newcomer.order)
  }

  #openOf({ call, program }: ScheduledCall): OpenCalls | undefined {
    return this.#programs.get(call.tenant)?.get(program)
  }
}

function isServedBefore(a: ScheduledCall, b: ScheduledCall): boolean {
  if ((a.slot === null) !== (b.slot === null)) return a.slot === null
  return runsBefore(a.order, b.order)
}
