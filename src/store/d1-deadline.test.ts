import { expect, test } from 'vitest'
import { withDeadline } from './d1-deadline.ts'

const never = new Promise<never>(() => undefined)

/** Answers each statement with `answer`, and a batch with the statements that it was given. */
function fakeD1(answer: () => Promise<unknown>) {
  const made: object[] = []
  const statement = (): object => {
    const one = { bind: () => statement(), all: answer, run: answer, first: answer, raw: answer }
    made.push(one)
    return one
  }
  const batch = (given: object[]): Promise<unknown> => answer().then(() => given)
  return { made, d1: { prepare: statement, batch } as unknown as D1Database }
}

test.each(['all', 'run', 'first', 'raw'] as const)('%s gives the answer, or rejects when none comes', async (name) => {
  const ask = (answer: () => Promise<unknown>) =>
    (withDeadline(fakeD1(answer).d1, 20).prepare('SELECT 1').bind(1)[name] as () => Promise<unknown>)()
  expect(await ask(async () => 'rows')).toBe('rows')
  await expect(ask(() => never)).rejects.toThrow('no answer in 20 ms')
  await expect(ask(async () => Promise.reject(new Error('no such table')))).rejects.toThrow('no such table')
})

test('a batch gets D1’s own statements, and rejects when no answer comes', async () => {
  const { d1, made } = fakeD1(async () => undefined)
  const timely = withDeadline(d1, 20)
  const given = (await timely.batch([timely.prepare('a'), timely.prepare('b').bind(1)])) as unknown[]
  expect(given).toHaveLength(2)
  for (const one of given) expect(made).toContain(one)
  const late = withDeadline(fakeD1(() => never).d1, 20)
  await expect(late.batch([late.prepare('a')])).rejects.toThrow('no answer')
})
