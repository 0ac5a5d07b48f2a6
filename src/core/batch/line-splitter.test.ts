import fc from 'fast-check'
import { expect, it } from 'vitest'
import { FILE_START, LineSplitter } from './line-splitter.ts'

const encoder = new TextEncoder()
const decoder = new TextDecoder()

interface Seen {
  number: number
  text: string | null
  offset: number
}

function split(pieces: readonly Uint8Array[], line_bytes_max = 1000, start = FILE_START): Seen[] {
  const splitter = new LineSplitter(start, line_bytes_max)
  const lines = [...pieces.flatMap((piece) => [...splitter.push(piece)]), ...splitter.end()]
  return lines.map(({ number, bytes, end }) => ({
    ...{ number, offset: end.offset },
    text: bytes === null ? null : decoder.decode(bytes),
  }))
}

function cut(bytes: Uint8Array, at: readonly number[]): Uint8Array[] {
  const places = [0, ...at.map((place) => place % (bytes.length + 1)).sort((a, b) => a - b), bytes.length]
  return places.slice(1).map((place, index) => bytes.subarray(places[index], place))
}

it('gives the same lines however the bytes are cut', () => {
  const line = fc.string({ maxLength: 12 }).map((text) => text.replaceAll(/[\r\n]/g, ''))
  const text = fc.tuple(fc.array(line), fc.constantFrom('\n', '\r\n')).map(([lines, end]) => lines.join(end))
  fc.assert(
    fc.property(text, fc.array(fc.nat(200)), (content, at) => {
      const bytes = encoder.encode(content)
      const whole = split([bytes])
      expect(split(cut(bytes, at))).toEqual(whole)
      const expected = content.split(/\r?\n/)
      if (expected.at(-1) === '') expected.pop()
      expect(whole.map((one) => one.text)).toEqual(expected)
      expect(whole.at(-1)?.offset ?? 0).toBe(bytes.length)
    }),
  )
})

it('goes on from any line as if it had read what is before it', () => {
  const bytes = encoder.encode('one\ntwo\r\n\nfour')
  const lines = split([bytes])
  for (const [index, { offset, number }] of lines.entries()) {
    const rest = split([bytes.subarray(offset)], 1000, { offset, lines: number })
    expect(rest).toEqual(lines.slice(index + 1))
  }
})

it('reports a line past the bound without its bytes, and the lines around it whole', () => {
  const bound = 8
  const pieces = ['a\n', '12345678\n', '123456789\n', '12345678\r\n', 'x'.repeat(100), 'y\n', 'last'].map((piece) =>
    encoder.encode(piece),
  )
  expect(split(pieces, bound).map(({ text }) => text)).toEqual(['a', '12345678', null, '12345678', null, 'last'])
})
