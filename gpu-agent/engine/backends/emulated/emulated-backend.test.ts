import { describe, expect, it } from 'vitest'
import { engineCall, testConfig, tokens } from '../../testing/calls.ts'
import type { StepPlan, StepWork } from '../../types.ts'
import { backendContract } from '../backend.contract.ts'
import { EmulatedBackend, EmulatedModel, SLEEP_DEBT_US_MAX, stepDurationUs, withMoves } from './emulated-backend.ts'
import { EMULATED_TOKENS, emulatedContentHash, emulatedToken } from './emulated-tokens.ts'
import { PROFILE_NAMES, PROFILES, TINY } from './profiles/index.ts'

const work = (lease: string, from: number, to: number, samples = true): StepWork => ({
  lease,
  slot: 0,
  from,
  to,
  samples,
})
const planOf = (...list: StepWork[]): StepPlan => ({ step: 0, operations: [], work: list })

describe('stepDurationUs', () => {
  const profile = { ...TINY, base_us: 1000, per_sequence_us: 100, per_kv_token_ns: 500, per_prefill_token_us: 10 }

  it('is base + sequences + KV tokens + prefill tokens; a decode is no prefill', () => {
    expect(stepDurationUs(profile, planOf(work('a', 100, 101)))).toBe(1000 + 100 + 51)
    expect(stepDurationUs(profile, planOf(work('a', 100, 101), work('b', 0, 40, false)))).toBe(1000 + 200 + 71 + 400)
    expect(stepDurationUs(profile, planOf(work('a', 0, 1, false)))).toBe(1000 + 100 + 1 + 10)
  })

  it('hides tokens in the shadow of the weights, decodes included, and charges attention over the context', () => {
    const shadowed = { ...profile, shadow_tokens: 10 }
    const decodes = (n: number) => planOf(...Array.from({ length: n }, (_, i) => work(`${i}`, 0, 1)))
    expect(stepDurationUs(shadowed, decodes(10))).toBe(1000 + 1000 + 5)
    expect(stepDurationUs(shadowed, decodes(11))).toBe(1000 + 1100 + 6 + 10)
    const mixed = planOf(work('a', 0, 1), work('b', 100, 140, false))
    expect(stepDurationUs(shadowed, mixed)).toBe(1000 + 200 + 71 + 31 * 10)
    const paired = { ...profile, per_prefill_pair_ps: 1e6 }
    expect(stepDurationUs(paired, planOf(work('b', 100, 140, false)))).toBe(1000 + 100 + 70 + 400 + 40 * 120)
    expect(stepDurationUs(paired, planOf(work('a', 100, 101)))).toBe(1000 + 100 + 51)
  })

  it('is a whole number with constants that are not', () => {
    const uneven = { ...profile, per_sequence_us: 0.3, per_kv_token_ns: 1.7, per_prefill_token_us: 0.9 }
    expect(Number.isSafeInteger(stepDurationUs(uneven, planOf(work('a', 0, 37, false), work('b', 3, 4))))).toBe(true)
  })

  it('adds what the step saves and restores; copies and what is forgotten take no time', () => {
    const plan = planOf(work('a', 100, 101))
    const swap_costs = { save_us_per_token: 2, restore_us_per_token: 3, base_us: 20 }
    const operations = [
      { op: 'save' as const, slot: 0, image: 0, tokens: 50 },
      { op: 'restore' as const, slot: 0, image: 1, tokens: 10 },
      { op: 'drop_image' as const, image: 1 },
      { op: 'copy' as const, from: 1, slot: 2, tokens: 100 },
      { op: 'truncate' as const, slot: 3, tokens: 0 },
    ]
    const before_us = stepDurationUs({ ...profile, swap_costs }, plan)
    const swapping = { ...plan, operations }
    expect(stepDurationUs({ ...profile, swap_costs }, swapping)).toBe(before_us + 20 + 100 + 20 + 30)
    const { moved_us } = withMoves({ sampled: new Map() }, { ...profile, swap_costs }, swapping)
    expect(moved_us).toEqual(
      new Map([
        [0, 120],
        [1, 50],
      ]),
    )
  })
})

describe('profiles', () => {
  it.each(PROFILE_NAMES)(
    '%s is a configuration that a scheduler takes, with integer times and its provenance',
    (name) => {
      const profile = PROFILES[name]
      expect(profile.name).toBe(name)
      expect(profile.provenance.length).toBeGreaterThan(20)
      expect(() => testConfig(profile)).not.toThrow()
      const times = [profile.base_us, profile.per_sequence_us, profile.per_kv_token_ns, profile.per_prefill_token_us]
      for (const time of times) expect(Number.isSafeInteger(time) && time >= 0).toBe(true)
      // One call as long as a slot fits the budget of blocks.
      expect(profile.capacity_blocks * profile.block_tokens).toBeGreaterThanOrEqual(profile.slot_tokens_max)
    },
  )
})

