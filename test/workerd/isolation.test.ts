/**
 * Invariant 3 on every route that /openapi.json lists: a tenant that knows another's ids sees, changes and learns nothing by
 * them. A route that this test does not know fails it: say there what a stranger may be answered.
 */
import { env, exports } from 'cloudflare:workers'
import { beforeAll, describe, expect, it } from 'vitest'
import { responsesActor } from '../../src/actors/stubs.ts'
import { type Operation, operations } from './api-document.ts'
import { create, nodeOf, reached } from './application-tools.ts'
import { batchOf, createBatch, storeInput } from './batch-tools.ts'
import {
  json,
  KEY_A,
  KEY_B,
  MODEL,
  ORIGIN,
  openCall,
  proven,
  provision,
  recordOf,
  request,
  TOKEN_WEST,
} from './fixtures.ts'
import { soon } from './soon.ts'

/** In everything that tenant A has stored. */
const SECRET = 'known-to-tenant-a-alone'
const PROGRAM = 'program-of-a'
/** No call of a stranger names it. */
const PROGRAM_UNTOUCHED = 'program-of-a-2'
const RESPONSE = 'resp_00a1'
const UNKNOWN = {
  program: 'no-such-program',
  response: 'resp_00ff',
  conversation: `conv_00${'f'.repeat(32)}`,
  item: 'msg_ff',
  file: 'file-00ff',
  upload: 'upload_00ff',
  batch: 'batch_00ff',
  application: 'app_00ff',
}

/** Ids that a stranger writes into paths, bodies and headers: tenant A's own, or ones of nothing. */
type Ids = typeof UNKNOWN
let ids: Ids

interface Strangers {
  status: number
  body?: (ids: Ids) => object
  /** Instead of a body. */
  form?: () => FormData
  headers?: (ids: Ids) => Record<string, string>
}

const MESSAGES = [{ role: 'user', content: 'hello' }]
const named = ({ program }: Ids) => ({ 'X-Program-Id': program, 'X-Parent-Calls': 'call-of-a' })
/** No engine is linked: a call that passes everything else ends there. */
const CALL_STATUS = 503
const ITEMS = [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'hello' }] }]

const UPLOAD = { filename: 'note.jsonl', purpose: 'batch', mime_type: 'application/jsonl' }

function formOf(part: 'file' | 'data', content: string): FormData {
  const form = new FormData()
  if (part === 'file') form.set('purpose', 'batch')
  form.set(part, new File([content], 'note.jsonl'))
  return form
}

