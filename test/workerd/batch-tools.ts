/** What tests of batches share: files and batches through the API, and lines that are served by a script. */
import { env, exports } from 'cloudflare:workers'
import { expect, vi } from 'vitest'
import { BatchActor } from '../../src/actors/batch/batch-actor.ts'
import type { LineCall, LineOutcome } from '../../src/actors/batch/line-call.ts'
import type { BatchObject } from '../../src/api/batches/batch-json.ts'
import type { FileObject } from '../../src/api/files/file-schemas.ts'
import { json, KEY_A, MODEL, ORIGIN, request } from './fixtures.ts'

export const CHAT = '/v1/chat/completions'

export interface InputLine {
  custom_id: string
  method: string
  url: string
  body: { model: string; messages: { role: string; content: string }[] }
}

export function lineOf(custom_id: string, change: object = {}): InputLine {
  const messages = [{ role: 'user', content: custom_id }]
  return { custom_id, method: 'POST', url: CHAT, body: { model: MODEL, messages }, ...change }
}

export function linesOf(count: number): InputLine[] {
  return Array.from({ length: count }, (_, index) => lineOf(`line-${index}`))
}

export async function storeInput(lines: readonly object[] | string | Uint8Array, key = KEY_A): Promise<string> {
  const is_content = typeof lines === 'string' || lines instanceof Uint8Array
  const content = is_content
    ? lines
    : lines
        .map(
          (line) => `${JSON.stringify(line)}
`,
        )
        .join('')
  const form = new FormData()
  form.append('purpose', 'batch')
  form.append('file', new File([content], 'in.jsonl'))
  const headers = { authorization: `Bearer ${key}` }
  const sent = new Request(`${ORIGIN}/v1/files`, { method: 'POST', headers, body: form })
  const response = await exports.default.fetch(sent)
  expect(response.status).toBe(200)
  return (await response.json<FileObject>()).id
}

export async function createBatch(input_file_id: string, change: object = {}, key = KEY_A): Promise<BatchObject> {
  const asked = { input_file_id, endpoint: CHAT, completion_window: '24h', ...change }
  const response = await request('POST', '/v1/batches', key, asked)
  expect(response.status).toBe(200)
  return response.json()
}

export function batchOf(id: string, key = KEY_A): Promise<BatchObject> {
  return json(request('GET', `/v1/batches/${id}`, key))
}

const ENDED = ['completed', 'failed', 'expired', 'cancelled']

export async function ended(id: string, key = KEY_A): Promise<BatchObject> {
  await expect.poll(async () => ENDED.includes((await batchOf(id, key)).status), { interval: 50 }).toBe(true)
  return batchOf(id, key)
}

export interface OutputLine {
  id: string
  custom_id: string
  response: {
    status_code: number
    request_id: string | null
    body: { answer?: string; error?: { code: string } }
  } | null
  error: { code: string; message: string } | null
}

/** Empty where there is no such file. */
export async function outputOf(file: string | null): Promise<OutputLine[]> {
  if (file === null) return []
  const response = await request('GET', `/v1/files/${file}/content`, KEY_A)
  expect(response.status).toBe(200)
  const text = new TextDecoder().decode(await response.arrayBuffer())
  expect(text.endsWith('\n')).toBe(true)
  return text
    .slice(0, -1)
    .split('\n')
    .map((line) => JSON.parse(line))
}

export function answered(http_status: number, body: object, error_code: string | null = null): LineOutcome {
  const text = JSON.stringify(body)
  return { status: 'answered', http_status, call: 'call', body: text, error_code, retry_after_s: null }
}

/** The line's own text as its answer. */
export function echo(line: LineCall): LineOutcome {
  const { messages } = line.body as InputLine['body']
  const usage = {
    ...{ prompt_tokens: 3, completion_tokens: 2, total_tokens: 5, prompt_tokens_details: { cached_tokens: 1 } },
    switchyard: { wait_s: 0, service_wall_s: 1 },
  }
  return answered(200, { answer: messages[0]?.content, usage })
}

type Serve = (line: LineCall, signal: AbortSignal) => Promise<LineOutcome> | LineOutcome

/** In place of the relay, for all batches. */
export function serveLines(serve: Serve): void {
  const served = BatchActor.prototype as unknown as { serveLine: Serve }
  vi.spyOn(served, 'serveLine').mockImplementation(serve)
}

export function contentOf(line: LineCall): string {
  return (line.body as InputLine['body']).messages[0]?.content ?? ''
}

export function batchStub(id: string, tenant = 'tenant-a') {
  return env.BATCH.getByName(JSON.stringify([tenant, id]))
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
