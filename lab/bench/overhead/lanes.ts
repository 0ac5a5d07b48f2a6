/**
 * The same call over each lane. The agent serves no call without a ticket, so where no control plane makes one (directly, by
 * the bare Worker, by a peer) the generator brings it as the bearer token; it is made before the load and not measured.
 * Such a ticket names no program, so its record leaves no state in the control plane.
 */
import { randomUUID } from 'node:crypto'
import { HOST } from '../../../ops/system/port.ts'
import { deriveTicketKey, importTicketKey, signTicket } from '../../../src/protocol/index.ts'
import { leaseProof } from '../../../src/relay/lease-proof.ts'
import { hashSecret, ticketKidOf } from '../../../src/store/secrets.ts'
import type { Lane } from './load.ts'
import { type BenchSystem, MODEL, REGION } from './system.ts'

/** A program of an agent: so many calls, of so many programs at a time. */
export const CALLS_PER_PROGRAM = 20
export const PROGRAMS_AT_ONCE = 64
/** A short prompt, that needs no pin. */
const PROMPT_KB = 1
const SYSTEM_PROMPT = 'You are a helpful assistant that answers in one sentence. '.repeat(8)
const QUESTION = 'What is the capital of France? '

const PATH = '/v1/chat/completions'

export interface CallShape {
  output_tokens: number
  /** Thousands of bytes. Left out: PROMPT_KB. */
  prompt_kb?: number
}

function body({ output_tokens, prompt_kb = PROMPT_KB }: CallShape): string {
  const chars = prompt_kb * 1000 - SYSTEM_PROMPT.length
  const messages = [
    { role: 'system', content: SYSTEM_PROMPT },
    { role: 'user', content: QUESTION.repeat(Math.ceil(chars / QUESTION.length)).slice(0, chars) },
  ]
  return JSON.stringify({ model: MODEL, messages, max_tokens: output_tokens, temperature: 0, stream: true })
}

function requestOf(host: string, headers: readonly string[], json: string): Buffer {
  const head = [`POST ${PATH} HTTP/1.1`, `host: ${host}`, 'content-type: application/json', ...headers]
  return Buffer.from(`${head.join('\r\n')}\r\ncontent-length: ${Buffer.byteLength(json)}\r\n\r\n${json}`)
}

/** Programs overlap: at any time PROGRAMS_AT_ONCE are under way, and they end one after the other. */
function programOf(index: number): string {
  const place = index % PROGRAMS_AT_ONCE
  const turn = Math.floor(index / PROGRAMS_AT_ONCE)
  const shifted = turn + Math.floor((place * CALLS_PER_PROGRAM) / PROGRAMS_AT_ONCE)
  return `${Math.floor(shifted / CALLS_PER_PROGRAM)}-${place}`
}

export function switchyardLane(
  system: Pick<BenchSystem, 'port' | 'secrets'>,
  shape: CallShape,
  program = programOf,
): Lane {
  const json = body(shape)
  let load = 0
  return {
    ...{ name: 'switchyard', host: HOST, port: system.port, output_tokens: shape.output_tokens },
    prepare: async () => {
      load += 1
    },
    request: (index) => {
      const headers = [`authorization: Bearer ${system.secrets.apiKey}`, `x-program-id: ${load}-${program(index)}`]
      return requestOf(`${HOST}:${system.port}`, headers, json)
    },
  }
}

/** A lane to the agent through `port` (the agent's own: directly), with tickets from here. */
export async function ticketLane(
  name: string,
  port: number,
  system: BenchSystem,
  shape: CallShape,
  more_headers: readonly string[] = [],
  ticket_in: 'header' | 'body' = 'header',
  program = programOf,
): Promise<Lane> {
  const json = body(shape)
  const { keyPepper, ticketSecret, agentTokens } = system.secrets
  const kid = ticketKidOf(await hashSecret(keyPepper, agentTokens[system.agent.id] ?? ''))
  const key = await importTicketKey(await deriveTicketKey(ticketSecret, kid, system.agent.id))
  const epoch = await epochOf(system)
  let tickets: string[] = []
  let load = 0
  return {
    ...{ name, host: HOST, port, output_tokens: shape.output_tokens },
    prepare: async (calls) => {
      load += 1
      tickets = await Promise.all(Array.from({ length: calls }, () => ticket(system, epoch, key, kid)))
    },
    request: (index) => {
      const headers = [`x-program-id: ${name}-${load}-${program(index)}`, ...more_headers]
      if (ticket_in === 'header') headers.push(`authorization: Bearer ${tickets[index]}`)
      const sent = ticket_in === 'header' ? json : json.replace('{', `{"api_key":"${tickets[index]}",`)
      return requestOf(`${HOST}:${port}`, headers, sent)
    },
  }
}

const TERMS = {
  speed_factor: 1,
  output_tokens_max: 8192,
  sequences_max: 1,
  key: null,
  reason: null,
}

async function ticket(
  { agent, secrets, context_tokens: prompt_tokens_max }: BenchSystem,
  epoch: string,
  key: CryptoKey,
  kid: string,
): Promise<string> {
  const call = randomUUID()
  const granted = {
    ...{ tenant: 'local', program: call, run: call, call, lease: randomUUID() },
    ...{ agent: agent.id, engine: agent.engine, region: REGION, model: MODEL },
  }
  const claims = {
    ...granted,
    lease_proof: await leaseProof(
      granted,
      { ...TERMS, prompt_tokens_max, granted_at_ms: Date.now() },
      secrets.ticketSecret,
    ),
    ...{ tenant_weight: 1, objective: 'token_latency' as const, thread: call, class: 'bench', epoch },
    ...{ sequence: null, settled_service_us: 0, open_elsewhere_us: 0, critical_path_us: 0, program_wait_us: 0 },
    ...{ program_output_tokens: 0, cache_salt: 'bench' },
  }
  return signTicket(claims, key, kid, Date.now() / 1000)
}

async function epochOf(system: BenchSystem): Promise<string> {
  const response = await fetch(`http://${HOST}:${system.port}/admin/v1/pools`, {
    headers: { authorization: `Bearer ${system.secrets.adminKey}` },
  })
  const { pools } = (await response.json()) as { pools: { engines: { engine: string; epoch: string }[] }[] }
  const found = pools.flatMap(({ engines }) => engines).find(({ engine }) => engine === system.agent.engine)
  if (found === undefined) throw new Error(`the pool does not know the engine ${system.agent.engine}`)
  return found.epoch
}
