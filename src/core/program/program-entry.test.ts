import { describe, expect, it } from 'vitest'
import { entry, grant, record } from '../testing/builders.ts'
import { ProgramEntry } from './program-entry.ts'
import {
  type Admission,
  CALLS_PAGE_MAX,
  CALLS_PER_RUN_MAX,
  ENGINES_LISTED_MAX,
  LEASES_PER_CALL_MAX,
  OPEN_CALLS_PER_PROGRAM_MAX,
  ORPHANED_CALL_MS,
  ORPHANED_LEASE_MS,
  PINS_PER_PROGRAM_MAX,
} from './program-state.ts'

function admit(to: ProgramEntry, call: string, now_ms = 0, declared: { thread?: string; parents?: string[] } = {}) {
  const { thread = null, parents = null } = declared
  const admission = to.admit({ call, thread, parents, model: 'model', now_ms })
  expect(admission.status).toBe('admitted')
  return admission as Extract<Admission, { status: 'admitted' }>
}

function run(on: ProgramEntry, call: string, service_us: number, now_ms = 0): void {
  admit(on, call, now_ms)
  on.leaseOpened(grant({ lease: `lease-${call}`, call, now_ms }))
  on.settle(record({ lease: `lease-${call}`, call, service_modelled_us: service_us }), now_ms)
}

describe('PLAS', () => {
  it('stays a number that every schema takes, and a restored entry agrees, when sums exceed 2^53', () => {
    const program = entry()
    const most = Number.MAX_SAFE_INTEGER
    for (const call of ['c0', 'c1', 'c2']) {
      admit(program, call)
      const measured = { service_wall_us: most, service_modelled_us: most, wait_us: most, prompt_tokens: most }
      program.settle(record({ lease: `lease-${call}`, call, ...measured }), 0)
    }
    admit(program, 'c3')
    const rows = program.rows()
    for (const call of rows.calls) expect(Number.isSafeInteger(call.inherited_us)).toBe(true)
    for (const summary of [program.summary(), ProgramEntry.restore(rows).summary()]) {
      expect(summary).toMatchObject({ service_us: most, service_wall_us: most, wait_us: most, prompt_tokens: most })
      expect(summary.critical_path_us).toBe(most)
    }
  })

  it('is 0 for the first call and the sum of what completed for the next', () => {
    const program = entry()
    expect(admit(program, 'a').settled_service_us).toBe(0)
    program.settle(record({ lease: 'la', call: 'a', service_modelled_us: 300 }), 1)
    expect(admit(program, 'b', 2).settled_service_us).toBe(300)
  })

  it('counts wasted leases', () => {
    const program = entry()
    admit(program, 'a')
    program.settle(record({ lease: 'l1', call: 'a', service_modelled_us: 300, outcome: 'failed' }), 1)
    program.settle(record({ lease: 'l2', call: 'a', service_modelled_us: 500 }), 2)
    expect(program.keys().settled_service_us).toBe(800)
  })

  it('counts nothing for an open lease, however long it is open, and its record once that comes', () => {
    const program = entry()
    admit(program, 'a')
    program.leaseOpened(grant({ lease: 'la', call: 'a', now_ms: 0 }))
    program.callEnded({ run: 'run', call: 'a', outcome: 'completed', error_code: null, now_ms: 100 })
    expect(admit(program, 'b', 5000).settled_service_us).toBe(0)
    program.settle(record({ lease: 'la', call: 'a', service_modelled_us: 40_000 }), 5001)
    expect(admit(program, 'c', 9000).settled_service_us).toBe(40_000)
  })

  it('does not count a lost lease until its record comes', () => {
    const program = entry()
    admit(program, 'a')
    program.leaseOpened(grant({ lease: 'la', call: 'a' }))
    program.leaseLost({ run: 'run', lease: 'la', error_code: 'engine_down' })
    expect(program.keys().settled_service_us).toBe(0)
    program.settle(record({ lease: 'la', call: 'a', service_modelled_us: 70 }), 1001)
    expect(program.keys().settled_service_us).toBe(70)
  })

  it('is in the ordering reading, scaled by each engine’s speed factor', () => {
    const program = entry({ reading: 'wall' })
    admit(program, 'a')
    program.leaseOpened(grant({ lease: 'la', call: 'a', speed_factor: 2 }))
    program.settle(record({ lease: 'la', call: 'a', service_wall_us: 50, service_modelled_us: 7 }), 1)
    expect(program.summary()).toMatchObject({ service_us: 100, service_wall_us: 50, service_modelled_us: 7 })
  })
})

