import { expect, it } from 'vitest'
import { StreamTail, TAIL_BYTES, TAIL_READ_BYTES_MAX } from './stream-tail.ts'

const DONE = 'data: [DONE]\n\n'
const FAILED = 'event: error\ndata: {"error":{"code":"engine_oom"}}\n\n'
const NOTHING = new Uint8Array(0)

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)

function endOf(body: string, head = ''): Promise<string> {
  const stream = new Response(body).body
  if (stream === null) throw new Error('a text has a body')
  return new StreamTail(bytesOf(head), stream).end().then(({ status }) => status)
}

it('looks at a stream up to its bound, and not past it', async () => {
  const upTo = (bytes: number): string => `: ${'x'.repeat(bytes - FAILED.length - 4)}\n\n${FAILED}`
  expect(await endOf(upTo(TAIL_READ_BYTES_MAX))).toBe('error')
  expect(await endOf(upTo(TAIL_READ_BYTES_MAX + 1))).toBe('unknown')
})

it('finds an error as large as what is kept', async () => {
  const error = `event: error\ndata: {"x":"${'x'.repeat(TAIL_BYTES - 29)}"}\n\n`
  expect(error.length).toBe(TAIL_BYTES)
  for (const before of [1, 100, TAIL_BYTES / 2, TAIL_BYTES - 1, TAIL_BYTES, 3 * TAIL_BYTES]) {
    expect(await endOf(`data: ${'x'.repeat(before)}\n\n${error}`)).toBe('error')
  }
})

it('knows an end that came with the head, and one that head and body share', async () => {
  expect(await endOf('', `data: {}\n\n${DONE}`)).toBe('done')
  expect(await endOf(']\n\n', 'data: {}\n\ndata: [DONE')).toBe('done')
})

it('takes comments for nothing, and an error with [DONE] behind it for an error', async () => {
  expect(await endOf(`data: {}\n\n${DONE}: queued\n\n`)).toBe('done')
  expect(await endOf(`data: {"error":{"code":"x"}}\n\n${DONE}`)).toBe('error')
  expect(await endOf(`data: {"error":null}\n\n${DONE}`)).toBe('done')
})

it('calls a stream cut that ends without either, or breaks', async () => {
  expect(await endOf('data: {}\n\n')).toBe('cut')
  expect(await endOf(`data: {}\n\n${DONE}data: {`)).toBe('cut')
  expect(await endOf(`data: {}\r\n\r\ndata: [DONE]\r\n\r\n`)).toBe('done')
  expect(await endOf(`data: {}\n\ndata: [DONE]\n`)).toBe('cut')
  const broken = new ReadableStream<Uint8Array>({ pull: (controller) => controller.error(new Error('broken')) })
  expect(await new StreamTail(NOTHING, broken).end()).toEqual({ status: 'cut' })
})

it('knows the end of a stream whose connection broke behind it', async () => {
  for (const [sent, end] of [
    [`data: {}\n\n${DONE}`, 'done'],
    [`data: {}\n\n${FAILED}`, 'error'],
    ['data: {}\n\n', 'cut'],
    [`data: {}\n\n${DONE}data: {`, 'cut'],
  ] as const) {
    let pulls = 0
    const broken = new ReadableStream<Uint8Array>({
      pull: (controller) => {
        pulls += 1
        if (pulls === 1) controller.enqueue(bytesOf(sent))
        else controller.error(new Error('broken'))
      },
    })
    expect((await new StreamTail(NOTHING, broken).end()).status).toBe(end)
  }
})
