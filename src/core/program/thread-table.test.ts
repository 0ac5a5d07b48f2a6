import { describe, expect, it } from 'vitest'
import { PARENTS_MAX } from './program-state.ts'
import { type ThreadArrival, ThreadTable } from './thread-table.ts'

/** A table with calls by name of thread; `place` answers for a call that declares what it is given. */
function threads(calls: Record<string, string> = {}, open: readonly string[] = []) {
  const table = new ThreadTable()
  for (const [call, thread] of Object.entries(calls)) table.opened(thread, call)
  const known = (call: string) => {
    const thread = calls[call]
    const state = open.includes(call) ? ('open' as const) : ('ended' as const)
    return thread === undefined ? undefined : { thread, state }
  }
  const place = (declared: Partial<ThreadArrival> = {}, open_calls = 0): ReturnType<ThreadTable['place']> =>
    table.place({ thread: null, parents: null, ...declared }, open_calls, known)
  return { table, place }
}

describe('inferred threads', () => {
  it('starts a thread with the first call, which has no parents', () => {
    expect(threads().place()).toEqual({ thread: 't0', parents: [], parents_known: false })
  })

  it('continues the thread that ended last, with its last call as parent', () => {
    const { table, place } = threads({ a: 't0', b: 't1' })
    table.ended('t1', 'b')
    table.ended('t0', 'a')
    expect(place()).toEqual({ thread: 't0', parents: ['a'], parents_known: true })
  })

  it('starts a thread while another call is open, and does not guess its parent', () => {
    const { table, place } = threads({ a: 't0' })
    table.ended('t0', 'a')
    expect(place({}, 1)).toEqual({ thread: 't1', parents: [], parents_known: false })
  })

  it('passes over names that a client took', () => {
    expect(threads({ a: 't0', b: 't1' }).place({}, 2).thread).toBe('t2')
  })
})

describe('declared threads and parents', () => {
  it('win over what would be inferred', () => {
    const { table, place } = threads({ a: 'x', b: 'y' })
    table.ended('y', 'b')
    expect(place({ thread: 'x', parents: ['b'] })).toEqual({ thread: 'x', parents: ['b'], parents_known: true })
  })

  it('chain a declared thread onto its last call', () => {
    expect(threads({ a: 'x' }).place({ thread: 'x' }, 1)).toEqual({ thread: 'x', parents: ['a'], parents_known: true })
  })

  it('never make a parent of a call that is open', () => {
    const { table, place } = threads({ a: 'x', b: 'x', c: 'x' }, ['b', 'c'])
    expect(place({ thread: 'x' }, 2)).toEqual({ thread: 'x', parents: [], parents_known: false })
    table.ended('x', 'a')
    expect(place({ thread: 'x' }, 2)).toEqual({ thread: 'x', parents: ['a'], parents_known: true })
  })

  it('continue the thread whose last call is a parent, and fork when it has gone on', () => {
    const { table, place } = threads({ a: 't0' })
    expect(place({ parents: ['a'] }).thread).toBe('t0')
    table.opened('t0', 'b')
    expect(place({ parents: ['a'] }).thread).toBe('t1')
  })

  it('make a root of a call that declares no parents', () => {
    const { table, place } = threads({ a: 't0' })
    table.ended('t0', 'a')
    expect(place({ parents: [] })).toEqual({ thread: 't1', parents: [], parents_known: true })
  })

  it('ignore unknown parents; only unknown ones say nothing', () => {
    const { table, place } = threads({ a: 't0' })
    table.ended('t0', 'a')
    expect(place({ parents: ['nobody', 'a', 'a'] }).parents).toEqual(['a'])
    expect(place({ parents: ['nobody'] })).toEqual({ thread: 't0', parents: ['a'], parents_known: true })
  })

  it(`keep the first ${PARENTS_MAX} parents`, () => {
    const calls = Object.fromEntries(Array.from({ length: PARENTS_MAX + 1 }, (_, index) => [`c${index}`, `t${index}`]))
    const { place } = threads(calls)
    expect(place({ parents: Object.keys(calls).slice(0, PARENTS_MAX) }).parents).toHaveLength(PARENTS_MAX)
    expect(place({ parents: Object.keys(calls) }).parents).toEqual(Object.keys(calls).slice(0, PARENTS_MAX))
  })
})

