import { expect, it } from 'vitest'
import type { FcfsWaits } from '../../src/protocol/fcfs-waits.ts'
import type { ShownCall, ShownProgram } from '../../src/protocol/shown-program.ts'
import { explain, explainFcfs } from './explain-program.ts'

const NOW_MS = Date.parse('2026-11-23T12:00:20.000Z')

const MEASURED = {
  ...{ prompt_tokens: 0, cached_tokens: 0, output_tokens: 0, service_s: 0, wait_s: 0, preemptions: 0 },
  resumed_tokens: 0,
  ...{ recomputed_tokens: 0, swapped_out_tokens: 0, swapped_in_tokens: 0, swap_s: 0, service_wall_s: 1 },
}

const PROGRAM: ShownProgram = {
  ...MEASURED,
  ...{ run: 'r', source: 'header', weight: 1, started_at: '2026-11-23T11:59:00.000Z', ended_at: null },
  ...{ critical_path_s: 4.2, engines: [] },
  ...{ id: 'p', state: 'running', app: 'research', class: 'research', regions: null, end_reason: null },
  ...{ activity: 'reasoning', tools: [], calls: 2, open_calls: 1, service_s: 4.2, wait_s: 0.5 },
  ...{ prompt_tokens: 1000, cached_tokens: 750 },
}

const CALL: ShownCall = {
  ...MEASURED,
  ended_at: '2026-11-23T12:00:02.000Z',
  ...{ id: 'call-2', thread: 't', parents: ['call-1'], source: 'header', model: 'm', state: 'ended' },
  ...{ outcome: 'completed', finish_reason: 'tool_calls', error_code: null, opened_at: '2026-11-23T12:00:00.000Z' },
  ...{
    rank: null,
    expected_remaining_tokens: null,
    position: null,
    tools: [{ name: 'search', returned: true, duration_s: 3 }],
  },
  ...{ tool_s: 3, expected_tool_s: 2.5, kv: { handling: 'swap', reason: 'least_waste' } },
  ...{ prompt_tokens: 800, cached_tokens: 640, output_tokens: 1, service_s: 1.25 },
  ...{ queue_wait_s: null, server_wait_s: null },
  ...{ wait_s: 0.25, preemptions: 0, recomputed_tokens: 0, swapped_in_tokens: 0, swap_s: 0, service_wall_s: 1 },
  leases: [
    {
      ...MEASURED,
      ...{ agent: 'a', outcome: 'completed', opened_at: '2026-11-23T12:00:00.000Z' },
      ...{ engine: 'e0', region: 'us', reason: 'pinned', state: 'settled' },
      ...{ error_code: null, wait_s: 0.25, pauses: [], first_token_s: 0.4 },
    },
  ],
}

it('tells a call from its arrival to its tool', () => {
  expect(explain(PROGRAM, CALL, NOW_MS)).toEqual([
    'Program p (app research, class research) has 1 open call.',
    'In 2 calls it has attained 4.20 s of service and waited 0.50 s, 75 % of its prompts were in a cache.',
    'Call call-2 for m came at 2026-11-23T12:00:00.000Z and goes on from call-1: a header of the call names the program.',
    'It was sent to engine e0 in us, because that engine holds the program’s context.',
    'It waited 0.25 s and was served for 1.25 s, its first token came after 0.40 s.',
    '640 of its 800 prompt tokens (80 %) were in the engine’s cache.',
    'It ended as completed (tool_calls) with 1 output token.',
    'It asked for search, which took 3.00 s, 2.50 s were expected. Until the next call its context is moved to host memory: that wastes the least memory.',
  ])
})

it('tells where an open call is in the order of its engine', () => {
  const position = { waits: true, waited_s: 2.5, before: 1, order: 'Q2 of 22: attained service 1.20 s' }
  const open = { ...CALL, state: 'open' as const, position }
  const said = (call: ShownCall) => explain(PROGRAM, call, NOW_MS).at(-1)
  expect(said(open)).toBe(
    'It waits for a seat, and has waited 2.50 s so far. 1 call of the tenant goes before it there. Its order: Q2 of 22: attained service 1.20 s.',
  )
  expect(said({ ...open, position: { ...position, waits: false, before: 0 } })).toBe(
    'It has a seat, and has waited 2.50 s so far. No other call of the tenant goes before it there. Its order: Q2 of 22: attained service 1.20 s.',
  )
  expect(said({ ...open, position: null })).toBe('It is open: how long it waits is known when it ends.')
})