describe('EmulatedModel', () => {
  it('says the same for equal content at equal positions, and something else for other content', () => {
    const say = (lease: string, prompt: number[], sampling = { temperature: 0, top_p: 1, seed: 0 }) => {
      const model = new EmulatedModel()
      model.admit(engineCall({ lease, prompt, sampling }))
      return Array.from({ length: 20 }, (_, index) => {
        const to = prompt.length + index
        return model.step(planOf(work(lease, to - 1, to))).sampled.get(lease)?.token
      })
    }
    const said = say('a', tokens(5))
    expect(say('b', tokens(5))).toEqual(said)
    expect(say('c', tokens(6))).not.toEqual(said)
    expect(say('d', tokens(5), { temperature: 0, top_p: 1, seed: 9 })).toEqual(said)
    expect(say('e', tokens(5), { temperature: 1, top_p: 1, seed: 9 })).not.toEqual(said)
    expect(new Set(said).size).toBeGreaterThan(15)
  })

  it('ends at the length that its option says, else never', () => {
    const model = new EmulatedModel({
      output_tokens: (call) => (call.lease === 'short' ? 2 : Number.POSITIVE_INFINITY),
    })
    for (const lease of ['short', 'long']) model.admit(engineCall({ lease, prompt: tokens(5) }))
    const ends = [5, 6, 7].map((to) => {
      const { sampled } = model.step(planOf(work('short', to - 1, to), work('long', to - 1, to)))
      return [sampled.get('short')?.end, sampled.get('long')?.end]
    })
    expect(ends).toEqual([
      [false, false],
      [false, false],
      [true, false],
    ])
  })

  it('counts what it computes and samples only where the plan says', () => {
    const model = new EmulatedModel()
    model.admit(engineCall({ lease: 'a', prompt: tokens(9) }))
    expect(model.step(planOf(work('a', 0, 4, false))).sampled.size).toBe(0)
    expect(model.step(planOf(work('a', 4, 9))).sampled.size).toBe(1)
    expect(model.evaluatedTokens()).toBe(9)
  })

  it('refuses work of a call that it was not told of', () => {
    const model = new EmulatedModel()
    model.admit(engineCall({ lease: 'a' }))
    model.release('a')
    expect(() => model.step(planOf(work('a', 0, 10)))).toThrow('admitted')
  })
})

describe('emulatedToken', () => {
  it('stays within the ids that text models leave free', () => {
    const hash = emulatedContentHash(tokens(100), 3)
    for (let position = 0; position < 5000; position++) {
      const token = emulatedToken(hash, position)
      expect(Number.isInteger(token) && token >= 0 && token < EMULATED_TOKENS).toBe(true)
    }
  })
})

describe('EmulatedBackend', () => {
  const duration_us = stepDurationUs(TINY, planOf(work('a', 0, 10)))

  function setUp(overshoot_us: number) {
    const time = { us: 0 }
    const slept_us: number[] = []
    const backend = new EmulatedBackend({
      profile: TINY,
      clock: () => time.us,
      sleep: (duration_ms) => {
        slept_us.push(Math.round(duration_ms * 1000))
        time.us += Math.round(duration_ms * 1000) + overshoot_us
        return Promise.resolve()
      },
    })
    backend.admit(engineCall({ lease: 'a' }))
    const run = () => backend.execute(planOf(work('a', 0, 10)))
    return { run, slept_us, time, backend }
  }

  it('sleeps as long as the profile says', async () => {
    const { run, slept_us, backend } = setUp(0)
    expect((await run()).sampled.size).toBe(1)
    expect(slept_us).toEqual([duration_us])
    expect(backend.evaluatedTokens()).toBe(10)
  })

  it('makes up for timers that overshoot, so that many steps last as long as the profile says', async () => {
    const { run, time } = setUp(200)
    for (let index = 0; index < 50; index++) await run()
    expect(time.us).toBe(50 * duration_us + 200)
  })

  it('makes up for timers that fire early, as those do that count whole milliseconds', async () => {
    const { run, time } = setUp(-200)
    for (let index = 0; index < 50; index++) await run()
    expect(time.us).toBe(50 * duration_us - 200)
  })

  it('catches up on a bounded debt only', async () => {
    const { run, slept_us } = setUp(10 * SLEEP_DEBT_US_MAX)
    await run()
    const skipped = Math.floor(SLEEP_DEBT_US_MAX / duration_us)
    for (let index = 0; index < skipped; index++) await run()
    expect(slept_us).toHaveLength(1)
    await run()
    expect(slept_us).toHaveLength(2)
  })
})

backendContract('EmulatedBackend', () =>
  Promise.resolve(new EmulatedBackend({ profile: TINY, clock: () => 0, sleep: () => Promise.resolve() })),
)
