import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { DEFAULT_SERVICE_RATES } from '../../../../../src/core/call/service.ts'
import { ClassSketch } from '../../../../../src/core/classes/class-sketch.ts'
import {
  type IndexStep,
  type IndexTable,
  indexOf,
  indexTable,
  RANKS_PER_OCTAVE,
  rankOf,
  stepAt,
} from '../../../../../src/core/classes/index-table.ts'
import type { Objective } from '../../../../../src/protocol/objective.ts'
import { engineCall, testConfig } from '../../../testing/calls.ts'
import { chargeCall, chargeOf, type Given, policyCall } from '../../../testing/policy-calls.ts'
import { virtualRun } from '../../../testing/virtual-run.ts'
import { policyContract } from '../../policy.contract.ts'
import type { ClassTables } from '../../policy.ts'
import { ProgramSums } from '../../program-table.ts'
import {
  AGE_OCTAVES_MAX,
  AGE_SCALE_MAX,
  AGE_SCALE_MIN,
  LEARNED,
  Learned,
  type LearnedConfig,
  type LearnedPlace,
} from './learned.ts'

/** A class of which many programs have ended, each with one of these numbers of output tokens, in so many calls. */
function tableOf(outputs: readonly number[], calls = 1, objective: Objective = 'token_latency'): IndexTable {
  const sketch = new ClassSketch()
  const program = { calls, path_us: 1, service_us: 1, tool_us: 0, later_prompt_tokens: 0 }
  for (let end = 0; end < 300; end++) {
    sketch.add({ ...program, output_tokens: outputs[end % outputs.length] as number })
  }
  return indexTable(sketch, objective)
}

/** By the name of a class, of every tenant. */
function classes(tables: Readonly<Record<string, IndexTable>>): ClassTables {
  return { tableOf: (_tenant, name) => tables[name] ?? null }
}

function learned(tables: Readonly<Record<string, IndexTable>> = {}, config: Partial<LearnedConfig> = {}): Learned {
  return new Learned({ ...LEARNED.modelled, ...config }, DEFAULT_SERVICE_RATES, classes(tables))
}

const MIXED = tableOf([20, 60, 200, 1500], 6)

policyContract('learned without knowledge', () => learned())
policyContract('learned', () => learned({ class: MIXED }))
policyContract(
  'learned in wall time',
  () => new Learned(LEARNED.wall, DEFAULT_SERVICE_RATES, classes({ class: MIXED })),
)
policyContract('learned for the response time', () =>
  learned({ class: tableOf([20, 60, 200, 1500], 6, 'response') }, { objective: 'response' }),
)
policyContract('learned with ages', () => learned({ class: MIXED }, { age_octaves: 1, age_scale: 0.5 }))

/** One step: an index is 100 tokens, and a token for each prompt token. A token costs 500 us. */
const FLAT: IndexTable = {
  steps: [{ from_tokens: 0, lines: [[100, 1]], remaining_tokens: 100, median_tokens: 100 }],
  prompt_tokens_per_output_token: 0,
  call_tokens: 0,
  call_share: 0,
}

/** The rank of an index of so many tokens of FLAT. */
function flatRank(tokens: number): number {
  return rankOf(tokens * DEFAULT_SERVICE_RATES.decode_us_per_token)
}

function rank(policy: Learned, given: Given): number {
  return policy.arrive(policyCall(given), 0).rank
}

