/**
 * An enrolled agent that serves calls and lies about them: usage that cannot be, records of centuries, records of leases
 * that it was never given. It serves a model of its own, so that the books of the other agents can be compared all the same.
 */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { WebSocket } from 'ws'
import {
  type CallRecord,
  PROTOCOL_VERSION,
  PROTOCOL_VERSION_MIN,
  RecordAck,
  STATUS_INTERVAL_MS,
  type TicketClaims,
} from '../../src/protocol/index.ts'
import type { Fleet } from './fleet.ts'
import { enrol } from './hostile-agent.ts'

/** Only this agent serves it. */
export const LIED_ABOUT_MODEL = 'lied-about-8b'
const OUTPUT_TOKENS_MAX = 8
/** What the control plane allows beyond: a token for the end, and two clocks that differ. */
const TOKENS_SLACK = 1
const CLOCK_SLACK_S = 5
const TIMEOUT_MS = 30_000
const POLL_MS = 100
const ABSURD = Number.MAX_SAFE_INTEGER

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

interface Account {
  fleet: Fleet
  id: string
  token: string
  region: string
}

class LyingAgent {
  readonly claims: TicketClaims[] = []
  readonly #account: Account
  readonly #server = createServer((request, response) => {
    request.resume()
    request.on('end', () => {
      if (request.method === 'POST') this.#serve(request.headers.authorization ?? '', response)
      else response.writeHead(404).end('{}')
    })
  })
  #link: WebSocket | null = null
  #status: NodeJS.Timeout | undefined

  constructor(account: Account) {
    this.#account = account
  }

  /** Resolves when its pool has welcomed it. The model is new, so isolates may not know it yet. */
  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
    for (const deadline = performance.now() + TIMEOUT_MS; !(await this.#join()); await sleep(POLL_MS)) {
      if (performance.now() > deadline) throw new Error('the lying agent was not welcomed')
    }
  }

  async stop(): Promise<void> {
    clearInterval(this.#status)
    this.#link?.terminate()
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  async send(records: readonly CallRecord[]): Promise<RecordAck> {
    const { fleet, id: agent, token } = this.#account
    const init = { method: 'POST', apiKey: token, body: JSON.stringify({ agent, records }) }
    const answer = await fleet.fetch('/agents/v1/records', init)
    return RecordAck.parse(await answer.json())
  }

  #join(): Promise<boolean> {
    const { fleet, region, token } = this.#account
    const query = new URLSearchParams({ model: LIED_ABOUT_MODEL, region })
    const url = `${fleet.url.replace('http', 'ws')}/agents/v1/link?${query}`
    const link = new WebSocket(url, { headers: { authorization: `Bearer ${token}` } })
    const { promise, resolve } = Promise.withResolvers<boolean>()
    link.on('open', () => link.send(JSON.stringify(this.#hello())))
    link.on('error', () => resolve(false))
    link.on('close', () => resolve(false))
    link.once('message', () => {
      this.#link = link
      let seq = 0
      const load = { waiting: 0, running: 0, queued_tokens: 0, kv_used_tokens: 0, leases_seen: [] }
      const engine = { id: this.#engine, epoch: 'epoch-1', state: 'ready', bytes_per_token: null, ...load }
      const report = (): void => {
        seq += 1
        if (link.readyState === WebSocket.OPEN) link.send(JSON.stringify({ type: 'status', seq, engines: [engine] }))
      }
      report()
      clearInterval(this.#status)
      this.#status = setInterval(report, STATUS_INTERVAL_MS / 2)
      resolve(true)
    })
    return promise
  }

  get #engine(): string {
    return `${this.#account.id}-e0`
  }

  #hello(): object {
    const { id: agent, region } = this.#account
    const { port } = this.#server.address() as AddressInfo
    const size = { seats: 4, kv_capacity_tokens: 8192, context_tokens_max: 4096, prefill_tokens_per_s: null }
    const engine = { id: this.#engine, epoch: 'epoch-1', kind: 'emulated', model: LIED_ABOUT_MODEL, ...size }
    return {
      ...{ type: 'hello', protocol: { min: PROTOCOL_VERSION_MIN, max: PROTOCOL_VERSION } },
      ...{ agent, region, model: LIED_ABOUT_MODEL, url: `http://127.0.0.1:${port}`, now_ms: Date.now() },
      engines: [{ ...engine, speed_factor: 1 }],
    }
  }

  #serve(authorization: string, response: ServerResponse): void {
    const [, payload = ''] = authorization.replace('Bearer ', '').split('.')
    this.claims.push(JSON.parse(Buffer.from(payload, 'base64url').toString('utf8')) as TicketClaims)
    const chunk = (fields: object): string =>
      `data: ${JSON.stringify({ id: 'c', object: 'x', created: 0, ...fields })}\n\n`
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(chunk({ choices: [{ index: 0, delta: { role: 'assistant', content: 'lies' } }] }))
    response.write(chunk({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }))
    const usage = { prompt_tokens: -5, completion_tokens: ABSURD, total_tokens: 0.5, switchyard: { service_s: -1 } }
    response.write(chunk({ choices: [], usage }))
    response.end('data: [DONE]\n\n')
  }
}

/**
 * One call through an agent that lies, with a key of a tenant of its own. Returns what the control plane believed. Throws
 * where the system could not be asked, since another fault is under way.
 */
export async function lie(fleet: Fleet, name: string, region: string): Promise<string[]> {
  const model = { id: LIED_ABOUT_MODEL, context_tokens_max: 4096 }
  const init = { method: 'POST', apiKey: fleet.secrets.adminKey, body: JSON.stringify(model) }
  const made = await fleet.fetch('/admin/v1/models', init)
  if (made.status !== 201 && made.status !== 409) throw new Error(`the model was not made: ${made.status}`)
  const { apiKey } = await fleet.createTenant(name)
  const agent = new LyingAgent({ fleet, id: name, token: await enrol(fleet, name, region), region })
  try {
    await agent.start()
    return await lieOnce(fleet, agent, name, apiKey)
  } finally {
    await agent.stop()
  }
}

async function lieOnce(fleet: Fleet, agent: LyingAgent, program: string, apiKey: string): Promise<string[]> {
  const started_ms = performance.now()
  const found: string[] = []
  const answer = await answered(fleet, program, apiKey)
  if (answer.usage !== undefined) found.push(`${program}: usage of a lie reached a client`)
  // The lie above is known, so a stream of this agent is read.
  if ((await streamed(fleet, program, apiKey)).includes('"usage":{')) {
    found.push(`${program}: usage of a lie reached a client in a stream`)
  }
  const [claims] = agent.claims
  if (claims === undefined) throw new Error('the lying agent was not called')
  const absurd = recordOf(claims)
  const invented = { ...absurd, lease: `${claims.lease}-invented` }
  const stolen = { ...absurd, tenant: 'local' }
  const raised = { ...absurd, lease_proof: (claims.lease_proof ?? '').replace(/^../, 'zz') }
  const refused = await agent.send([invented, stolen])
  if (refused.acknowledged.length > 0) found.push(`${program}: a record of an invented or stolen lease was taken`)
  if ((await agent.send([raised])).acknowledged.length > 0)
    found.push(`${program}: a record with other terms was taken`)
  await until(async () => (await agent.send([absurd])).acknowledged.includes(absurd.lease))
  const read = await fleet.fetch(`/v1/programs/${program}`, { apiKey })
  if (!read.ok) return [...found, ...unasked(`${program}: reading it`, read.status)]
  const { service_wall_s, output_tokens } = (await read.json()) as { service_wall_s: number; output_tokens: number }
  const elapsed_s = (performance.now() - started_ms) / 1000 + CLOCK_SLACK_S
  if (service_wall_s > elapsed_s) found.push(`${program}: ${service_wall_s} s of service in ${elapsed_s} s`)
  if (output_tokens > OUTPUT_TOKENS_MAX + TOKENS_SLACK) found.push(`${program}: ${output_tokens} output tokens`)
  const ended = await fleet.fetch(`/v1/programs/${program}`, { method: 'DELETE', apiKey })
  return ended.ok ? found : [...found, ...unasked(`${program}: ending it`, ended.status)]
}

/** Another fault may keep the system from answering, and it says so with 503. */
function unasked(what: string, status: number): string[] {
  return status === 503 ? [] : [`${what} is answered with ${status}`]
}

/** Isolates may not know the model yet, and pools may not know the agent. */
async function answered(fleet: Fleet, program: string, apiKey: string): Promise<{ usage?: unknown }> {
  let answer: { usage?: unknown } = {}
  await until(async () => {
    const response = await ask(fleet, program, apiKey, {})
    answer = (await response.json()) as { usage?: unknown }
    return response.ok
  })
  return answer
}

async function streamed(fleet: Fleet, program: string, apiKey: string): Promise<string> {
  let text = ''
  await until(async () => {
    const response = await ask(fleet, program, apiKey, { stream: true, stream_options: { include_usage: true } })
    text = await response.text()
    return response.ok
  })
  return text
}

function ask(fleet: Fleet, program: string, apiKey: string, fields: object): Promise<Response> {
  const messages = [{ role: 'user', content: 'Tell the truth.' }]
  const body = JSON.stringify({ model: LIED_ABOUT_MODEL, messages, max_tokens: OUTPUT_TOKENS_MAX, ...fields })
  const headers = { 'x-program-id': program }
  return fleet.fetch('/v1/chat/completions', { method: 'POST', apiKey, headers, body })
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  for (const deadline = performance.now() + TIMEOUT_MS; !(await holds()); await sleep(POLL_MS)) {
    if (performance.now() > deadline) throw new Error('the control plane does not answer the lying agent')
  }
}

function recordOf(claims: TicketClaims): CallRecord {
  const { lease, call, tenant, program, run, thread, agent, engine, epoch, region, model, lease_proof = '' } = claims
  return {
    ...{ v: 1, lease, call, tenant, program, run, thread, class: claims.class, agent, engine, epoch, region, model },
    ...{ lease_proof, outcome: 'completed', finish_reason: 'stop', error_code: null },
    ...{ prompt_tokens: ABSURD, cached_tokens: ABSURD, output_tokens: ABSURD, preemptions: ABSURD },
    resumed_tokens: ABSURD,
    ...{ swapped_out_tokens: ABSURD, swapped_in_tokens: ABSURD, recomputed_tokens: ABSURD, swap_us: ABSURD },
    ...{ service_wall_us: ABSURD, service_modelled_us: ABSURD, wait_us: ABSURD },
    ...{ first_token_us: ABSURD, duration_us: ABSURD, ended_at_ms: Date.now() },
  }
}
