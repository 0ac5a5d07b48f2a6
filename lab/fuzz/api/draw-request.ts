/** One request, drawn: an operation of the document, mostly valid, and a change or two that make it less so. */
import { gzipSync } from 'node:zlib'
import type { Random } from '../../chaos/random.ts'
import { type ApiDocument, type Operation, sample } from './document.ts'
import { hostileHeader, hostileJson, hostileText, mutated } from './hostile-values.ts'
import { type Kind, type KnownIds, kindOf } from './known-ids.ts'
import { BODIES, type BodyWorld, FORMS } from './request-bodies.ts'

export interface Target {
  model: string
  region: string
  /** Its token sends records and opens links. */
  agent: string
  keys: { apiKey: string; adminKey: string; agentToken: string }
}

export interface DrawnRequest {
  operation: Operation
  method: string
  path: string
  headers: Record<string, string>
  body: Buffer | null
  /** The client leaves after so long. Null: it stays. */
  leaves_after_ms: number | null
}

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS', 'TRACE'] as const
/** Ids that go with the id of what holds them. */
const PAIRED = ['item', 'key'] as const
const COMPLETES_UPLOAD = '/v1/uploads/{id}/complete'
const LEAVES_AFTER_MS_MAX = 60
/** Read by the API, by a proxy or by neither. */
const HEADERS = [
  ...['x-program-id', 'x-thread-id', 'x-parent-calls', 'x-prompt-head', 'x-program-regions', 'x-switchyard-strict'],
  'x-program-budget',
  ...['x-app', 'idempotency-key', 'traceparent', 'tracestate', 'x-session-id', 'session_id', 'x-call-id', 'accept'],
  ...['anthropic-version', 'anthropic-beta', 'content-type', 'content-encoding', 'range', 'if-none-match', 'origin'],
  ...['x-forwarded-for', 'x-forwarded-host', 'cf-connecting-ip', 'x-http-method-override', 'cookie', 'x-request-id'],
  ...['accept-encoding', 'access-control-request-method', 'x-stainless-retry-count', 'authorization', 'x-api-key'],
] as const
const KIND_OF_HEADER: Readonly<Record<string, Kind>> = { 'x-program-id': 'program', 'x-program-regions': 'region' }
/** `x-program-id` is what makes a call part of a program, so valid calls often have it. */
const PROGRAM_SHARE = 0.4
/** The page has this header on all that it asks. Requests with a sign-in cookie, and the sign-in itself, count only with it. */
const PAGE_HEADER = 'x-switchyard-page'
const CALLS = new Set(Object.keys(BODIES).filter((name) => /completions|messages$|responses$|embeddings/.test(name)))

export function drawRequest(
  document: ApiDocument,
  operations: readonly Operation[],
  ids: KnownIds,
  target: Target,
  random: Random,
): DrawnRequest {
  const operation = random.pick(operations)
  const method = random.chance(0.01) ? random.pick(METHODS) : operation.method
  // By the method that is sent: another one than the operation's may remove what it names.
  const draw = (kind: Kind): string => ids.pick(kind, { ...operation, method }, random)
  let part: string | null = null
  // One for each request: the path names the upload of the part that the body names.
  const pick = (kind: Kind): string => {
    if (kind !== 'part') return draw(kind)
    part ??= draw(kind)
    return part
  }
  const { body, content_type } = bodyOf(operation, document, { random, pick, ...target, key: target.keys.apiKey })
  const headers: Record<string, string> = { ...authorization(operation, target, random) }
  if (body !== null) headers['content-type'] = content_type
  if (CALLS.has(operation.name) && random.chance(PROGRAM_SHARE)) headers['x-program-id'] = headerSafe(pick('program'))
  if (operation.path.startsWith('/page/') && random.chance(0.8)) headers[PAGE_HEADER] = '1'
  if (body !== null && random.chance(0.02)) headers['content-encoding'] = 'gzip'
  for (let extra = random.chance(0.3) ? random.between(1, 4) : 0; extra > 0; extra -= 1) {
    const name = random.pick(HEADERS)
    const kind = KIND_OF_HEADER[name]
    headers[name] = kind !== undefined && random.chance(0.5) ? headerSafe(pick(kind)) : hostileHeader(random)
  }
  return {
    operation,
    method,
    path: pathOf(operation, pick, random),
    headers,
    body: headers['content-encoding'] === 'gzip' && body !== null && random.chance(0.8) ? gzipSync(body) : body,
    leaves_after_ms: random.chance(0.03) ? random.between(0, LEAVES_AFTER_MS_MAX) : null,
  }
}