describe('the sequence of a program', () => {
  const opening = { tenant: 'tenant', program: 'program', app: null, class: 'tenant', metadata: null } as const
  const opened = (run: string, now_ms: number) => ProgramEntry.open({ ...opening, run, reading: 'modelled', now_ms })

  it('is fixed when its run opens, by time and then by run, and survives a restart', () => {
    const program = opened('r1', 7)
    const { sequence } = admit(program, 'a', 100)
    expect(sequence[0]).toBe(7)
    expect(admit(program, 'b', 200).sequence).toEqual(sequence)
    expect(ProgramEntry.restore(program.rows()).keys().sequence).toEqual(sequence)
    expect(opened('r2', 7).keys().sequence[1]).not.toBe(sequence[1])
  })

  it('is of whole milliseconds and 32 bits, as tickets carry it', () => {
    const [opened_at_ms, tie] = opened('r1', 7.9).keys().sequence
    expect(opened_at_ms).toBe(7)
    expect(tie).toBe(tie >>> 0)
  })
})

it('counts the output tokens of settled leases', () => {
  const program = entry()
  run(program, 'a', 10)
  expect(admit(program, 'b').program_output_tokens).toBe(program.summary().output_tokens)
  expect(program.summary().output_tokens).toBeGreaterThan(0)
})

describe('ATLAS', () => {
  it('puts the longest observed critical path into the ticket', () => {
    const program = entry()
    run(program, 'a', 100)
    run(program, 'b', 50)
    expect(admit(program, 'c').critical_path_us).toBe(150)
  })

  it('counts a wave of parallel calls once', () => {
    const program = entry()
    for (const call of ['a', 'b', 'c']) admit(program, call)
    for (const call of ['a', 'b', 'c']) program.settle(record({ lease: `l${call}`, call, service_modelled_us: 100 }), 1)
    expect(program.summary()).toMatchObject({ critical_path_us: 100, service_us: 300 })
  })

  it('does not lengthen the path by the time for which a lease is open', () => {
    const program = entry()
    run(program, 'a', 1000)
    admit(program, 'b', 10)
    program.leaseOpened(grant({ lease: 'lb', call: 'b', now_ms: 10 }))
    expect(admit(program, 'c', 15).critical_path_us).toBe(1000)
    program.settle(record({ lease: 'lb', call: 'b', service_modelled_us: 1 }), 16)
    program.settle(record({ lease: 'lc', call: 'c', service_modelled_us: 1 }), 16)
    expect(program.summary().critical_path_us).toBe(1001)
  })
})

describe('threads', () => {
  it('continue when nothing is open and fork when something is', () => {
    const program = entry()
    expect(admit(program, 'a').thread).toBe('t0')
    expect(admit(program, 'b').thread).toBe('t1')
    program.settle(record({ lease: 'lb', call: 'b' }), 1)
    program.settle(record({ lease: 'la', call: 'a' }), 2)
    expect(admit(program, 'c', 3).thread).toBe('t0')
    const { calls } = program.callsPage({ after: null, limit: 10 })
    expect(calls.map((call) => call.parents)).toEqual([[], [], ['a']])
  })

  it('are listed while active, with arrival and what their settled leases waited and cost', () => {
    const program = entry()
    admit(program, 'a', 5)
    program.leaseOpened(grant({ lease: 'l1', call: 'a', now_ms: 5 }))
    program.settle(record({ lease: 'l1', call: 'a', outcome: 'failed', service_modelled_us: 9, wait_us: 3 }), 6)
    program.leaseOpened(grant({ lease: 'l2', call: 'a', now_ms: 6, engine: 'e1' }))
    expect(program.summary().threads).toEqual([
      { thread: 't0', call: 'a', arrived_at_ms: 5, wait_us: 3, service_us: 9, engine: 'e1' },
    ])
  })
})

