/**
 * The command line of the agent. Every flag is checked here, before anything is started, and a wrong one is answered with
 * one sentence that names it. The token never comes as a flag: a process's arguments are readable by every user.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { ENGINES_PER_AGENT_MAX, Id, type OtlpSettings, otlpSettings } from '../../src/protocol/index.ts'
import { SEAT_HOLD_MS_MAX } from '../engine/hold-of.ts'
import { POLICY_NAMES, type PolicyName } from '../engine/policies/index.ts'
import { PROFILE_NAMES } from '../engine/profiles/index.ts'
import { messageOf } from './events.ts'

export const TOKEN_VARIABLE = 'SWITCHYARD_AGENT_TOKEN'
export const METRICS_VARIABLE = 'SWITCHYARD_METRICS_TOKEN'
const MODEL_DEFAULT = { embedded: 'smollm2-135m-instruct', emulated: 'emulated-8b' } as const

export const HELP = `Usage: node_modules/.bin/node gpu-agent/src/main.ts --id ID --region REGION --control-url URL [flags]

Runs engines on this host and serves the calls that the control plane sends here.

  --id ID              name of this agent, as registered with the control plane (required)
  --region REGION      region in which this host stands (required)
  --control-url URL    base URL of the control plane (required)
  --token-file FILE    file with the agent's token; else the variable ${TOKEN_VARIABLE}
  --listen HOST:PORT   where the data plane listens; port 0 takes a free one (default 127.0.0.1:0)
  --public-url URL     base URL under which the control plane reaches the data plane (default: where it listens)
  --engine KIND        embedded (a real model in a child process) or emulated (a latency model) (default embedded)
  --engines N          engines of that kind (default 1, at most ${ENGINES_PER_AGENT_MAX})
  --model-id ID        model that the engines serve (default ${MODEL_DEFAULT.embedded}, emulated: ${MODEL_DEFAULT.emulated})
  --model-path FILE    GGUF file (required for embedded)
  --profile NAME|FILE  latency profile: ${PROFILE_NAMES.join(', ')}, or a JSON file (emulated only)
  --policy NAME        order of calls: ${POLICY_NAMES.join(', ')} (default plas)
  --seat-hold-ms N     how long a freed seat may be kept for a program whose next call usually comes sooner than a
                       preemption costs; 0 keeps none (default 0, at most ${SEAT_HOLD_MS_MAX})
  --seats N            calls that can be in one step
  --slots N            calls whose KV cache can be resident
  --context-tokens N   longest prompt and answer together
  --threads N          CPU threads per engine (embedded only)
  --data-dir DIR       outbox of records (default .switchyard/agents/ID)
  --drain-limit-s N    after SIGTERM, how long calls under way may take (default 120)
  --help               this text

/metrics asks for the bearer token in the variable ${METRICS_VARIABLE}, and is open where it is not set.
Spans of calls go to OTEL_EXPORTER_OTLP_ENDPOINT (with OTEL_EXPORTER_OTLP_HEADERS) over OTLP/HTTP, where it is set.
Events go to stdout, one JSON object a line; the first good one is {"event":"ready",…}.
SIGTERM or SIGINT drains and exits 0; a second one exits at once. Exit codes: 0 ended as asked, 1 failed, 2 wrong flags.
`

const FLAGS = {
  id: { type: 'string' },
  region: { type: 'string' },
  'control-url': { type: 'string' },
  'token-file': { type: 'string' },
  listen: { type: 'string', default: '127.0.0.1:0' },
  'public-url': { type: 'string' },
  engine: { type: 'string', default: 'embedded' },
  engines: { type: 'string', default: '1' },
  'model-id': { type: 'string' },
  'model-path': { type: 'string' },
  profile: { type: 'string' },
  policy: { type: 'string', default: 'plas' },
  'seat-hold-ms': { type: 'string' },
  seats: { type: 'string' },
  slots: { type: 'string' },
  'context-tokens': { type: 'string' },
  threads: { type: 'string' },
  'data-dir': { type: 'string' },
  'drain-limit-s': { type: 'string', default: '120' },
  help: { type: 'boolean', default: false },
} as const

export interface CliOptions {
  id: string
  region: string
  control_url: string
  token: string
  listen: { host: string; port: number }
  public_url: string | null
  engine: 'embedded' | 'emulated'
  engines: number
  model_id: string
  policy: PolicyName
  /** Only those that were given: the front has the defaults. */
  front: {
    model_path?: string
    profile?: string
    seat_hold_ms?: number
    seats?: number
    slots?: number
    context_tokens?: number
    threads?: number
  }
  data_dir: string
  drain_limit_ms: number
  metrics_token: string | null
  otlp: OtlpSettings | null
}

export type CliVerdict =
  | { status: 'run'; options: CliOptions }
  | { status: 'help' }
  | { status: 'wrong'; message: string }

/** A wrong flag; caught in parseCli alone. */
class WrongFlag extends Error {}

type Values = ReturnType<typeof parseFlags>

function parseFlags(argv: readonly string[]) {
  try {
    return parseArgs({ args: [...argv], options: FLAGS, strict: true, allowPositionals: false }).values
  } catch (error) {
    if (error instanceof TypeError) throw new WrongFlag(error.message)
    throw error
  }
}

