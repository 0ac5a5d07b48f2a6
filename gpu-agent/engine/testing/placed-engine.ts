/** A placement without a scheduler: a test opens, places and ends calls by hand, and says how they rank. */
import type { CallForecast } from '../../../src/core/call/forecast.ts'
import { invariant } from '../invariant.ts'
import type { HandlingRule } from '../memory/handling/waste.ts'
import { ImageStore, type SwapConfig } from '../memory/image-store.ts'
import { Placement } from '../memory/placement.ts'
import { CallState } from '../order/call-state.ts'
import { REFERENCE_MEMORY } from '../order/policy.ts'
import { ProgramSums } from '../order/program-table.ts'
import { TenantQueue } from '../order/tenant-queue.ts'
import { ScheduledCall } from '../scheduled-call.ts'
import { engineCall, tokens } from './calls.ts'

type Tenant = ScheduledCall['order']['tenant']

export const BLOCK = 8

export class PlacedEngine {
  readonly placement: Placement
  now_us = 0
  /** Of the calls that are opened from here on. */
  forecast: CallForecast | undefined
  readonly #tenants = new Map<string, Tenant>()
  #sequence = 0
  #step = 0

  constructor({
    capacity_blocks = 20,
    slots = 6,
    retention = 'rank' as 'rank' | 'lru',
    swap = null as SwapConfig | null,
    hold_us = null as number | null,
    handling = null as HandlingRule | null,
    memory = REFERENCE_MEMORY,
  } = {}) {
    const sizes = { slots, block_tokens: BLOCK, capacity_blocks, prefill_chunk_tokens: 100 }
    const ties = retention === 'rank' ? ('program' as const) : ('call' as const)
    const policy = { retention, ties, ...(handling === null ? {} : { handling, evicts: 'for_started' as const }) }
    const config = { ...sizes, copies_prefixes: true, hold_kv: hold_us !== null, memory, policy }
    this.placement = new Placement(config, new ImageStore(swap), () => hold_us ?? 0)
    this.placement.stepped(100, 1, 1000)
  }

  /** A waiting call, whose tokens begin as all of its program's do. */
  open(program: string, blocks: number, rank = 0, tenant = 'tenant'): ScheduledCall {
    const queue = this.#tenants.get(tenant) ?? new TenantQueue<CallState<ScheduledCall>>(tenant, 1, false)
    this.#tenants.set(tenant, queue)
    const lease = `${program} ${this.#sequence}`
    const prompt = tokens(blocks * BLOCK, program.charCodeAt(0))
    const { forecast } = this
    const known = forecast === undefined ? {} : { forecast }
    const engine_call = engineCall({ lease, tenant, program, prompt, sequence: [1, program.charCodeAt(0)], ...known })
    const call = new ScheduledCall(engine_call, 0)
    const sums = new ProgramSums<CallState<ScheduledCall>>(program)
    call.order = new CallState(engine_call, prompt.length, call, 0, queue, sums, this.#sequence++)
    call.order.place = { rank }
    queue.add(call.order)
    this.placement.arrived(call, this.now_us)
    this.placement.open(call, this.now_us)
    return call
  }

  close(call: ScheduledCall, answered = false): void {
    this.placement.close(call, answered ? this.now_us : null)
    call.order.tenant.remove(call.order)
  }

  place(call: ScheduledCall): boolean {
    this.placement.begin(this.now_us)
    return this.placement.place(call, this.#step++)
  }

  /** All of it computed; it may be evicted. */
  run(call: ScheduledCall): ScheduledCall {
    invariant(this.place(call), 'there is room for the call')
    this.placement.computed(call, call.prompt.length)
    call.settled = true
    return call
  }

  /** A call that came, computed its prompt and went. */
  leave(program: string, blocks: number, tenant = 'tenant'): void {
    this.close(this.run(this.open(program, blocks, 0, tenant)))
  }

  /** One that was answered, and whose program has more to ask. */
  answer(program: string, blocks: number, rank = 0, tenant = 'tenant'): void {
    this.close(this.run(this.open(program, blocks, rank, tenant)), true)
  }

  /** Blocks at hand for the program. Asking counts as its next call. */
  resident(program: string, tenant = 'tenant'): number {
    const probe = this.open(program, 20, Number.MAX_SAFE_INTEGER, tenant)
    const resident_tokens = this.placement.residentTokens(probe)
    this.close(probe)
    return resident_tokens / BLOCK
  }
}
