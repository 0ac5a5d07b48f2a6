import { expect, it } from 'vitest'
import { NOTHING_MEASURED, storedMeasurement } from '../../protocol/measurement.ts'
import type { CallRow, LeaseRow } from './program-state.ts'
import { tracedRun } from './traced-run.ts'

function callRow(call: string, position: number, from_s: number, to_s: number | null, change: Partial<CallRow> = {}) {
  return {
    ...{ call, position, thread: 'main', parents: [], parents_known: false, model: 'm', source: null, overruled: [] },
    ...{ opened_at_ms: from_s * 1000, ended_at_ms: to_s === null ? null : to_s * 1000, state: 'ended' as const },
    ...{ outcome: 'completed' as const, finish_reason: null, error_code: null, tools: null, returned: null },
    ...{ inherited_us: 0, answered: null, brings: null, reserved: null },
    ...change,
  } satisfies CallRow
}

function leaseRow(call: string, prompt_tokens: number, output_tokens: number, change: Partial<LeaseRow> = {}) {
  return {
    ...storedMeasurement({ ...NOTHING_MEASURED, prompt_tokens, output_tokens }),
    ...{ lease: `lease-${call}`, call, position: 0, agent: 'a', engine: 'e0', epoch: 'x', region: 'r', model: 'm' },
    ...{ reason: null, speed_factor: 1, opened_at_ms: 0, state: 'settled' as const, outcome: 'completed' as const },
    ...{ error_code: null, finish_reason: 'stop' },
    ...change,
  } satisfies LeaseRow
}

it('is a line of a trace: declared parents, tools as pauses, prefixes that fit', () => {
  const tools = { names: ['search', 'read'], expected_us: null, handled: null }
  const calls = [
    callRow('c', 2, 9, 10, { thread: 'side', parents: ['a'], parents_known: true }),
    callRow('a', 0, 1, 3, { tools }),
    callRow('b', 1, 5, 8, { parents: ['a'], parents_known: true }),
    callRow('d', 3, 11, 12, { parents: ['b', 'c'], parents_known: true }),
  ]
  const leases = [
    leaseRow('a', 100, 20, { cached_tokens: 32 }),
    leaseRow('b', 150, 10, { engine: 'e1' }),
    leaseRow('c', 60, 5),
    leaseRow('d', 70, 5),
  ]
  expect(tracedRun({ calls, leases })).toEqual({
    ...{ arrived_at_ms: 1000, response_ms: 11_000, app_prefix_tokens: 32 },
    ...{ prompt_tokens: 380, cached_tokens: 32, output_tokens: 40, engines: ['e0', 'e1'], models: ['m'] },
    calls: [
      {
        ...{ thread: 0, parents: [], prompt_tokens: 100, shared_prefix_tokens: 0, output_tokens: 20 },
        ...{ tool: 'search read', tool_seconds: 2 },
      },
      {
        ...{ thread: 0, parents: [0], prompt_tokens: 150, shared_prefix_tokens: 120, output_tokens: 10 },
        ...{ tool: null, tool_seconds: 3 },
      },
      {
        ...{ thread: 1, parents: [0], prompt_tokens: 60, shared_prefix_tokens: 0, output_tokens: 5 },
        ...{ tool: null, tool_seconds: 1 },
      },
      {
        ...{ thread: 0, parents: [1, 2], prompt_tokens: 70, shared_prefix_tokens: 65, output_tokens: 5 },
        ...{ tool: null, tool_seconds: null },
      },
    ],
  })
})

it('takes times where nobody knows the parents, and the engine that answered where one failed before it', () => {
  const calls = [callRow('a', 0, 0, 2), callRow('b', 1, 1, 5), callRow('c', 2, 4, 6)]
  const leases = [
    leaseRow('a', 10, 2),
    leaseRow('b', 0, 0, { position: 0, lease: 'failed', engine: 'gone' }),
    leaseRow('b', 10, 2, { position: 1 }),
    leaseRow('c', 30, 0),
  ]
  const traced = tracedRun({ calls, leases })
  expect(traced?.calls.map(({ parents }) => parents)).toEqual([[], [], [0]])
  expect(traced?.engines).toEqual(['e0'])
  // The line format has no answer without a token.
  expect(traced?.calls[2]?.output_tokens).toBe(1)
})

it('lets the parents of a call that no engine served stand for it, and is nothing where none was served', () => {
  const known = { parents_known: true }
  const calls = [
    callRow('a', 0, 0, 1),
    callRow('refused', 1, 2, 2, { parents: ['a'], ...known }),
    callRow('b', 2, 3, 4, { parents: ['refused'], ...known }),
  ]
  const traced = tracedRun({ calls, leases: [leaseRow('a', 10, 2), leaseRow('b', 30, 2)] })
  expect(traced?.calls.map(({ parents }) => parents)).toEqual([[], [0]])
  expect(tracedRun({ calls, leases: [leaseRow('a', 0, 0)] })).toBeNull()
})
