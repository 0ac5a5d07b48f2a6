/** /v1/files and /v1/uploads against real D1 and R2. */

import { env, exports } from 'cloudflare:workers'
import { createHash } from 'node:crypto'
import { beforeAll, describe, expect, it } from 'vitest'
import type { FileObject } from '../../src/api/files/file-schemas.ts'
import { receiveForm } from '../../src/api/files/receive-form.ts'
import { FILE_PART_BYTES } from '../../src/store/file-contents.ts'
import { FILES_MAX, hasRoomFor, reserveFile, STORED_BYTES_MAX, sweepFiles } from '../../src/store/files.ts'
import { UPLOADS_PENDING_MAX } from '../../src/store/uploads.ts'
import { json, KEY_A, KEY_B, ORIGIN, provision, request } from './fixtures.ts'

beforeAll(provision)

function send(path: string, form: FormData, key = KEY_A): Promise<Response> {
  const headers = { authorization: `Bearer ${key}` }
  return exports.default.fetch(new Request(`${ORIGIN}${path}`, { method: 'POST', headers, body: form }))
}

function formOf(content: Uint8Array | string, fields: Record<string, string> = { purpose: 'batch' }): FormData {
  const form = new FormData()
  for (const [name, value] of Object.entries(fields)) form.append(name, value)
  form.append('file', new File([content], 'in.jsonl'))
  return form
}

async function stored(content: Uint8Array | string, key = KEY_A): Promise<FileObject> {
  const response = await send('/v1/files', formOf(content), key)
  expect(response.status).toBe(200)
  return response.json()
}

async function contentOf(id: string): Promise<Uint8Array> {
  const response = await request('GET', `/v1/files/${id}/content`, KEY_A)
  expect(response.status).toBe(200)
  return new Uint8Array(await response.arrayBuffer())
}

async function keysOf(tenant: string): Promise<string[]> {
  const { objects } = await env.BUCKET.list({ prefix: `files/${tenant}/` })
  return objects.map(({ key }) => key)
}

/** Bytes that repeat at no part’s length. */
function bytesOf(length: number): Uint8Array {
  return Uint8Array.from({ length }, (_, index) => (index * 7 + (index >> 8)) & 0xff)
}