describe('the learned order', () => {
  it('runs a class known to be short before one known to be long, and both by what they have left', () => {
    const policy = learned({ short: tableOf([20]), long: tableOf([2000]) })
    const fresh = (name: string) => rank(policy, { class: name })
    expect(fresh('short')).toBeLessThan(fresh('long'))
    const call = policyCall({ class: 'long' })
    const place = policy.arrive(call, 0)
    chargeCall(policy, call, place, chargeOf(0, 0, 1_990))
    expect(place.rank).toBeLessThan(fresh('long'))
  })

  it('orders a class of which nothing is known by the prior: beyond 200 tokens who has had least runs first', () => {
    const policy = learned({ known: FLAT })
    const ranks = [200, 800, 5_000, 100_000].map((program_output_tokens) =>
      rank(policy, { class: 'unknown', program_output_tokens }),
    )
    expect(ranks).toEqual([...ranks].sort((a, b) => a - b))
    expect(new Set(ranks).size).toBe(ranks.length)
  })

  it('takes a program that weighs twice as much for half as expensive: an octave of ranks', () => {
    const rank = (program_weight: number) =>
      learned({ class: MIXED }).arrive(policyCall({ class: 'class', program_weight }), 0).rank
    for (const weight of [0.25, 0.5, 2, 4]) {
      expect(rank(1) - rank(weight)).toBe(RANKS_PER_OCTAVE * Math.log2(weight))
    }
  })

  it('runs a call whose context is at hand before an equal one whose context is lost', () => {
    const policy = learned({ class: FLAT })
    const size = { prompt_tokens: 4_000, program_output_tokens: 50 }
    const resident = rank(policy, { ...size, resident_tokens: 4_000 })
    const lost = rank(policy, size)
    // 4,000 · 125 us is what 1,000 tokens of output cost. They count one and a half times.
    expect([resident, lost]).toEqual([flatRank(100), flatRank(1_600)])
  })

  it('ranks a call anew when its context leaves memory', () => {
    const policy = learned({ class: FLAT })
    const call = policyCall({ prompt_tokens: 4_000, resident_tokens: 4_000 })
    const place = policy.arrive(call, 0)
    call.resident_tokens = 0
    expect([policy.refresh(place, 0), place.rank]).toEqual([true, flatRank(1_600)])
  })

  it('takes the siblings of a wave for as many tokens as calls of the class have, until they have had them', () => {
    const policy = learned({ class: { ...FLAT, call_tokens: 100, call_share: 1 } })
    const call = policyCall()
    const place = policy.arrive(call, 0)
    expect(place.rank).toBe(flatRank(100 + 100))
    const siblings = ['a', 'b', 'c'].map((lease) => policyCall({ lease }, call.program))
    const others = siblings.map((sibling) => policy.arrive(sibling, 0))
    policy.refresh(place, 0)
    expect([place, ...others].map((one) => one.rank)).toEqual(Array(4).fill(flatRank(100 + 400)))
    for (const [index, sibling] of siblings.entries()) {
      chargeCall(policy, sibling, others[index] as LearnedPlace, chargeOf(0, 0, 130))
    }
    policy.refresh(place, 0)
    expect(place.rank).toBe(flatRank(100 + 10))
    chargeCall(policy, call, place, chargeOf(0, 0, 50))
    expect(place.rank).toBe(flatRank(100))
  })

  it.each([
    [0, 0, 3 * 100],
    [0.25, 25, 3 * 100 + 25],
    [1, 100, 4 * 100],
  ])('counts the last open call for %d of a mean call, and all others in full', (call_share, of_one, of_four) => {
    const policy = learned({ class: { ...FLAT, call_tokens: 100, call_share } })
    const call = policyCall()
    const place = policy.arrive(call, 0)
    expect(place.committed_tokens).toBe(of_one)
    const siblings = ['a', 'b', 'c'].map((lease) => policyCall({ lease }, call.program))
    for (const sibling of siblings) policy.arrive(sibling, 0)
    policy.refresh(place, 0)
    expect([place.committed_tokens, place.rank]).toEqual([of_four, flatRank(100 + of_four)])
    for (const one of [call, ...siblings]) chargeCall(policy, one, place, chargeOf(0, 0, 50))
    expect(place.committed_tokens).toBe(Math.floor(of_four / 2))
  })

  it('holds its rank while its open calls get fewer output tokens than it says are left', () => {
    const tables = fc.record({
      outputs: fc.array(fc.integer({ min: 1, max: 2_000 }), { minLength: 1, maxLength: 4 }),
      call_tokens: fc.double({ min: 0, max: 300, noNaN: true }),
      call_share: fc.oneof(fc.constantFrom(0, 1), fc.double({ min: 0, max: 1, noNaN: true })),
    })
    const sizes = fc.record({ program_output_tokens: fc.nat(3_000), prompt_tokens: fc.nat(4_000) })
    const lengths = fc.array(fc.nat(200), { minLength: 1, maxLength: 4 })
    let longest = 0
    fc.assert(
      fc.property(tables, sizes, lengths, ({ outputs, ...of_calls }, size, had) => {
        const policy = learned({ class: { ...tableOf(outputs), ...of_calls } })
        const program = new ProgramSums('program')
        const calls = had.map((_, index) => policyCall({ ...size, lease: `${index}` }, program))
        const places = calls.map((call) => policy.arrive(call, 0))
        const give = (tokens: readonly number[]) => {
          for (const [index, call] of calls.entries()) {
            chargeCall(policy, call, places[index] as LearnedPlace, chargeOf(0, 0, tokens[index]))
          }
          return places.map((place) => policy.refresh(place, 0) || place.rank)
        }
        give(had)
        const ranks = places.map(({ rank }) => rank)
        const left = Math.min(...places.map((place) => policy.outputTokensLeft(place)), 50)
        expect(left).toBeGreaterThanOrEqual(1)
        longest = Math.max(longest, left)
        for (let step = 1; step < left; step++) expect(give(calls.map(() => 1))).toEqual(ranks)
      }),
      { numRuns: 200 },
    )
    expect(longest).toBe(50)
  })

  it('gives a seat to another program only if that is better by a whole octave', () => {
    const policy = learned({ class: FLAT })
    const at = (tokens: number) => policy.arrive(policyCall({ prompt_tokens: ((tokens - 100) * 8) / 3 }), 0)
    const [best, close, octave] = [at(100), at(2 ** 0.75 * 100), at(200)]
    expect(policy.yieldsTo(close, best)).toBe(false)
    expect(policy.yieldsTo(octave, best)).toBe(true)
    expect(policy.yieldsTo(octave, close)).toBe(false)
  })

  it('orders by the table that was known when the call came', () => {
    const tables: Record<string, IndexTable> = {}
    const policy = learned(tables)
    const early = policyCall({ class: 'short', prompt_tokens: 100 })
    const place = policy.arrive(early, 0)
    const before = place.rank
    tables.short = FLAT
    expect(policy.refresh(place, 0)).toBe(false)
    expect(place.rank).toBe(before)
    expect(rank(policy, { class: 'short', prompt_tokens: 100 })).toBe(flatRank(100 + (1.5 * 100) / 4))
  })

  it('has the rank of the index at every token, though it looks the index up once for each rank', () => {
    const outputs = fc.array(fc.integer({ min: 1, max: 5_000 }), { minLength: 1, maxLength: 4 })
    const sizes = fc.record({ program_output_tokens: fc.nat(3_000), prompt_tokens: fc.nat(20_000) })
    const steps = fc.array(fc.integer({ min: 1, max: 60 }), { maxLength: 40 })
    fc.assert(
      fc.property(outputs, fc.integer({ min: 1, max: 20 }), sizes, steps, (programs, calls, size, tokens) => {
        const table = { ...tableOf(programs, calls), call_share: 1 / calls }
        const policy = learned({ class: table })
        const call = policyCall(size)
        const place = policy.arrive(call, 0)
        const { prefill_us_per_token, decode_us_per_token } = DEFAULT_SERVICE_RATES
        for (const output_tokens of [0, ...tokens]) {
          chargeCall(policy, call, place, chargeOf(0, 0, output_tokens))
          const expected = Math.max(0, Math.floor(table.call_tokens + 0.5) - call.output_tokens)
          const committed = Math.floor(table.call_share * expected)
          const step = table.steps[stepAt(table, call.program.output_tokens + committed)] as IndexStep
          const prompt_tokens = (1.5 * size.prompt_tokens * prefill_us_per_token) / decode_us_per_token + committed
          expect(place.rank).toBe(rankOf(decode_us_per_token * indexOf(step, prompt_tokens)))
        }
      }),
      { numRuns: 50 },
    )
  })

  it.each<[keyof LearnedConfig, number]>([
    ['promotion_ratio', 0],
    ['promotion_ratio', Number.NaN],
    ['promoted_quantum_us', -1],
    ['promoted_quantum_us', Number.NaN],
    ['age_octaves', -1],
    ['age_octaves', 0.5],
    ['age_octaves', AGE_OCTAVES_MAX + 1],
    ['age_scale', AGE_SCALE_MIN / 2],
    ['age_scale', AGE_SCALE_MAX * 2],
    ['age_scale', Number.NaN],
  ])('refuses %s = %d', (name, value) => {
    expect(() => learned({}, { [name]: value })).toThrow(RangeError)
  })

  it('takes its parameters at their bounds', () => {
    for (const age_scale of [AGE_SCALE_MIN, AGE_SCALE_MAX]) {
      const policy = learned({ class: FLAT }, { age_octaves: AGE_OCTAVES_MAX, age_scale })
      const place = policy.arrive(policyCall({ program_wait_us: 1e15 }), 0)
      expect([place.rank, policy.dueUs(place)].every(Number.isFinite)).toBe(true)
    }
  })
})

