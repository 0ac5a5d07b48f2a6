/**
 * Fuzzes the whole API of a running system: drawn requests on every documented operation, broken ones on the wire, an agent
 * that sends nonsense, and schemathesis. No answer may be a 500, or hold a key or another tenant's data, and the
 * system must be well afterwards.
 */
import { Agent } from 'node:http'
import { Random } from '../../chaos/random.ts'
import { type DrawnRequest, drawRequest } from './draw-request.ts'
import { type FuzzedSystem, startFuzzedSystem } from './fuzzed-system.ts'
import { type HostileSeen, runHostileAgent } from './hostile-agent.ts'
import { sendRaw } from './raw-requests.ts'
import { runSchemathesis } from './schemathesis.ts'
import { type Sent, sendRequest } from './send-request.ts'
import { type Fault, Tally } from './tally.ts'

export interface ApiFuzzOptions {
  seed: number
  requests: number
  /** No request is drawn after that. The checks at the end are made all the same. */
  minutes_max: number
  at_once: number
  /** Requests of schemathesis per operation and phase. 0: it does not run. */
  examples_max: number
  /** Without its requests at the bounds of every schema, which are thousands. */
  is_brief?: boolean
  onProgress: (text: string) => void
}

export interface ApiFuzzReport {
  seed: number
  /** Those of schemathesis included. */
  requests: number
  drawn: number
  seconds: number
  by_route: Record<string, Record<string, number>>
  table: string
  hostile_agent: HostileSeen
  /** Operations of which no request succeeded. */
  unreached: string[]
  faults_total: number
  /** The first ones. */
  faults: Fault[]
  /** It accepted no connection any more, so the run ended early. */
  is_gone: boolean
  /** Null: it is well. */
  unhealthy: string | null
  /** Of a system that was not well: its logs and its state. Null: removed. */
  kept_folder: string | null
}

/** So many connections refused in a row: the system is gone. A restart within it takes a second. */
const REFUSED_MAX = 200
const REFUSED_WAIT_MS = 100
/** Of the drawn requests. */
const RAW_SHARE = 0.01
/** A body that no route reads, from here on: with a long one a connection was reset once in a million requests. */
const UNREAD_BODY_BYTES = 16 * 1024
const RAW_ROUTE = '(broken on the wire)'
/** A path with a method that its drawn operation does not have. The operator's may show every tenant's data. */
const ANOTHER_METHOD = '(another method)'
const ANOTHER_METHOD_ADMIN = '(another method of /admin/)'
/** What cannot succeed here. */
const NEVER_SUCCEEDS = new Set([
  // WebSockets, the first of which the hostile agent opens.
  'GET /agents/v1/link',
  'GET /agents/v1/host',
  // Emulated engines make none.
  'POST /v1/embeddings',
  // Every conversation is refused.
  'POST /v1/responses/compact',
  // No response runs in the background.
  'POST /v1/responses/{id}/cancel',
])

export async function fuzzApi(options: ApiFuzzOptions): Promise<ApiFuzzReport> {
  const system = await startFuzzedSystem()
  let is_kept = false
  try {
    const report = await fuzzSystem(system, options)
    is_kept = report.kept_folder !== null
    return report
  } finally {
    await system.remove({ is_kept })
  }
}

