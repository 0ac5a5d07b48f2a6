import { describe, expect, it } from 'vitest'
import { TOOL_SITUATIONS_MAX, TOOLS_PER_CLASS_MAX, ToolsData } from '../../protocol/index.ts'
import type { ProgramTurn } from './program-turn.ts'
import { ANY, ENDS, FIRST, named, OTHER, SAME, UNNAMED } from './situation.ts'
import { CANDIDATES_MAX, ToolBook } from './tool-book.ts'
import { toolBookOf, toolsData } from './tool-data.ts'

/** docs/lamps.md. */
const DATA_CHARS_MAX = 40_000

function turn(name: string | null, of: Partial<ProgramTurn> = {}): ProgramTurn {
  const tools = [{ name, duration_us: 1_000_000, answer_tokens: 50 }]
  return { position: 0, last: null, output_tokens: 20, tools, ...of }
}

const end = (of: Partial<ProgramTurn> = {}): ProgramTurn => ({ ...turn(null, of), tools: [] })

function bookOf(turns: readonly ProgramTurn[]): ToolBook {
  const book = new ToolBook()
  for (const one of turns) book.add(one)
  return book
}

const counts = (book: ToolBook, last: string, place: number | null = null) => {
  return Object.fromEntries([...(book.situation(last, place)?.next ?? [])].map(([key, n]) => [key, Math.round(n)]))
}

describe('what a class knows of its tools', () => {
  it('is how long each takes and how long its answers are', () => {
    const slow = { name: 'slow', duration_us: 8_000_000, answer_tokens: 10 }
    const book = bookOf([turn('fast'), turn('slow', { tools: [slow] }), turn('fast'), turn(null)])
    expect(book.tool('fast')?.duration_us.mean).toBeCloseTo(1_000_000)
    expect(book.tool('slow')?.duration_us.mean).toBeCloseTo(8_000_000)
    expect(book.tool('slow')?.answer_tokens.mean).toBeCloseTo(10)
    expect([book.tool('fast')?.uses, book.unnamed.uses, book.all.uses]).toEqual([2, 1, 4])
  })

  it('is what follows which tool, at which place of a program', () => {
    const book = bookOf([
      turn('search'),
      turn('read', { position: 1, last: 'search' }),
      turn('read', { position: 2, last: 'read' }),
      end({ position: 3, last: 'read' }),
    ])
    expect(counts(book, FIRST)).toEqual({ [named('search')]: 1 })
    expect(counts(book, named('read'))).toEqual({ [SAME]: 1, [ENDS]: 1 })
    expect(counts(book, named('read'), 3)).toEqual({ [ENDS]: 1 })
    expect(counts(book, ANY)).toEqual({ [named('search')]: 1, [named('read')]: 1, [SAME]: 1, [ENDS]: 1 })
  })

  it('counts a use that did not return, without a time', () => {
    const lost = { name: 'lost', duration_us: null, answer_tokens: null }
    const book = bookOf([turn('lost', { tools: [lost] })])
    expect(book.tool('lost')?.uses).toBe(1)
    expect(book.tool('lost')?.duration_us.mean).toBeNull()
    expect(counts(book, FIRST)).toEqual({ [named('lost')]: 1 })
  })

  it('follows a tool that becomes faster', () => {
    const fast = { name: 'search', duration_us: 1000, answer_tokens: 5 }
    const book = bookOf([
      ...Array.from({ length: 300 }, () => turn('search')),
      ...Array.from({ length: 1500 }, () => turn('search', { tools: [fast] })),
    ])
    expect(book.tool('search')?.duration_us.quantile(0.9)).toBeLessThan(2000)
  })
})

