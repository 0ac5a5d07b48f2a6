import { describe, expect, it } from 'vitest'
import type { ToolResult } from '../../protocol/index.ts'
import { entry, grant, record } from '../testing/builders.ts'
import { ProgramEntry } from './program-entry.ts'
import { ACTING_CALLS_MAX, type CallArrival, TOOLS_LISTED_MAX } from './program-state.ts'

function admit(program: ProgramEntry, call: string, now_ms: number, more: Partial<CallArrival> = {}) {
  const admission = program.admit({ call, thread: null, parents: null, model: 'model', now_ms, ...more })
  program.leaseOpened(grant({ call, lease: `${call}/0`, now_ms }))
  if (admission.status !== 'admitted') throw new Error(admission.code)
  return admission
}

function settle(program: ProgramEntry, call: string, now_ms: number, tools?: string[]) {
  program.settle(record({ call, lease: `${call}/0`, ...(tools && { tools, expected_tool_us: 700_000 }) }), now_ms)
}

const search: ToolResult = { name: 'search', tokens: 30 }

function shown(program: ProgramEntry, call: string) {
  const found = program.callsPage({ after: null, limit: 200 }).calls.find((one) => one.call === call)
  return { tools: found?.tools, returned: found?.returned }
}

describe('a program between its calls', () => {
  it('is acting, with the tools that its answer asked for, until the next call brings what they returned', () => {
    const program = entry()
    expect(program.summary()).toMatchObject({ activity: null, tools: [] })
    expect(admit(program, 'a', 0)).toMatchObject({ position: 0, last_tool: null })
    expect(program.summary()).toMatchObject({ activity: 'reasoning', tools: [] })
    settle(program, 'a', 100, ['search', 'read'])
    const running = { call: 'a', thread: 't0', since_ms: 100, expected_us: 700_000, handled: null }
    expect(program.summary().activity).toBe('acting')
    expect(program.summary().tools).toEqual([
      { ...running, name: 'search' },
      { ...running, name: 'read' },
    ])
    expect(admit(program, 'b', 600, { tool_results: [search] })).toMatchObject({ position: 1, last_tool: 'search' })
    expect(program.summary()).toMatchObject({ activity: 'reasoning', tools: [] })
    expect(shown(program, 'a')).toEqual({
      tools: { names: ['search', 'read'], expected_us: 700_000, handled: null },
      returned: { at_ms: 600, results: [search], times: [] },
    })
  })

  it('runs a tool without a name where its answer names none', () => {
    const program = entry()
    admit(program, 'a', 0)
    settle(program, 'a', 100)
    expect(program.summary().tools).toMatchObject([{ name: null, expected_us: null }])
    expect(admit(program, 'b', 200)).toMatchObject({ last_tool: null })
    expect(shown(program, 'a')).toEqual({ tools: null, returned: { at_ms: 200, results: [], times: [] } })
  })

  it('has the tool that its client measured where its answer names none', () => {
    const program = entry()
    admit(program, 'a', 0)
    settle(program, 'a', 100, [])
    const tool_times = [{ name: 'search', duration_us: 90_000 }]
    expect(admit(program, 'b', 200, { tool_times })).toMatchObject({ last_tool: 'search' })
    expect(shown(program, 'a').returned).toEqual({ at_ms: 200, results: [], times: tool_times })
  })

  it('runs no tool behind a call that failed, and none once it has ended', () => {
    const program = entry()
    admit(program, 'a', 0)
    program.callEnded({ run: 'run', call: 'a', outcome: 'completed', error_code: null, now_ms: 10 })
    expect(program.summary().tools).toHaveLength(1)
    program.settle(record({ call: 'a', lease: 'a/0', outcome: 'failed', error_code: 'engine_failed' }), 20)
    expect(program.summary()).toMatchObject({ activity: 'acting', tools: [] })
    admit(program, 'b', 30)
    settle(program, 'b', 40, ['search'])
    program.end(50, 'explicit')
    expect(program.summary()).toMatchObject({ activity: null, tools: [] })
  })

  it('learns what was asked for also when the record comes after the next call', () => {
    const program = entry()
    admit(program, 'a', 0)
    program.callEnded({ run: 'run', call: 'a', outcome: 'completed', error_code: null, now_ms: 10 })
    expect(admit(program, 'b', 20, { tool_results: [search] })).toMatchObject({ last_tool: 'search' })
    settle(program, 'a', 30, ['search'])
    expect(shown(program, 'a')).toEqual({
      tools: { names: ['search'], expected_us: 700_000, handled: null },
      returned: { at_ms: 20, results: [search], times: [] },
    })
    expect(program.summary().tools).toEqual([])
  })

  it('goes on acting while a thread that it forked runs, and not behind a thread that it joined', () => {
    const program = entry()
    admit(program, 'a', 0, { thread: 'main' })
    settle(program, 'a', 10, ['delegate'])
    admit(program, 'sub', 20, { thread: 'sub', parents: ['a'] })
    expect(program.summary()).toMatchObject({ activity: 'reasoning', tools: [{ name: 'delegate' }] })
    settle(program, 'sub', 30)
    admit(program, 'b', 40, { thread: 'main', parents: ['a', 'sub'] })
    expect(program.summary().tools).toEqual([])
    expect(shown(program, 'a').returned).toEqual({ at_ms: 40, results: [], times: [] })
    expect(shown(program, 'sub').returned).toBeNull()
  })

  it('is the same after a restart', () => {
    const program = entry()
    admit(program, 'a', 0)
    settle(program, 'a', 100, ['search'])
    admit(program, 'b', 200, { tool_results: [search] })
    settle(program, 'b', 300, ['read'])
    const restored = ProgramEntry.restore(structuredClone(program.rows()))
    expect(restored.summary()).toEqual(program.summary())
    expect(restored.rows()).toEqual(program.rows())
    const next = { tool_results: [{ name: 'read', tokens: 4 }] }
    expect(admit(restored, 'c', 400, next)).toEqual(admit(program, 'c', 400, next))
    expect(shown(restored, 'b')).toEqual(shown(program, 'b'))
  })

  it('writes no more rows than without tools: what came back is in the row of the call that brought it', () => {
    const program = entry()
    admit(program, 'a', 0)
    settle(program, 'a', 100, ['search'])
    program.takeDirty()
    admit(program, 'b', 200, { tool_results: [search] })
    const { calls } = program.takeDirty()
    expect(calls).toMatchObject([{ call: 'b', brings: { of: 'a', results: [search] } }])
  })

  it('waits for a bounded number of tools and lists a bounded number', () => {
    const program = entry()
    for (let at = 0; at <= ACTING_CALLS_MAX; at += 1) {
      admit(program, `c${at}`, at, { thread: `n${at}`, parents: [] })
      settle(program, `c${at}`, at, ['search'])
    }
    const { tools } = program.summary()
    expect(tools).toHaveLength(TOOLS_LISTED_MAX)
    expect(tools[0]).toMatchObject({ call: `c${ACTING_CALLS_MAX}` })
    expect(program.takeDirty(0).checkpoint?.live).toHaveLength(ACTING_CALLS_MAX)
  })
})

