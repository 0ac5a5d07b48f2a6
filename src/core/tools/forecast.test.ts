import { describe, expect, it } from 'vitest'
import { CONFIDENCE_MIN, expectedTool, FORECAST_ALTERNATIVES_MAX } from '../call/forecast.ts'
import { type CallSituation, expectedToolUs, forecastCall, type KnownTools } from './forecast.ts'
import type { ProgramTurn } from './program-turn.ts'
import { ToolBook } from './tool-book.ts'

const S = 1_000_000

function turn(position: number, last: string | null, name: string | null | undefined, seconds = 1, output_tokens = 20) {
  const tools = name === undefined ? [] : [{ name, duration_us: seconds * S, answer_tokens: 10 * seconds }]
  return { position, last, output_tokens, tools } satisfies ProgramTurn
}

function bookOf(turns: readonly ProgramTurn[], times = 50): ToolBook {
  const book = new ToolBook()
  for (let at = 0; at < times; at += 1) for (const one of turns) book.add(one)
  return book
}

const known = (of_class: ToolBook | null, tenant: ToolBook | null = null): KnownTools => ({
  of_class,
  of_tenant: () => tenant,
})

function situation(
  position: number | null,
  last: string | null = null,
  of: Partial<CallSituation> = {},
): CallSituation {
  return { position, last, offered: null, expect_tool_us: null, ...of }
}

/** search (2 s), read (8 s), then the end. */
const CHAIN = [turn(0, null, 'search', 2, 30), turn(1, 'search', 'read', 8, 60), turn(2, 'read', undefined, 0, 400)]

