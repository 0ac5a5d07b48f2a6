import { describe, expect, it } from 'vitest'
import { ClassSketch } from '../../../src/core/classes/class-sketch.ts'
import type { ProgramTurn } from '../../../src/core/tools/program-turn.ts'
import { type ClassData, ClassSketchData } from '../../../src/protocol/index.ts'
import { CallForecasts } from './call-forecasts.ts'
import { KNOWN_CLASSES_MAX, KnownClasses } from './known-classes.ts'

const S = 1_000_000

/** Programs of two calls with this tool in between. */
function data(tenant: string, name: string, tool: string, seconds: number): ClassData {
  const called = { name: tool, duration_us: seconds * S, answer_tokens: 10 }
  const turns: ProgramTurn[] = [
    { position: 0, last: null, output_tokens: 20, tools: [called] },
    { position: 1, last: tool, output_tokens: 90, tools: [] },
  ]
  const ended = { output_tokens: 110, calls: 2, path_us: 1, service_us: 1, tool_us: 1, later_prompt_tokens: 10, turns }
  const sketch = new ClassSketch()
  for (let end = 0; end < 40; end += 1) sketch.add(ended)
  return { tenant, class: name, sketch: ClassSketchData.parse(JSON.parse(JSON.stringify(sketch.data()))) }
}

function body(...names: string[]) {
  return { messages: [{ role: 'user', content: 'Hi' }], tools: names.map((name) => ({ function: { name } })) }
}

const known = new KnownClasses([data('a', 'x', 'search', 2), data('a', 'y', 'deploy', 60), data('b', 'x', 'search', 9)])
const forecasts = new CallForecasts(known)

describe('what an agent expects of a call', () => {
  it('is what its class has shown, at the place that its ticket names', () => {
    const first = forecasts.of({ tenant: 'a', class: 'x', position: 0 }, 'chat', body('search', 'deploy'))
    expect(first).toMatchObject({ tool: { name: 'search' } })
    expect(first?.tool?.duration_us).toBeCloseTo(2 * S, -3)
    const last = forecasts.of({ tenant: 'a', class: 'x', position: 1, last_tool: 'search' }, 'chat', body('search'))
    expect(last?.ends).toBeGreaterThan(0.9)
  })

  it('goes by the tools that the body offers, by the client’s hint, and not by what is no chat', () => {
    const claims = { tenant: 'a', class: 'x', position: 0 }
    expect(forecasts.of(claims, 'chat', body('another'))?.tool?.name ?? null).not.toBe('search')
    expect(forecasts.of({ ...claims, expect_tool_us: 30 * S }, 'chat', body('search'))?.tool).toMatchObject({
      ...{ duration_us: 30 * S, duration_p90_us: 30 * S },
    })
    expect(forecasts.of(claims, 'completions', { prompt: 'Hi' })?.tool?.name).toBe('search')
    expect(forecasts.of(claims, 'embeddings', { input: 'Hi' })).toBeNull()
    for (const odd of [null, 7, 'x', { messages: [], tools: [null, {}, { function: { name: 5 } }] }]) {
      expect(() => forecasts.of(claims, 'chat', odd)).not.toThrow()
    }
  })

  it('of an unknown class is what the tenant’s other classes have shown, and nothing of another tenant', () => {
    expect(forecasts.toolUs({ tenant: 'a', class: 'new' }, ['deploy'])).toBeCloseTo(60 * S, -3)
    expect(forecasts.toolUs({ tenant: 'a', class: 'new' }, ['search'])).toBeCloseTo(2 * S, -3)
    expect(forecasts.toolUs({ tenant: 'b', class: 'new' }, ['search'])).toBeCloseTo(9 * S, -3)
    expect(forecasts.toolUs({ tenant: 'c', class: 'x' }, ['search'])).toBeNull()
    expect(forecasts.of({ tenant: 'c', class: 'x', position: 0 }, 'chat', body('search'))).toBeNull()
  })

  it('follows what is told later', () => {
    const learning = new KnownClasses([data('a', 'x', 'search', 2)])
    const expected = new CallForecasts(learning)
    expect(expected.toolUs({ tenant: 'a', class: 'new' }, ['search'])).toBeCloseTo(2 * S, -3)
    learning.take([{ ...data('a', 'x', 'search', 5), sketch: { ...data('a', 'x', 'search', 5).sketch, ends: 41 } }])
    expect(expected.toolUs({ tenant: 'a', class: 'new' }, ['search'])).toBeCloseTo(5 * S, -3)
  })

  it('takes no memory for tenants of which nothing is known', () => {
    for (let at = 0; at <= 2 * KNOWN_CLASSES_MAX; at += 1) {
      expect(forecasts.toolUs({ tenant: `none-${at}`, class: 'x' }, ['search'])).toBeNull()
    }
    expect(forecasts.toolUs({ tenant: 'a', class: 'new' }, ['deploy'])).toBeCloseTo(60 * S, -3)
  })
})
