/** A run that goes on from its checkpoint is, to every question, the run that was loaded whole. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Outcome } from '../../protocol/index.ts'
import { addCharge, chargeOf, dayOf, NO_CHARGE } from '../budget/charge.ts'
import type { SpendPlace } from '../budget/run-spend.ts'
import { entry, grant, record } from '../testing/builders.ts'
import { ProgramEntry } from './program-entry.ts'
import {
  type CallRow,
  CHECKPOINT_CALLS_MIN,
  CHECKPOINT_THREADS_MAX,
  type Checkpoint,
  type DirtyRows,
  type LeaseRow,
  type ProgramRow,
  type ProgramRows,
} from './program-state.ts'

type Fact =
  | { what: 'admit'; parents: number[] | null; thread: number | null; gathers: boolean }
  | { what: 'opened'; call: number; lease: number; speed: number }
  | { what: 'lost'; call: number; lease: number }
  | { what: 'answered'; call: number }
  | {
      what: 'record'
      call: number
      lease: number
      service: number
      key: string | null
      outcome: Outcome
      granted_at_ms: number
    }

const call = fc.nat(12)
const lease = fc.nat(1)
const fact: fc.Arbitrary<Fact> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      what: fc.constant('admit' as const),
      parents: fc.option(fc.array(call, { maxLength: 3 })),
      thread: fc.option(fc.nat(3)),
      gathers: fc.boolean(),
    }),
  },
  fc.record({ what: fc.constant('opened' as const), call, lease, speed: fc.constantFrom(0.5, 1, 3) }),
  fc.record({ what: fc.constant('lost' as const), call, lease }),
  fc.record({ what: fc.constant('answered' as const), call }),
  fc.record({
    ...{ what: fc.constant('record' as const), call, lease, service: fc.nat(1_000_000) },
    ...{ key: fc.option(fc.constantFrom('key-1', 'key-2')), granted_at_ms: fc.constantFrom(0, 1, 90_000_000) },
    outcome: fc.constantFrom<Outcome>('completed', 'cancelled', 'failed'),
  }),
)

/** It covers all calls, so that none is refused. */
const BUDGET = { calls: null, tokens: 1_000_000, service_us: null, cost_nanos: null, ends_at_ms: null }
const WANTS = { most: { calls: 1, tokens: 100, service_us: 1_000, cost_nanos: 0 }, least_tokens: 10, prices: null }

const PRICES = { prompt_picos: 3_000_000, cached_prompt_picos: 1_000_000, output_picos: 7_000_000 }

/** What storage would hold. */
class Storage {
  #program: ProgramRow | null = null
  checkpoint: Checkpoint | null = null
  readonly #calls = new Map<string, CallRow>()
  readonly #leases = new Map<string, LeaseRow>()

  upsert(dirty: DirtyRows): void {
    this.#program = dirty.program ?? this.#program
    if (dirty.program !== null) this.checkpoint = structuredClone(dirty.checkpoint ?? null)
    for (const row of dirty.calls) this.#calls.set(row.call, structuredClone(row))
    for (const row of dirty.leases) this.#leases.set(row.lease, structuredClone(row))
  }

