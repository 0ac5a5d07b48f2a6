import { describe, expect, it } from 'vitest'
import type { EngineMemory } from '../../order/policy.ts'
import { forecastOf } from '../../testing/forecasts.ts'
import { BLOCK, PlacedEngine } from '../../testing/placed-engine.ts'
import type { SwapConfig } from '../image-store.ts'
import { IMAGE_US_MAX, PINNED_SHARE_MAX, PREFETCH_STEPS, REVISE_US_MIN } from './tool-contexts.ts'
import { HANDLINGS, type HandlingRule, PRESERVE_US_MAX } from './waste.ts'

const STEP_US = 1_000
/** A context alone in its batch is preserved for tools of up to 20 µs a token, and swapped for longer ones. */
const MEMORY: EngineMemory = {
  costs: {
    forward: { base_us: 0, free_tokens: 0, per_token_us: 100, per_pair_us: 0 },
    swap: { base_us: 0, free_tokens: 0, per_token_us: 10, per_pair_us: 0 },
    kv_bytes_per_token: 1_000,
  },
  step_us: STEP_US,
  other_tokens: 0,
}
const SWAP: SwapConfig = {
  costs: { save_us_per_token: 10, restore_us_per_token: 10, base_us: 0 },
  recompute_us_per_token: 100,
  image_tokens_max: 1_000,
}
const SHORT_US = 500
const LONG_US = 1_000_000
const BLOCKS = 5
const MOVE_US = 10 * BLOCKS * BLOCK

function engineWith(rule: Partial<HandlingRule> = {}, swap: SwapConfig | null = SWAP, slots = 6): PlacedEngine {
  const handling = { allowed: HANDLINGS, hidden_swaps: false, revises: true, pins: 'relieved' as const, ...rule }
  return new PlacedEngine({ handling, memory: MEMORY, swap, slots })
}

/** A program whose call ends in a tool. */
function toTool(engine: PlacedEngine, program: string, tool_us: number, blocks = BLOCKS): void {
  engine.forecast = forecastOf(1, tool_us)
  engine.answer(program, blocks)
}

const operationsOf = ({ placement }: PlacedEngine) => placement.kv.takeOperations().map(({ op }) => op)

