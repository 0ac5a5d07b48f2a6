/** The remembered best call of each program is the one that a scan of its calls finds, after any events. */
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { TenantShares } from '../../../src/core/pool/tenant-shares.ts'
import { createPolicy, POLICY_NAMES, type PolicyName } from '../order/policies/index.ts'
import { ProgramOrder } from '../order/program-order.ts'
import { runsBefore } from '../order/tenant-queue.ts'
import { ScheduledCall } from '../scheduled-call.ts'
import { engineCall, testConfig, tokens } from '../testing/calls.ts'
import type { Slot } from './kv-cache.ts'
import { RankRetention } from './rank-retention.ts'

const PROGRAMS = 3
const SMALL = { levels: 4, first_quantum_us: 2_000, quantum_ratio: 2, promotion_ratio: 2 }
const SLOT = {} as Slot<ScheduledCall>

const commands = fc.array(
  fc.record({
    do: fc.constantFrom('arrive', 'arrive', 'arrive', 'charge', 'charge', 'end', 'slot', 'resident'),
    which: fc.nat(40),
    amount: fc.integer({ min: 0, max: 30 }),
    after_us: fc.constantFrom(0, 10, 3_000),
  }),
  { maxLength: 60, size: 'max' },
)

function policyOf(name: PolicyName) {
  if (name === 'fcfs' || name === 'fcfs-program') return createPolicy({ name })
  return createPolicy(name === 'rr' ? { name, quantum_us: 2_000, ties: 'program' } : { name, ...SMALL })
}

class World {
  readonly #retention = new RankRetention()
  readonly #order: ProgramOrder<ScheduledCall>
  readonly #open: ScheduledCall[] = []
  readonly #prefixes: ScheduledCall[] = []
  #now_us = 0
  #lease = 0

  constructor(name: PolicyName) {
    this.#order = new ProgramOrder(
      testConfig({ policy: policyOf(name), shares: new TenantShares(), seats: 3, slots: 3 }),
    )
    for (let program = 0; program < PROGRAMS; program++) this.#prefixes.push(this.#call(program))
  }

  do({ do: act, which, amount, after_us }: { do: string; which: number; amount: number; after_us: number }): void {
    this.#now_us += after_us
    this.#order.decide(this.#now_us)
    const call = this.#open[which % Math.max(1, this.#open.length)]
    if (act === 'arrive') this.#arrive(which % PROGRAMS)
    else if (call === undefined) return
    else if (act === 'charge') {
      const work = { uncached_prompt_tokens: amount, cached_prompt_tokens: 0, output_tokens: amount % 3 }
      this.#order.charge(call.order, work, amount * 100, this.#now_us)
      this.#order.settle([call.order], this.#now_us)
    } else if (act === 'resident') this.#order.resident(call.order, amount, this.#now_us)
    else if (act === 'slot') {
      call.slot = call.slot === null ? SLOT : null
      this.#retention.slotChanged(call)
    } else {
      this.#open.splice(this.#open.indexOf(call), 1)
      this.#retention.closed(call)
      this.#order.ended(call.order, this.#now_us)
    }
  }

  check(): void {
    for (const prefix of this.#prefixes) {
      const calls = this.#open.filter(({ program }) => program === prefix.program)
      const scanned = calls.reduce<ScheduledCall | null>((best, call) => (isFirst(call, best) ? call : best), null)
      expect(this.#retention.keptFor(prefix)?.call.lease).toBe(scanned?.call.lease)
    }
  }

  #arrive(program: number): void {
    const call = this.#call(program)
    call.order = this.#order.arrive(call.call, { prompt_tokens: call.prompt.length }, call, this.#now_us)
    this.#retention.opened(call)
    this.#open.push(call)
  }

  #call(program: number): ScheduledCall {
    const lease = `${this.#lease++}`
    const sequence = [1, PROGRAMS - program] as const
    const call = engineCall({ lease, program: `p${program}`, prompt: tokens(20), sequence, max_output_tokens: 50 })
    return new ScheduledCall(call, this.#now_us)
  }
}

function isFirst(a: ScheduledCall, b: ScheduledCall | null): boolean {
  if (b === null) return true
  return (a.slot === null) === (b.slot === null) ? runsBefore(a.order, b.order) : a.slot === null
}

it.each(POLICY_NAMES)('the call for which a prefix is kept, under %s', (name) => {
  fc.assert(
    fc.property(commands, fc.integer({ min: 1, max: 4 }), (list, every) => {
      const world = new World(name)
      for (const [index, command] of list.entries()) {
        world.do(command)
        // Looked up not after every event, so that what is remembered gets old.
        if (index % every === 0) world.check()
      }
      world.check()
    }),
    { numRuns: 60 },
  )
})