export function parseCli(argv: readonly string[], env: Readonly<Record<string, string | undefined>>): CliVerdict {
  try {
    const values = parseFlags(argv)
    return values.help ? { status: 'help' } : { status: 'run', options: optionsOf(values, env) }
  } catch (error) {
    if (error instanceof WrongFlag) return { status: 'wrong', message: error.message }
    throw error
  }
}

function optionsOf(values: Values, env: Readonly<Record<string, string | undefined>>): CliOptions {
  const id = idOf('--id', values.id)
  const engine = choice('--engine', values.engine, ['embedded', 'emulated'] as const)
  const listen = address(values.listen)
  const public_url = values['public-url'] === undefined ? null : baseUrl('--public-url', values['public-url'])
  if (public_url === null && ['0.0.0.0', '::'].includes(listen.host)) {
    throw new WrongFlag(`--public-url is needed when --listen is ${listen.host}: no Worker can reach that address`)
  }
  return {
    id,
    region: idOf('--region', values.region),
    control_url: baseUrl('--control-url', required('--control-url', values['control-url'])),
    token: token(values['token-file'], env),
    listen,
    public_url,
    engine,
    engines: whole('--engines', values.engines, 1, ENGINES_PER_AGENT_MAX),
    model_id: idOf('--model-id', values['model-id'] ?? MODEL_DEFAULT[engine]),
    policy: choice('--policy', values.policy, POLICY_NAMES),
    front: frontOptions(values, engine),
    data_dir: values['data-dir'] ?? join('.switchyard', 'agents', encodeURIComponent(id)),
    metrics_token: env[METRICS_VARIABLE]?.trim() || null,
    otlp: otlp(env),
    drain_limit_ms: whole('--drain-limit-s', values['drain-limit-s'], 0, 24 * 3600) * 1000,
  }
}

function otlp(env: Readonly<Record<string, string | undefined>>): OtlpSettings | null {
  try {
    return otlpSettings(env)
  } catch (error) {
    throw new WrongFlag(messageOf(error))
  }
}

function frontOptions(values: Values, engine: CliOptions['engine']): CliOptions['front'] {
  const front: CliOptions['front'] = {}
  if (engine === 'embedded') front.model_path = required('--model-path', values['model-path'])
  else if (values['model-path'] !== undefined) throw new WrongFlag('--model-path goes with --engine embedded')
  if (values.profile !== undefined) {
    if (engine !== 'emulated') throw new WrongFlag('--profile goes with --engine emulated')
    front.profile = values.profile
  }
  if (values.threads !== undefined) {
    if (engine !== 'embedded') throw new WrongFlag('--threads goes with --engine embedded')
    front.threads = whole('--threads', values.threads, 1, 1024)
  }
  if (values['seat-hold-ms'] !== undefined) {
    front.seat_hold_ms = whole('--seat-hold-ms', values['seat-hold-ms'], 0, SEAT_HOLD_MS_MAX)
  }
  if (values.seats !== undefined) front.seats = whole('--seats', values.seats, 1, 4096)
  if (values.slots !== undefined) front.slots = whole('--slots', values.slots, 1, 4096)
  if (values['context-tokens'] !== undefined) {
    front.context_tokens = whole('--context-tokens', values['context-tokens'], 16, 16_777_216)
  }
  return front
}

function required(flag: string, value: string | undefined): string {
  if (value === undefined || value === '') throw new WrongFlag(`${flag} is required`)
  return value
}

function idOf(flag: string, value: string | undefined): string {
  const parsed = Id.safeParse(required(flag, value))
  if (!parsed.success) throw new WrongFlag(`${flag}: ${parsed.error.issues[0]?.message ?? 'not an id'}`)
  return parsed.data
}

function choice<T extends string>(flag: string, value: string, choices: readonly T[]): T {
  const chosen = choices.find((candidate) => candidate === value)
  if (chosen === undefined) throw new WrongFlag(`${flag} is one of ${choices.join(', ')}, not ${value}`)
  return chosen
}

function whole(flag: string, value: string, min: number, max: number): number {
  const number = Number(value)
  if (!/^\d+$/.test(value) || number < min || number > max) {
    throw new WrongFlag(`${flag} is a whole number from ${min} to ${max}, not ${value}`)
  }
  return number
}

function baseUrl(flag: string, value: string): string {
  const url = URL.parse(value)
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new WrongFlag(`${flag} is an http or https URL, not ${value}`)
  if (url.username !== '' || url.search !== '' || url.hash !== '') {
    throw new WrongFlag(`${flag} is a base URL without user, query or fragment`)
  }
  return value.replace(/\/+$/, '')
}

function address(value: string): { host: string; port: number } {
  const match = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(value)
  const port = Number(match?.[3])
  const host = match?.[1] ?? match?.[2]
  if (host === undefined || port > 65_535) throw new WrongFlag(`--listen is HOST:PORT, not ${value}`)
  return { host, port }
}

function token(file: string | undefined, env: Readonly<Record<string, string | undefined>>): string {
  let text = env[TOKEN_VARIABLE] ?? ''
  if (file !== undefined) {
    try {
      text = readFileSync(file, 'utf8')
    } catch (error) {
      throw new WrongFlag(`--token-file cannot be read: ${messageOf(error)}`)
    }
  }
  const found = text.trim()
  if (found === '') throw new WrongFlag(`a token is needed: --token-file FILE or the variable ${TOKEN_VARIABLE}`)
  if (!/^[\x21-\x7e]{1,256}$/.test(found)) throw new WrongFlag('the token has characters that a token cannot have')
  return found
}