describe('the main thread of a session', () => {
  const main = { thread: 'session', main_thread: true }

  it('is continued by the next call that names no other', () => {
    expect(threads({ a: 'session' }).place(main)).toEqual({ thread: 'session', parents: ['a'], parents_known: true })
  })

  it('is left by a call that arrives while it has an open call: side calls are threads, not a chain', () => {
    const { place } = threads({ a: 'session' }, ['a'])
    expect(place(main, 1)).toEqual({ thread: 't0', parents: [], parents_known: false })
  })

  it('is kept by a call that declares it as its thread', () => {
    const { place } = threads({ a: 'session' }, ['a'])
    expect(place({ thread: 'session' }, 1).thread).toBe('session')
  })
})

describe('calls of a session whose conversations are known', () => {
  const turn = (opening: number, ...ends: number[]) => {
    return { opening, end: ends.at(-1) ?? 0, answered: ends.slice(0, -1).reverse() }
  }
  const session = { thread: 'session', main_thread: true, parents: null }

  /** Call `a` on the main thread, and what else was placed. */
  function placed(calls: Record<string, string>, open: readonly string[] = []) {
    const it = threads(calls, open)
    it.table.remember('a', 'session', { ...session, turn: turn(1, 10) })
    return it
  }

  it('start a thread with a conversation of their own, whose parent is not guessed', () => {
    const { place } = placed({ a: 'session' })
    expect(place({ ...session, turn: turn(2, 20) })).toEqual({ thread: 't0', parents: [], parents_known: false })
  })

  it('go on with the thread of their conversation, even if another ended last', () => {
    const { table, place } = placed({ a: 'session', b: 't0' })
    table.remember('b', 't0', { ...session, turn: turn(2, 20) })
    table.ended('t0', 'b')
    expect(place({ ...session, turn: turn(1, 10, 11) })).toEqual({
      ...{ thread: 'session', parents: ['a'], parents_known: true },
    })
    expect(place({ ...session, turn: turn(2, 20, 21) })).toMatchObject({ thread: 't0', parents: ['b'] })
  })

  it('go on behind an answer whose end was not reported yet', () => {
    const { place } = placed({ a: 'session' }, ['a'])
    expect(place({ ...session, turn: turn(1, 10, 11) }, 1)).toMatchObject({ thread: 'session', parents: ['a'] })
  })

  it('are threads with one parent if several go on behind one answer', () => {
    const { table, place } = placed({ a: 'session', b: 'session' }, ['b'])
    table.remember('b', 'session', { ...session, turn: turn(1, 10, 11) })
    expect(place({ ...session, turn: turn(1, 10, 12) }, 1)).toEqual({
      thread: 't0',
      parents: ['a'],
      parents_known: true,
    })
  })

  it('that are the same call again wait for it on its thread, or run beside it', () => {
    expect(placed({ a: 'session' }).place({ ...session, turn: turn(1, 10) })).toMatchObject({
      thread: 'session',
      parents: ['a'],
    })
    expect(placed({ a: 'session' }, ['a']).place({ ...session, turn: turn(1, 10) }, 1)).toEqual({
      ...{ thread: 't0', parents: [], parents_known: false },
    })
  })

  it('keep the parents that they declare', () => {
    const { place } = placed({ a: 'session', b: 't0' })
    expect(place({ ...session, parents: ['b'], turn: turn(2, 20) })).toMatchObject({
      thread: 'session',
      parents: ['b'],
    })
  })

  it('are placed as any other while no turn of their session is known', () => {
    expect(threads({ a: 'session' }).place({ ...session, turn: turn(1, 10, 11) })).toMatchObject({ parents: ['a'] })
  })
})