describe('a context whose tool runs', () => {
  it('stays if the tool is short', () => {
    const engine = engineWith()
    toTool(engine, 'a', SHORT_US)
    engine.leave('b', 10)
    expect(engine.placement.kv.idle_blocks).toBe(BLOCKS + 10)
    expect(engine.resident('a')).toBe(BLOCKS)
    expect(engine.placement.tools).toMatchObject({ preserve: { decided: 1, returned: 1 }, away: 0 })
  })

  it("is saved if the tool is long, and is the next call's when it comes", () => {
    const engine = engineWith()
    toTool(engine, 'a', LONG_US)
    expect(engine.placement.kv.free_blocks).toBe(20)
    expect(operationsOf(engine)).toEqual(['save'])
    const next = engine.open('a', BLOCKS + 2)
    expect(next.image).toMatchObject({ tokens: BLOCKS * BLOCK })
    expect(engine.place(next)).toBe(true)
    expect(next.computed_tokens).toBe(BLOCKS * BLOCK)
    expect(operationsOf(engine)).toEqual(['restore', 'drop_image'])
  })

  it('is dropped where it cannot be moved, and its blocks are free at once', () => {
    const engine = engineWith({}, null)
    toTool(engine, 'a', LONG_US)
    expect(engine.placement.kv.free_blocks).toBe(20)
    expect(operationsOf(engine)).toEqual(['truncate'])
    expect(engine.resident('a')).toBe(0)
    expect(engine.placement.tools.discard).toMatchObject({ decided: 1, returned: 1 })
  })

  it('is what any prefix is if the program is expected to end, or has no place among programs', () => {
    const engine = engineWith()
    engine.forecast = forecastOf(1, null)
    engine.answer('a', BLOCKS)
    expect(engine.placement.kv.idle_blocks).toBe(BLOCKS)
    expect(engine.placement.tools).toMatchObject({ away: 0, preserve: { decided: 0 } })
  })

  it('is preserved at first if nothing is known of the tool', () => {
    const engine = engineWith()
    engine.answer('a', BLOCKS)
    expect(engine.placement.tools.preserve.decided).toBe(1)
    expect(engine.placement.held_until_us).toBe(REVISE_US_MIN)
  })

  it('leaves nothing behind when its program goes on elsewhere: neither its blocks nor its image', () => {
    for (const tool_us of [SHORT_US, LONG_US]) {
      const engine = engineWith()
      toTool(engine, 'a', tool_us)
      toTool(engine, 'b', SHORT_US)
      engine.placement.discard('program of nobody', 0)
      expect(engine.placement.tools).toMatchObject({ away: 2, expired: 0 })
      operationsOf(engine)
      engine.placement.discard('a', 0)
      expect(operationsOf(engine)).toEqual([tool_us === SHORT_US ? 'truncate' : 'drop_image'])
      expect(engine.placement.kv.free_blocks).toBe(20 - BLOCKS)
      expect(engine.placement.tools).toMatchObject({ away: 1, expired: 1 })
      expect(engine.resident('b')).toBe(BLOCKS)
    }
  })

  it('is moved out of its slot before a call of another program overwrites it', () => {
    const engine = engineWith({}, SWAP, 2)
    toTool(engine, 'a', SHORT_US)
    engine.run(engine.open('b', 2))
    operationsOf(engine)
    expect(engine.place(engine.open('c', 2))).toBe(true)
    expect(operationsOf(engine)).toEqual(['save'])
    expect(engine.placement.tools).toMatchObject({ relieved: 1, away: 1 })
    const next = engine.open('a', BLOCKS + 1)
    expect(next.image).toMatchObject({ tokens: BLOCKS * BLOCK })
  })

  it('is not overwritten for what its blocks share with other calls while another slot is spare', () => {
    const engine = engineWith({}, SWAP, 4)
    toTool(engine, 'x', SHORT_US)
    engine.leave('spare', 2)
    engine.run(engine.open('y', 1))
    // It begins as the context does, and shares all but its last block.
    engine.run(engine.open('x, another', BLOCKS + 1))
    expect(operationsOf(engine)).toContain('copy')
    const third = engine.open('x, a third', BLOCKS + 1)
    expect(engine.place(third)).toBe(true)
    expect(operationsOf(engine)).toEqual(['truncate', 'copy'])
    expect(engine.placement.tools).toMatchObject({ relieved: 0, away: 1 })
    const kept = engine.placement.kv.slots.filter(({ prefix }) => prefix?.program === 'x')
    expect(kept.map(({ resident_tokens }) => resident_tokens)).toEqual([BLOCKS * BLOCK])
  })

  it('is moved out before a call overwrites it that first evicts others for its blocks', () => {
    const engine = engineWith({}, SWAP, 2)
    toTool(engine, 'a', SHORT_US, 3)
    const running = engine.run(engine.open('b', 12, 1))
    running.order.seated = false
    operationsOf(engine)
    const large = engine.open('c', 18)
    large.started = true
    expect(engine.place(large)).toBe(true)
    expect(operationsOf(engine)).toContain('save')
    expect(engine.placement.tools).toMatchObject({ away: 1 })
    const next = engine.open('a', 4)
    expect(next.image).toMatchObject({ tokens: 3 * BLOCK })
  })

  it('comes back into the slot of a prefix that no call waits for', () => {
    const engine = engineWith({}, SWAP, 2)
    toTool(engine, 'a', LONG_US)
    engine.leave('b', 1)
    engine.leave('c', 1)
    operationsOf(engine)
    engine.placement.begin(LONG_US - 1)
    expect(operationsOf(engine)).toEqual(['truncate', 'restore'])
    expect(engine.placement.tools.prefetched).toBe(1)
  })

  it('is given back up to the part with which the next prompt begins', () => {
    const engine = engineWith()
    toTool(engine, 'a', LONG_US)
    operationsOf(engine)
    const next = engine.open('a', BLOCKS)
    expect(engine.place(next)).toBe(true)
    // The last token is computed again, since it is the one that samples.
    expect(next.computed_tokens).toBe(BLOCKS * BLOCK - 1)
    expect(operationsOf(engine)).toEqual(['restore', 'truncate', 'drop_image'])
  })
})

