import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { MEASURED_SUMS } from '../../protocol/index.ts'
import { orderingServiceUs } from '../call/service.ts'
import { entry, grant, record } from '../testing/builders.ts'
import { ProgramEntry } from './program-entry.ts'
import type { Admission, CallRow, DirtyRows, LeaseRow, ProgramRow, ProgramRows } from './program-state.ts'

/** What may be told of call `call` and its lease `lease`; leases are numbered inside their call. */
type Fact =
  | { what: 'admit'; call: number; parents: number[] | null }
  | { what: 'opened'; call: number; lease: number; speed: number; pin: boolean }
  | { what: 'lost'; call: number; lease: number }
  | { what: 'ended'; call: number; outcome: 'completed' | 'cancelled' | 'failed' }
  | { what: 'record'; call: number; lease: number; service: number; outcome: 'completed' | 'cancelled' | 'failed' }
  | { what: 'end' }

const call = fc.nat(5)
const lease = fc.nat(2)
const outcome = fc.constantFrom('completed' as const, 'cancelled' as const, 'failed' as const)
const fact: fc.Arbitrary<Fact> = fc.oneof(
  fc.record({ what: fc.constant('admit' as const), call, parents: fc.option(fc.array(call, { maxLength: 3 })) }),
  fc.record({
    what: fc.constant('opened' as const),
    call,
    lease,
    speed: fc.double({ min: 0.1, max: 10, noNaN: true }),
    pin: fc.boolean(),
  }),
  fc.record({ what: fc.constant('lost' as const), call, lease }),
  fc.record({ what: fc.constant('ended' as const), call, outcome }),
  fc.record({ what: fc.constant('record' as const), call, lease, service: fc.nat(1_000_000), outcome }),
)

function tell(program: ProgramEntry, told: Fact, now_ms: number): void {
  if (told.what === 'end') {
    program.end(now_ms, 'explicit')
    return
  }
  const id = `c${told.call}`
  switch (told.what) {
    case 'admit': {
      const parents = told.parents?.map((parent) => `c${parent}`) ?? null
      if (program.state === 'running') program.admit({ call: id, thread: null, parents, model: 'model', now_ms })
      return
    }
    case 'opened':
      program.leaseOpened(
        grant({ call: id, lease: `${id}/${told.lease}`, speed_factor: told.speed, pin: told.pin, now_ms }),
      )
      return
    case 'lost':
      program.leaseLost({ run: 'run', lease: `${id}/${told.lease}`, error_code: 'engine_down' })
      return
    case 'ended':
      program.callEnded({ run: 'run', call: id, outcome: told.outcome, error_code: null, now_ms })
      return
    case 'record':
      program.settle(recordOf(told), now_ms)
  }
}

function recordOf(told: Extract<Fact, { what: 'record' }>) {
  const { service, outcome: of } = told
  const ended = { service_modelled_us: service, service_wall_us: service * 2, wait_us: service % 97, outcome: of }
  const moved = { swapped_out_tokens: service % 89, swapped_in_tokens: service % 83, swap_us: service % 79 }
  const asked = service % 2 === 0 ? {} : { tools: [`tool${service % 3}`] }
  return record({ call: `c${told.call}`, lease: `c${told.call}/${told.lease}`, ...ended, ...moved, ...asked })
}

/** What storage would hold: rows upserted by id. */
class Storage {
  #program: ProgramRow | null = null
  #calls = new Map<string, CallRow>()
  #leases = new Map<string, LeaseRow>()

  upsert(dirty: DirtyRows): void {
    this.#program = dirty.program ?? this.#program
    for (const row of dirty.calls) this.#calls.set(row.call, structuredClone(row))
    for (const row of dirty.leases) this.#leases.set(row.lease, structuredClone(row))
  }