describe('a record', () => {
  it('of another agent than the one that was given the lease counts for nothing, before and after the right one', () => {
    const program = entry()
    admit(program, 'a')
    program.leaseOpened(grant({ lease: 'la', call: 'a', agent: 'given' }))
    const forged = record({ lease: 'la', call: 'a', agent: 'other', service_modelled_us: 0 })
    expect(program.settle(forged, 1)).toBe('foreign')
    expect(program.settle(record({ lease: 'la', call: 'a', agent: 'given', service_modelled_us: 70 }), 2)).toBe(
      'applied',
    )
    expect(program.settle(forged, 3)).toBe('foreign')
    expect(program.summary().service_us).toBe(70)
  })

  it('is applied once, however often it comes', () => {
    const program = entry()
    admit(program, 'a')
    const one = record({ lease: 'la', call: 'a' })
    expect([program.settle(one, 1), program.settle(one, 2), program.settle({ ...one }, 3)]).toEqual([
      'applied',
      'duplicate',
      'duplicate',
    ])
    expect(program.summary()).toMatchObject({ service_us: 1000, wait_us: 7, output_tokens: 5, calls: 1 })
  })

  it('creates the call and the lease that memory has lost', () => {
    const program = entry()
    expect(program.settle(record({ lease: 'la', call: 'a', thread: 'x' }), 1)).toBe('applied')
    const [call] = program.callsPage({ after: null, limit: 1 }).calls
    expect(call).toMatchObject({ call: 'a', thread: 'x', state: 'ended', outcome: 'completed' })
    expect(call?.leases[0]).toMatchObject({ lease: 'la', state: 'settled', reason: null })
  })

  it('of forgotten parallel calls does not chain them into one path', () => {
    const program = entry()
    for (const call of ['a', 'b', 'c']) program.settle(record({ lease: `l${call}`, call, thread: call }), 1)
    program.settle(record({ lease: 'ld', call: 'd', thread: 'a' }), 1)
    expect(program.summary().critical_path_us).toBe(2000)
  })

  it('before the message that opened its lease still gets that one’s reason and speed factor', () => {
    const program = entry()
    admit(program, 'a')
    program.settle(record({ lease: 'la', call: 'a', service_modelled_us: 100 }), 1)
    expect(program.leaseOpened(grant({ lease: 'la', call: 'a', speed_factor: 3, reason: 'pinned' }))).toBe('known')
    expect(program.leaseOpened(grant({ lease: 'la', call: 'a', speed_factor: 5 }))).toBe('known')
    expect(program.summary()).toMatchObject({ service_us: 300, critical_path_us: 300, service_modelled_us: 100 })
    expect(program.openLeases()).toEqual([])
  })

  it('wins over leaseLost and callEnded that came before it', () => {
    const program = entry()
    admit(program, 'a')
    program.leaseOpened(grant({ lease: 'la', call: 'a' }))
    program.leaseLost({ run: 'run', lease: 'la', error_code: 'engine_down' })
    program.callEnded({ run: 'run', call: 'a', outcome: 'failed', error_code: 'engine_down', now_ms: 1 })
    program.settle(record({ lease: 'la', call: 'a' }), 2)
    const [call] = program.callsPage({ after: null, limit: 1 }).calls
    expect(call).toMatchObject({ outcome: 'completed', error_code: null, finish_reason: 'stop', ended_at_ms: 1 })
    expect(call?.leases[0]).toMatchObject({ state: 'settled', outcome: 'completed', error_code: null })
  })

  it('wins over leaseLost and callEnded that come after it', () => {
    const program = entry()
    run(program, 'a', 10)
    program.leaseLost({ run: 'run', lease: 'lease-a', error_code: 'engine_down' })
    program.callEnded({ run: 'run', call: 'a', outcome: 'failed', error_code: 'engine_down', now_ms: 1 })
    expect(program.callsPage({ after: null, limit: 1 }).calls[0]).toMatchObject({ outcome: 'completed' })
    expect(program.summary().service_us).toBe(10)
  })

  it('of a failed lease does not close a call that its Worker may lease again', () => {
    const program = entry()
    admit(program, 'a')
    program.settle(record({ lease: 'l1', call: 'a', outcome: 'failed', error_code: 'engine_down' }), 1)
    expect(program.open_calls).toBe(1)
    program.callEnded({ run: 'run', call: 'a', outcome: 'completed', error_code: null, now_ms: 2 })
    program.settle(record({ lease: 'l2', call: 'a' }), 3)
    expect(program.callsPage({ after: null, limit: 1 }).calls[0]).toMatchObject({ outcome: 'completed' })
  })

  it('of another run is left to the archive, and of another program is a bug', () => {
    const program = entry()
    expect(program.settle(record({ lease: 'l', call: 'a', run: 'older' }), 1)).toBe('other_run')
    expect(program.leaseOpened(grant({ lease: 'l', call: 'a', run: 'older' }))).toBe('other_run')
    program.callEnded({ run: 'older', call: 'a', outcome: 'failed', error_code: null, now_ms: 1 })
    expect(program.summary()).toMatchObject({ calls: 0, service_us: 0 })
    expect(() => program.settle(record({ lease: 'l', call: 'a', program: 'another' }), 1)).toThrow()
    expect(() => program.settle(record({ lease: 'l', call: 'a', tenant: 'another' }), 1)).toThrow()
  })
})