async function fuzzSystem(system: FuzzedSystem, options: ApiFuzzOptions): Promise<ApiFuzzReport> {
  const { seed, requests, minutes_max, at_once, examples_max, is_brief = false, onProgress } = options
  const { url, target, document, secrets } = system
  const started_ms = performance.now()
  const until_ms = started_ms + minutes_max * 60_000
  const tally = new Tally(secrets)
  const stopped = new AbortController()
  const { agent: id, region, model } = target
  const hostile = runHostileAgent(
    { url, id, token: target.keys.agentToken, region, model, random: new Random(seed + 1) },
    stopped.signal,
  )
  const presence = new Presence()
  const connections = new Agent({ keepAlive: true, maxSockets: at_once })
  const sent = await sendAll({ requests, until_ms, at_once }, presence, async (at) => {
    await oneRequest(system, { tally, presence }, connections, new Random(seed * 1_000_003 + at))
    if (at % 200 === 0) onProgress(`${at} of ${requests} requests, ${tally.faultsText}`)
  })
  connections.destroy()
  if (examples_max > 0 && !presence.is_gone) {
    for (const paths of ['tenant', 'admin'] as const) {
      onProgress(`schemathesis, as ${paths}`)
      const key = paths === 'tenant' ? target.keys.apiKey : target.keys.adminKey
      await runSchemathesis({ url, key, paths, examples_max, is_brief, seed }, document, (answer) =>
        tally.answered(answer),
      )
    }
  }
  stopped.abort()
  const hostile_agent = await hostile
  const { is_gone } = presence
  if (!is_gone) await system.removeHostileAgent()
  onProgress('waiting until all is well')
  const unhealthy = is_gone ? `it refuses connections after ${sent} requests` : await system.unhealthy()
  return {
    ...{ seed, requests: tally.requests, drawn: sent, is_gone, seconds: (performance.now() - started_ms) / 1000 },
    ...{ by_route: tally.by_route, table: tally.table(), hostile_agent },
    unreached: tally.unreached(document.operations, NEVER_SUCCEEDS),
    ...{ faults_total: tally.faults_total, faults: tally.faults, unhealthy },
    kept_folder: unhealthy === null ? null : system.folder,
  }
}

/** How many were sent: fewer than `requests` where the time is over, or where the system is gone. */
export async function sendAll(
  { requests, until_ms, at_once }: { requests: number; until_ms: number; at_once: number },
  presence: Presence,
  send: (at: number) => Promise<void>,
): Promise<number> {
  let sent = 0
  const workers = Array.from({ length: at_once }, async () => {
    while (sent < requests && performance.now() < until_ms && !presence.is_gone) await send(sent++)
  })
  await Promise.all(workers)
  return sent
}

async function oneRequest(
  { url, target, document, ids }: FuzzedSystem,
  { tally, presence }: { tally: Tally; presence: Presence },
  connections: Agent,
  random: Random,
): Promise<void> {
  if (random.chance(RAW_SHARE)) {
    const { status, text, request } = await sendRaw(url, target.keys.apiKey, random)
    if (status === null) tally.count(RAW_ROUTE, 'closed')
    else tally.answered({ route: RAW_ROUTE, status, text, request })
    return
  }
  const drawn = drawRequest(document, document.operations, ids, target, random)
  const { operation } = drawn
  const sent = await sendRequest(url, connections, drawn)
  await presence.saw(sent)
  if (sent.end !== 'answered') {
    const is_closed = sent.end === 'broken' && isUnread(drawn) && /ECONNRESET|EPIPE/.test(sent.reason)
    tally.count(operation.name, is_closed ? 'closed' : sent.end)
    if (sent.end === 'broken' && !is_closed)
      tally.fault({ route: operation.name, what: `no answer: ${sent.reason}`, request: shown(drawn), answer: '' })
    return
  }
  const { status, headers, text } = sent
  const another = operation.path.startsWith('/admin/') ? ANOTHER_METHOD_ADMIN : ANOTHER_METHOD
  const route = drawn.method === operation.method ? operation.name : another
  tally.answered({ route, status, text: `${headers}\n${text}`, request: shown(drawn) })
  if (status < 300 && drawn.method !== 'DELETE') ids.learn(operation, drawn.path.split('?')[0] ?? '', parsed(text))
}

function isUnread({ operation, body }: DrawnRequest): boolean {
  return operation.body === null && body !== null && body.length > UNREAD_BODY_BYTES
}

/** Tells a system that is gone from one that closes connections. */
export class Presence {
  #refused = 0

  get is_gone(): boolean {
    return this.#refused >= REFUSED_MAX
  }

  async saw(sent: Sent): Promise<void> {
    const isRefused = sent.end === 'broken' && sent.reason.includes('ECONNREFUSED')
    if (sent.end === 'answered') this.#refused = 0
    if (!isRefused) return
    this.#refused += 1
    await new Promise((resolve) => setTimeout(resolve, REFUSED_WAIT_MS))
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

function shown({ method, path, headers, body }: DrawnRequest): string {
  const { authorization: _, 'x-api-key': __, ...rest } = headers
  return `${method} ${path} ${JSON.stringify(rest)} ${body?.toString('utf8') ?? ''}`
}
