/** Over random contexts of several tenants: what a hold may and may not do to those who come. */
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { BLOCK, PlacedEngine } from '../testing/placed-engine.ts'

const CAPACITY_BLOCKS = 24
const HOLD_US = 1000

const commands = fc.array(
  fc.record({
    program: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
    blocks: fc.integer({ min: 2, max: 9 }),
    rank: fc.nat(4),
    after_us: fc.constantFrom(0, 0, 100, HOLD_US),
  }),
  { maxLength: 30 },
)
const sizes = fc.record({ slots: fc.integer({ min: 2, max: 6 }), other: fc.boolean() })

/** Each program's calls come one after another; a program of even letter is of tenant 1. */
function tenantOf(program: string): string {
  return `tenant ${program.charCodeAt(0) % 2}`
}

it('never keeps a call of another tenant, or the only call, from advancing, and counts each context once', () => {
  let held_back = 0
  let returned = 0
  fc.assert(
    fc.property(commands, sizes, (list, { slots, other }) => {
      const engine = new PlacedEngine({ capacity_blocks: CAPACITY_BLOCKS, slots, hold_us: HOLD_US })
      for (const { program, blocks, rank, after_us } of list) {
        engine.now_us += after_us
        const call = engine.open(program, blocks, rank, tenantOf(program))
        if (!engine.place(call)) {
          // Nothing else runs, so only what is held can be in its way.
          expect(engine.placement.holds.contexts).toBeGreaterThan(0)
          engine.placement.force(call, 1_000_000)
        }
        expect(call.slot).not.toBeNull()
        engine.placement.computed(call, call.prompt.length)
        engine.close(call, true)
        const { contexts, begun, returned: back, given_up, expired } = engine.placement.holds
        expect(contexts).toBeLessThanOrEqual(5)
        expect(begun).toBe(contexts + back + given_up + expired)
        const { kv } = engine.placement
        expect(kv.held_blocks).toBe(0)
        expect(kv.free_blocks + kv.idle_blocks).toBe(CAPACITY_BLOCKS)
      }
      ;({ held_back, returned } = sum({ held_back, returned }, engine.placement.holds))
      const { contexts } = engine.placement.holds
      const newcomer = engine.open('z', CAPACITY_BLOCKS, 9, other ? 'another tenant' : tenantOf('a'))
      if (other) expect(engine.place(newcomer)).toBe(true)
      else {
        engine.now_us += HOLD_US
        expect(engine.place(newcomer)).toBe(true)
        expect(engine.placement.holds).toMatchObject({ contexts: 0 })
      }
      const { expired, given_up } = engine.placement.holds
      expect(expired + given_up).toBeGreaterThanOrEqual(other ? 0 : contexts)
      expect(newcomer.known_tokens).toBe(CAPACITY_BLOCKS * BLOCK)
    }),
    // A call is held back in one run of a hundred.
    { numRuns: 3000 },
  )
  expect(held_back).toBeGreaterThan(0)
  expect(returned).toBeGreaterThan(0)
})

function sum(a: { held_back: number; returned: number }, b: { held_back: number; returned: number }) {
  return { held_back: a.held_back + b.held_back, returned: a.returned + b.returned }
}