describe('admission', () => {
  it('of the same call again opens nothing', () => {
    const program = entry()
    const first = admit(program, 'a')
    admit(program, 'b')
    expect(admit(program, 'a').thread).toBe(first.thread)
    expect(program.summary().calls).toBe(2)
  })

  it('returns the pin of the call’s model', () => {
    const program = entry()
    admit(program, 'a')
    program.leaseOpened(grant({ lease: 'la', call: 'a', pin: true, engine: 'e7' }))
    program.leaseOpened(grant({ lease: 'lb', call: 'a', pin: false, engine: 'e8' }))
    expect(admit(program, 'b').pin).toEqual({ region: 'region', model: 'model', engine: 'e7', epoch: 'epoch' })
    const other = program.admit({ call: 'c', thread: null, parents: null, model: 'another', now_ms: 0 })
    expect(other).toMatchObject({ status: 'admitted', pin: null })
  })

  it(`refuses open call ${OPEN_CALLS_PER_PROGRAM_MAX + 1}, and takes one again when one has ended`, () => {
    const program = entry()
    for (let call = 0; call < OPEN_CALLS_PER_PROGRAM_MAX; call += 1) admit(program, `c${call}`)
    const arrival = { call: 'late', thread: null, parents: null, model: 'model', now_ms: 0 }
    expect(program.admit(arrival)).toMatchObject({ status: 'refused', code: 'program_open_calls_exceeded' })
    program.callEnded({ run: 'run', call: 'c0', outcome: 'completed', error_code: null, now_ms: 0 })
    expect(program.admit(arrival).status).toBe('admitted')
  })

  it(`refuses call ${CALLS_PER_RUN_MAX + 1} of a run, whose records are still taken`, () => {
    const program = entry()
    for (let call = 0; call < CALLS_PER_RUN_MAX; call += 1) {
      admit(program, `c${call}`)
      program.callEnded({ run: 'run', call: `c${call}`, outcome: 'completed', error_code: null, now_ms: 0 })
    }
    const arrival = { call: 'late', thread: null, parents: null, model: 'model', now_ms: 0 }
    expect(program.admit(arrival)).toMatchObject({ status: 'refused', code: 'program_calls_exceeded' })
    expect(program.settle(record({ lease: 'late', call: 'late' }), 0)).toBe('applied')
    expect(program.summary().service_us).toBe(1000)
  })

  it('to an ended run is a bug', () => {
    const program = entry()
    program.end(1, 'explicit')
    expect(() => program.admit({ call: 'a', thread: null, parents: null, model: 'model', now_ms: 2 })).toThrow()
  })
})