describe('a file', () => {
  it('comes back as it was, over several parts', async () => {
    const content = bytesOf(2 * FILE_PART_BYTES + 1234)
    const file = await stored(content)
    expect(file).toMatchObject({
      ...{ object: 'file', bytes: content.length, filename: 'in.jsonl', purpose: 'batch', status: 'processed' },
    })
    expect(await json(request('GET', `/v1/files/${file.id}`, KEY_A))).toEqual(file)
    expect(Buffer.from(await contentOf(file.id)).equals(Buffer.from(content))).toBe(true)
    expect((await keysOf('tenant-a')).filter((key) => key.includes(file.id))).toHaveLength(3)
    const deleted = await json(request('DELETE', `/v1/files/${file.id}`, KEY_A))
    expect(deleted).toEqual({ id: file.id, object: 'file', deleted: true })
    expect((await keysOf('tenant-a')).filter((key) => key.includes(file.id))).toHaveLength(0)
    for (const path of [`/v1/files/${file.id}`, `/v1/files/${file.id}/content`]) {
      expect((await request('GET', path, KEY_A)).status).toBe(404)
    }
  })

  it('may come before its fields, and may be empty', async () => {
    const form = new FormData()
    form.append('file', new File([], 'empty'))
    form.append('purpose', 'user_data')
    const response = await send('/v1/files', form)
    const file = await response.json<FileObject>()
    expect(file).toMatchObject({ bytes: 0, purpose: 'user_data' })
    expect(await contentOf(file.id)).toHaveLength(0)
  })

  it('is absent for another tenant', async () => {
    const { id } = await stored('secret')
    for (const [method, path] of [
      ['GET', `/v1/files/${id}`],
      ['GET', `/v1/files/${id}/content`],
      ['DELETE', `/v1/files/${id}`],
    ] as const) {
      expect((await request(method, path, KEY_B)).status).toBe(404)
    }
    expect(await json<{ data: unknown[] }>(request('GET', '/v1/files', KEY_B))).toMatchObject({ data: [] })
    expect(new TextDecoder().decode(await contentOf(id))).toBe('secret')
  })

  it('is refused with the field at fault, and leaves nothing behind', async () => {
    const before = await keysOf('tenant-a')
    const refusals = [
      [formOf('x', {}), 'purpose'],
      [formOf('x', { purpose: 'other' }), 'purpose'],
      [formOf('x', { purpose: 'batch', 'expires_after[seconds]': '3' }), 'expires_after[seconds]'],
      [new FormData(), 'file'],
    ] as const
    for (const [form, param] of refusals) {
      if (param === 'file') form.append('purpose', 'batch')
      const response = await send('/v1/files', form)
      expect(response.status).toBe(400)
      expect(await response.json()).toMatchObject({ error: { param } })
    }
    expect((await request('POST', '/v1/files', KEY_A, { purpose: 'batch' })).status).toBe(400)
    expect(await keysOf('tenant-a')).toEqual(before)
    const rows = await env.DB.prepare("SELECT count(*) AS n FROM files WHERE status = 'writing'").first<{ n: number }>()
    expect(rows?.n).toBe(0)
  })

  it('is bounded, to the byte', async () => {
    const read = (length: number, bytes_max: number) => {
      const form = formOf(bytesOf(length))
      const sent = new Request(ORIGIN, { method: 'POST', body: form })
      const into = { bucket: env.BUCKET, tenant: 'bounded', object: `o${length}` }
      return receiveForm(sent, { field: 'file', bytes_max, too_large_hint: '' }, into)
    }
    expect((await read(1000, 1000)).status).toBe('received')
    expect(await read(1001, 1000)).toMatchObject({ status: 'refused', http_status: 413 })
  })

  it('is not seen once it has expired, and is removed when something new comes', async () => {
    const response = await send(
      '/v1/files',
      formOf('short', { purpose: 'batch', 'expires_after[anchor]': 'created_at', 'expires_after[seconds]': '3600' }),
    )
    const file = await response.json<FileObject>()
    expect(file.expires_at).toBe(file.created_at + 3600)
    await env.DB.prepare('UPDATE files SET expires_at_ms = 1 WHERE id = ?').bind(file.id).run()
    expect((await request('GET', `/v1/files/${file.id}`, KEY_A)).status).toBe(404)
    await stored('next')
    await expect.poll(async () => (await keysOf('tenant-a')).some((key) => key.includes(file.id))).toBe(false)
  })

  it('whose request broke off is swept with what it wrote', async () => {
    const now_ms = Date.now()
    const broken = { filename: '', purpose: '', expires_at_ms: null }
    await reserveFile(env.DB, 'tenant-c', { id: 'file-old', created_at_ms: now_ms - 3 * 60 * 60_000, ...broken })
    await reserveFile(env.DB, 'tenant-c', { id: 'file-young', created_at_ms: now_ms, ...broken })
    for (const id of ['file-old', 'file-young']) await env.BUCKET.put(`files/tenant-c/${id}/000000`, 'part')
    await sweepFiles(env.DB, env.BUCKET, 'tenant-c', now_ms)
    expect(await keysOf('tenant-c')).toEqual(['files/tenant-c/file-young/000000'])
  })

  it('has room up to the tenant’s bounds', async () => {
    expect(await hasRoomFor(env.DB, 'tenant-d', STORED_BYTES_MAX)).toBe(true)
    expect(await hasRoomFor(env.DB, 'tenant-d', STORED_BYTES_MAX + 1)).toBe(false)
    await env.DB.prepare(
      `INSERT INTO files (id, tenant, filename, purpose, bytes, created_at_ms, status, parts)
       WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
       SELECT 'file-d' || i, 'tenant-d', '', '', 0, i, 'processed', '[]' FROM n`,
    )
      .bind(FILES_MAX - 1)
      .run()
    expect(await hasRoomFor(env.DB, 'tenant-d', 0)).toBe(true)
    await reserveFile(env.DB, 'tenant-d', {
      ...{ id: 'file-last', filename: '', purpose: '', created_at_ms: 0 },
      expires_at_ms: null,
    })
    expect(await hasRoomFor(env.DB, 'tenant-d', 0)).toBe(false)
  })
})

it('pages go through all files, in both orders and by purpose', async () => {
  const ids: string[] = []
  for (const content of ['1', '2', '3', '4', '5']) ids.push((await stored(content, KEY_B)).id)
  for (const [order, expected] of [
    ['asc', ids],
    ['desc', ids.toReversed()],
  ] as const) {
    const seen: string[] = []
    for (let after = ''; ; ) {
      const page = await json<{ data: FileObject[]; has_more: boolean; last_id: string }>(
        request('GET', `/v1/files?limit=2&order=${order}&purpose=batch${after}`, KEY_B),
      )
      seen.push(...page.data.map(({ id }) => id))
      if (!page.has_more) break
      after = `&after=${page.last_id}`
    }
    // Files of one millisecond are in the order of their ids.
    expect(seen.toSorted()).toEqual(expected.toSorted())
    expect(new Set(seen).size).toBe(ids.length)
  }
  const none = await json<{ data: unknown[] }>(request('GET', '/v1/files?purpose=vision', KEY_B))
  expect(none.data).toEqual([])
  expect((await request('GET', '/v1/files?after=file-nothing', KEY_B)).status).toBe(400)
})

