import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { DEFAULT_SERVICE_RATES } from '../call/service.ts'
import type { ProgramEntry } from '../program/program-entry.ts'
import { TOOL_RETURN_MS_MAX } from '../program/program-state.ts'
import { entry, grant, record } from '../testing/builders.ts'
import { endedProgram } from './ended-program.ts'

const { prefill_us_per_token: PREFILL_US, decode_us_per_token: DECODE_US } = DEFAULT_SERVICE_RATES

interface Turn {
  parents?: readonly string[]
  prompt: number
  cached?: number
  output: number
  opened_ms?: number
  ended_ms?: number
}

function open(program: ProgramEntry, call: string, turn: Turn): void {
  const { parents = null, opened_ms = 0 } = turn
  program.admit({ call, thread: null, parents, model: 'model', now_ms: opened_ms })
  program.leaseOpened(grant({ call, lease: `of-${call}`, now_ms: opened_ms }))
}

function settle(program: ProgramEntry, call: string, turn: Turn, lease = `of-${call}`): void {
  const { prompt, cached = 0, output, ended_ms = 0 } = turn
  const tokens = { prompt_tokens: prompt, cached_tokens: cached, output_tokens: output }
  program.settle(record({ call, lease, ...tokens, ended_at_ms: ended_ms }), ended_ms)
}

/** Each call after the records of those before it. */
function played(turns: Readonly<Record<string, Turn>>): ProgramEntry {
  const program = entry()
  for (const [call, turn] of Object.entries(turns)) {
    open(program, call, turn)
    settle(program, call, turn)
  }
  program.end(1_000_000, 'explicit')
  return program
}

