/** What every policy keeps. Each policy's test runs this suite. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { POSITION_CHARS_MAX } from '../../../src/protocol/queue-position.ts'
import { engineCall, testConfig } from '../testing/calls.ts'
import { chargeCall, chargeOf, policyCall } from '../testing/policy-calls.ts'
import { virtualRun } from '../testing/virtual-run.ts'
import type { Policy } from './policy.ts'

const history = fc.record({
  settled_service_us: fc.oneof(fc.constant(0), fc.nat(1e9)),
  open_elsewhere_us: fc.oneof(fc.constant(0), fc.nat(1e7)),
  critical_path_us: fc.nat(1e9),
  program_wait_us: fc.oneof(fc.constant(0), fc.nat(1e9)),
  program_output_tokens: fc.oneof(fc.constant(0), fc.nat(1e4)),
})
const tokens = fc
  .record({
    prompt_tokens: fc.nat(20_000),
    resident: fc.oneof(fc.constant(0), fc.constant(1), fc.double({ min: 0, max: 1, noNaN: true })),
  })
  .map(({ prompt_tokens, resident }) => ({ prompt_tokens, resident_tokens: Math.floor(prompt_tokens * resident) }))
const charges = fc.array(
  fc.record({ gap_us: fc.nat(1e8), wall_us: fc.nat(1e6), charge_us: fc.nat(1e6), output_tokens: fc.nat(8) }),
  { maxLength: 60 },
)

export function policyContract(name: string, create: () => Policy): void {
  describe(`${name} keeps the contract of policies:`, () => {
    it('gives equal calls equal ranks, and ranks that order', () => {
      fc.assert(
        fc.property(history, tokens, fc.nat(1e12), (given, size, now_us) => {
          const place = create().arrive(policyCall({ ...given, ...size }), now_us)
          expect(Number.isNaN(place.rank)).toBe(false)
          const other = policyCall({ ...given, ...size, lease: 'other', tenant: 'other' })
          expect(create().arrive(other, now_us).rank).toBe(place.rank)
        }),
      )
    })

    it('asks to be called no earlier than it said, unless the call moved', () => {
      fc.assert(
        fc.property(history, tokens, charges, (given, size, steps) => {
          const policy = create()
          let now_us = 1000
          const call = policyCall({ ...given, ...size })
          const place = policy.arrive(call, now_us)
          for (const { gap_us, wall_us, charge_us, output_tokens } of steps) {
            const due_us = policy.dueUs(place)
            now_us += gap_us + wall_us
            const moved = chargeCall(policy, call, place, chargeOf(charge_us, wall_us, output_tokens), now_us)
            if (!moved) expect(policy.dueUs(place)).toBeGreaterThanOrEqual(due_us)
            expect(Number.isNaN(place.rank)).toBe(false)
          }
        }),
      )
    })

    it('says in a few words by what a call is ordered, before and after charges', () => {
      fc.assert(
        fc.property(history, tokens, charges, (given, size, steps) => {
          const policy = create()
          let now_us = 1000
          const call = policyCall({ ...given, ...size })
          const place = policy.arrive(call, now_us)
          for (const { gap_us, wall_us, charge_us, output_tokens } of steps) {
            now_us += gap_us + wall_us
            chargeCall(policy, call, place, chargeOf(charge_us, wall_us, output_tokens), now_us)
            if (policy.dueUs(place) <= now_us) policy.due(place, now_us)
          }
          const said = policy.position?.(place) ?? expect.fail('it says nothing')
          expect(said.length).toBeLessThanOrEqual(POSITION_CHARS_MAX)
          expect(said).not.toMatch(/NaN|undefined|Infinity/)
        }),
      )
    })

    it('does not move a call before its time, and asks for a later time once it has', () => {
      fc.assert(
        fc.property(history, tokens, charges, (given, size, steps) => {
          const policy = create()
          let now_us = 1000
          const call = policyCall({ ...given, ...size })
          const place = policy.arrive(call, now_us)
          for (const { gap_us, wall_us, charge_us, output_tokens } of steps) {
            now_us += gap_us + wall_us
            chargeCall(policy, call, place, chargeOf(charge_us, wall_us, output_tokens), now_us)
            const due_us = policy.dueUs(place)
            if (due_us === Number.POSITIVE_INFINITY) continue
            const { rank } = place
            expect(policy.due(place, Math.min(now_us, due_us - 1))).toBe(false)
            expect(place.rank).toBe(rank)
            now_us = Math.max(now_us, due_us)
            if (policy.due(place, now_us)) expect(policy.dueUs(place)).toBeGreaterThan(now_us)
          }
        }),
      )
    })

    it('takes charges below `chargeLeftUs` and `outputTokensLeft` as one summed charge, and moves no call for it', () => {
      fc.assert(
        fc.property(history, tokens, charges, fc.integer({ min: 0, max: 3 }), (given, size, steps, siblings) => {
          const policy = create()
          const at_us = 1000
          const [one, many] = [0, 1].map(() => {
            const call = policyCall({ ...given, ...size })
            const others = Array.from({ length: siblings }, (_, index) =>
              policyCall({ ...given, ...size, lease: `${index}` }, call.program),
            )
            const calls = [call, ...others].map((open) => ({ call: open, place: policy.arrive(open, at_us) }))
            return calls
          }) as [Open[], Open[]]
          const left_us = Math.min(...one.map(({ place }) => policy.chargeLeftUs?.(place) ?? 0))
          const left_tokens = Math.min(...one.map(({ place }) => policy.outputTokensLeft?.(place) ?? Infinity))
          const until_us = at_us + 1e9
          const sums = { wall_us: 0, charge_us: 0, output_tokens: 0 }
          for (const { wall_us, charge_us, output_tokens } of steps) {
            if (sums.charge_us + charge_us >= left_us || sums.output_tokens + output_tokens >= left_tokens) break
            sums.wall_us += wall_us
            sums.charge_us += charge_us
            sums.output_tokens += output_tokens
            for (const { call, place } of many) {
              const charge = chargeOf(charge_us, wall_us, output_tokens)
              expect(chargeCall(policy, call, place, charge, until_us)).toBe(false)
              for (const sibling of many) expect(policy.refresh?.(sibling.place, until_us) ?? false).toBe(false)
            }
          }
          if (sums.charge_us + sums.output_tokens === 0) return
          for (const { call, place } of one) {
            const charge = chargeOf(sums.charge_us, sums.wall_us, sums.output_tokens)
            expect(chargeCall(policy, call, place, charge, until_us)).toBe(false)
          }
          for (const [index, { place }] of one.entries()) {
            const other = many[index]?.place
            expect(place.rank).toBe(other?.rank)
            expect(policy.dueUs(place)).toBe(policy.dueUs(other as never))
          }
        }),
      )
    })

    it('lets no call take a seat from one that runs before it', () => {
      fc.assert(
        fc.property(history, tokens, history, tokens, (one, one_size, two, two_size) => {
          const policy = create()
          const a = policy.arrive(policyCall({ ...one, ...one_size }), 0)
          const b = policy.arrive(policyCall({ ...two, ...two_size }), 0)
          if (a.rank < b.rank) expect(policy.yieldsTo(a, b)).toBe(false)
          if (a.rank === b.rank && policy.ties === 'program') expect(policy.yieldsTo(a, b)).toBe(false)
        }),
      )
    })

    it('lets every call end and keeps every seat busy while calls wait', () => {
      const load = fc.array(
        fc.record({
          at_us: fc.nat(20_000),
          prompt: fc.integer({ min: 1, max: 40 }),
          max_output_tokens: fc.integer({ min: 1, max: 20 }),
          program: fc.integer({ min: 0, max: 5 }),
          history,
        }),
        { minLength: 1, maxLength: 20 },
      )
      fc.assert(
        fc.property(load, fc.integer({ min: 1, max: 4 }), (list, seats) => {
          const events = list.map(({ at_us, prompt, max_output_tokens, program, history: given }, index) => ({
            at_us,
            do: 'submit' as const,
            call: engineCall({
              lease: `${index}`,
              program: `${program}`,
              sequence: [program, program],
              prompt: [index, ...Array(prompt).keys()],
              max_output_tokens,
              ...given,
            }),
          }))
          // Room and tokens for all, so that only seats are scarce.
          const config = testConfig({
            policy: create(),
            seats,
            slots: 32,
            capacity_blocks: 1024,
            max_step_tokens: 1024,
            prefill_chunk_tokens: 1024,
          })
          const run = virtualRun(config, events)
          expect(run.ended.size).toBe(list.length)
          const busy = run.open_calls.map((open_calls) => Math.min(seats, open_calls))
          expect(run.plans.map((plan) => plan.work.length)).toEqual(busy)
        }),
        { numRuns: 50 },
      )
    })
  })
}

interface Open {
  call: ReturnType<typeof policyCall>
  place: ReturnType<Policy['arrive']>
}
