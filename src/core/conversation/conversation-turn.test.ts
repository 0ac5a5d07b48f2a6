import { describe, expect, it } from 'vitest'
import { conversationTurn } from './conversation-turn.ts'

const KEY = [17, -4] as const
const system = { role: 'system', content: 'You are an agent.' }
const user = (content: unknown) => ({ role: 'user', content })
const says = (content: string) => ({ role: 'assistant', content })
const result = (content: string) => ({ role: 'tool', content })
const uses = { role: 'assistant', content: null, tool_calls: [{ function: { name: 'f', arguments: '{}' } }] }

const turn = (...messages: unknown[]) => conversationTurn({ messages }, KEY) ?? expect.unreachable()
const opening = [system, user('Which city is warmer?')]

describe('a turn', () => {
  it('ends before the answer that later calls have behind it', () => {
    const first = turn(...opening)
    const second = turn(...opening, uses, result('18'))
    const third = turn(...opening, uses, result('18'), says('Paris.'), user('And Oslo?'))
    expect(first.answered).toEqual([])
    expect(second.answered).toEqual([first.end])
    expect(third.answered).toEqual([second.end, first.end])
    expect(new Set([first, second, third].map(({ opening: one }) => one)).size).toBe(1)
  })

  it('has the messages of parallel tool calls, and answers in several messages', () => {
    const next = turn(...opening, says('I look.'), uses, result('1'), result('2'), result('3'))
    expect(next.answered).toEqual([turn(...opening).end])
    expect(
      turn(...opening, says('I look.'), uses, result('1'), result('2'), result('3'), uses, result('4')).answered,
    ).toEqual([next.end, turn(...opening).end])
  })

  it('is the same in the ways in which clients write a message again', () => {
    const parts = [{ type: 'text', text: 'Which city is warmer?\n', cache_control: { type: 'ephemeral' } }]
    expect(turn(system, user(parts), uses, result('18')).answered).toEqual([turn(...opening).end])
  })

  it('differs by the message with which it ends and by the one before', () => {
    const end = turn(...opening, uses, result('18')).end
    expect(turn(...opening, uses, result('19')).end).not.toBe(end)
    expect(turn(system, user('Which is colder?'), uses, result('18')).end).not.toBe(end)
    expect(conversationTurn({ messages: [...opening, uses, result('18')] }, [17, -5])?.end).not.toBe(end)
  })

  it('differs by either end of a long text', () => {
    const long = 'x'.repeat(100_000)
    const ends = [long, `y${long}`, `${long}y`].map((text) => turn(user(text)).end)
    expect(new Set(ends).size).toBe(3)
  })

  it('does not take the title of a conversation for that conversation, though its question is in it', () => {
    const title = turn(user('Write a title.'), user('Which city is warmer?'))
    expect(title.answered).toEqual([])
    expect(title.opening).not.toBe(turn(...opening).opening)
  })
})

describe('bounds', () => {
  it('hold: a few turns of a long conversation', () => {
    const messages = Array.from({ length: 100_001 }, (_, at) => (at % 2 === 0 ? user(`${at}`) : says('b')))
    expect(turn(...messages).answered).toHaveLength(4)
    expect(turn(...Array.from({ length: 10_000 }, () => says('b')), user('x')).answered).toEqual([])
  })

  it('take any JSON for a message, and no other body', () => {
    for (const message of [null, 1, 'a', [], {}, { role: 5, content: {} }]) {
      expect(Number.isSafeInteger(turn(message, message).end)).toBe(true)
    }
    expect(conversationTurn({}, KEY)).toBeNull()
    expect(conversationTurn({ messages: [] }, KEY)).toBeNull()
    expect(conversationTurn({ messages: 'a' }, KEY)).toBeNull()
  })
})