/** Ids in the paths of these are tenant A's. 503, 200 and 201: the stranger's own call, list or object, of its own. */
const TENANT_ROUTES: Readonly<Record<string, Strangers>> = {
  'POST /v1/chat/completions': {
    status: CALL_STATUS,
    headers: named,
    body: () => ({ model: MODEL, messages: MESSAGES }),
  },
  'POST /v1/completions': { status: CALL_STATUS, headers: named, body: () => ({ model: MODEL, prompt: 'hello' }) },
  'POST /v1/embeddings': { status: CALL_STATUS, headers: named, body: () => ({ model: MODEL, input: 'hello' }) },
  'POST /v1/messages': {
    status: CALL_STATUS,
    headers: named,
    body: () => ({ model: MODEL, max_tokens: 1, messages: MESSAGES }),
  },
  'POST /v1/messages/count_tokens': { status: 200, headers: named, body: () => ({ model: MODEL, messages: MESSAGES }) },
  'POST /v1/responses': {
    status: 404,
    body: ({ response }) => ({ model: MODEL, input: 'hello', previous_response_id: response }),
  },
  'POST /v1/responses/input_tokens': {
    status: 404,
    body: ({ response }) => ({ model: MODEL, input: 'hello', previous_response_id: response }),
  },
  'POST /v1/responses/compact': { status: 400 },
  'GET /v1/models': { status: 200 },
  'GET /v1/models/{id}': { status: 404 },
  'GET /v1/responses/{id}': { status: 404 },
  'DELETE /v1/responses/{id}': { status: 404 },
  'GET /v1/responses/{id}/input_items': { status: 404 },
  'POST /v1/responses/{id}/cancel': { status: 404 },
  'POST /v1/conversations': { status: 200, body: () => ({}) },
  'GET /v1/conversations/{id}': { status: 404 },
  'POST /v1/conversations/{id}': { status: 404, body: () => ({ metadata: { note: 'changed' } }) },
  'DELETE /v1/conversations/{id}': { status: 404 },
  'GET /v1/conversations/{id}/items': { status: 404 },
  'POST /v1/conversations/{id}/items': { status: 404, body: () => ({ items: ITEMS }) },
  'GET /v1/conversations/{id}/items/{item}': { status: 404 },
  'DELETE /v1/conversations/{id}/items/{item}': { status: 404 },
  'POST /v1/files': { status: 200, form: () => formOf('file', 'hello') },
  'GET /v1/files': { status: 200 },
  'GET /v1/files/{id}': { status: 404 },
  'GET /v1/files/{id}/content': { status: 404 },
  'DELETE /v1/files/{id}': { status: 404 },
  'POST /v1/uploads': { status: 200, body: () => ({ ...UPLOAD, bytes: 5 }) },
  'GET /v1/uploads/{id}': { status: 404 },
  'POST /v1/uploads/{id}/parts': { status: 404, form: () => formOf('data', 'hello') },
  'POST /v1/uploads/{id}/complete': { status: 404, body: () => ({ part_ids: ['part_00ff'] }) },
  'POST /v1/uploads/{id}/cancel': { status: 404 },
  'POST /v1/batches': {
    status: 404,
    body: ({ file }) => ({ input_file_id: file, endpoint: '/v1/chat/completions', completion_window: '24h' }),
  },
  'GET /v1/batches': { status: 200 },
  'GET /v1/batches/{id}': { status: 404 },
  'POST /v1/batches/{id}/cancel': { status: 404 },
  'POST /v1/applications': {
    status: 404,
    body: ({ file }) => ({ name: 'b', nodes: [nodeOf('a', '{{q}}')], input: { file } }),
  },
  'GET /v1/applications': { status: 200 },
  'GET /v1/applications/{id}': { status: 404 },
  'POST /v1/applications/{id}/cancel': { status: 404 },
  'GET /v1/applications/{id}/plan': { status: 404 },
  'GET /v1/applications/{id}/nodes/{node}/output': { status: 404 },
  'GET /v1/applications/{id}/gantt.svg': { status: 404 },
  'GET /v1/usage': { status: 200 },
  'GET /v1/spend': { status: 200 },
  'GET /v1/trends': { status: 200 },
  'POST /v1/programs': { status: 201, body: () => ({ id: 'program-of-b' }) },
  'GET /v1/programs': { status: 200 },
  'GET /v1/programs/{id}': { status: 404 },
  'DELETE /v1/programs/{id}': { status: 404 },
  'PATCH /v1/programs/{id}': { status: 404, body: () => ({ weight: 9 }) },
  // A class of the stranger's own of this name.
  'PATCH /v1/classes/{class}': { status: 200, body: () => ({ weight: 9 }) },
  'GET /v1/programs/{id}/calls': { status: 404 },
  'GET /v1/trace': { status: 200 },
  'GET /v1/programs/{id}/fcfs': { status: 404 },
  // Of the viewer's own programs.
  'GET /page/session': { status: 200 },
  'GET /page/live': { status: 200 },
}
const AGENT_ROUTES = ['GET /agents/v1/host', 'GET /agents/v1/link', 'POST /agents/v1/records']
const OPEN_ROUTES = ['GET /healthz', 'GET /health', 'GET /', 'POST /page/session', 'DELETE /page/session']

let all: Operation[] = []
const of = (scheme: Operation['scheme']) => all.filter((operation) => operation.scheme === scheme)