  rows(): ProgramRows {
    if (this.#program === null) throw new Error('nothing was stored')
    return { program: this.#program, calls: [...this.#calls.values()], leases: [...this.#leases.values()] }
  }

  /** The rows that a checkpoint names. */
  named({ live }: Checkpoint): ProgramRows {
    const { program, calls, leases } = this.rows()
    const ids = new Set(live.flatMap((one) => one.leases))
    return {
      program,
      calls: calls.filter(({ position }) => live.some((one) => one.position === position)),
      leases: leases.filter((one) => ids.has(one.lease)),
    }
  }
}

/** As the actor does: loads the history where the entry needs it. */
function tell(program: ProgramEntry, storage: Storage, told: Fact, now_ms: number, id: string): void {
  const whole = (isEnough: boolean) => {
    if (!isEnough) program.complete(storage.rows())
  }
  if (told.what === 'admit') {
    const parents = told.parents?.map((parent) => `c${parent}`) ?? null
    const arrival = {
      call: id,
      thread: told.thread === null ? null : `n${told.thread}`,
      parents,
      model: 'model',
      gathers: told.gathers,
      wants: WANTS,
      now_ms,
    }
    whole(program.canAdmit(arrival))
    program.admit(arrival)
    return
  }
  const of = `c${told.call}`
  if (told.what === 'answered') {
    whole(program.canChange({ call: of }))
    program.callEnded({ run: 'run', call: of, outcome: 'completed', error_code: null, now_ms })
    return
  }
  const name = `${of}/${told.lease}`
  whole(program.canChange({ call: of, lease: name }))
  if (told.what === 'opened') {
    program.leaseOpened(grant({ call: of, lease: name, speed_factor: told.speed, now_ms }))
  } else if (told.what === 'lost') {
    program.leaseLost({ run: 'run', lease: name, error_code: 'engine_down' })
  } else {
    const { service, key, outcome, granted_at_ms } = told
    program.settle(
      {
        ...{ key, granted_at_ms, prices: PRICES },
        ...record({
          outcome,
          ...{ call: of, lease: name, service_modelled_us: service, service_wall_us: 2 * service },
          ...(service % 2 === 0 ? {} : { tools: ['search', 'read'] }),
        }),
      },
      now_ms,
    )
  }
}

function answers(program: ProgramEntry) {
  const { engines, threads, ...summary } = program.summary()
  const { leases, places } = program.spend ?? { leases: 0, places: [] }
  const told = {
    summary,
    engines,
    threads: new Set(threads),
    keys: program.keys(),
    open: new Set(program.openLeases()),
  }
  return { ...told, leases, spend: new Set(places) }
}

/** What its rows say that the program tells of its charges: for each call, what its last lease was charged. */
function chargesIn({ calls, leases }: ProgramRows) {
  const sums = new Map<string, SpendPlace>()
  const placeOf = ({ model, charged }: LeaseRow) => {
    const of = { day: dayOf(charged?.granted_at_ms ?? 0), key: charged?.key ?? null, model }
    const name = JSON.stringify(of)
    const place = sums.get(name) ?? { ...of, charge: { ...NO_CHARGE } }
    sums.set(name, place)
    return place
  }
  for (const { call } of calls) {
    const settled = leases.filter((one) => one.call === call && one.charged !== undefined)
    const order = (one: LeaseRow) => `${String(one.charged?.granted_at_ms).padStart(12, '0')} ${one.lease}`
    for (const one of settled) placeOf(one)
    const last = settled.toSorted((a, b) => (order(a) < order(b) ? -1 : 1)).at(-1)
    if (last === undefined || last.outcome === null) continue
    addCharge(placeOf(last).charge, chargeOf({ ...last, outcome: last.outcome }, PRICES))
  }
  return new Set(sums.values())
}

describe('a run that goes on from its checkpoint', () => {
  it('answers as one that never left memory, through any facts and restarts', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fact, fc.boolean(), fc.boolean()), { maxLength: 60 }), (facts) => {
        const storage = new Storage()
        const kept = entry({ budget: BUDGET })
        let restarted = entry({ budget: BUDGET })
        const take = () => storage.upsert(restarted.takeDirty(0))
        take()
        let admitted = 0
        for (const [now_ms, [told, flush, restart]] of facts.entries()) {
          const id = `c${admitted}`
          if (told.what === 'admit') admitted += 1
          // Only calls that were admitted: the order that makes whole restores exact.
          else if (told.call >= admitted) continue
          tell(kept, storage, told, now_ms, id)
          tell(restarted, storage, told, now_ms, id)
          if (flush || restart) take()
          if (restart && storage.checkpoint !== null) {
            restarted = ProgramEntry.resume(storage.named(storage.checkpoint), storage.checkpoint)
          }
          expect(answers(restarted)).toEqual(answers(kept))
        }
        take()
        expect(answers(restarted).spend).toEqual(chargesIn(storage.rows()))
        if (!restarted.isWhole) restarted.complete(storage.rows())
        expect(answers(restarted)).toEqual(answers(kept))
        const page = { after: null, limit: 100 }
        expect(restarted.callsPage(page)).toEqual(kept.callsPage(page))
        expect(restarted.isDirty).toBe(false)
      }),
      { numRuns: 2_000 },
    )
  })
})