describe('waiting under the learned order', () => {
  /** What is usual for its class: 100 tokens of 500 us. */
  const USUAL_US = 50_000

  it('halves the index each time that the wait over the usual service, plus 1, grows by an octave', () => {
    const policy = learned({ class: FLAT }, { age_octaves: 1, promotion_ratio: 1e9 })
    const place = policy.arrive(policyCall(), 1000)
    for (const [halvings, wait_us] of [1, 3, 7].map((times, index) => [index + 1, times * USUAL_US] as const)) {
      expect(policy.dueUs(place)).toBe(1000 + wait_us)
      expect(policy.due(place, 1000 + wait_us - 1)).toBe(false)
      expect(policy.due(place, 1000 + wait_us)).toBe(true)
      expect(place.rank).toBe(flatRank(100 / 2 ** halvings))
    }
  })

  it('counts what the program waited before, and not the steps in which the call ran', () => {
    const policy = learned({ class: FLAT }, { age_octaves: 1, promotion_ratio: 1e9 })
    const call = policyCall({ program_wait_us: 10_000 })
    const place = policy.arrive(call, 0)
    chargeCall(policy, call, place, chargeOf(500, 700, 1), 700)
    expect(policy.dueUs(place)).toBe(USUAL_US - 10_000 + 700)
  })

  it('never ages a call by default', () => {
    const policy = learned({ class: FLAT })
    const place = policy.arrive(policyCall(), 0)
    policy.due(place, policy.dueUs(place) - 1)
    expect(place.rank).toBe(flatRank(100))
  })

  it('promotes a call whose program has waited β times what is usual for its class, first until its prompt and its quantum are served, then by its charge', () => {
    const policy = learned({ class: FLAT }, { promotion_ratio: 10, promoted_quantum_us: 700 })
    const call = policyCall({ prompt_tokens: 40 })
    const place = policy.arrive(call, 0)
    const missing_us = 40 * DEFAULT_SERVICE_RATES.prefill_us_per_token
    const promoted_us = 10 * (USUAL_US + missing_us)
    for (let at_us = policy.dueUs(place); at_us < promoted_us; at_us = policy.dueUs(place)) {
      expect([policy.due(place, at_us), at_us]).toEqual([false, place.reads_us - place.read_interval_us])
    }
    expect(policy.dueUs(place)).toBe(promoted_us)
    expect(policy.due(place, promoted_us - 1)).toBe(false)
    expect(policy.due(place, promoted_us)).toBe(true)
    expect([place.rank, policy.dueUs(place)]).toEqual([0, place.reads_us])
    const quantum_us = 700 + missing_us
    expect(policy.chargeLeftUs(place)).toBe(quantum_us)
    expect(chargeCall(policy, call, place, chargeOf(quantum_us - 1))).toBe(false)
    expect([place.rank, policy.chargeLeftUs(place)]).toEqual([0, 1])
    expect(chargeCall(policy, call, place, chargeOf(1))).toBe(true)
    expect([place.rank, place.rank < flatRank(100)]).toEqual([rankOf(1 + quantum_us), true])
    chargeCall(policy, call, place, chargeOf(1e9))
    expect(place.rank).toBe(flatRank(100 + 1.5 * 10))
  })
})

