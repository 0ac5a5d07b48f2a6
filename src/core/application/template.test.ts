import { expect, it } from 'vitest'
import { filled, namesIn, textBytes, textOf } from './template.ts'

const BODY = { messages: [{ role: 'user', content: 'Is {{answer.output}} right? {{ question }} {{question}}' }], n: 1 }

it('finds the names in all strings, each once', () => {
  expect(namesIn(BODY)).toEqual(['answer.output', 'question'])
  expect(namesIn({ schema: '{"a":{"b":1}} {{not a name}} {{}}' })).toEqual([])
})

it('fills strings and leaves the rest, and reads nothing in what it puts in', () => {
  const values: Record<string, string> = { question: 'why {{answer.output}}', 'answer.output': '$& and $1' }
  expect(filled(BODY, (name) => values[name] ?? '')).toEqual({
    messages: [{ role: 'user', content: 'Is $& and $1 right? why {{answer.output}} why {{answer.output}}' }],
    n: 1,
  })
})

it('counts the bytes around placeholders', () => {
  expect(textBytes(BODY)).toBe('user'.length + 'Is  right?  '.length)
  expect(textBytes({ text: 'ä{{x}}' })).toBe(2)
})

it('takes values as text, and nothing for what is absent', () => {
  expect([textOf('a'), textOf(3), textOf(false), textOf({ a: [1] })]).toEqual(['a', '3', 'false', '{"a":[1]}'])
  expect([textOf(null), textOf(undefined)]).toEqual([null, null])
})
