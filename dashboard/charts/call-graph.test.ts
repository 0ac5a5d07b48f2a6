import { expect, test } from 'vitest'
import type { ShownCall } from '../../src/protocol/shown-program.ts'
import { callGraph, NODE_PX } from './call-graph.ts'
import { callSpans } from './call-spans.ts'
import { placed } from './graph-layout.ts'

const NOTHING = {
  ...{
    prompt_tokens: 0,
    cached_tokens: 0,
    output_tokens: 0,
    preemptions: 0,
    resumed_tokens: 0,
    recomputed_tokens: 0,
    swap_s: 0,
    service_wall_s: 1,
  },
  ...{ swapped_out_tokens: 0, swapped_in_tokens: 0, error_code: null },
}
const callOf = (id: string, change: Partial<ShownCall> = {}): ShownCall => ({
  ...{
    id,
    thread: 'main',
    source: 'header',
    parents: [],
    model: 'm',
    state: 'ended',
    outcome: 'completed',
    finish_reason: 'stop',
  },
  ...{
    rank: null,
    expected_remaining_tokens: null,
    position: null,
    error_code: null,
    tools: [],
    tool_s: null,
    expected_tool_s: null,
  },
  kv: null,
  ...{ opened_at: '2026-11-23T12:00:00.000Z', ended_at: '2026-11-23T12:00:04.000Z', leases: [] },
  ...{ ...NOTHING, wait_s: 0, service_s: 1, queue_wait_s: null, server_wait_s: null },
  ...change,
})
const lease = { agent: 'a', engine: 'e', region: 'r', reason: null, state: 'settled' as const, outcome: null }

test('branches stand side by side, and what joins them stands after the longest', () => {
  const graph = callGraph([
    callOf('plan', { tools: [{ name: 'search', returned: true, duration_s: 2 }], tool_s: 2 }),
    callOf('left', { thread: 'left', parents: ['plan'], service_s: 5 }),
    callOf('right', { thread: 'right', parents: ['plan'], service_s: 1 }),
    callOf('right-2', { thread: 'right', parents: ['right'], service_s: 1 }),
    callOf('join', { parents: ['left', 'right-2'] }),
  ])
  expect(graph.lanes).toEqual(['main', 'left', 'right'])
  expect(graph.edges[0]).toMatchObject({ from: 'plan', to: 'left', tools: ['search'], tool_s: 2 })
  const { calls, edges, width, height } = placed(graph)
  const at = new Map(calls.map((one) => [one.call.id, one]))
  for (const { from, to, points } of edges) {
    expect((at.get(from)?.x ?? 0) + NODE_PX.width).toBeLessThan(at.get(to)?.x ?? 0)
    expect(points.length).toBeGreaterThan(1)
  }
  expect(at.get('left')?.y).not.toBe(at.get('right')?.y)
  for (const { x, y } of calls) {
    expect(Math.min(x, y)).toBeGreaterThanOrEqual(0)
    expect(x + NODE_PX.width).toBeLessThanOrEqual(width)
    expect(y + NODE_PX.height).toBeLessThanOrEqual(height)
  }
  expect(placed(callGraph([])).calls).toEqual([])
})

test('the critical path is the longest by service, not by calls', () => {
  const graph = callGraph([
    callOf('plan'),
    callOf('long', { thread: 'a', parents: ['plan'], service_s: 5 }),
    callOf('short-1', { thread: 'b', parents: ['plan'] }),
    callOf('short-2', { thread: 'b', parents: ['short-1'] }),
    callOf('join', { parents: ['long', 'short-2'] }),
  ])
  expect(graph.critical_path_s).toBe(7)
  expect(graph.calls.filter(({ isCritical }) => isCritical).map(({ call }) => call.id)).toEqual([
    'plan',
    'long',
    'join',
  ])
  expect(graph.edges.filter(({ isCritical }) => isCritical).map(({ from, to }) => `${from} ${to}`)).toEqual([
    'plan long',
    'long join',
  ])
})

test('a call without known parents follows the last of its thread, and nothing else', () => {
  const graph = callGraph([callOf('one'), callOf('two', { parents: ['unknown'] }), callOf('alone', { thread: 'b' })])
  expect(graph.edges.map(({ from, to }) => [from, to])).toEqual([['one', 'two']])
  expect(callGraph([])).toEqual({ calls: [], edges: [], lanes: [], critical_path_s: 0 })
})

test('a call’s time is its wait, its prefill, its decode and the tool after it', () => {
  const start_ms = Date.parse('2026-11-23T12:00:00.000Z')
  const call = callOf('one', {
    wait_s: 1,
    tools: [{ name: 'search', returned: true, duration_s: 3 }],
    tool_s: 3,
    leases: [{ ...lease, ...NOTHING, wait_s: 1, service_s: 1, opened_at: '', first_token_s: 1.5, pauses: [] }],
  })
  const spans = callSpans([call], ['main'], start_ms + 99_000)
  expect(spans.map(({ kind, from_ms, to_ms }) => [kind, from_ms - start_ms, to_ms - start_ms])).toEqual([
    ['wait', 0, 1000],
    ['prefill', 1000, 1500],
    ['decode', 1500, 4000],
    ['tool', 4000, 7000],
  ])
  expect(spans.at(-1)?.text).toBe('search')
  const kv = { handling: 'swap', reason: 'least_waste' }
  const told = callSpans([{ ...call, kv, preemptions: 2, swap_s: 0.5 }], ['main'], start_ms)
  expect(told.slice(-2).map(({ kind, text }) => [kind, text])).toEqual([
    ['decode', 'preempted 2 times, at times that are not known, its context was moved for 500 ms'],
    ['tool_moved', 'search (context moved to host memory)'],
  ])
  const pauses = [
    { from_s: 1.25, to_s: 1.5, moved: false },
    { from_s: 2, to_s: 3, moved: true },
  ]
  const leases = call.leases.map((one) => ({ ...one, first_token_s: 1.75, pauses }))
  const paused = callSpans([{ ...call, wait_s: 2.25, preemptions: 2, leases }], ['main'], start_ms)
  const inOrder = paused.toSorted((a, b) => a.from_ms - b.from_ms)
  expect(inOrder.map(({ kind, from_ms, to_ms }) => [kind, from_ms - start_ms, to_ms - start_ms])).toEqual([
    ['wait', 0, 1000],
    ['prefill', 1000, 1250],
    ['preempted', 1250, 1500],
    ['prefill', 1500, 1750],
    ['decode', 1750, 2000],
    ['swapped', 2000, 3000],
    ['decode', 3000, 4000],
    ['tool', 4000, 7000],
  ])
  const open = callSpans([callOf('two', { state: 'open', ended_at: null })], ['main'], start_ms + 2000)
  expect(open.map(({ kind, to_ms }) => [kind, to_ms - start_ms])).toEqual([['open', 2000]])
})
