import fc from 'fast-check'
import { expect, it } from 'vitest'
import { boundaryOf, FIELD_BYTES_MAX, FIELDS_MAX, HEADERS_BYTES_MAX, MultipartReader } from './multipart.ts'

const encoder = new TextEncoder()

type Part = { name: string; value: string } | { name: string; filename: string; content: Uint8Array }

function encode(parts: readonly Part[], boundary: string): Uint8Array {
  const pieces = parts.flatMap((part) => {
    const file = 'filename' in part ? `; filename="${part.filename}"\r\nContent-Type: application/jsonl` : ''
    const head = `--${boundary}\r\nContent-Disposition: form-data; name="${part.name}"${file}\r\n\r\n`
    const body = 'filename' in part ? part.content : encoder.encode(part.value)
    return [encoder.encode(head), body, encoder.encode('\r\n')]
  })
  return Uint8Array.from([...pieces, encoder.encode(`--${boundary}--\r\n`)].flatMap((piece) => [...piece]))
}

function read(bytes: Uint8Array, boundary: string, cuts: readonly number[] = []): { parts: unknown[]; over: boolean } {
  const reader = new MultipartReader(boundary)
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length]
  const parts: unknown[] = []
  let file: { name: string; filename: string; content: number[] } | null = null
  for (const [index, place] of places.slice(1).entries()) {
    const pushed = reader.push(bytes.subarray(places[index], place))
    if (pushed.status === 'fault') return { parts: [pushed.fault], over: false }
    for (const event of pushed.events) {
      if (event.kind === 'field') parts.push({ name: event.name, value: event.value })
      if (event.kind === 'file') file = { name: event.name, filename: event.filename, content: [] }
      if (event.kind === 'bytes') file?.content.push(...event.bytes)
      if (event.kind === 'file_end') parts.push(file)
    }
  }
  return { parts, over: reader.isOver }
}

it('reads what was written, however it is cut and whatever a file has that looks like a boundary', () => {
  const boundary = 'b-12'
  const word = fc.string({ unit: fc.constantFrom('a', '-', '\r', '\n', 'b', '1', '\r\n--b-', '\r\n-'), maxLength: 12 })
  const field = fc.record({ name: fc.constantFrom('purpose', 'other'), value: word })
  const file = fc.record({
    ...{ name: fc.constant('file'), filename: fc.constantFrom('a.jsonl', 'ä ö.txt') },
    content: word.map((text) => encoder.encode(text)),
  })
  fc.assert(
    fc.property(fc.array(fc.oneof(field, file), { maxLength: 4 }), fc.array(fc.nat(600)), (parts, cuts) => {
      const body = encode(parts, boundary)
      const expected = parts.map((part) => ('filename' in part ? { ...part, content: [...part.content] } : part))
      expect(read(body, boundary, cuts)).toEqual({ parts: expected, over: true })
    }),
  )
})

it('says why a body is not valid', () => {
  const faultOf = (text: string) => read(encoder.encode(text), 'b').parts[0]
  expect(faultOf('--bXY')).toMatch('not followed by a line break')
  expect(faultOf('--b\r\nContent-Type: text/plain\r\n\r\nx')).toMatch('no Content-Disposition')
  expect(faultOf(`--b\r\nX: ${'x'.repeat(HEADERS_BYTES_MAX)}`)).toMatch('headers')
  const head = '--b\r\nContent-Disposition: form-data; name="f"\r\n\r\n'
  expect(faultOf(`${head}${'x'.repeat(FIELD_BYTES_MAX)}\r\n--b--`)).toMatchObject({ name: 'f' })
  expect(faultOf(`${head}${'x'.repeat(FIELD_BYTES_MAX + 1)}\r\n--b--`)).toMatch('more than')
  const many = (count: number) => `${`${head}x\r\n`.repeat(count)}--b--`
  expect(read(encoder.encode(many(FIELDS_MAX)), 'b').over).toBe(true)
  expect(faultOf(many(FIELDS_MAX + 1))).toMatch('parts')
  expect(read(encoder.encode(`${head}x`), 'b').over).toBe(false)
})

it('finds the boundary and names in the forms that clients write', () => {
  expect(boundaryOf('multipart/form-data; boundary=abc')).toBe('abc')
  expect(boundaryOf('Multipart/Form-Data; charset=utf-8; boundary="a b"')).toBe('a b')
  expect([boundaryOf('application/json'), boundaryOf('multipart/form-data'), boundaryOf(null)]).toEqual([
    ...[null, null, null],
  ])
  const named = (disposition: string) => {
    const text = `--b\r\ncontent-disposition: form-data; ${disposition}\r\n\r\n\r\n--b--`
    return (read(encoder.encode(text), 'b').parts[0] as { filename: string }).filename
  }
  expect(named('name="file"; filename="a%22b.jsonl"')).toBe('a"b.jsonl')
  expect(named('name="file"; filename="a\\"b"')).toBe('a"b')
  expect(named('name=file; filename=plain')).toBe('plain')
  expect(named(`name="file"; filename="x"; filename*=utf-8''%C3%A4.txt`)).toBe('ä.txt')
})