  /** Leases in reverse, since a table promises no order. */
  rows(): ProgramRows {
    if (this.#program === null) throw new Error('nothing was stored')
    return { program: this.#program, calls: [...this.#calls.values()], leases: [...this.#leases.values()].reverse() }
  }
}

function sums(leases: readonly LeaseRow[]) {
  const settled = leases.filter((row) => row.state === 'settled')
  const sum = (of: (row: LeaseRow) => number) => settled.reduce((total, row) => total + of(row), 0)
  return {
    service_us: sum((row) => orderingServiceUs(row, 'modelled', row.speed_factor)),
    ...Object.fromEntries(MEASURED_SUMS.map((field) => [field, sum((row) => row[field])])),
  }
}

/** Open leases have no order. */
function placed(admission: Admission) {
  return admission.status === 'admitted' ? { ...admission, open_leases: new Set(admission.open_leases) } : admission
}

describe('a program’s entry', () => {
  it('has totals equal to the sums over its leases after every fact', () => {
    fc.assert(
      fc.property(fc.array(fact, { maxLength: 60 }), (facts) => {
        const program = entry()
        for (const [now_ms, told] of facts.entries()) {
          tell(program, told, now_ms)
          const summary = program.summary()
          expect(summary).toMatchObject(sums(program.rows().leases))
          expect(summary.critical_path_us).toBeLessThanOrEqual(summary.service_us)
          expect(program.keys().settled_service_us).toBe(summary.service_us)
          expect(program.keys().critical_path_us).toBe(summary.critical_path_us)
        }
      }),
    )
  })

  it('counts each record once, for any order and any number of repeats', () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.record({ call, lease, service: fc.nat(1_000_000) }), {
          selector: (of) => `${of.call}/${of.lease}`,
        }),
        fc.infiniteStream(fc.nat()),
        (leases, random) => {
          const records = leases.map((of) => ({ what: 'record' as const, outcome: 'completed' as const, ...of }))
          const shuffled = [...records, ...records, ...records]
            .map((told) => ({ told, turn: random.next().value }))
            .sort((a, b) => a.turn - b.turn)
          const program = entry()
          for (const { told } of shuffled) tell(program, told, 0)
          expect(program.summary().service_us).toBe(leases.reduce((sum, { service }) => sum + service, 0))
        },
      ),
    )
  })

  it('gives the same calls, sums and critical path for any order of the facts of admitted calls', () => {
    const settled = fc.uniqueArray(
      fc.record({
        call,
        lease,
        service: fc.nat(1_000_000),
        outcome,
        speed: fc.double({ min: 0.1, max: 10, noNaN: true }),
      }),
      { selector: (of) => `${of.call}/${of.lease}` },
    )
    fc.assert(
      fc.property(
        settled,
        fc.array(fc.record({ call, outcome })),
        fc.infiniteStream(fc.nat()),
        (leases, answers, random) => {
          const firstAnswers = answers.filter(
            (of, index) => answers.findIndex((other) => other.call === of.call) === index,
          )
          const facts: Fact[] = [
            ...leases.map((of) => ({ what: 'record' as const, ...of })),
            ...leases.map((of) => ({ what: 'opened' as const, pin: false, ...of })),
            ...leases.map((of) => ({ what: 'lost' as const, ...of })),
            ...firstAnswers.map((of) => ({ what: 'ended' as const, ...of })),
          ]
          const shuffled = facts.map((told) => ({ told, turn: random.next().value })).sort((a, b) => a.turn - b.turn)
          const verdicts = [facts, shuffled.map(({ told }) => told)].map((order) => {
            const program = entry()
            for (let index = 0; index < 6; index += 1) {
              tell(program, { what: 'admit', call: index, parents: index === 0 ? null : [index - 1] }, 0)
            }
            for (const told of order) tell(program, told, 0)
            const { service_us, critical_path_us, wait_us, open_calls } = program.summary()
            const calls = program.callsPage({ after: null, limit: 10 }).calls
            return {
              service_us,
              critical_path_us,
              wait_us,
              open_calls,
              outcomes: calls.map((of) => [of.state, of.outcome]),
            }
          })
          expect(verdicts[1]).toEqual(verdicts[0])
        },
      ),
    )
  })
})