describe('a lease', () => {
  it(`past the ${LEASES_PER_CALL_MAX} of a call is not kept, though its record is`, () => {
    const program = entry()
    admit(program, 'a')
    const opened = Array.from({ length: LEASES_PER_CALL_MAX + 1 }, (_, index) =>
      program.leaseOpened(grant({ lease: `l${index}`, call: 'a' })),
    )
    expect(opened).toEqual([...Array(LEASES_PER_CALL_MAX).fill('opened'), 'exceeded'])
    expect(program.settle(record({ lease: `l${LEASES_PER_CALL_MAX}`, call: 'a' }), 1)).toBe('applied')
  })

  it('for a forgotten call brings the call back', () => {
    const program = entry()
    expect(program.leaseOpened(grant({ lease: 'la', call: 'a' }))).toBe('opened')
    expect(program.summary()).toMatchObject({ calls: 1, open_calls: 1 })
  })
})

describe('the end of a run', () => {
  it('closes open calls as cancelled and returns the leases that engines hold', () => {
    const program = entry()
    run(program, 'done', 10)
    admit(program, 'a')
    program.leaseOpened(grant({ lease: 'la', call: 'a' }))
    expect(program.end(5, 'explicit').map(({ lease }) => lease)).toEqual(['la'])
    expect(program.summary()).toMatchObject({ state: 'ended', end_reason: 'explicit', ended_at_ms: 5, open_calls: 0 })
    expect(program.callsPage({ after: 'done', limit: 1 }).calls[0]).toMatchObject({ outcome: 'cancelled' })
  })

  it('counts records that come later, and stays as it was when ended again', () => {
    const program = entry()
    admit(program, 'a')
    program.leaseOpened(grant({ lease: 'la', call: 'a' }))
    program.end(5, 'explicit')
    expect(program.settle(record({ lease: 'la', call: 'a', outcome: 'cancelled' }), 6)).toBe('applied')
    expect(program.end(7, 'stale')).toEqual([])
    expect(program.summary()).toMatchObject({ end_reason: 'explicit', ended_at_ms: 5, service_us: 1000 })
  })

  it('tells of a lease that was opened after it', () => {
    const program = entry()
    admit(program, 'a')
    program.end(5, 'explicit')
    expect(program.leaseOpened(grant({ lease: 'la', call: 'a' }))).toBe('ended')
    expect(program.openLeases()).toHaveLength(1)
  })
})