describe('what becomes known while a call waits', () => {
  const first = indexTable(null)
  /** Programs of a class of which nothing is known are expected to take this. */
  const USUAL_US = Math.ceil((first.steps[0] as IndexStep).median_tokens * DEFAULT_SERVICE_RATES.decode_us_per_token)

  it('orders it by the table that its class has after the usual service, then after twice, four times as long and so on', () => {
    const tables: Record<string, IndexTable> = {}
    const policy = learned(tables)
    const place = policy.arrive(policyCall({ class: 'class' }), 1000)
    const before = place.rank
    tables.class = FLAT
    const read_us = [1, 3, 7].map((times) => 1000 + times * USUAL_US)
    expect(policy.due(place, (read_us[0] as number) - 1)).toBe(false)
    expect([place.rank, policy.dueUs(place)]).toEqual([before, read_us[0]])
    expect(policy.due(place, read_us[0] as number)).toBe(true)
    expect([place.rank, policy.dueUs(place)]).toEqual([flatRank(100), read_us[1]])
    expect([policy.due(place, read_us[1] as number), policy.dueUs(place)]).toEqual([false, read_us[2]])
    tables.class = { ...FLAT, prompt_tokens_per_output_token: 4 }
    expect(policy.due(place, read_us[2] as number)).toBe(true)
    expect(place.rank).toBe(rankOf(100 * (500 + 4 * DEFAULT_SERVICE_RATES.prefill_us_per_token)))
  })

  it('keeps what it has had: the new table is read where the program is', () => {
    const tables: Record<string, IndexTable> = {}
    const policy = learned(tables)
    const call = policyCall({ class: 'class', program_output_tokens: 50 })
    const place = policy.arrive(call, 0)
    chargeCall(policy, call, place, chargeOf(0, 0, 150))
    tables.class = MIXED
    policy.due(place, policy.dueUs(place))
    const fresh = policy.arrive(policyCall({ class: 'class', program_output_tokens: 200 }), 0)
    expect([place.table, place.at]).toEqual([MIXED, stepAt(MIXED, 200 + place.committed_tokens)])
    expect(place.rank).toBeLessThanOrEqual(fresh.rank)
  })

  it('does not look again where nothing can become known', () => {
    const policy = new Learned({ ...LEARNED.modelled, promotion_ratio: 1e9 }, DEFAULT_SERVICE_RATES, null)
    const place = policy.arrive(policyCall(), 0)
    expect(policy.dueUs(place)).toBeGreaterThan(1e8 * USUAL_US)
  })

  it('lets a call that lost its context while its class was taken for longer go before newcomers', () => {
    const tables = { class: tableOf([6_000], 6) }
    const policy = learned(tables)
    const program = { class: 'class', program_output_tokens: 600, prompt_tokens: 1_900 }
    const lost = policy.arrive(policyCall(program), 0)
    tables.class = tableOf([1_200], 6)
    const newcomer = () => policy.arrive(policyCall({ class: 'class', prompt_tokens: 1_000 }), 0).rank
    expect(lost.rank).toBeGreaterThan(newcomer())
    policy.due(lost, policy.dueUs(lost))
    expect(lost.rank).toBeLessThanOrEqual(newcomer())
  })
})

