import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { NESTING_MAX } from '../core/wire/nesting.ts'
import { BODY_BYTES_MAX } from '../protocol/index.ts'
import { DROPPED_BYTES_MAX, readBody } from './body.ts'

const post = (body: BodyInit, headers: Record<string, string> = {}): Request =>
  new Request('http://x/', { method: 'POST', body, headers })

/** A body whose length is not declared. */
function streamed(bytes: number): Request {
  let left = bytes
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => {
      const piece = Math.min(left, 65_536)
      left -= piece
      if (piece === 0) controller.close()
      else controller.enqueue(new Uint8Array(piece).fill(32))
    },
  })
  return post(body)
}

describe('readBody', () => {
  it('reads an object', async () => {
    expect(await readBody(post('{"a":"ž"}'))).toEqual({ status: 'read', body: { a: 'ž' }, bytes: 10 })
  })

  it('takes a body of the bound and refuses one byte more', async () => {
    const of = (bytes: number) => `{"a":"${'x'.repeat(bytes - 8)}"}`
    expect((await readBody(post(of(BODY_BYTES_MAX)))).status).toBe('read')
    expect(await readBody(post(of(BODY_BYTES_MAX + 1)))).toMatchObject({
      status: 'refused',
      http_status: 413,
      error: { code: 'request_too_large' },
    })
  })

  it('refuses a body over the bound that does not say its length', async () => {
    expect(await readBody(streamed(BODY_BYTES_MAX + 1))).toMatchObject({ http_status: 413 })
    expect(await readBody(streamed(BODY_BYTES_MAX))).toMatchObject({ http_status: 400 })
  })

  it('drops what is over the bound so that the client gets its answer, and cuts off who never ends', async () => {
    let pulled_bytes = 0
    let cancelled = false
    const endless = new ReadableStream<Uint8Array>({
      pull: (controller) => {
        pulled_bytes += 65_536
        controller.enqueue(new Uint8Array(65_536))
      },
      cancel: () => {
        cancelled = true
      },
    })
    expect(await readBody(post(endless), 1024)).toMatchObject({ http_status: 413 })
    expect(cancelled).toBe(true)
    expect(pulled_bytes).toBeGreaterThan(DROPPED_BYTES_MAX)
    expect(pulled_bytes).toBeLessThan(DROPPED_BYTES_MAX + 4 * 65_536)
  })

  it('gives up a body that does not come in time, and hangs up', async () => {
    let cancelled = false
    const trickle = new ReadableStream<Uint8Array>({
      pull: (controller) =>
        new Promise<void>((resolve) =>
          setTimeout(() => {
            if (!cancelled) controller.enqueue(new Uint8Array([32]))
            resolve()
          }, 5),
        ),
      cancel: () => {
        cancelled = true
      },
    })
    const refused = { status: 'refused', http_status: 408, error: { code: 'request_timeout' } }
    expect(await readBody(post(trickle), 1024, 100)).toMatchObject(refused)
    expect(cancelled).toBe(true)
    const silent = new ReadableStream<Uint8Array>({ pull: () => new Promise(() => undefined) })
    expect(await readBody(post(silent), 1024, 20)).toMatchObject(refused)
  })

  it('reads a body that states its length at once, under the same bounds', async () => {
    const stating = (body: BodyInit, bytes: number) => post(body, { 'content-length': String(bytes) })
    expect(await readBody(stating('{"a":1}', 7))).toEqual({ status: 'read', body: { a: 1 }, bytes: 7 })
    expect(await readBody(stating(' '.repeat(1025), 1025), 1024)).toMatchObject({ http_status: 413 })
    // No connection brings more than was stated, so this holds where that is not known.
    expect(await readBody(stating(' '.repeat(1025), 7), 1024)).toMatchObject({ http_status: 413 })
    const broken = new ReadableStream<Uint8Array>({ pull: (controller) => controller.error(new Error('lost')) })
    expect(await readBody(stating(broken, 7))).toMatchObject({ http_status: 400 })
    const silent = new ReadableStream<Uint8Array>({ pull: () => new Promise(() => undefined) })
    expect(await readBody(stating(silent, 7), 1024, 20)).toMatchObject({
      http_status: 408,
      error: { code: 'request_timeout' },
    })
  })

  it('inflates a body up to the bound, and refuses other codings', async () => {
    const packed = { 'content-encoding': 'gzip' }
    const zipped = (size: number) => new Uint8Array(gzipSync(`{"a":"${'x'.repeat(size - 8)}"}`))
    expect(await readBody(post(zipped(1024), packed), 1024)).toMatchObject({ status: 'read', bytes: 1024 })
    expect(await readBody(post(zipped(1025), packed), 1024)).toMatchObject({ http_status: 413 })
    expect(await readBody(post('{}', packed))).toMatchObject({ http_status: 400, error: { code: 'invalid_json' } })
    expect(await readBody(post('{}', { 'content-encoding': 'br' }))).toMatchObject({
      http_status: 415,
      error: { code: 'unsupported_content_encoding', param: 'Content-Encoding' },
    })
    expect((await readBody(post('{}', { 'content-encoding': 'Identity' }))).status).toBe('read')
  })

  it('takes an upload that breaks off for the client’s end, not for a failure of ours', async () => {
    let pulled = 0
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => {
        pulled += 1
        if (pulled === 1) controller.enqueue(new TextEncoder().encode('{"a":'))
        else controller.error(new Error('Network connection lost.'))
      },
    })
    expect(await readBody(post(body))).toMatchObject({ status: 'refused', http_status: 400 })
  })

  it('says where JSON breaks', async () => {
    const read = await readBody(post('{"model": "m" "messages": []}'))
    expect(read).toMatchObject({ http_status: 400, error: { code: 'invalid_json' } })
    expect(read.status === 'refused' && read.error.message).toMatch(/position 14/)
    expect(await readBody(post('{"model": '))).toMatchObject({ http_status: 400, error: { code: 'invalid_json' } })
  })

  it('takes nesting of the bound and refuses one level more; brackets in strings do not count', async () => {
    const of = (levels: number) => `{"a":${'['.repeat(levels - 1)}"]\\"[{"${']'.repeat(levels - 1)}}`
    expect((await readBody(post(of(NESTING_MAX)))).status).toBe('read')
    expect(await readBody(post(of(NESTING_MAX + 1)))).toMatchObject({
      http_status: 400,
      error: { code: 'invalid_json' },
    })
    expect((await readBody(post(JSON.stringify({ a: '[{'.repeat(NESTING_MAX) })))).status).toBe('read')
  })

  it.each([['[]'], ['"x"'], ['null'], ['7'], ['']])('refuses %j, which is no object', async (text) => {
    expect(await readBody(post(text))).toMatchObject({ http_status: 400, error: { code: 'invalid_json' } })
  })

  it('refuses what is not UTF-8, and no body', async () => {
    const bytes = new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x7d])
    expect(await readBody(post(bytes))).toMatchObject({
      http_status: 400,
      error: { message: 'The body is not valid UTF-8.' },
    })
    expect(await readBody(new Request('http://x/', { method: 'POST' }))).toMatchObject({ http_status: 400 })
  })
})