beforeAll(async () => {
  await provision()
  all = await operations()
  const metadata = { note: SECRET }
  for (const id of [PROGRAM, PROGRAM_UNTOUCHED])
    expect((await request('POST', '/v1/programs', KEY_A, { id, metadata })).status).toBe(201)
  await openCall(PROGRAM, 'call-of-a')
  const message = {
    id: 'msg_00a10000',
    type: 'message',
    role: 'assistant',
    content: [{ type: 'output_text', text: SECRET }],
  }
  await responsesActor(env, 'tenant-a', 0).put({
    ...{ key: '00a1', previous: null, conversation: null, program: PROGRAM, thread: 't', call: 'c', created_at_ms: 1 },
    input: JSON.stringify([{ ...message, id: 'msg_00a18000', role: 'user' }]),
    response: JSON.stringify({ id: RESPONSE, object: 'response', status: 'completed', output: [message] }),
  })
  const items = [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: SECRET }] }]
  const { id: conversation } = await json<{ id: string }>(
    request('POST', '/v1/conversations', KEY_A, { items, metadata }),
  )
  const { data } = await json<{ data: { id: string }[] }>(
    request('GET', `/v1/conversations/${conversation}/items`, KEY_A),
  )
  const { id: upload } = await json<{ id: string }>(
    request('POST', '/v1/uploads', KEY_A, { ...UPLOAD, filename: SECRET, bytes: 5 }),
  )
  const file = await storeInput(SECRET)
  // It fails by its first line, so nothing of it changes any more.
  const { id: batch } = await createBatch(file, { metadata })
  await soon(async () => expect(await batchOf(batch)).toMatchObject({ status: 'failed' }))
  // It is planned and does not run.
  const { id: application } = await create({
    ...{ name: SECRET, metadata, nodes: [nodeOf('node', '{{q}}')], input: { lines: [{ q: SECRET }] }, start: false },
  })
  await reached(application, 'planned')
  // On which hosts it would run is written a moment later.
  const planned = () => json<{ hosts: object | null }>(request('GET', `/v1/applications/${application}/plan`, KEY_A))
  await soon(async () => expect((await planned()).hosts).not.toBeNull())
  ids = {
    application,
    program: PROGRAM,
    response: RESPONSE,
    conversation,
    item: data[0]?.id ?? '',
    file,
    upload,
    batch,
  }
  // The tenant's list and the plan follow a moment later. What changes after this is a stranger's doing.
  await soon(async () => {
    const { data } = await json<{ data: { id: string; calls: number }[] }>(request('GET', '/v1/programs', KEY_A))
    expect(data.find(({ id }) => id === PROGRAM)?.calls).toBe(1)
    const plan = await json<{ hosts: unknown }>(request('GET', `/v1/applications/${application}/plan`, KEY_A))
    expect(plan.hosts).not.toBeNull()
  })
})

/** Whose id stands in a path, by how the path begins. */
const ID_OF = {
  responses: 'response',
  conversations: 'conversation',
  files: 'file',
  uploads: 'upload',
  batches: 'batch',
  applications: 'application',
}

function pathOf({ path }: Operation, of: Ids): string {
  const object = (ID_OF as Partial<Record<string, keyof Ids>>)[path.split('/')[2] ?? ''] ?? 'program'
  return path
    .replace('{id}', of[object])
    .replace('{item}', of.item)
    .replace('{node}', 'node')
    .replace('{class}', 'class')
}

async function ask(
  operation: Operation,
  of: Ids,
  key: string,
): Promise<{ status: number; text: string; seen: string }> {
  const { body, form, headers } = TENANT_ROUTES[operation.name] ?? { status: 0 }
  const content_type = form === undefined ? { 'content-type': 'application/json' } : {}
  const response = await exports.default.fetch(
    new Request(ORIGIN + pathOf(operation, of), {
      method: operation.method,
      headers: { authorization: `Bearer ${key}`, ...content_type, ...headers?.(of) },
      ...(body === undefined ? {} : { body: JSON.stringify(body(of)) }),
      ...(form === undefined ? {} : { body: form() }),
    }),
  )
  const text = await response.text()
  return { status: response.status, text, seen: `${JSON.stringify([...response.headers])}${text}` }
}

/** All that tenant A can read of its own. */
async function ownView(): Promise<unknown[]> {
  const { program, response, conversation, item, file, upload, batch, application } = ids
  const paths = [
    ...['/v1/programs', `/v1/programs/${program}`, `/v1/programs/${program}/calls`, `/v1/responses/${response}`],
    ...[`/v1/responses/${response}/input_items`, `/v1/conversations/${conversation}`],
    ...[`/v1/conversations/${conversation}/items`, `/v1/conversations/${conversation}/items/${item}`],
    ...['/v1/files', `/v1/files/${file}`, `/v1/uploads/${upload}`, '/v1/batches', `/v1/batches/${batch}`],
    ...['/v1/applications', `/v1/applications/${application}`, `/v1/applications/${application}/plan`],
  ]
  const answers = await Promise.all(paths.map((path) => request('GET', path, KEY_A)))
  expect(answers.map(({ status }) => status)).toEqual(paths.map(() => 200))
  return Promise.all(answers.map((answer) => answer.json()))
}

