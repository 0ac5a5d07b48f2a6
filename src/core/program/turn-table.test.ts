import { describe, expect, it } from 'vitest'
import type { ConversationTurn } from '../conversation/conversation-turn.ts'
import { TURNS_MAX, TurnTable } from './turn-table.ts'

/** A turn of the conversation that begins with `opening`; `ends`: of its turns so far, its own last. */
function turn(opening: number, ...ends: number[]): ConversationTurn {
  return { opening, end: ends.at(-1) ?? 0, answered: ends.slice(0, -1).reverse() }
}

describe('the calls of a session', () => {
  it('go on behind the call whose answer they have', () => {
    const it = new TurnTable()
    it.remember('a', 'main', null, turn(1, 10))
    it.remember('b', 't0', null, turn(2, 20))
    expect(it.find(null, turn(1, 10, 11))).toEqual({ kind: 'answered', call: 'a', thread: 'main' })
    expect(it.find(null, turn(2, 20, 21))).toEqual({ kind: 'answered', call: 'b', thread: 't0' })
  })

  it('go on behind the latest call that fits, first of their own conversation', () => {
    const it = new TurnTable()
    it.remember('a', 'main', null, turn(1, 10))
    it.remember('b', 'main', null, turn(1, 10, 10))
    it.remember('c', 't0', null, turn(2, 10))
    expect(it.find(null, turn(1, 10, 10, 11))).toMatchObject({ call: 'b' })
    expect(it.find(null, turn(3, 10, 11))).toMatchObject({ call: 'c' })
  })

  it('that fit no call begin a conversation, unless they have its opening and an answer', () => {
    const it = new TurnTable()
    it.remember('a', 'main', null, turn(1, 10))
    expect(it.find(null, turn(2, 20))).toEqual({ kind: 'other' })
    expect(it.find(null, turn(1, 12))).toEqual({ kind: 'other' })
    expect(it.find(null, turn(1, 13, 14))).toEqual({ kind: 'same', thread: 'main' })
  })

  it('that are the last call again stay with it; the same words later begin a conversation', () => {
    const it = new TurnTable()
    it.remember('a', 'main', null, turn(1, 10))
    expect(it.find(null, turn(1, 10))).toEqual({ kind: 'same', thread: 'main' })
    it.remember('b', 'main', null, turn(1, 10, 11))
    expect(it.find(null, turn(1, 10))).toEqual({ kind: 'other' })
  })

  it('are looked for in their own session only', () => {
    const it = new TurnTable()
    expect(it.find('s', turn(1, 10))).toEqual({ kind: 'unknown' })
    it.remember('a', 's', 's', turn(1, 10))
    expect(it.find('sub', turn(1, 10))).toEqual({ kind: 'unknown' })
    expect(it.find('s', turn(1, 10, 11))).toMatchObject({ call: 'a' })
  })

  it(`are remembered up to ${TURNS_MAX}, the latest ones`, () => {
    const it = new TurnTable()
    for (let call = 0; call <= TURNS_MAX; call += 1) it.remember(`c${call}`, `t${call}`, null, turn(call, call))
    expect(it.find(null, turn(0, 0, 1000))).toEqual({ kind: 'other' })
    expect(it.find(null, turn(1, 1, 1000))).toMatchObject({ call: 'c1' })
  })
})