describe('the forecast of a call', () => {
  it('names the tool that follows, its time and answer, and how much the call writes', () => {
    const book = known(bookOf(CHAIN))
    const first = forecastCall(situation(0), book)
    expect(first?.tool).toMatchObject({ name: 'search', duration_us: 2 * S, duration_p90_us: 2 * S })
    expect(first?.tool?.answer_tokens).toBeCloseTo(20)
    expect(first?.output_tokens).toBeCloseTo(30)
    expect(first?.tool?.probability).toBeGreaterThan(0.95)
    expect(first?.confidence).toBeGreaterThan(0.85)
    expect(forecastCall(situation(1, 'search'), book)?.tool).toMatchObject({ name: 'read', duration_us: 8 * S })
    const last = forecastCall(situation(2, 'read'), book)
    expect(last?.ends).toBeGreaterThan(0.95)
    expect(last?.output_tokens).toBeCloseTo(400)
  })

  it('has probabilities that sum to 1', () => {
    const forecast = forecastCall(
      situation(1, 'search'),
      known(bookOf([...CHAIN, turn(1, 'search', 'search'), turn(1, 'search', null)])),
    )
    const tools = [...(forecast?.tool ? [forecast.tool] : []), ...(forecast?.alternatives ?? [])]
    expect(tools.reduce((sum, { probability }) => sum + probability, forecast?.ends ?? 0)).toBeCloseTo(1)
  })

  it('is the mean over all tools while it is not sure which follows', () => {
    const even = ['a', 'b', 'c', 'd'].map((name, at) => turn(0, null, name, 2 ** at))
    const forecast = forecastCall(situation(0), known(bookOf(even)))
    if (forecast === null) throw new Error('the class is known')
    expect(forecast.confidence).toBeLessThan(CONFIDENCE_MIN)
    expect(forecast.alternatives).toHaveLength(3)
    expect((expectedTool(forecast)?.duration_us ?? 0) / S).toBeCloseTo((1 + 2 + 4 + 8) / 4, 1)
    expect(expectedTool({ ...forecast, confidence: CONFIDENCE_MIN })?.duration_us).toBe(forecast.tool?.duration_us)
  })

  it('is less sure where little is known', () => {
    const few = forecastCall(situation(0), known(bookOf(CHAIN, 2)))
    const many = forecastCall(situation(0), known(bookOf(CHAIN, 50)))
    expect(few?.confidence).toBeLessThan(CONFIDENCE_MIN)
    expect(many?.confidence).toBeGreaterThan(CONFIDENCE_MIN)
  })

  it('does not take a few programs that ended without a tool for a rule', () => {
    const alone = [turn(0, null, undefined)]
    expect(forecastCall(situation(0), known(null, bookOf(alone, 1)))).toBeNull()
    expect(forecastCall(situation(0), known(null, bookOf(alone)))).toMatchObject({ ends: 1, tool: null })
  })

  it('names a bounded number of other tools, the last of them for all that are left', () => {
    const rare = ['b', 'c', 'd', 'e', 'f'].map((name) => turn(0, null, name))
    const often = Array.from({ length: 20 }, () => turn(0, null, 'a'))
    const forecast = forecastCall(situation(0), known(bookOf([...often, ...rare], 5)))
    expect(forecast?.tool?.name).toBe('a')
    expect(forecast?.alternatives).toHaveLength(FORECAST_ALTERNATIVES_MAX)
    expect(forecast?.alternatives?.at(-1)?.name).toBeNull()
  })

  it('leaves out tools that the call does not offer', () => {
    const book = known(bookOf([...CHAIN, turn(0, null, 'write', 4)]))
    const offered = forecastCall(situation(0, null, { offered: ['write', 'unknown'] }), book)
    expect(offered?.tool).toMatchObject({ name: 'write', duration_us: 4 * S })
    expect(offered?.tool?.probability).toBeGreaterThan(0.9)
    expect(forecastCall(situation(0, null, { offered: [] }), book)?.tool).toBeNull()
  })

  it('goes by the tool before where the class does not know its name: programs use one again', () => {
    const turns = Array.from({ length: 200 }, (_, at) => turn(1, `fresh-${at}`, `fresh-${at}`, 3))
    const forecast = forecastCall(situation(1, 'another'), known(bookOf(turns, 1)))
    expect(forecast?.tool).toMatchObject({ name: 'another', duration_us: 3 * S })
  })

  it('falls back from the tool to the tenant, to the class, and knows nothing of other tenants', () => {
    const tenant = bookOf([...CHAIN, turn(0, null, 'deploy', 60)])
    const young = bookOf([turn(0, null, 'deploy', 1)], 1)
    expect(forecastCall(situation(0), known(null))).toBeNull()
    expect(forecastCall(situation(0), known(null, tenant))?.tool?.name).not.toBeUndefined()
    expect(expectedToolUs(['deploy'], null, known(young, tenant))).toBeCloseTo(60 * S, -3)
    expect(expectedToolUs(['never seen'], null, known(bookOf(CHAIN), tenant))).toBeCloseTo(5 * S, -5)
    expect(expectedToolUs(['never seen'], null, known(null))).toBeNull()
  })

  it('without a place goes by all calls of the class', () => {
    const forecast = forecastCall(situation(null), known(bookOf(CHAIN)))
    expect(forecast?.ends).toBeCloseTo(1 / 3, 1)
    expect(forecast?.output_tokens).toBeCloseTo((30 + 60 + 400) / 3, -1)
  })
})

describe('a client’s hint', () => {
  it('is the time of the tool, and changes nothing else', () => {
    const book = known(bookOf(CHAIN))
    const plain = forecastCall(situation(0), book)
    const hinted = forecastCall(situation(0, null, { expect_tool_us: 30 * S }), book)
    expect(hinted).toEqual({
      ...plain,
      tool: { ...plain?.tool, duration_us: 30 * S, duration_p90_us: 30 * S },
      alternatives: expect.anything(),
    })
    expect(expectedToolUs(['search'], 30 * S, book)).toBe(30 * S)
  })

  it('gives no forecast where nothing is known', () => {
    expect(forecastCall(situation(0, null, { expect_tool_us: 30 * S }), known(null))).toBeNull()
  })
})

it('the next call is expected after the slowest of its tools', () => {
  const book = known(bookOf([...CHAIN, turn(3, null, null, 40)]))
  expect(expectedToolUs(['search', 'read'], null, book)).toBeCloseTo(8 * S, -3)
  expect(expectedToolUs([], null, book)).toBeCloseTo(40 * S, -3)
  // An answer without a tool where programs only use tools: nothing is expected.
  expect(expectedToolUs([], null, known(bookOf(CHAIN)))).toBeNull()
})