describe('an engine that a program has left', () => {
  const waste = { preserve: 1, discard: 2, swap: null }
  const kept = (handling: 'preserve' | 'discard' | 'swap') => ({ handling, reason: 'least_waste' as const, waste })
  const left = { tenant: 'tenant', program: 'program', run: 'run', agent: 'agent', engine: 'e0' }

  /** A call on e0 that has ended in a tool. */
  function acting(handled?: ReturnType<typeof kept>): ProgramEntry {
    const program = entry()
    admit(program, 'a', 0, { thread: 'main' })
    program.settle(
      record({ call: 'a', lease: 'a/0', thread: 'main', tools: ['search'], ...(handled && { handled }) }),
      10,
    )
    return program
  }

  /** The call that goes on from it, on this engine. */
  function goOn(program: ProgramEntry, engine: string) {
    program.admit({ call: 'b', thread: 'main', parents: null, model: 'model', now_ms: 20 })
    const lease = grant({ call: 'b', lease: 'b/0', engine, now_ms: 20 })
    program.leaseOpened(lease)
    return program.leftContext(lease)
  }

  it.each(['preserve', 'swap'] as const)('keeps its KV for nothing if it did %s it', (handling) => {
    expect(goOn(acting(kept(handling)), 'e1')).toMatchObject(left)
  })

  it('keeps nothing if the program stays, if the KV was discarded, or if no record says that it is there', () => {
    expect(goOn(acting(kept('preserve')), 'e0')).toBeNull()
    expect(goOn(acting(kept('discard')), 'e1')).toBeNull()
    expect(goOn(acting(), 'e1')).toBeNull()
  })

  it('keeps it for another thread that is open there or whose tool runs there', () => {
    const program = acting(kept('preserve'))
    admit(program, 'sub', 15, { thread: 'sub', parents: [] })
    expect(goOn(program, 'e1')).toBeNull()
    const other = acting(kept('preserve'))
    admit(other, 'sub', 15, { thread: 'sub', parents: [] })
    other.settle(record({ call: 'sub', lease: 'sub/0', thread: 'sub', tools: ['read'] }), 16)
    expect(goOn(other, 'e1')).toBeNull()
  })

  it('keeps it for nothing once the program has ended, each engine once', () => {
    const program = acting(kept('swap'))
    for (const [call, engine, handling] of [
      ['b', 'e1', 'preserve'],
      ['c', 'e1', 'preserve'],
      ['d', 'e2', 'discard'],
    ] as const) {
      program.admit({ call, thread: call, parents: [], model: 'model', now_ms: 20 })
      program.leaseOpened(grant({ call, lease: `${call}/0`, engine, now_ms: 20 }))
      program.settle(
        record({ call, lease: `${call}/0`, thread: call, engine, tools: ['search'], handled: kept(handling) }),
        30,
      )
    }
    expect(program.contextsOfEnded()).toEqual([])
    program.end(40, 'explicit')
    expect(program.contextsOfEnded()).toEqual([
      expect.objectContaining(left),
      expect.objectContaining({ ...left, engine: 'e1' }),
    ])
  })
})
