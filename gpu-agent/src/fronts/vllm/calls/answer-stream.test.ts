import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Resume } from '../../../../../src/protocol/index.ts'
import { ChunkFrame } from '../../../openai/chunk-frame.ts'
import { TOOL_CALLS_MAX } from '../../../openai/schemas.ts'
import { readMessage } from '../channel/channel-messages.ts'
import { AnswerStream } from './answer-stream.ts'

function stream(dialect: 'chat' | 'completions' = 'chat', choices = 1): AnswerStream {
  const frame = { call: 'call', model: 'm', created_s: 5, system_fingerprint: 'f', include_usage: false }
  return new AnswerStream(new ChunkFrame({ dialect, ...frame }), choices)
}

function resumed(resume: Partial<Resume>, compares = false): AnswerStream {
  const frame = { dialect: 'chat' as const, call: 'call', model: 'm', created_s: 5, system_fingerprint: 'f' }
  const had = { content: '', reasoning: '', tool_calls: [], tokens: [], created_s: 5, system_fingerprint: 'f' }
  const options = { resume: { ...had, ...resume }, compares }
  return new AnswerStream(new ChunkFrame({ ...frame, include_usage: false }), 1, options)
}

/** The tokens that the answer's events name. */
function named(answer: AnswerStream, ...chunks: [text: string, ...token_ids: number[]][]): unknown[] {
  return chunks.map(([content, ...token_ids]) => {
    const reading = answer.read({ choices: [{ index: 0, delta: { content }, token_ids }] })
    return reading.ok ? reading.tokens : reading.broken
  })
}

function said(answer: AnswerStream, ...choices: object[]): unknown[] {
  const reading = answer.read({ id: 'theirs', model: 'theirs', choices })
  if (!reading.ok) return expect.fail(reading.broken)
  return reading.chunks.flatMap((chunk) => (chunk as { choices: unknown[] }).choices)
}

const piece = (index: number, fields: object) => ({ index: 0, delta: { tool_calls: [{ index, ...fields }] } })

describe('a chat', () => {
  test('calls tools under ids of its own, the same on every engine, and ends with tool_calls', () => {
    const ids = [stream(), stream()].map((answer) => {
      const begin = { id: `chatcmpl-tool-${Math.random()}`, type: 'function', function: { name: 'f', arguments: '' } }
      const [first] = said(answer, piece(0, begin)) as { delta: { tool_calls: { id: string }[] } }[]
      expect(first).toMatchObject({ delta: { tool_calls: [{ index: 0, function: { name: 'f', arguments: '' } }] } })
      expect(said(answer, piece(0, { function: { arguments: '{"a"' } }))).toEqual([
        {
          index: 0,
          delta: { tool_calls: [{ index: 0, function: { arguments: '{"a"' } }] },
          logprobs: null,
          finish_reason: null,
        },
      ])
      said(answer, { index: 0, delta: {}, finish_reason: 'stop' })
      expect(answer.finishes).toEqual([{ reason: 'tool_calls', stop: null }])
      return first?.delta.tool_calls[0]?.id
    })
    expect(ids[0]).toMatch(/^call_[0-9a-f]{24}$/)
    expect(ids[0]).toBe(ids[1])
  })

  test('has as many tool calls as it may, and not one more', () => {
    expect(stream().read({ choices: [piece(TOOL_CALLS_MAX, {})] }).ok).toBe(true)
    expect(stream().read({ choices: [piece(TOOL_CALLS_MAX + 1, {})] }).ok).toBe(false)
  })

  test('lets reasoning and log probabilities through, and nothing that it does not know', () => {
    const answer = stream()
    const logprobs = { content: [{ token: 'a', logprob: -1, bytes: [97], top_logprobs: [] }] }
    const delta = { role: 'assistant', content: 'a', reasoning: 'why', secret: 1 }
    expect(said(answer, { index: 0, delta, logprobs, stop_reason: 5, token_ids: [1] })).toEqual([
      {
        index: 0,
        delta: { role: 'assistant', refusal: null, content: 'a', reasoning: 'why' },
        logprobs,
        finish_reason: null,
      },
    ])
  })

  test('sends text that comes with the end at once, and keeps the end', () => {
    const answer = stream('chat', 2)
    expect(said(answer, { index: 1, delta: { content: 'z' }, finish_reason: 'length' })).toMatchObject([
      { index: 1, delta: { content: 'z' }, finish_reason: null },
    ])
    expect(answer.whole).toBe(false)
    expect(said(answer, { index: 0, delta: { content: '' }, finish_reason: 'stop' })).toEqual([])
    expect(answer.whole).toBe(true)
    expect(answer.finishes.map(({ reason }) => reason)).toEqual(['stop', 'length'])
    expect(answer.pieces).toBe(1)
  })
})