describe('images of programs', () => {
  it('have no more tokens than the store: what does not fit is handled as wastes least otherwise', () => {
    const at = engineWith({}, { ...SWAP, image_tokens_max: BLOCKS * BLOCK })
    toTool(at, 'a', LONG_US)
    expect(operationsOf(at)).toEqual(['save'])
    const past = engineWith({}, { ...SWAP, image_tokens_max: BLOCKS * BLOCK - 1 })
    toTool(past, 'a', LONG_US)
    expect(operationsOf(past)).toEqual(['truncate'])
  })

  it('are put back shortly before the tool is expected to return, and not while a call waits for room', () => {
    const engine = engineWith()
    toTool(engine, 'a', LONG_US)
    const back_us = LONG_US - PREFETCH_STEPS * STEP_US - MOVE_US
    expect(engine.placement.held_until_us).toBe(back_us)
    engine.placement.begin(back_us - 1)
    expect(engine.placement.kv.free_blocks).toBe(20)
    engine.placement.begin(back_us)
    expect(engine.placement.kv.idle_blocks).toBe(BLOCKS)
    expect(operationsOf(engine)).toEqual(['save', 'restore'])
    engine.now_us = LONG_US
    expect(engine.resident('a')).toBe(BLOCKS)
    expect(operationsOf(engine)).toEqual(['drop_image'])
    expect(engine.placement.tools).toMatchObject({ prefetched: 1, swap: { returned: 1 } })
  })

  it('are taken out again at no cost if the program does not come', () => {
    const engine = engineWith()
    toTool(engine, 'a', LONG_US)
    engine.placement.begin(LONG_US - 1)
    expect(operationsOf(engine)).toEqual(['save', 'restore'])
    engine.placement.begin(3 * LONG_US)
    expect(operationsOf(engine)).toEqual(['truncate'])
    expect(engine.placement.kv.free_blocks).toBe(20)
    expect(engine.resident('a')).toBe(BLOCKS)
  })

  it('are dropped after IMAGE_US_MAX', () => {
    const engine = engineWith()
    toTool(engine, 'a', 2 * IMAGE_US_MAX)
    engine.placement.begin(IMAGE_US_MAX - 1)
    expect(engine.placement.tools.away).toBe(1)
    engine.placement.begin(IMAGE_US_MAX)
    expect(engine.placement.tools).toMatchObject({ away: 0, expired: 1 })
    expect(operationsOf(engine)).toContain('drop_image')
  })

  it('are moved one after another where moving hides under the steps', () => {
    const engine = engineWith({ hidden_swaps: true })
    for (const program of ['a', 'b', 'c']) toTool(engine, program, LONG_US, 2)
    // Each step opens one; what was moved since it began counts.
    engine.placement.begin(1)
    expect(operationsOf(engine)).toEqual(['save', 'save', 'save'])
    const many = engineWith({ hidden_swaps: true })
    for (const program of ['a', 'b', 'c']) {
      many.forecast = forecastOf(1, LONG_US)
      many.close(many.run(many.open(program, 6)), true)
    }
    expect(many.placement.tools.swap.decided).toBe(3)
  })
})

describe('a pin', () => {
  it('never keeps a call from its room: the context that is needed last goes first', () => {
    const engine = engineWith({ allowed: ['preserve'] })
    toTool(engine, 'a', 300)
    toTool(engine, 'b', 700)
    toTool(engine, 'c', 500)
    expect(engine.place(engine.open('z', 10))).toBe(true)
    expect(engine.placement.tools.relieved).toBe(1)
    expect(engine.resident('a')).toBe(BLOCKS)
    expect(engine.resident('c')).toBe(BLOCKS)
    expect(engine.resident('b')).toBeLessThan(BLOCKS)
  })

  it('ends for any call, be it the last in order and of another tenant', () => {
    const engine = engineWith({ allowed: ['preserve'] })
    toTool(engine, 'a', SHORT_US)
    expect(engine.place(engine.open('z', 20, 99, 'other'))).toBe(true)
  })

  it('is saved, where that pays, before its room is given away', () => {
    const engine = engineWith()
    toTool(engine, 'a', SHORT_US)
    expect(engine.place(engine.open('z', 18))).toBe(true)
    expect(operationsOf(engine)).toEqual(['save'])
    expect(engine.open('a', BLOCKS + 1).image).toMatchObject({ tokens: BLOCKS * BLOCK })
  })

  it('ends after PRESERVE_US_MAX, however it was decided', () => {
    const engine = engineWith({ allowed: ['preserve'], revises: false })
    toTool(engine, 'a', SHORT_US)
    engine.placement.begin(PRESERVE_US_MAX - 1)
    expect(engine.placement.kv.idle_blocks).toBe(BLOCKS)
    engine.placement.begin(PRESERVE_US_MAX)
    expect(engine.placement.kv.free_blocks).toBe(20)
  })

  it('is decided again when the tool exceeds its forecast', () => {
    const engine = engineWith()
    toTool(engine, 'a', SHORT_US)
    engine.placement.begin(REVISE_US_MIN - 1)
    expect(operationsOf(engine)).toEqual([])
    engine.placement.begin(REVISE_US_MIN)
    expect(operationsOf(engine)).toEqual(['save'])
    expect(engine.placement.tools.revised).toBe(1)
  })

  it('has, with all others, at most its share of the blocks', () => {
    const engine = engineWith({ allowed: ['preserve'] })
    for (const program of ['a', 'b', 'c']) toTool(engine, program, SHORT_US)
    expect(engine.placement.tools.relieved).toBe(0)
    toTool(engine, 'd', SHORT_US)
    expect(4 * BLOCKS).toBeGreaterThan(PINNED_SHARE_MAX * 20)
    expect(engine.placement.tools.relieved).toBe(1)
  })

  it('that is firm is waited for, until its program is back or its time is over', () => {
    const engine = engineWith({ allowed: ['preserve'], pins: 'firm', revises: false })
    toTool(engine, 'a', SHORT_US)
    const newcomer = engine.open('z', 16)
    expect(engine.place(newcomer)).toBe(false)
    expect(engine.placement.force(newcomer, 1_000_000)).toBe(false)
    engine.now_us = PRESERVE_US_MAX
    expect(engine.place(newcomer)).toBe(true)
  })
})

