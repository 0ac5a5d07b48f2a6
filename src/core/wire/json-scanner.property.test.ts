/** Whatever the bytes are: the scanner and JSON.parse agree on whether they are JSON, and on the sizes of what is in it. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { utf8Bytes } from '../call/prompt-estimate.ts'
import { END, JsonScanner } from './json-scanner.ts'
import { NESTING_MAX, nestsDeeperThan } from './nesting.ts'

const encoder = new TextEncoder()

function parsed(bytes: Uint8Array): { value: unknown } | null {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
    return nestsDeeperThan(text, NESTING_MAX) ? null : { value: JSON.parse(text) }
  } catch {
    // Both a TypeError of the decoder and a SyntaxError mean that it is no JSON.
    return null
  }
}

function scanned(bytes: Uint8Array): JsonScanner | null {
  const scanner = new JsonScanner(bytes)
  return scanner.value(0) && scanner.next() === END ? scanner : null
}

const char = fc.oneof(
  { weight: 6, arbitrary: fc.string({ unit: 'grapheme-ascii', minLength: 0, maxLength: 24 }) },
  { weight: 2, arbitrary: fc.string({ unit: 'binary', maxLength: 4 }) },
  fc.constantFrom('"', '\\', '/', '\n', '\u0000', '\u001f', '\u007f', '\u2028', '\ud800', '\udfff', '😀', 'é', '€'),
)
const text = fc.array(char, { maxLength: 6 }).map((chars) => chars.join(''))
const value = fc.letrec((tie) => ({
  any: fc.oneof(
    { maxDepth: 4 },
    text,
    fc.oneof(fc.integer(), fc.double({ noNaN: true, noDefaultInfinity: true })),
    fc.constantFrom(true, false, null),
    fc.array(tie('any'), { maxLength: 4 }),
    fc.dictionary(text, tie('any'), { maxKeys: 4 }),
  ),
})).any

/** The same value as other writers have it: with white space, and with characters escaped that need not be. */
function written(given: unknown, style: { space: string; escapes: boolean }): string {
  const json = JSON.stringify(given, null, style.space)
  if (!style.escapes) return json
  return json.replaceAll(/[\u007f-\uffff/]/g, (unit) =>
    unit === '/' ? '\\/' : `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

const style = fc.record({ space: fc.constantFrom('', ' ', '\t'), escapes: fc.boolean() })

describe('a value', () => {
  it('is skipped whole, and its size is what JSON.stringify writes', () => {
    fc.assert(
      fc.property(value, style, (given, how) => {
        const scanner = scanned(encoder.encode(written(given, how)))
        expect(scanner?.written_bytes).toBe(utf8Bytes(JSON.stringify(given)))
      }),
      { numRuns: 2_000 },
    )
  })

  it('of a text has the bytes of the text', () => {
    fc.assert(
      fc.property(text, style, (given, how) => {
        const json = written(given, how)
        const scanner = scanned(encoder.encode(json))
        expect(scanner?.text_bytes).toBe(utf8Bytes(given))
        expect(scanner?.is_verbatim).toBe(!json.includes('\\'))
      }),
      { numRuns: 2_000 },
    )
  })

  it('that is cut or changed anywhere is read if and only if JSON.parse reads it', () => {
    const change = fc.record({
      at: fc.nat(),
      byte: fc.nat(255),
      how: fc.constantFrom('set', 'cut', 'insert', 'remove'),
    })
    fc.assert(
      fc.property(value, style, change, (given, how, { at, byte, how: changed }) => {
        const bytes = encoder.encode(written(given, how))
        const place = at % (bytes.length + 1)
        const insert = changed === 'set' || changed === 'insert' ? [byte] : []
        const rest = changed === 'cut' ? [] : bytes.slice(changed === 'insert' ? place : place + 1)
        const next = Uint8Array.from([...bytes.slice(0, place), ...insert, ...rest])
        expect(scanned(next) !== null).toBe(parsed(next) !== null)
      }),
      { numRuns: 5_000 },
    )
  })

  it('of any bytes is read if and only if JSON.parse reads it', () => {
    const piece = fc.constantFrom(
      ...['{', '}', '[', ']', ':', ',', '"', '\\', 'u', '0', '1', '-', '.', 'e', '+', ' ', 'true'],
    )
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 24 }),
      fc.uint8Array({ maxLength: 8 }).map((inner) => Uint8Array.from([0x22, ...inner, 0x22])),
      fc.array(piece, { maxLength: 12 }).map((pieces) => encoder.encode(pieces.join(''))),
    )
    fc.assert(
      fc.property(bytes, (given) => {
        expect(scanned(given) !== null).toBe(parsed(given) !== null)
      }),
      { numRuns: 10_000 },
    )
  })

  it('has characters of several bytes exactly where the decoder has them', () => {
    const tails = [[], [0x80], [0xbf, 0x41], [0x80, 0xbf], [0xbf, 0x80, 0x80], [0x80, 0x80, 0x41]]
    const disagreed: string[] = []
    for (let lead = 0x80; lead <= 0xff; lead += 1) {
      for (let second = 0x70; second <= 0xff; second += 1) {
        for (const tail of tails) {
          const bytes = Uint8Array.from([0x22, lead, second, ...tail, 0x22])
          // At the end of the bytes a character is read in another way than before more of them.
          for (const given of [bytes, Uint8Array.from([...bytes, 0x20, 0x20, 0x20, 0x20])]) {
            if ((scanned(given) !== null) !== (parsed(given) !== null)) disagreed.push(given.join(' '))
          }
        }
      }
    }
    expect(disagreed).toEqual([])
  })

  it('is read wherever it begins in a buffer', () => {
    const json = encoder.encode(JSON.stringify({ text: 'x'.repeat(40), other: ['é'.repeat(9), '"'] }))
    for (let offset = 0; offset < 9; offset += 1) {
      const buffer = new Uint8Array(offset + json.length + 3)
      buffer.set(json, offset)
      expect(scanned(buffer.subarray(offset, offset + json.length))?.written_bytes).toBe(json.length)
    }
  })

  it.each(['1e999', '-0', '-0.0', '1E5', '0.1e-7', '123456789012345678', `${10n ** 40n}`])(
    '%s has the size of its number',
    (json) => {
      expect(scanned(encoder.encode(json))?.written_bytes).toBe(JSON.stringify(JSON.parse(json)).length)
    },
  )

  it.each([
    ['[', ']'],
    ['{"a":', '}'],
  ])('nests as deep as a body may and no deeper: %s', (open, close) => {
    const nested = (levels: number) => encoder.encode(`${open.repeat(levels)}0${close.repeat(levels)}`)
    expect(scanned(nested(NESTING_MAX))).not.toBeNull()
    expect(scanned(nested(NESTING_MAX + 1))).toBeNull()
  })
})