describe('what an ended program tells', () => {
  it('of a chain: its output, and for prompts what each call added', () => {
    const program = played({
      a: { prompt: 100, output: 10, ended_ms: 1000 },
      b: { prompt: 130, cached: 110, output: 20, opened_ms: 4000, ended_ms: 5000 },
      c: { prompt: 160, cached: 150, output: 5, opened_ms: 5500, ended_ms: 6000 },
    })
    const service_us = (100 + 20 + 10) * PREFILL_US + 35 * DECODE_US
    expect(endedProgram(program.rows())).toEqual({
      ...{ output_tokens: 35, calls: 3, later_prompt_tokens: 30, service_us, path_us: service_us },
      tool_us: 3_500_000,
      turns: [
        {
          position: 0,
          last: null,
          output_tokens: 10,
          tools: [{ name: null, duration_us: 3_000_000, answer_tokens: 20 }],
        },
        {
          position: 1,
          last: null,
          output_tokens: 20,
          tools: [{ name: null, duration_us: 500_000, answer_tokens: 10 }],
        },
        { position: 2, last: null, output_tokens: 5, tools: [] },
      ],
    })
  })

  it('of a chain whose cache was lost: the same as of one that kept it', () => {
    const turns = (cached: number): Record<string, Turn> => ({
      a: { prompt: 100, output: 10 },
      b: { prompt: 130, cached, output: 20 },
    })
    expect(endedProgram(played(turns(0)).rows())).toEqual(endedProgram(played(turns(110)).rows()))
  })

  it('of a call that does not go on from its parent: the part of its prompt that no cache had', () => {
    const program = played({
      a: { prompt: 1000, output: 100 },
      b: { parents: ['a'], prompt: 600, cached: 450, output: 1 },
      c: { parents: [], prompt: 600, cached: 450, output: 1 },
    })
    expect(endedProgram(program.rows()).later_prompt_tokens).toBe(300)
  })

  it('of a tree: the longest branch is its path, and a call waits for the last of its parents', () => {
    const program = played({
      root: { parents: [], prompt: 10, output: 1, opened_ms: 0, ended_ms: 1000 },
      short: { parents: ['root'], prompt: 11, output: 1, opened_ms: 1000, ended_ms: 2000 },
      long: { parents: ['root'], prompt: 11, output: 50, opened_ms: 1000, ended_ms: 9000 },
      join: { parents: ['short', 'long'], prompt: 61, output: 1, opened_ms: 9500, ended_ms: 10_000 },
    })
    const { path_us, service_us, tool_us, output_tokens } = endedProgram(program.rows())
    expect(output_tokens).toBe(53)
    expect(path_us).toBe(10 * PREFILL_US + 52 * DECODE_US)
    expect(service_us).toBe(10 * PREFILL_US + 53 * DECODE_US)
    expect(tool_us).toBe(500_000)
  })

  it('does not depend on the order in which records came, of any tree', () => {
    const node = fc.record({
      parents: fc.array(fc.nat(), { maxLength: 3 }),
      prompt: fc.nat(3000),
      cached: fc.nat(3000),
      output: fc.nat(500),
      turn: fc.nat(),
    })
    fc.assert(
      fc.property(fc.array(node, { minLength: 1, maxLength: 20 }), (nodes) => {
        const turns = nodes.map((one, at) => ({
          ...one,
          call: `${at}`,
          parents: at === 0 ? [] : [...new Set(one.parents.map((parent) => `${parent % at}`))],
          cached: Math.min(one.cached, one.prompt),
          ...{ opened_ms: 1000 * at, ended_ms: 1000 * at + 10 },
        }))
        const [prompt, late] = [entry(), entry()]
        for (const turn of turns) {
          open(prompt, turn.call, turn)
          settle(prompt, turn.call, turn)
          open(late, turn.call, turn)
        }
        for (const turn of turns.toSorted((a, b) => a.turn - b.turn)) settle(late, turn.call, turn)
        const told = endedProgram(prompt.rows())
        expect(endedProgram(late.rows())).toEqual(told)
        expect(told.output_tokens).toBe(nodes.reduce((sum, { output }) => sum + output, 0))
        expect(told.path_us).toBeLessThanOrEqual(told.service_us)
        const { calls, leases } = prompt.rows()
        expect(endedProgram({ calls: calls.toReversed(), leases: leases.toReversed() })).toEqual(told)
      }),
    )
  })

  it('counts a call that was leased again once, as its last record says', () => {
    const program = entry()
    open(program, 'a', { prompt: 50, output: 0 })
    settle(program, 'a', { prompt: 50, output: 3 })
    program.leaseOpened(grant({ call: 'a', lease: 'again' }))
    settle(program, 'a', { prompt: 50, output: 8 }, 'again')
    expect(endedProgram(program.rows())).toMatchObject({ output_tokens: 8, calls: 1, later_prompt_tokens: 0 })
  })

  it('counts what its records say so far: a call without one had no output', () => {
    const program = entry()
    open(program, 'a', { prompt: 50, output: 0 })
    expect(endedProgram(program.rows())).toEqual({
      ...{ output_tokens: 0, calls: 1, later_prompt_tokens: 0, service_us: 0, path_us: 0, tool_us: 0 },
      turns: [],
    })
    settle(program, 'a', { prompt: 50, output: 7 })
    expect(endedProgram(program.rows()).output_tokens).toBe(7)
  })

  it.each([
    ['that returned in time', TOOL_RETURN_MS_MAX, TOOL_RETURN_MS_MAX * 1000],
    ['that did not', TOOL_RETURN_MS_MAX + 1, null],
    ['over which a clock leapt ahead by a year', 365 * 86_400_000, null],
    ['over which a clock was set back', -500, 0],
  ])('of a tool %s: its use, and a time only within the bound', (_, away_ms, duration_us) => {
    const program = played({
      a: { prompt: 100, output: 10, opened_ms: 500, ended_ms: 1000 },
      b: { parents: ['a'], prompt: 130, output: 10, opened_ms: 1000 + away_ms, ended_ms: 2000 + away_ms },
    })
    const [first] = endedProgram(program.rows())?.turns ?? []
    expect(first?.tools).toEqual([{ name: null, duration_us, answer_tokens: 20 }])
  })

  it('is nothing of a program without calls', () => {
    expect(endedProgram({ calls: [], leases: [] })).toEqual({
      ...{ output_tokens: 0, calls: 0, later_prompt_tokens: 0, service_us: 0, path_us: 0, tool_us: 0 },
      turns: [],
    })
  })
})
