import fc from 'fast-check'
import { expect, test } from 'vitest'
import { NativeFrame } from '../openai/native-frame.ts'
import { EventMerger, type MergedEvent } from './event-merger.ts'

const TIMES = { after_ms: 30, interval_ms: 42 }

type Delta = Record<string, unknown>

const chunk = (delta: Delta, more: Delta = {}, choice: Delta = {}) => ({
  ...{ id: 'c', usage: null, ...more },
  choices: [{ index: 0, delta, logprobs: null, finish_reason: null, ...choice }],
})
const text = (content: string) => chunk({ content })
const deltas = (events: readonly MergedEvent[]): unknown[] =>
  events.map((event) => (event.chunk as { choices: { delta: Delta }[] }).choices[0]?.delta)

test('the first text goes at once, the next within the interval waits for more, and later text goes at once', () => {
  const merger = new EventMerger(TIMES)
  expect(deltas(merger.add(chunk({ role: 'assistant', content: '' }), [], 0))).toEqual([
    { role: 'assistant', content: '' },
  ])
  expect(merger.add(text('a'), [1], 1)).toEqual([{ chunk: text('a'), tokens: [1] }])
  expect(merger.due_ms).toBeNull()
  expect(merger.add(text('b'), [2], 21)).toEqual([])
  expect(merger.due_ms).toBe(43)
  expect(merger.add(text('c'), [3], 41)).toEqual([{ chunk: text('bc'), tokens: [2, 3] }])
  expect(merger.add(text('d'), [4], 100)).toEqual([{ chunk: text('d'), tokens: [4] }])
  expect(merger.add(text('e'), [5], 101)).toEqual([])
  expect(merger.flush(110)).toEqual([{ chunk: text('e'), tokens: [5] }])
  expect(merger.flush(111)).toEqual([])
})

test('what cannot be joined ends what is held, in order', () => {
  const merger = new EventMerger(TIMES)
  merger.add(text('a'), [1], 0)
  merger.add(text('b'), [2], 1)
  const finish = chunk({}, {}, { finish_reason: 'stop' })
  expect(merger.add(finish, [], 2)).toEqual([
    { chunk: text('b'), tokens: [2] },
    { chunk: finish, tokens: [] },
  ])
})

test('events of a server’s own API go as they came, each at once', () => {
  const merger = new EventMerger(TIMES)
  const frame = (content: string) =>
    new NativeFrame(`{"type":"x","text":"${content}"}`, chunk({ content }).choices as never)
  merger.add(text('a'), [], 0)
  for (const one of [frame('b'), frame('c')]) expect(merger.add(one, [], 1)).toEqual([{ chunk: one, tokens: [] }])
})

test('pieces of one call are joined, and those of another are not', () => {
  const merger = new EventMerger(TIMES)
  const head = (index: number) =>
    chunk({ tool_calls: [{ index, id: `t${index}`, type: 'function', function: { name: 'f', arguments: '' } }] })
  const piece = (index: number, args: string) => chunk({ tool_calls: [{ index, function: { arguments: args } }] })
  merger.add(text('So'), [], 0)
  const sent = [head(0), piece(0, '{"a"'), piece(0, ':1}'), head(1), piece(1, '{}')].flatMap((one) =>
    merger.add(one, [], 1),
  )
  expect(deltas([...sent, ...merger.flush(2)])).toEqual([
    { tool_calls: [{ index: 0, id: 't0', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }] },
    { tool_calls: [{ index: 1, id: 't1', type: 'function', function: { name: 'f', arguments: '{}' } }] },
  ])
})

test('log probabilities are joined with their text; a choice, reasoning and text stay apart', () => {
  const merger = new EventMerger(TIMES)
  const told = (content: string, token: string) =>
    chunk({ content }, {}, { logprobs: { content: [{ token }], refusal: null } })
  merger.add(text('x'), [], 0)
  expect(merger.add(told('a', 'a'), [], 1)).toEqual([])
  expect(merger.add(told('b', 'b'), [], 2)).toEqual([])
  const other = { ...text('y'), choices: [{ index: 1, delta: { content: 'y' }, logprobs: null, finish_reason: null }] }
  const [joined] = merger.add(other, [], 3)
  expect(joined?.chunk).toMatchObject({
    choices: [{ delta: { content: 'ab' }, logprobs: { content: [{ token: 'a' }, { token: 'b' }], refusal: null } }],
  })
  expect(deltas(merger.add(chunk({ reasoning: 'hm' }), [], 4))).toEqual([{ content: 'y' }])
  expect(deltas(merger.add(text('z'), [], 5))).toEqual([{ reasoning: 'hm' }])
})

test('all text and all tokens go out once, in order, and no later than the interval', () => {
  const step = fc.record({ wait_ms: fc.integer({ min: 0, max: 60 }), content: fc.string({ maxLength: 3 }) })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const merger = new EventMerger(TIMES)
      const sent: MergedEvent[] = []
      let now_ms = 0
      for (const [at, { wait_ms, content }] of steps.entries()) {
        const until_ms = now_ms + wait_ms
        const { due_ms } = merger
        if (due_ms !== null && due_ms <= until_ms) sent.push(...merger.flush(due_ms))
        now_ms = until_ms
        sent.push(...merger.add(text(content), [at], now_ms))
        expect((merger.due_ms ?? 0) - now_ms).toBeLessThanOrEqual(TIMES.interval_ms)
      }
      sent.push(...merger.flush(now_ms))
      expect(sent.flatMap(({ tokens }) => tokens)).toEqual(steps.map((_, at) => at))
      const all = deltas(sent).map((delta) => (delta as { content: string }).content)
      expect(all.join('')).toBe(steps.map(({ content }) => content).join(''))
    }),
  )
})
