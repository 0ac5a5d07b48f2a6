/** Random claims, growths, releases and evictions, against counts made anew from the tokens that the slots hold. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { KvCache, type KvClaimant, type Slot } from './kv-cache.ts'
import { LEAST_RECENTLY_USED, type Retention } from './retention.ts'

const BLOCK = 8
const CAPACITY = 40
const SLOTS = 6

interface Call extends KvClaimant {
  computed_tokens: number
  output: number[]
  open: boolean
}

const commands = fc.array(
  fc.oneof(
    fc.record({
      do: fc.constant('claim' as const),
      salt: fc.constantFrom('a', 'b'),
      program: fc.nat(3),
      head: fc.nat(60),
      branch: fc.nat(2),
      tail: fc.integer({ min: 1, max: 60 }),
    }),
    fc.record({
      do: fc.constantFrom('compute', 'compute', 'release', 'release', 'evict'),
      which: fc.nat(SLOTS),
      tokens: fc.constantFrom(0, 5, 20, 100),
    }),
  ),
  { maxLength: 60, size: 'max' },
)

/** Programs of odd number have a waiting call. Programs run in the order of their names. */
const BY_PROGRAM: Retention<Call> = {
  keptFor: (prefix) => (Number(prefix.program.at(-1)) % 2 === 1 ? prefix : null),
  outlasts: (kept, other) => kept.program < other.program,
  isPinned: () => false,
  shieldsFrom: () => true,
  isShielded: (kept, newcomer) => kept.cache_salt === newcomer.cache_salt && kept.program < newcomer.program,
}

describe('KvCache over random commands', () => {
  it.each([
    { copies_prefixes: true, kept: 'recent', retention: LEAST_RECENTLY_USED },
    { copies_prefixes: false, kept: 'recent', retention: LEAST_RECENTLY_USED },
    { copies_prefixes: true, kept: 'shielded', retention: BY_PROGRAM },
    { copies_prefixes: false, kept: 'shielded', retention: BY_PROGRAM },
  ])('keeps its counts, its salts and its tokens (copies: $copies_prefixes, $kept prefixes)', (options) => {
    fc.assert(
      fc.property(commands, (list) => {
        const world = new World(options)
        for (const command of list) {
          if (command.do === 'claim') world.claim(command)
          else world.change(command)
          world.check()
        }
      }),
      { numRuns: 400 },
    )
  })
})

/** The slots as a backend has them, told by operations alone, with each token's salt beside it. */
class World {
  readonly #kv: KvCache<Call>
  readonly #copies: boolean
  readonly #slots: string[][] = Array.from({ length: SLOTS }, () => [])
  #fresh = 1e6

  constructor({ copies_prefixes, retention }: { copies_prefixes: boolean; retention: Retention<Call> }) {
    this.#copies = copies_prefixes
    this.#kv = new KvCache<Call>(SLOTS, BLOCK, CAPACITY, { copies_prefixes, retention })
  }

