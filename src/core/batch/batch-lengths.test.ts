import { expect, it } from 'vitest'
import { learnedLengths } from '../application/learned-lengths.ts'
import { answersIn, lengthsOf } from '../application/output-lengths.ts'
import { MODELS_MAX, SAMPLE_MAX, withResults } from './batch-lengths.ts'
import { answeredLine } from './line-result.ts'

/** A result as a batch stores it. */
function result(body: object, http_status = 200) {
  return answeredLine('batch_req_1', 'a', { http_status, call: 'c', body: JSON.stringify(body) }).result
}

function chat(model: string, completion_tokens: number, finish_reason = 'stop') {
  return result({ model, choices: [{ finish_reason }], usage: { prompt_tokens: 5, completion_tokens } })
}

it('answers of every API count under their model, and cut ones as cut', () => {
  const lengths = withResults(
    [],
    [
      chat('m', 10),
      chat('m', 16, 'length'),
      result({ model: 'm', stop_reason: 'max_tokens', usage: { input_tokens: 1, output_tokens: 16 } }),
      result({ model: 'n', status: 'completed', usage: { input_tokens: 1, output_tokens: 30 } }),
    ],
  )
  expect(lengths.map(({ model }) => model)).toEqual(['m', 'n'])
  const [m, n] = lengths.map((one) => one.lengths)
  expect([m?.ended.length, m?.cut.length, n?.ended.length, n?.cut.length]).toEqual([1, 1, 1, 0])
  expect(n && lengthsOf(n)?.mean_tokens).toBeCloseTo(30, 5)
})

it('errors, embeddings and answers with several choices teach nothing', () => {
  const refused = result({ error: { message: 'no' } }, 400)
  const embedding = result({ model: 'm', data: [], usage: { prompt_tokens: 5, total_tokens: 5 } })
  const several = result({
    model: 'm',
    choices: [{ finish_reason: 'stop' }, { finish_reason: 'stop' }],
    usage: { prompt_tokens: 5, completion_tokens: 40 },
  })
  expect(withResults([], [refused, embedding, several])).toEqual([])
})

it('a part is sampled evenly, and parts add up', () => {
  const part = Array.from({ length: 3 * SAMPLE_MAX }, (_, at) => chat('m', at < SAMPLE_MAX ? 10 : 100))
  const [once] = withResults([], part)
  expect(answersIn(once?.lengths ?? { ended: [], cut: [] })).toBe(SAMPLE_MAX)
  expect(lengthsOf(once?.lengths ?? { ended: [], cut: [] })?.mean_tokens).toBeCloseTo(70, -1)
  const [twice] = withResults(withResults([], part), part)
  expect(answersIn(twice?.lengths ?? { ended: [], cut: [] })).toBe(2 * SAMPLE_MAX)
})

it('no batch keeps more models than its bound', () => {
  const results = Array.from({ length: 2 * MODELS_MAX }, (_, at) => chat(`m${at}`, 10))
  expect(withResults([], results)).toHaveLength(MODELS_MAX)
})

it('a node of an application takes the lengths of its model from batches', () => {
  const batch = withResults(
    [],
    Array.from({ length: 20 }, () => chat('m', 7)),
  )
  const find = learnedLengths([], batch)
  const node = { model: 'm', endpoint: '/v1/chat/completions', body: {} } as const
  expect(find(node)?.mean_tokens).toBeCloseTo(7, 5)
  expect(find({ ...node, model: 'other' })).toBeNull()
})
