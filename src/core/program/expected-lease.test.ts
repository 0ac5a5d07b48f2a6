/** A lease that nobody told of: it is taken to be at its program's pin until its Worker or its record says otherwise. */
import { describe, expect, it } from 'vitest'
import { entry, grant, record } from '../testing/builders.ts'
import { ProgramEntry } from './program-entry.ts'
import { type Admission, ORPHANED_CALL_MS } from './program-state.ts'

type Admitted = Extract<Admission, { status: 'admitted' }>

function asks(of: ProgramEntry, call: string, now_ms = 0): Admitted {
  const arrival = { call, thread: null, parents: null, model: 'model', lease: `lease-${call}`, now_ms }
  return of.admit(arrival) as Admitted
}

/** A program whose first call has pinned it. */
function pinned(): ProgramEntry {
  const program = entry()
  expect(asks(program, 'first').expected_lease).toBeNull()
  program.leaseOpened(grant({ lease: 'lease-first', call: 'first', agent: 'a', engine: 'a-e0', pin: true }))
  program.settle(record({ lease: 'lease-first', call: 'first', agent: 'a', engine: 'a-e0' }), 1)
  return program
}

const leaseOf = (program: ProgramEntry, call: string) =>
  program.callsPage({ after: null, limit: 10 }).calls.find((one) => one.call === call)?.leases

describe('an expected lease', () => {
  it('is open at the pin: siblings are told of it, and an end hands it out', () => {
    const program = pinned()
    const admitted = asks(program, 'a', 2)
    expect(admitted).toMatchObject({ expected_lease: 'lease-a', open_leases: [], pin: { engine: 'a-e0' } })
    expect(asks(program, 'a', 2)).toMatchObject({ expected_lease: 'lease-a' })
    expect(asks(program, 'b', 3)).toMatchObject({ expected_lease: 'lease-b', open_leases: ['lease-a'] })
    const ends = program.end(4, 'explicit')
    expect(ends).toMatchObject([
      { lease: 'lease-a', agent: 'a', engine: 'a-e0' },
      { lease: 'lease-b', agent: 'a', engine: 'a-e0' },
    ])
  })

  it('takes place, reason and speed factor of its record, whose proof names another agent', () => {
    const program = pinned()
    asks(program, 'a', 2)
    const elsewhere = { agent: 'b', engine: 'b-e0', reason: 'spilled' as const, speed_factor: 2, granted_at_ms: 5 }
    expect(program.settle(record({ lease: 'lease-a', call: 'a', service_modelled_us: 10, ...elsewhere }), 9)).toBe(
      'applied',
    )
    const told = { agent: 'b', engine: 'b-e0', reason: 'spilled', speed_factor: 2, opened_at_ms: 5, state: 'settled' }
    expect(leaseOf(program, 'a')).toMatchObject([told])
    expect(leaseOf(program, 'a')?.[0]).not.toHaveProperty('expected')
    expect(program.settle(record({ lease: 'lease-a', call: 'a', ...elsewhere, agent: 'c' }), 9)).toBe('foreign')
    expect(program.settle(record({ lease: 'lease-a', call: 'a', ...elsewhere }), 9)).toBe('duplicate')
  })

  it('moves to where its Worker says, and then only that agent settles it', () => {
    const program = pinned()
    asks(program, 'a', 2)
    program.leaseOpened(grant({ lease: 'lease-a', call: 'a', agent: 'b', engine: 'b-e0', pin: true, now_ms: 3 }))
    expect(program.openLeases()).toMatchObject([{ lease: 'lease-a', agent: 'b', engine: 'b-e0' }])
    expect(program.settle(record({ lease: 'lease-a', call: 'a', agent: 'a', engine: 'a-e0' }), 4)).toBe('foreign')
    expect(program.settle(record({ lease: 'lease-a', call: 'a', agent: 'b', engine: 'b-e0' }), 4)).toBe('applied')
    expect(asks(program, 'c', 5)).toMatchObject({ pin: { engine: 'b-e0' }, expected_lease: 'lease-c' })
  })

  it('is gone when its Worker got no engine', () => {
    const program = pinned()
    asks(program, 'a', 2)
    const ended = { run: 'run', call: 'a', outcome: 'failed' as const, error_code: 'no_engine', now_ms: 3 }
    program.callEnded({ ...ended, is_unleased: true })
    expect(program.openLeases()).toEqual([])
    expect(program.summary()).toMatchObject({ open_calls: 0 })
    expect(leaseOf(program, 'a')).toEqual([])
  })

  it('keeps its call open until its agent is found not to have it', () => {
    const program = pinned()
    asks(program, 'a', 2)
    program.closeOrphans(2 + ORPHANED_CALL_MS)
    expect(program.open_calls).toBe(1)
    expect(program.leasesToAskFor(2 + ORPHANED_CALL_MS)).toMatchObject([{ lease: 'lease-a', agent: 'a' }])
    program.leaseLost({ run: 'run', lease: 'lease-a', error_code: 'orphaned' })
    program.closeOrphans(2 + ORPHANED_CALL_MS)
    expect(program.summary()).toMatchObject({ open_calls: 0, open_leases: [] })
  })

  it('is still expected after a restart, whole or from a checkpoint', () => {
    const program = pinned()
    asks(program, 'a', 2)
    const { checkpoint } = program.takeDirty(0)
    if (checkpoint === undefined) throw new Error('the run has a checkpoint')
    const rows = program.rows()
    const live = new Set(checkpoint.live.map(({ position }) => position))
    const calls = rows.calls.filter(({ position }) => live.has(position))
    const leases = rows.leases.filter(({ call }) => calls.some((one) => one.call === call))
    for (const again of [ProgramEntry.restore(rows), ProgramEntry.resume({ ...rows, calls, leases }, checkpoint)]) {
      expect(again.isExpected('lease-a')).toBe(true)
      expect(again.settle(record({ lease: 'lease-a', call: 'a', agent: 'b', engine: 'b-e0' }), 3)).toBe('applied')
      expect(again.isExpected('lease-a')).toBe(false)
    }
  })
})