it('tells what a program waits for, and how it ended', () => {
  const acting = { ...PROGRAM, activity: 'acting' as const, open_calls: 0 }
  const tool = { name: 'search', since: '2026-11-23T12:00:08.000Z', expected_s: null, kv: null }
  const first = (program: ShownProgram) => explain(program, null, NOW_MS)[0]
  expect(first({ ...acting, tools: [tool] })).toContain(
    'waits for its tool search, for 12.0 s now (how long it takes is not known)',
  )
  expect(first({ ...acting, tools: [{ ...tool, name: null, expected_s: 200 }] })).toContain(
    'waits for a tool or a person, for 12.0 s now (expected: 200 s)',
  )
  const kv = { handling: 'preserve', reason: 'not_foreseen' }
  expect(first({ ...acting, tools: [{ ...tool, kv }] })).toContain(
    'Until the next call its context stays in the engine’s memory: nothing says how long the tool takes',
  )
  expect(first(acting)).toContain('is between calls')
  expect(explain({ ...PROGRAM, weight: 2 }, null, NOW_MS)[1]).toContain('It weighs 2 among the tenant’s own programs.')
  expect(first({ ...PROGRAM, activity: null, calls: 0 })).toContain('has made no call')
  expect(first({ ...PROGRAM, state: 'ended', end_reason: 'stale' })).toContain(
    'has ended: it made no call for too long',
  )
})

it('tells of an engine that failed, a seat that was given up, a rank and an open call', () => {
  const [lease] = CALL.leases
  if (lease === undefined) throw new Error('the call has a lease')
  const lost = { ...lease, engine: 'e1', reason: 'least_used', state: 'lost' as const, error_code: 'engine_down' }
  const moved = { ...CALL, leases: [lost, { ...lease, reason: 'replaced' }], preemptions: 2, recomputed_tokens: 30 }
  const text = explain(PROGRAM, { ...moved, rank: 12, expected_remaining_tokens: 99.6 }, NOW_MS).join('\n')
  expect(text).toContain('That engine did not serve it (engine_down).')
  expect(text).toContain('because another engine failed before its first token')
  expect(text).toContain(
    'gave its seat up 2 times: 0 tokens of its context were brought back and 30 were computed again',
  )
  expect(text).toContain('Its rank there was 12 (lower goes first), with 100 output tokens')
  const levelled = explain(PROGRAM, { ...moved, rank: 3 }, NOW_MS).join('\n')
  expect(levelled).toContain('It came into level Q4 there, by the service before it: Q1 goes first.')
  const open = explain(PROGRAM, { ...CALL, state: 'open', leases: [] }, NOW_MS).join('\n')
  expect(open).toContain('No engine has taken it yet')
  expect(open).not.toContain('It ended')
})

it('tells of an answer that went on at another engine, and what was computed again for that', () => {
  const [lease] = CALL.leases
  if (lease === undefined) throw new Error('the call has a lease')
  const broken = { ...lease, engine: 'e1', state: 'lost' as const, error_code: 'engine_ended_early' }
  const rest = { ...lease, reason: 'replaced', prompt_tokens: 800, cached_tokens: 640, resumed_tokens: 1 }
  const sentences = explain(PROGRAM, { ...CALL, leases: [broken, rest] }, NOW_MS)
  expect(sentences).toContain(
    'There the answer went on behind 1 token of another engine: 161 tokens had to be computed again. Prompt and answer are charged once.',
  )
  expect(explain(PROGRAM, CALL, NOW_MS).join()).not.toContain('went on')
})

it('tells where a call waited that an attached server served', () => {
  const attached = { ...CALL, wait_s: 3.5, queue_wait_s: 3.25, server_wait_s: 0.25 }
  expect(explain(PROGRAM, attached, NOW_MS).join('\n')).toContain(
    'It waited 3.50 s (3.25 s in the agent’s queue, 0.25 s at the server) and was served',
  )
  expect(explain(PROGRAM, CALL, NOW_MS).join('\n')).not.toContain('queue')
})

it('tells what calls would have waited under first come, first served, and what is unknown', () => {
  const engine = { engine: 'e0', region: 'us', unknown: null }
  const call = { id: 'c1', engine: 'e0', wait_s: 0.5, fcfs_wait_s: 4, at_least: false, unknown: null }
  const open = { ...call, id: 'c2', wait_s: null, fcfs_wait_s: null, unknown: 'open' as const }
  const waits: FcfsWaits = {
    ...{ object: 'program.fcfs_waits', program: 'p', run: 'r', estimate: true, wait_s: 0.5, fcfs_wait_s: 4 },
    ...{ estimated_calls: 1, engines: [engine], calls: [call] },
  }
  const [estimate] = explainFcfs(waits)
  expect(estimate).toContain('1 call would have waited about 4.00 s instead of 0.50 s. That is an estimate')
  expect(explainFcfs({ ...waits, calls: [{ ...call, at_least: true }, open] })).toEqual([
    estimate?.replace('about', 'at least'),
    'Not estimated: 1 call is still open.',
  ])
  const silent = { ...engine, unknown: 'silent' as const }
  expect(explainFcfs({ ...waits, estimated_calls: 0, engines: [silent], calls: [] })).toEqual([
    'Not estimated: e0 did not answer.',
  ])
  expect(explainFcfs({ ...waits, estimated_calls: 0, calls: [] })).toEqual([
    'Not estimated: Its engines do not remember its calls.',
  ])
})