describe('learned in the scheduler', () => {
  it('lets a program of a short class pass a long one that runs, and the long one keeps its KV', () => {
    const policy = learned({ short: tableOf([4]), long: tableOf([400]) })
    const call = (name: string, max_output_tokens: number) =>
      engineCall({ lease: name, class: name, max_output_tokens, prompt: [max_output_tokens, 1, 2, 3] })
    const run = virtualRun(testConfig({ policy, seats: 1 }), [
      { at_us: 0, do: 'submit', call: call('long', 40) },
      { at_us: 5_000, do: 'submit', call: call('short', 4) },
    ])
    expect([...run.ended.keys()]).toEqual(['short', 'long'])
    expect(run.ended.get('long')?.measurement.preemptions).toBe(1)
    const computed = run.ledger.filter((row) => row.lease === 'long').reduce((sum, row) => sum + row.computed_tokens, 0)
    expect(computed).toBe(4 + 40 - 1)
  })

  it('promotes a starving call past a steady stream of better ones', () => {
    const tables = { short: tableOf([4]), long: tableOf([40]) }
    const stream = Array.from({ length: 100 }, (_, index) => ({
      at_us: index * 2_000,
      do: 'submit' as const,
      call: engineCall({ lease: `${index}`, class: 'short', max_output_tokens: 4, prompt: [index] }),
    }))
    const waited = { program_wait_us: 350_000 }
    const long = engineCall({ lease: 'long', class: 'long', max_output_tokens: 40, prompt: [1_000], ...waited })
    const endsAfter = (promotion_ratio: number) => {
      const config = testConfig({ policy: learned(tables, { promotion_ratio }), seats: 1 })
      const run = virtualRun(config, [{ at_us: 0, do: 'submit', call: long }, ...stream])
      return [...run.ended.keys()].indexOf('long')
    }
    expect(endsAfter(1e6)).toBe(100)
    expect(endsAfter(20)).toBeGreaterThan(20)
    expect(endsAfter(20)).toBeLessThan(80)
  })
})
