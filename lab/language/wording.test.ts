import { expect, test } from 'vitest'
import { proseOf } from './markdown-text.ts'
import { messagesOf } from './message-text.ts'
import { AVOIDED, hitsIn, SEMICOLONS_MAX, SENTENCE_WORDS_MAX, sentences } from './wording.ts'

const words = (count: number): string => `${Array.from({ length: count }, () => 'word').join(' ')}.`

test('a sentence has at most as many words as the bound', () => {
  expect(hitsIn(words(SENTENCE_WORDS_MAX), 1)).toEqual([])
  expect(hitsIn(words(SENTENCE_WORDS_MAX + 1), 7)).toEqual([
    {
      line: 7,
      text: expect.any(String),
      reason: `${SENTENCE_WORDS_MAX + 1} words in a sentence, at most ${SENTENCE_WORDS_MAX}`,
    },
  ])
  expect(hitsIn(`${words(30)} ${words(30)}`, 1)).toEqual([])
})

test('clauses are joined by one semicolon at most, except in a list', () => {
  expect(hitsIn('It stops; nothing is lost.', 1)).toEqual([])
  const chain = 'It stops; nothing is lost; it goes on.'
  expect(hitsIn(chain, 3)).toEqual([
    { line: 3, text: expect.any(String), reason: `2 semicolons in a sentence, at most ${SEMICOLONS_MAX}` },
  ])
  expect(hitsIn(chain, 3, true)).toEqual([])
  expect(hitsIn('for f in *; do rm $f; done; echo', 1)).toEqual([])
})

test.each([
  ['The model could not be had.', 'be had'],
  ['Whoever asks gets it.', 'Whoever'],
  ['It takes whatever comes.', 'whatever'],
  ['An agent is believed only what it can prove.', 'is believed only'],
  ['Two commands mend that.', 'mend'],
  ['## What stands', 'What stands'],
])('%s', (text, found) => {
  expect(hitsIn(text, 1)).toMatchObject([{ text: found }])
})

test('words that only begin like an avoided one are fine', () => {
  expect(hitsIn('We recommend an amendment, and Mendel agrees.', 1)).toEqual([])
  expect(AVOIDED.length).toBeGreaterThan(10)
})

test('abbreviations and file names end no sentence', () => {
  expect(sentences('See e.g. docs/api.md for more. Then go on.')).toEqual([
    'See e.g docs/api.md for more.',
    'Then go on.',
  ])
})

test('prose is taken by paragraph, item and cell, without code', () => {
  const page =
    '# Title\n\nOne `a b c`\nmore.\n\n```\nno prose here\n```\n\n    nor here\n      nor here\n\n- item [link](x.md)\n- next\n  line\n\n| a | b \\| c |\n|---|---|\n'
  expect(proseOf(page)).toEqual([
    { text: 'Title', line: 1 },
    { text: 'One code more.', line: 3 },
    { text: 'item link', line: 13 },
    { text: 'next line', line: 14 },
    { text: 'a', line: 17, cell: true },
    { text: 'b / c', line: 17, cell: true },
  ])
})

test('messages are the literals of several words, joined, and not imports or keys', () => {
  const source = `import a from 'a b c d e f'\nconst x = 'key'\nfail('It is not there, ' + \`because \${x} is not.\` + ' Run \`npm run up\`.')\n`
  expect(messagesOf('x.ts', source)).toEqual([{ text: 'It is not there, because value is not. Run code.', line: 3 }])
})