function authorization({ scheme }: Operation, { keys }: Target, random: Random): Record<string, string> {
  const own = { apiKey: keys.apiKey, adminKey: keys.adminKey, agentToken: keys.agentToken, none: '' }[scheme]
  if (random.chance(0.9)) return random.chance(0.1) && scheme === 'apiKey' ? { 'x-api-key': own } : bearer(own)
  const other = random.pick([keys.apiKey, keys.agentToken, `${own}x`, own.slice(0, -1), hostileHeader(random), ''])
  return random.chance(0.3) ? {} : bearer(other)
}

const bearer = (key: string): Record<string, string> => (key === '' ? {} : { authorization: `Bearer ${key}` })
const headerSafe = (text: string): string => text.replaceAll(/[^\x20-\x7e]/g, '')

function pathOf({ path, parameters }: Operation, pick: (kind: Kind) => string, random: Random): string {
  if (path === COMPLETES_UPLOAD && random.chance(0.9)) {
    const [upload = ''] = pick('part').split('/')
    return path.replace('{id}', () => encodeURIComponent(upload.toWellFormed()))
  }
  const inner = PAIRED.find((name) => path.includes(`{${name}}`))
  const [holder = '', held = ''] = inner === undefined ? [] : pick(inner).split('/')
  if (held !== '' && random.chance(0.9)) return path.replace('{id}', holder).replace(`{${inner}}`, held)
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const id = pick(name === 'id' ? kindOf(path) : (name as Kind))
    return random.chance(0.02) ? id.replaceAll(/[^\x21-\x7e]/g, '') : encodeURIComponent(id.toWellFormed())
  })
  const query = parameters
    .filter((one) => one.in === 'query' && random.chance(required(path) ? 0.97 : 0.4))
    .map(({ name, schema }) => `${name}=${encodeURIComponent(queryValue(name, schema, pick, random).toWellFormed())}`)
  return query.length === 0 ? filled : `${filled}?${query.join('&')}`
}

/** Without their parameters these answer 400 and nothing else. */
const required = (path: string): boolean => ['/agents/v1/link', '/admin/v1/leases', '/admin/v1/classes'].includes(path)

function queryValue(name: string, schema: object, pick: (kind: Kind) => string, random: Random): string {
  if (random.chance(0.15)) return hostileText(random)
  if (name === 'cursor' || name === 'model' || name === 'region' || name === 'tenant') return pick(name)
  if (name === 'after') return pick('item').split('/')[1] ?? ''
  return String(sample({ ...schema }, { schemas: {} }, random))
}

function bodyOf(
  operation: Operation,
  document: ApiDocument,
  world: BodyWorld,
): { body: Buffer | null; content_type: string } {
  const form = FORMS[operation.name]
  if (form === undefined) return { body: jsonBodyOf(operation, document, world), content_type: 'application/json' }
  const { content_type, bytes } = form(world)
  return { body: damaged(bytes, world.random), content_type }
}

/** Mostly as it is; else cut, or with another byte. */
function damaged(bytes: Buffer, random: Random): Buffer {
  const kind = random.next()
  if (kind < 0.8) return bytes
  if (kind < 0.9) return bytes.subarray(0, random.between(0, bytes.length))
  if (bytes.length > 0) bytes[random.between(0, bytes.length - 1)] = random.between(0, 255)
  return bytes
}

function jsonBodyOf(operation: Operation, document: ApiDocument, world: BodyWorld): Buffer | null {
  const { random } = world
  // A body where none is expected.
  if (operation.body === null) return random.chance(0.03) ? Buffer.from(JSON.stringify(hostileJson(random))) : null
  const made = BODIES[operation.name]?.(world) ?? sample(operation.body, document, random)
  const kind = random.next()
  if (kind < 0.55) return Buffer.from(JSON.stringify(made))
  if (kind < 0.8) return Buffer.from(JSON.stringify(mutated(made, random)))
  if (kind < 0.9) return Buffer.from(JSON.stringify(sample(operation.body, document, random)))
  if (kind < 0.94) return Buffer.from(JSON.stringify(hostileJson(random)))
  const bytes = Buffer.from(JSON.stringify(made))
  if (kind < 0.97) return bytes.subarray(0, random.between(0, bytes.length))
  if (bytes.length > 0) bytes[random.between(0, bytes.length - 1)] = random.between(0, 255)
  return bytes
}