test('a stop string that vLLM met is kept with the end, a stop token is not', () => {
  const answer = stream('chat', 2)
  said(answer, { index: 0, delta: {}, finish_reason: 'stop', stop_reason: 'END' })
  said(answer, { index: 1, delta: {}, finish_reason: 'stop', stop_reason: 151645 })
  expect(answer.finishes).toEqual([
    { reason: 'stop', stop: 'END' },
    { reason: 'stop', stop: null },
  ])
})

describe('an answer that another engine began names', () => {
  test('no token again that vLLM takes from there, however it is cut', () => {
    const had = { content: 'one two three', tokens: [1, 2, 3] }
    expect(named(resumed(had), ['one two three four', 1, 2, 3, 4], [' five', 5])).toEqual([[4], [5]])
    expect(named(resumed(had), ['one two', 1, 2], [' three four', 3, 4], ['', 5])).toEqual([[], [4], [5]])
  })

  test('no token again that a server generates again, and one that has no text yet', () => {
    const had = { content: 'two three', tokens: [1, 2, 3] }
    expect(named(resumed(had, true), ['two', 2], [' three', 3], ['', 4], [' four', 5])).toEqual([[], [], [4], [5]])
  })
})

test('a completion has text', () => {
  const answer = stream('completions')
  expect(said(answer, { index: 0, text: 'a', logprobs: null, finish_reason: null })).toEqual([
    { index: 0, text: 'a', logprobs: null, finish_reason: null },
  ])
})

test('usage is what vLLM counted', () => {
  const answer = stream()
  answer.read({ choices: [], usage: { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 } })
  expect(answer.usage).toEqual({ prompt_tokens: 5, output_tokens: 2, cached_tokens: null })
  const prompt_tokens_details = { cached_tokens: 4 }
  answer.read({ choices: [], usage: { prompt_tokens: 5, completion_tokens: 2, prompt_tokens_details } })
  expect(answer.usage?.cached_tokens).toBe(4)
})

test('a choice that has ended may come with the usage and say nothing, and nothing else', () => {
  const ended = () => {
    const answer = stream()
    said(answer, { index: 0, delta: { content: 'a' } }, { index: 0, delta: {}, finish_reason: 'length' })
    return answer
  }
  const usage = { prompt_tokens: 3, completion_tokens: 1 }
  for (const choice of [
    { index: 0, delta: {} },
    { index: 0, delta: { role: 'assistant', content: '' } },
  ]) {
    const answer = ended()
    expect(answer.read({ choices: [choice], usage })).toEqual({ ok: true, chunks: [], tokens: [] })
    expect(answer.usage).toMatchObject({ prompt_tokens: 3, output_tokens: 1 })
    expect(answer.pieces).toBe(1)
  }
  for (const choice of [{ delta: { content: 'b' } }, { delta: {}, finish_reason: 'stop' }, { text: 'b' }]) {
    expect(ended().read({ choices: [{ index: 0, ...choice }] })).toMatchObject({ ok: false })
  }
})

test('property: everything an engine says is read or called broken', () => {
  const keys = fc.constantFrom(
    'choices',
    'index',
    'delta',
    'content',
    'tool_calls',
    'finish_reason',
    'usage',
    'type',
    'number',
  )
  const { tree } = fc.letrec((tie) => ({
    tree: fc.oneof(
      { maxDepth: 5 },
      fc.jsonValue(),
      fc.dictionary(keys, tie('tree')),
      fc.array(tie('tree'), { maxLength: 3 }),
    ),
  }))
  fc.assert(
    fc.property(tree, (value) => {
      expect(typeof stream().read(value).ok).toBe('boolean')
      expect(['message', 'ignored']).toContain(readMessage(JSON.stringify(value) ?? '').kind)
    }),
  )
  fc.assert(fc.property(fc.string(), (line) => void readMessage(line)))
})