  claim({
    salt,
    program,
    head,
    branch,
    tail,
  }: {
    salt: string
    program: number
    head: number
    branch: number
    tail: number
  }) {
    const prompt = [
      ...Array.from({ length: head }, (_, token) => token),
      ...Array.from({ length: tail }, (_, token) => 1000 * (branch + 1) + token),
    ]
    const call: Call = {
      cache_salt: salt,
      program: `${salt}${program}`,
      prompt,
      output: [],
      computed_tokens: 0,
      open: true,
    }
    const claim = this.#kv.prepare(call, prompt.length)
    const counts = [this.#kv.held_blocks + this.#kv.idle_blocks, this.#kv.free_blocks]
    if (this.#kv.open_slots === 0 || !this.#kv.canComplete(claim)) {
      const could = this.#kv.open_slots > 0 && this.#kv.couldTake(claim, () => true)
      this.#kv.abandon(claim)
      this.#expectRoom(call, could)
      expect([this.#kv.held_blocks + this.#kv.idle_blocks, this.#kv.free_blocks]).toEqual(counts)
      expect(this.#kv.takeOperations()).toEqual([])
      return
    }
    const { slot, kept_tokens } = this.#kv.complete(claim)
    call.computed_tokens = kept_tokens
    this.#apply()
    expect(this.#slots[slot.id]).toEqual(cells(call, kept_tokens))
    expect(kept_tokens).toBeLessThan(prompt.length)
    expect(slot.path.blocks).toBe(this.#kv.blocksFor(prompt.length))
  }

  /** What could be taken if nothing were shielded is what a forced claim takes. */
  #expectRoom(call: Call, could: boolean): void {
    const forced = this.#kv.prepare(call, call.prompt.length, { force: true })
    if (could) expect(this.#kv.canComplete(forced)).toBe(true)
    this.#kv.abandon(forced)
  }

  change({ do: act, which, tokens }: { do: string; which: number; tokens: number }) {
    const held = this.#kv.slots.filter(({ holder }) => holder !== null)
    const slot = held[which % Math.max(1, held.length)]
    const call = slot?.holder
    if (slot === undefined || call === null || call === undefined) return
    if (act === 'compute') this.#compute(slot, call, tokens)
    else if (act === 'release') this.#kv.release(slot, call.computed_tokens)
    else this.#kv.evict(slot, call.computed_tokens)
    this.#apply()
  }

  #compute(slot: Slot<Call>, call: Call, tokens: number): void {
    const known = call.prompt.length + call.output.length
    const computed = Math.min(known, call.computed_tokens + tokens)
    this.#slots[slot.id]?.push(...cells(call, computed).slice(call.computed_tokens))
    call.computed_tokens = computed
    if (computed < known) return
    const before = this.#kv.free_blocks + this.#kv.idle_blocks
    const blocks = this.#kv.blocksFor(known + 1)
    const missing = blocks - slot.path.blocks
    expect(this.#kv.grow(slot, blocks)).toBe(missing <= before)
    if (missing <= before) call.output.push(this.#fresh++)
  }

  #apply(): void {
    for (const operation of this.#kv.takeOperations()) {
      if (operation.op === 'truncate') {
        const cells = this.#slots[operation.slot] as string[]
        expect(operation.tokens).toBeLessThan(cells.length)
        cells.length = operation.tokens
      } else if (operation.op === 'copy') {
        const from = this.#slots[operation.from] as string[]
        expect(this.#slots[operation.slot]).toEqual([])
        expect(from.length).toBeGreaterThanOrEqual(operation.tokens)
        this.#slots[operation.slot] = from.slice(0, operation.tokens)
      } else expect(operation.op).toBe('no other')
    }
  }

  check(): void {
    const kv = this.#kv
    expect(kv.free_blocks + kv.idle_blocks + kv.held_blocks).toBe(CAPACITY)
    let apart = 0
    const distinct = new Set<string>()
    const open = kv.slots.filter(({ holder }) => holder === null)
    expect(kv.open_slots).toBe(open.length)
    for (const slot of kv.slots) {
      const cells = this.#slots[slot.id] as string[]
      if (slot.holder !== null) expect(cells.length).toBe(slot.holder.computed_tokens)
      else expect(cells.length).toBe(slot.resident_tokens)
      if (slot.path.blocks > 0) expect(slot.path.held).toBe(slot.holder !== null)
      if (slot.prefix !== null) expect(slot.path.blocks).toBe(kv.blocksFor(cells.length))
      apart += slot.path.blocks
      for (let end = BLOCK; end <= cells.length; end += BLOCK) distinct.add(cells.slice(0, end).join())
    }
    const used = kv.held_blocks + kv.idle_blocks
    // A block that counts is that of some slot; one that is shared has equal tokens from the start, of one salt.
    expect(used).toBeLessThanOrEqual(apart)
    expect(used).toBeGreaterThanOrEqual(distinct.size)
    if (!this.#copies) expect(used).toBe(apart)
  }
}

function cells({ prompt, output, cache_salt }: Call, count: number): string[] {
  const known = [...Array.from(prompt), ...output]
  return known.slice(0, count).map((token) => `${cache_salt}${token}`)
}