/** A chain of settled calls, then one that is open; the rows that its storage has. */
function chain(calls: number) {
  const program = entry()
  const storage = new Storage()
  for (let i = 0; i < calls; i += 1) {
    const id = `c${i}`
    program.admit({ call: id, thread: null, parents: null, model: 'model', now_ms: i })
    program.leaseOpened(grant({ call: id, lease: `l${i}`, now_ms: i }))
    if (i < calls - 1) program.settle(record({ call: id, lease: `l${i}` }), i)
    storage.upsert(program.takeDirty())
  }
  return { program, storage }
}

it('a call that began behind its parent on the critical path does so after a restart', () => {
  const program = entry()
  const storage = new Storage()
  for (const [id, parents] of [
    ['parent', []],
    ['child', ['parent']],
  ] as const) {
    program.admit({ call: id, thread: 'main', parents, model: 'model', now_ms: 0 })
    program.leaseOpened(grant({ call: id, lease: `${id}/0`, speed_factor: 1 }))
  }
  const served = (of: string, service_modelled_us: number) =>
    record({ call: of, lease: `${of}/0`, service_modelled_us })
  program.settle(served('parent', 1_000), 1)
  storage.upsert(program.takeDirty(0))
  if (storage.checkpoint === null) throw new Error('no checkpoint')
  const resumed = ProgramEntry.resume(storage.named(storage.checkpoint), storage.checkpoint)
  resumed.settle(served('child', 500), 2)
  expect([resumed.isWhole, resumed.keys().critical_path_us]).toEqual([false, 1_500])
})

describe('the size of a checkpoint', () => {
  it('does not grow with the calls of a chain: only what is open is named', () => {
    const { checkpoint } = chain(2 * CHECKPOINT_CALLS_MIN).storage
    expect(checkpoint?.live).toHaveLength(1)
    expect(checkpoint?.threads.tails).toHaveLength(1)
    expect(checkpoint?.calls).toBe(2 * CHECKPOINT_CALLS_MIN)
  })

  it('a run has one from the bound on, and none below it', () => {
    expect(chain(CHECKPOINT_CALLS_MIN - 1).storage.checkpoint).toBeNull()
    expect(chain(CHECKPOINT_CALLS_MIN).storage.checkpoint).not.toBeNull()
  })

  it('holds so many threads, those used last; for another the history is needed', () => {
    const program = entry()
    for (let i = 0; i <= CHECKPOINT_THREADS_MAX; i += 1) {
      program.admit({ call: `c${i}`, thread: `n${i}`, parents: [], model: 'model', now_ms: i })
      program.callEnded({ run: 'run', call: `c${i}`, outcome: 'completed', error_code: null, now_ms: i })
    }
    const { checkpoint, program: row } = program.takeDirty()
    if (checkpoint === undefined || row === null) throw new Error('no checkpoint')
    const resumed = ProgramEntry.resume({ program: row, calls: [], leases: [] }, checkpoint)
    expect(resumed.canAdmit({ thread: 'n0', parents: null })).toBe(false)
    expect(resumed.canAdmit({ thread: 'n1', parents: ['c1'] })).toBe(true)
    expect(resumed.canAdmit({ thread: null, parents: ['c0'] })).toBe(false)
    expect(resumed.canChange({ call: 'c5' })).toBe(false)
    expect(() => resumed.rows()).toThrow('history')
  })
})