describe('a clock that jumps', () => {
  const DAY_US = 86_400_000_000
  /** What one step decides may come due with the next. */
  const stepsAt = (engine: PlacedEngine, now_us: number) => {
    engine.now_us = now_us
    for (let step = 0; step < 3; step++) engine.placement.begin(now_us)
  }
  const withBoth = () => {
    const engine = engineWith()
    toTool(engine, 'a', SHORT_US)
    toTool(engine, 'b', LONG_US)
    operationsOf(engine)
    return engine
  }

  it('ahead by a day ends every pin and image, and their programs compute again', () => {
    const engine = withBoth()
    stepsAt(engine, DAY_US)
    expect(engine.placement.kv.free_blocks).toBe(20)
    expect(engine.placement.tools.away).toBe(0)
    expect(engine.open('b', BLOCKS + 1).image).toBeNull()
    expect(engine.resident('a')).toBe(0)
  })

  it('back keeps what is there for as long as it lasts by the clock, and gives its room to who asks', () => {
    const engine = withBoth()
    stepsAt(engine, -DAY_US)
    expect(engine.placement.tools.away).toBe(2)
    expect(engine.place(engine.open('z', 20))).toBe(true)
    stepsAt(engine, IMAGE_US_MAX)
    expect(engine.placement.tools.away).toBe(0)
  })
})

describe('a call that begins', () => {
  it('waits for free room, and those that have theirs go on meanwhile', () => {
    const engine = engineWith()
    const holder = engine.run(engine.open('a', 12, 5))
    const beginner = engine.open('z', 10, 0)
    expect(engine.place(beginner)).toBe(false)
    expect(holder.slot).not.toBeNull()
    engine.close(holder)
    expect(engine.place(beginner)).toBe(true)
  })

  it('takes nothing that is kept for an open call', () => {
    const engine = engineWith()
    toTool(engine, 'a', SHORT_US, 12)
    const back = engine.open('a', 13, 5)
    expect(engine.place(engine.open('z', 10, 0))).toBe(false)
    expect(engine.place(back)).toBe(true)
  })
})

describe('a tenant that lies about its tools', () => {
  /** Programs of `liar` say that their tools return at once. The one of `honest` says that its tool takes a while. */
  function withLiar(slots: number, swap: SwapConfig | null): PlacedEngine {
    const engine = new PlacedEngine({ capacity_blocks: 20, slots, handling: PRESERVE, memory: MEMORY, swap })
    engine.forecast = forecastOf(1, 1)
    for (const program of ['a', 'b', 'c']) engine.answer(program, 4, 0, 'liar')
    engine.forecast = forecastOf(1, LONG_US)
    engine.answer('h', 4, 0, 'honest')
    return engine
  }
  const PRESERVE = { allowed: ['preserve'], hidden_swaps: false, revises: false, pins: 'relieved' } as const

  it('loses its own pins before another tenant loses one, and so with slots', () => {
    const engine = withLiar(6, null)
    engine.run(engine.open('x', 12, 0, 'third'))
    expect(engine.placement.tools.relieved).toBe(2)
    expect(engine.resident('h', 'honest')).toBe(4)
    const few = withLiar(4, null)
    few.run(few.open('x', 1, 0, 'third'))
    expect(few.resident('h', 'honest')).toBe(4)
  })

  it('has its own images dropped for others, and gets no room from a tenant that has less', () => {
    const room = { ...SWAP, image_tokens_max: 3 * 4 * BLOCK }
    const handling = { ...PRESERVE, allowed: ['swap'] as const }
    const engine = new PlacedEngine({ capacity_blocks: 20, handling, memory: MEMORY, swap: room })
    engine.forecast = forecastOf(1, 1)
    for (const program of ['a', 'b', 'c']) engine.answer(program, 4, 0, 'liar')
    engine.forecast = forecastOf(1, LONG_US)
    engine.answer('h', 4, 0, 'honest')
    expect(engine.placement.tools).toMatchObject({ displaced: 1, swap: { decided: 4 } })
    engine.forecast = forecastOf(1, 1)
    engine.answer('d', 4, 0, 'liar')
    expect(engine.open('h', 5, 0, 'honest').image).toMatchObject({ tokens: 4 * BLOCK })
  })
})