describe('persistence', () => {
  it('restores what was told from rows written in any number of takes', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fact, fc.boolean()), { maxLength: 60 }), fc.boolean(), (facts, ends) => {
        const program = entry()
        const storage = new Storage()
        for (const [now_ms, [told, flush]] of facts.entries()) {
          tell(program, told, now_ms)
          if (flush) storage.upsert(program.takeDirty())
        }
        if (ends) tell(program, { what: 'end' }, 1000)
        storage.upsert(program.takeDirty())
        expect(program.isDirty).toBe(false)
        const restored = ProgramEntry.restore(storage.rows())
        expect(restored.isDirty).toBe(false)
        const { engines: _e, threads, ...summary } = restored.summary()
        const { engines: _f, threads: expected, ...told } = program.summary()
        expect(summary).toEqual(told)
        expect(threads).toEqual(expect.arrayContaining(expected))
        expect(restored.callsPage({ after: null, limit: 100 })).toEqual(program.callsPage({ after: null, limit: 100 }))
        expect(restored.keys()).toEqual(program.keys())
        if (program.state === 'running') {
          const next = { call: 'next', thread: null, parents: null, model: 'model', now_ms: 2000 }
          expect(placed(restored.admit(next))).toEqual(placed(program.admit(next)))
        }
      }),
    )
  })

  it('loses no record when memory goes at any moment and unconfirmed records are sent again', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fact, fc.boolean(), fc.boolean()), { maxLength: 60 }), (facts) => {
        const storage = new Storage()
        let program = entry()
        storage.upsert(program.takeDirty())
        const sent = new Map<string, Extract<Fact, { what: 'record' }>>()
        for (const [now_ms, [told, flush, crash]] of facts.entries()) {
          // An engine writes one record per lease.
          const same = told.what === 'record' ? (sent.get(`${told.call}/${told.lease}`) ?? told) : told
          if (same.what === 'record') sent.set(`${same.call}/${same.lease}`, same)
          tell(program, same, now_ms)
          if (flush) storage.upsert(program.takeDirty())
          if (crash) program = ProgramEntry.restore(storage.rows())
        }
        for (const told of sent.values()) tell(program, told, 1000)
        const expected_us = [...sent.values()].reduce((sum, { service }) => sum + service, 0)
        expect(program.summary().service_modelled_us).toBe(expected_us)
      }),
    )
  })

  it('gives rows of an unconfirmed take again, as they are by then', () => {
    const program = entry()
    program.admit({ call: 'a', thread: null, parents: null, model: 'model', now_ms: 0 })
    program.leaseOpened(grant({ call: 'a', lease: 'l' }))
    const taken = program.takeDirty()
    program.settle(record({ call: 'a', lease: 'l' }), 1)
    program.giveBack(taken)
    const again = program.takeDirty()
    expect(again.program).not.toBeNull()
    expect(again.calls).toMatchObject([{ call: 'a', state: 'ended' }])
    expect(again.leases).toMatchObject([{ lease: 'l', state: 'settled' }])
    expect(program.takeDirty()).toEqual({ program: null, calls: [], leases: [] })
  })

  it('hands out copies', () => {
    const program = entry({ metadata: { owner: 'ada' } })
    program.admit({ call: 'a', thread: null, parents: null, model: 'model', now_ms: 0 })
    program.leaseOpened(grant({ call: 'a', lease: 'l' }))
    const taken = program.takeDirty()
    program.settle(record({ call: 'a', lease: 'l' }), 1)
    expect(taken.leases).toMatchObject([{ state: 'open' }])
    expect(taken.calls).toMatchObject([{ state: 'open' }])
    program.summary().metadata.owner = 'eve'
    expect(program.summary().metadata).toEqual({ owner: 'ada' })
  })
})