describe('names that are used once', () => {
  const fresh = (count: number) => Array.from({ length: count }, (_, at) => turn(`fresh-${at}`))

  it('grow nothing without bound, however many there are', () => {
    const book = bookOf(fresh(100_000).map((one, at) => ({ ...one, position: at % 20, last: `fresh-${at - 1}` })))
    expect(book.names()).toHaveLength(TOOLS_PER_CLASS_MAX)
    expect(book.situations().length).toBeLessThanOrEqual(TOOL_SITUATIONS_MAX)
    expect(book.other.uses + TOOLS_PER_CLASS_MAX).toBe(100_000)
    const data = ToolsData.parse(toolsData(book))
    expect(JSON.stringify(data).length).toBeLessThan(DATA_CHARS_MAX)
  })

  it('and times and lengths of any size do not, either', () => {
    const book = new ToolBook()
    const name = (at: number) => `${'n'.repeat(120)}-${at % 20}`
    const spread = (at: number, octaves: number) => 2 ** (((at * 7919) % 1000) * (octaves / 1000))
    for (let at = 0; at < 50_000; at += 1) {
      const tool = { name: at % 10 === 9 ? null : name(at), duration_us: spread(at, 32), answer_tokens: spread(at, 20) }
      const before = { position: at % 15, last: name(at * 31), output_tokens: spread(at, 20) }
      book.add({ ...before, tools: [tool] })
    }
    expect(JSON.stringify(ToolsData.parse(toolsData(book))).length).toBeLessThan(DATA_CHARS_MAX)
  })

  it('do not keep a real tool from its place, and take none from it', () => {
    const book = bookOf(fresh(TOOLS_PER_CLASS_MAX + 10))
    expect(book.tool('real')).toBeNull()
    const uses = Array.from({ length: 10 }, () => turn('real'))
    for (const one of uses) book.add(one)
    expect(book.tool('real')?.uses).toBeGreaterThan(5)
    for (const one of fresh(5000)) book.add(one)
    expect(book.names()).toContain('real')
  })

  it('count together with those that lost their place', () => {
    const book = bookOf(fresh(TOOLS_PER_CLASS_MAX))
    const [first = ''] = book.names()
    book.add(end({ position: 1, last: first }))
    expect(counts(book, named(first))).toEqual({ [ENDS]: 1 })
    for (let use = 0; use < 3; use += 1) book.add(turn('real'))
    const gone = fresh(TOOLS_PER_CLASS_MAX).filter(({ tools: [tool] }) => book.tool(tool?.name ?? '') === null)
    expect(gone).toHaveLength(1)
    expect(book.other.uses).toBe(2)
    expect(Object.keys(counts(book, FIRST))).toContain(OTHER)
  })

  it('are forgotten as candidates in the order of their use', () => {
    const book = bookOf(
      Array.from({ length: 10 * TOOLS_PER_CLASS_MAX }, (_, at) => turn(`t${at % TOOLS_PER_CLASS_MAX}`)),
    )
    const use = (times: number) => {
      for (let at = 0; at < times; at += 1) book.add(turn('rare'))
    }
    use(6)
    for (const one of fresh(CANDIDATES_MAX)) book.add(one)
    use(6)
    expect(book.tool('rare')).toBeNull()
    use(6)
    expect(book.tool('rare')).not.toBeNull()
  })
})

describe('a tool book', () => {
  const turns = [
    turn('search'),
    turn(null, { position: 1, last: 'search' }),
    turn('read', { position: 2 }),
    turn('read', { position: 3, last: 'read' }),
    end({ position: 4, last: 'read' }),
  ]

  it('comes back from what is stored of it', () => {
    const book = bookOf([...turns, ...Array.from({ length: TOOLS_PER_CLASS_MAX }, (_, at) => turn(`t${at}`))])
    const data = ToolsData.parse(JSON.parse(JSON.stringify(toolsData(book))))
    const back = toolBookOf(data)
    expect(toolsData(back)).toEqual(data)
    expect(back.tool('read')?.uses).toBe(2)
    expect(counts(back, UNNAMED)).toEqual(counts(book, UNNAMED))
  })

  it('is ASCII, so that a character is a byte', () => {
    expect(JSON.stringify(toolsData(bookOf(turns)))).toMatch(/^[\x20-\x7e]*$/)
  })

  it('joins with another: both count', () => {
    const joined = bookOf(turns)
    joined.merge(bookOf(turns))
    expect(joined.tool('read')?.uses).toBe(4)
    expect(joined.all.uses).toBe(8)
    expect(counts(joined, named('read'))).toEqual({ [SAME]: 2, [ENDS]: 2 })
  })

  it('joins with one whose tools have no place left: they count among the others', () => {
    const joined = bookOf(Array.from({ length: TOOLS_PER_CLASS_MAX }, (_, at) => turn(`t${at}`)))
    joined.merge(bookOf([turn('search'), turn('read', { position: 1, last: 'search' })]))
    expect(joined.names()).toHaveLength(TOOLS_PER_CLASS_MAX)
    expect(joined.other.uses).toBe(2)
    expect(counts(joined, OTHER)).toEqual({ [OTHER]: 1 })
  })
})