describe('orphans', () => {
  it('are calls that got no lease in time; they close as failed', () => {
    const program = entry()
    admit(program, 'a')
    admit(program, 'leased')
    program.leaseOpened(grant({ lease: 'l', call: 'leased' }))
    expect(program.closeOrphans(ORPHANED_CALL_MS - 1)).toBe(0)
    expect(program.closeOrphans(ORPHANED_CALL_MS)).toBe(1)
    expect(program.callsPage({ after: null, limit: 1 }).calls[0]).toMatchObject({ error_code: 'orphaned' })
    expect(program.open_calls).toBe(1)
  })

  it('are leases whose record never came; they order nothing any more, and a record that comes all the same counts', () => {
    const program = entry()
    admit(program, 'leased')
    program.leaseOpened(grant({ lease: 'l', call: 'leased' }))
    expect(program.closeOrphans(ORPHANED_LEASE_MS - 1)).toBe(0)
    expect(program.openLeases()).toHaveLength(1)
    expect(program.closeOrphans(ORPHANED_LEASE_MS)).toBe(2)
    expect(program.openLeases()).toEqual([])
    expect(program.open_calls).toBe(0)
    expect(program.keys().settled_service_us).toBe(0)
    const late = record({ lease: 'l', call: 'leased', service_modelled_us: 7 })
    expect(program.settle(late, ORPHANED_LEASE_MS + 1)).toBe('applied')
    expect(program.keys().settled_service_us).toBe(7)
  })

  it('are corrected by their Worker, if it lives, and by their record', () => {
    const program = entry()
    admit(program, 'a')
    program.closeOrphans(ORPHANED_CALL_MS)
    program.callEnded({ run: 'run', call: 'a', outcome: 'cancelled', error_code: null, now_ms: ORPHANED_CALL_MS + 1 })
    expect(program.callsPage({ after: null, limit: 1 }).calls[0]).toMatchObject({ outcome: 'cancelled' })
  })
})

describe('pages and lists', () => {
  it('give every call once, in the order in which they were opened', () => {
    const program = entry()
    for (let call = 0; call < 7; call += 1) admit(program, `c${call}`)
    const seen: string[] = []
    let after: string | null = null
    do {
      const page: ReturnType<ProgramEntry['callsPage']> = program.callsPage({ after, limit: 3 })
      seen.push(...page.calls.map(({ call }) => call))
      after = page.next
    } while (after !== null)
    expect(seen).toEqual(['c0', 'c1', 'c2', 'c3', 'c4', 'c5', 'c6'])
    expect(program.callsPage({ after: 'nobody', limit: 3 })).toEqual({ calls: [], next: null })
    expect(program.callsPage({ after: 'nobody', limit: 3, order: 'desc' })).toEqual({ calls: [], next: null })
  })

  it('give the calls that were opened last first, where that is asked for', () => {
    const program = entry()
    for (let call = 0; call < 7; call += 1) admit(program, `c${call}`)
    const seen: string[][] = []
    let after: string | null = null
    do {
      const page: ReturnType<ProgramEntry['callsPage']> = program.callsPage({ after, limit: 3, order: 'desc' })
      seen.push(page.calls.map(({ call }) => call))
      after = page.next
    } while (after !== null)
    expect(seen).toEqual([['c6', 'c5', 'c4'], ['c3', 'c2', 'c1'], ['c0']])
  })

  it(`hold at most ${CALLS_PAGE_MAX} calls, ${ENGINES_LISTED_MAX} engines and ${PINS_PER_PROGRAM_MAX} pins`, () => {
    const program = entry()
    for (let index = 0; index <= CALLS_PAGE_MAX; index += 1) {
      const [call, lease, engine, model] = [`c${index}`, `l${index}`, `e${index}`, `m${index}`]
      admit(program, call)
      program.leaseOpened(grant({ lease, call, engine, model, pin: true, now_ms: index }))
    }
    expect(program.callsPage({ after: null, limit: 10_000 }).calls).toHaveLength(CALLS_PAGE_MAX)
    const { engines, pins } = program.summary()
    expect(engines).toHaveLength(ENGINES_LISTED_MAX)
    expect(engines[0]).toMatchObject({ engine: `e${CALLS_PAGE_MAX}` })
    expect(pins).toHaveLength(PINS_PER_PROGRAM_MAX)
    expect(pins.at(-1)).toMatchObject({ model: `m${CALLS_PAGE_MAX}` })
  })
})
