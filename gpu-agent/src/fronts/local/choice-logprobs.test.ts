import { expect, test } from 'vitest'
import type { Measurement } from '../../../../src/protocol/index.ts'
import { ChunkBuilder } from '../../openai/chunks.ts'
import type { OutputFormat } from '../../openai/output-format.ts'
import type { TextDialect } from '../engine-front.ts'
import { ChoiceOutput, type Echo } from './choice-output.ts'
import type { TokenDecoder } from './text-model.ts'

interface Chunk {
  choices: { delta?: { content?: string }; text?: string; logprobs: Record<string, unknown> | null }[]
}

/** Tokens are code points; two that follow 0xD8 are halves of one character. */
const text = {
  tokenBytes: (token: number) => (token === 0xd8 ? [0xe2, 0x80] : [...Buffer.from(String.fromCodePoint(token))]),
}

function decoder(): TokenDecoder {
  return { push: (token) => (token === 0xd8 ? '' : String.fromCodePoint(token)), end: () => '' }
}

interface Given {
  dialect?: TextDialect
  stops?: string[]
  format?: OutputFormat
  logprobs?: boolean
  halves?: boolean
  echo?: Echo | null
}

function answer(
  written: string,
  { dialect = 'chat', stops = [], format = { kind: 'text' }, logprobs = true, halves = false, echo = null }: Given = {},
) {
  const sent: Chunk[] = []
  const choice = new ChoiceOutput({
    index: 0,
    chunks: new ChunkBuilder({
      ...{ dialect, call: 'c', model: 'm', created_s: 0, system_fingerprint: 'f', include_usage: false, text },
    }),
    decoder: decoder(),
    ...{ stops, stop_tokens: new Set<number>(), format, logprobs, echo },
    send: (chunk) => sent.push(chunk as Chunk),
    resume: null,
    finish: () => undefined,
    ended: () => undefined,
  })
  if (echo !== null)
    choice.prompt(echo.tokens.slice(1).map((token) => ({ logprob: -5, top: [{ token, logprob: -5 }] })))
  const tokens = [...written].map((character) => character.codePointAt(0) as number)
  for (const [index, token] of (halves ? [0xd8, ...tokens] : tokens).entries()) {
    const top = [
      { token, logprob: -index },
      { token: 0x7a, logprob: -9 },
    ]
    choice.token(token, { logprob: -index, top })
  }
  choice.ended('length', {} as Measurement)
  const lists = (name: string) => sent.flatMap(({ choices: [choice] }) => (choice?.logprobs?.[name] as unknown[]) ?? [])
  return {
    sent,
    lists,
    text: sent.map(({ choices: [choice] }) => choice?.delta?.content ?? choice?.text ?? '').join(''),
  }
}

test('chat: each token with its bytes and alternatives, in the chunk that holds its text', () => {
  const { sent, lists } = answer('ab')
  expect(sent.filter(({ choices: [choice] }) => choice?.logprobs !== null)).toHaveLength(2)
  expect(sent[1]?.choices[0]).toMatchObject({ delta: { content: 'a' }, logprobs: { refusal: null } })
  expect(lists('content')[1]).toEqual({
    ...{ token: 'b', logprob: -1, bytes: [0x62] },
    top_logprobs: [
      { token: 'b', logprob: -1, bytes: [0x62] },
      { token: 'z', logprob: -9, bytes: [0x7a] },
    ],
  })
})

test('completions: four parallel lists', () => {
  const { lists } = answer('ab', { dialect: 'completions' })
  expect(lists('tokens')).toEqual(['a', 'b'])
  expect(lists('token_logprobs')).toEqual([-0, -1])
  expect(lists('top_logprobs')).toEqual([
    { a: -0, z: -9 },
    { b: -1, z: -9 },
  ])
  expect(lists('text_offset')).toEqual([0, 1])
})

test('half a character goes with the other half, as bytes', () => {
  expect(answer('x', { halves: true }).lists('content')).toMatchObject([
    { token: '\ufffd', bytes: [0xe2, 0x80] },
    { token: 'x' },
  ])
  expect(answer('x', { halves: true, dialect: 'completions' }).lists('tokens')).toEqual(['bytes:\\xe2\\x80', 'x'])
})

test('of what a stop string cuts off nothing is told, of what it only might have been everything', () => {
  const cut = answer('one END', { stops: [' END'] })
  expect([cut.text, cut.lists('content').length]).toEqual(['one', 3])
  const kept = answer('one EN', { stops: [' END'] })
  expect([kept.text, kept.lists('content').length]).toEqual(['one EN', 6])
})

test('of a tool call nothing is told, enforced or chosen; of the text before it everything', () => {
  const call = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
  expect(answer(call, { format: { kind: 'tool_call', names: ['f'] } }).lists('content')).toEqual([])
  const chosen = answer(`ok ${call}`, { format: { kind: 'auto', names: ['f'], several: true } })
  expect(chosen.lists('content')).toHaveLength(3)
})

test('nothing is told that was not asked for', () => {
  expect(answer('ab', { logprobs: false }).lists('content')).toEqual([])
})

const echoed = (text: string, alone = false): Echo => ({
  text,
  tokens: [...text].map((character) => character.codePointAt(0) as number),
  pieces: [...text],
  alone,
})

test('an echo comes first and once, its first token without a probability, and offsets count from its beginning', () => {
  const { text, lists } = answer('cd', { dialect: 'completions', echo: echoed('ab') })
  expect(text).toBe('abcd')
  expect(lists('tokens')).toEqual(['a', 'b', 'c', 'd'])
  expect(lists('token_logprobs')).toEqual([null, -5, -0, -1])
  expect(lists('top_logprobs').slice(0, 2)).toEqual([null, { b: -5 }])
  expect(lists('text_offset')).toEqual([0, 1, 2, 3])
})

test('an echo alone shows nothing of what was generated', () => {
  const { text, lists } = answer('c', { dialect: 'completions', echo: echoed('ab', true) })
  expect(text).toBe('ab')
  expect(lists('tokens')).toEqual(['a', 'b'])
})

test('a stop string does not look at the echo', () => {
  expect(answer('cXd', { dialect: 'completions', stops: ['X'], echo: echoed('aXb') }).text).toBe('aXbc')
})

test('an echo without log probabilities is text alone', () => {
  const { text, lists } = answer('c', { dialect: 'completions', logprobs: false, echo: echoed('ab') })
  expect([text, lists('tokens')]).toEqual(['abc', []])
})