/** Once the actors have told each other what was made: the list of programs and the loans of applications come later. */
async function settledView(): Promise<unknown[]> {
  let view: unknown[] = []
  await expect
    .poll(async () => {
      view = await ownView()
      const [list, program] = view as [{ data: { id: string; calls: number }[] }, { calls: number }]
      const { hosts } = view.at(-1) as { hosts: object | null }
      return hosts !== null && list.data.some(({ id, calls }) => id === ids.program && calls === program.calls)
    })
    .toBe(true)
  return view
}

describe('every route', () => {
  it('is known to this test', () => {
    expect(
      of('apiKey')
        .map(({ name }) => name)
        .sort(),
    ).toEqual(Object.keys(TENANT_ROUTES).sort())
    expect(
      of('agentToken')
        .map(({ name }) => name)
        .sort(),
    ).toEqual(AGENT_ROUTES)
    expect(
      of('none')
        .map(({ name }) => name)
        .sort(),
    ).toEqual([...OPEN_ROUTES].sort())
    for (const { path } of of('adminKey')) expect(path).toMatch(/^\/admin\/v1\//)
  })

  it('gives a stranger nothing by another tenant’s ids, and changes nothing', async () => {
    const before = await settledView()
    expect(JSON.stringify(before)).toContain(SECRET)
    // Calls come last: they open a program of the stranger's own under the name that they know.
    const is_call = ({ name }: Operation) => TENANT_ROUTES[name]?.headers !== undefined
    const ordered = of('apiKey').sort((a, b) => Number(is_call(a)) - Number(is_call(b)))
    for (const operation of ordered) {
      const { status, seen } = await ask(operation, ids, KEY_B)
      expect([operation.name, status]).toEqual([operation.name, TENANT_ROUTES[operation.name]?.status])
      expect(seen, operation.name).not.toContain(SECRET)
      expect(seen, operation.name).not.toContain('call-of-a')
    }
    expect(await ownView()).toEqual(before)
  })

  it('answers an id of another tenant as one of nothing', async () => {
    const in_body = ['POST /v1/responses', 'POST /v1/batches', 'POST /v1/applications']
    const naming = of('apiKey').filter(({ path, name }) => path.includes('{id}') || in_body.includes(name))
    expect(naming.length).toBeGreaterThan(10)
    for (const operation of naming) {
      const theirs = operation.path.startsWith('/v1/programs') ? { ...ids, program: PROGRAM_UNTOUCHED } : ids
      const [known, unknown] = [await ask(operation, theirs, KEY_B), await ask(operation, UNKNOWN, KEY_B)]
      const blank = (text: string, used: Ids): string =>
        Object.values(used).reduce((left, id) => left.replaceAll(id, '…'), text)
      expect([operation.name, known.status, blank(known.text, theirs)]).toEqual([
        operation.name,
        unknown.status,
        blank(unknown.text, UNKNOWN),
      ])
    }
  })

  it('of the operator and of agents is closed to a tenant', async () => {
    for (const operation of [...of('adminKey'), ...of('agentToken')]) {
      const path = operation.path.replace('{id}', 'tenant-a').replace('{program}', PROGRAM)
      const response = await request(operation.method, path, KEY_B, operation.has_body ? {} : undefined)
      const text = await response.text()
      expect([operation.name, response.status]).toEqual([operation.name, 401])
      expect(text).not.toContain(SECRET)
    }
  })

  it('of an agent is closed to another agent', async () => {
    const record = await proven(recordOf(PROGRAM, 'run', 'call-of-a'))
    const batch = { agent: 'agent-east', records: [record] }
    expect((await request('POST', '/agents/v1/records', TOKEN_WEST, batch)).status).toBe(403)
    const own = { agent: 'agent-west', records: [record] }
    expect((await request('POST', '/agents/v1/records', TOKEN_WEST, own)).status).toBe(403)
    const headers = { authorization: `Bearer ${TOKEN_WEST}`, upgrade: 'websocket' }
    for (const link of [`link?region=us-east&model=${MODEL}`, 'host?region=us-east']) {
      const upgrade = new Request(`${ORIGIN}/agents/v1/${link}`, { headers })
      expect((await exports.default.fetch(upgrade)).status).toBe(403)
    }
  })
})
