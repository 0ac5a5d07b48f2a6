import { describe, expect, it } from 'vitest'
import { joined } from './joined.ts'
import { FRAME_BYTES_MAX, FrameTooLarge, parseFrame, SseSplitter, withoutId } from './sse.ts'

const encode = (text: string): Uint8Array => new TextEncoder().encode(text)
const decode = (bytes: Uint8Array): string => new TextDecoder().decode(bytes)

function drain(splitter: SseSplitter): string[] {
  const frames: string[] = []
  for (let frame = splitter.next(); frame !== null; frame = splitter.next()) frames.push(decode(frame))
  return frames
}

describe('SseSplitter', () => {
  const stream = ': hello\n\ndata: {"text":"žluť 🐎"}\n\nevent: error\r\ndata: a\r\ndata: b\r\n\r\ndata: [DONE]\n\n'
  const whole = (() => {
    const splitter = new SseSplitter()
    splitter.push(encode(stream))
    return drain(splitter)
  })()

  it('hands out frames as the bytes that came', () => {
    expect(whole).toHaveLength(4)
    expect(whole.join('')).toBe(stream)
  })

  it('finds the same frames for every place at which the stream is cut in two', () => {
    const bytes = encode(stream)
    for (let cut = 0; cut <= bytes.length; cut += 1) {
      const splitter = new SseSplitter()
      splitter.push(bytes.subarray(0, cut))
      const frames = drain(splitter)
      splitter.push(bytes.subarray(cut))
      expect([...frames, ...drain(splitter)], `cut at ${cut}`).toEqual(whole)
    }
  })

  it('parses what comes to an end with the bytes given', () => {
    const splitter = new SseSplitter()
    expect([...splitter.frames(encode(': hi\n\ndata: a\n\nda'))]).toEqual([
      { kind: 'comment', text: 'hi' },
      { kind: 'event', event: null, data: 'a' },
    ])
    expect([...splitter.frames(encode('ta: b\n\n'))]).toEqual([{ kind: 'event', event: null, data: 'b' }])
  })

  it('finds the same frames byte by byte', () => {
    const splitter = new SseSplitter()
    const frames: string[] = []
    for (const byte of encode(stream)) {
      splitter.push(new Uint8Array([byte]))
      frames.push(...drain(splitter))
    }
    expect(frames).toEqual(whole)
  })

  it('gives the rest once', () => {
    const splitter = new SseSplitter()
    splitter.push(encode('data: 1\n\ndata: 2\n\ndata:'))
    splitter.next()
    expect(decode(splitter.rest())).toBe('data: 2\n\ndata:')
    expect(splitter.rest()).toHaveLength(0)
    expect(splitter.next()).toBeNull()
  })

  it('takes a frame of the bound and refuses one byte more, ended or not', () => {
    const frame = (bytes: number): Uint8Array => joined([new Uint8Array(bytes - 2).fill(120), encode('\n\n')])
    const within = new SseSplitter()
    within.push(frame(FRAME_BYTES_MAX))
    expect(within.next()).toHaveLength(FRAME_BYTES_MAX)
    const past = new SseSplitter()
    past.push(frame(FRAME_BYTES_MAX + 1))
    expect(() => past.next()).toThrow(FrameTooLarge)
    const endless = new SseSplitter()
    endless.push(new Uint8Array(FRAME_BYTES_MAX).fill(120))
    expect(endless.next()).toBeNull()
    endless.push(encode('x'))
    expect(() => endless.next()).toThrow(FrameTooLarge)
  })
})

describe('parseFrame', () => {
  it('reads event and data, with and without the space, and joins data lines', () => {
    expect(parseFrame(encode('event:error\r\ndata: a\r\ndata:b\r\nid: 7\r\n\r\n'))).toEqual({
      kind: 'event',
      event: 'error',
      data: 'a\nb',
      id: '7',
    })
    expect(parseFrame(encode('\ndata:  two spaces\n\n'))).toEqual({ kind: 'event', event: null, data: ' two spaces' })
  })

  it('reads the id before one line of data, and takes it off', () => {
    const frame = encode('id: 4,5\ndata: {"a":"ü"}\n\n')
    expect(parseFrame(frame)).toEqual({ kind: 'event', event: null, data: '{"a":"ü"}', id: '4,5' })
    expect(decode(withoutId(frame))).toBe('data: {"a":"ü"}\n\n')
    expect(withoutId(encode('data: id: 4\n\n'))).toEqual(encode('data: id: 4\n\n'))
  })

  it('takes comments and empty frames for keep-alive', () => {
    expect(parseFrame(encode(': accepted\n\n'))).toEqual({ kind: 'comment', text: 'accepted' })
    expect(parseFrame(encode('\n\n'))).toEqual({ kind: 'comment', text: '' })
    expect(parseFrame(encode('event: ping\n\n'))).toEqual({ kind: 'comment', text: '' })
  })
})