describe('an upload', () => {
  const start = { filename: 'big.jsonl', purpose: 'batch', mime_type: 'application/jsonl' }

  async function begun(bytes: number, key = KEY_A): Promise<string> {
    const upload = await json<{ id: string }>(request('POST', '/v1/uploads', key, { ...start, bytes }))
    expect(upload).toMatchObject({ object: 'upload', bytes, status: 'pending', file: null })
    return upload.id
  }

  async function part(upload: string, content: Uint8Array, key = KEY_A): Promise<Response> {
    const form = new FormData()
    form.append('data', new Blob([content]))
    return send(`/v1/uploads/${upload}/parts`, form, key)
  }

  const complete = (upload: string, body: object) => request('POST', `/v1/uploads/${upload}/complete`, KEY_A, body)

  it('makes a file of its parts in the order in which they are named, and drops the others', async () => {
    const content = bytesOf(FILE_PART_BYTES + 5000)
    const upload = await begun(content.length)
    // Sent side by side, the second half first.
    const halves = [content.subarray(FILE_PART_BYTES), content.subarray(0, FILE_PART_BYTES)]
    const parts = await Promise.all(halves.map(async (half) => (await part(upload, half)).json<{ id: string }>()))
    const [second, first] = parts.map(({ id }) => id) as [string, string]
    expect(parts[0]).toMatchObject({ object: 'upload.part', upload_id: upload })
    const wrong = await complete(upload, { part_ids: [first, second], md5: '0'.repeat(32) })
    expect(await wrong.json()).toMatchObject({ error: { param: 'md5' } })
    expect((await complete(upload, { part_ids: [first] })).status).toBe(400)
    expect((await complete(upload, { part_ids: [first, first] })).status).toBe(400)
    expect((await complete(upload, { part_ids: [first, 'part_none'] })).status).toBe(400)
    const md5 = createHash('md5').update(content).digest('hex')
    const done = await complete(upload, { part_ids: [first, second], md5 })
    const { status, file } = await done.json<{ status: string; file: FileObject }>()
    expect(status).toBe('completed')
    expect(file).toMatchObject({ bytes: content.length, filename: 'big.jsonl', purpose: 'batch' })
    expect(Buffer.from(await contentOf(file.id)).equals(Buffer.from(content))).toBe(true)
    expect((await part(upload, content)).status).toBe(400)
    expect((await complete(upload, { part_ids: [first, second] })).status).toBe(400)
    const again = await json<{ status: string; file: FileObject }>(request('GET', `/v1/uploads/${upload}`, KEY_A))
    expect(again).toMatchObject({ status: 'completed', file })
    await request('DELETE', `/v1/files/${file.id}`, KEY_A)
    await expect.poll(async () => (await keysOf('tenant-a')).some((key) => key.includes(first))).toBe(false)
  })

  it('takes no more bytes than it was announced with', async () => {
    const upload = await begun(10)
    expect((await part(upload, bytesOf(11))).status).toBe(413)
    expect((await part(upload, bytesOf(6))).status).toBe(200)
    expect((await part(upload, bytesOf(5))).status).toBe(413)
    expect((await part(upload, bytesOf(4))).status).toBe(200)
  })

  it('is absent for another tenant, and over once it is cancelled', async () => {
    const upload = await begun(3)
    expect((await part(upload, bytesOf(3), KEY_B)).status).toBe(404)
    expect((await request('POST', `/v1/uploads/${upload}/cancel`, KEY_B)).status).toBe(404)
    const { id } = await (await part(upload, bytesOf(3))).json<{ id: string }>()
    expect((await keysOf('tenant-a')).some((key) => key.includes(id))).toBe(true)
    expect(await json(request('POST', `/v1/uploads/${upload}/cancel`, KEY_A))).toMatchObject({ status: 'cancelled' })
    expect((await request('POST', `/v1/uploads/${upload}/cancel`, KEY_A)).status).toBe(400)
    await expect.poll(async () => (await keysOf('tenant-a')).some((key) => key.includes(id))).toBe(false)
  })

  it('expires', async () => {
    const upload = await begun(3)
    await env.DB.prepare('UPDATE uploads SET expires_at_ms = 1 WHERE id = ?').bind(upload).run()
    expect(await json(request('GET', `/v1/uploads/${upload}`, KEY_A))).toMatchObject({ status: 'expired' })
    expect((await part(upload, bytesOf(3))).status).toBe(400)
  })

  it('is refused past the bounds', async () => {
    expect((await request('POST', '/v1/uploads', KEY_A, { ...start, bytes: 1024 ** 3 + 1 })).status).toBe(400)
    await begun(1024 ** 3, KEY_B)
    await env.DB.prepare(
      `INSERT INTO uploads (id, tenant, filename, purpose, bytes, created_at_ms, expires_at_ms, status)
       WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
       SELECT 'upload_' || i, 'tenant-b', '', '', 1, 0, ?2, 'pending' FROM n`,
    )
      .bind(UPLOADS_PENDING_MAX, Date.now() + 60_000)
      .run()
    const refused = await request('POST', '/v1/uploads', KEY_B, { ...start, bytes: 1024 ** 3 })
    expect(refused.status).toBe(429)
    expect(refused.headers.get('retry-after')).toBe('60')
  })
})
