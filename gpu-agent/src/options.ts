/**
 * The command line of the agent. Every flag is checked here, before anything is started, and a wrong one is answered with
 * one sentence that names it. The token never comes as a flag: a process's arguments are readable by every user.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { GPUS_PER_HOST_MAX, LendPolicy } from '../../src/protocol/host.ts'
import { ENGINES_PER_AGENT_MAX, type OtlpSettings, otlpSettings } from '../../src/protocol/index.ts'
import { PROFILE_NAMES } from '../engine/backends/emulated/profiles/index.ts'
import { EXACT_CHUNK_TOKENS_MAX, PREFILL_CHUNK_TOKENS, STEP_TOKENS_MAX } from '../engine/backends/llama/llama-limits.ts'
import {
  ENGINE_POLICY_NAMES,
  isMemoryPolicy,
  MEMORY_POLICY_NAMES,
  type MemoryPolicyName,
  notQueued,
  POLICY_NAMES,
  type PolicyName,
} from '../engine/order/policies/index.ts'
import { PLANNERS, type PlannerName } from '../planner/search/planners.ts'
import { ENGINE_KINDS, type EngineKind, type FrontFlags, frontFlags } from './engine-flags.ts'
import { messageOf } from './events.ts'
import { address, baseUrl, choice, idOf, required, WrongFlag, whole } from './flag-values.ts'
import { SERVER_FLAGS, SERVER_HELP } from './fronts/attached/server-options.ts'
import { modelIdOf, VLLM_FLAGS, VLLM_HELP } from './fronts/vllm/process/vllm-options.ts'
import { readStartable, type Startable } from './lending/startable-file.ts'

export const TOKEN_VARIABLE = 'SWITCHYARD_AGENT_TOKEN'
export const METRICS_VARIABLE = 'SWITCHYARD_METRICS_TOKEN'
const MODEL_DEFAULT = { embedded: 'smollm2-135m-instruct', emulated: 'emulated-8b', scripted: 'scripted' } as const

export const HELP = `Usage: node_modules/.bin/node gpu-agent/src/main.ts --id ID --region REGION --control-url URL [flags]

Runs engines on this host and serves the calls that the control plane sends here.

  --id ID              name of this agent, as registered with the control plane (required)
  --region REGION      region of this host (required)
  --control-url URL    base URL of the control plane (required)
  --token-file FILE    file with the agent's token, else the variable ${TOKEN_VARIABLE}
  --listen HOST:PORT   where the data plane listens. Port 0 takes a free one (default 127.0.0.1:0)
  --public-url URL     base URL under which the control plane reaches the data plane (default: where it listens)
  --engine KIND        embedded (a real model in a child process), emulated (a latency model), scripted (plays answers from
                       a file), vllm, or openai (a queue in front of any server that speaks the OpenAI API) (default embedded)
  --engines N          engines of that kind (default 1, at most ${ENGINES_PER_AGENT_MAX})
  --model-id ID        model that the engines serve (default ${MODEL_DEFAULT.embedded}, emulated: ${MODEL_DEFAULT.emulated},
                       scripted: ${MODEL_DEFAULT.scripted}, vllm: the name of its model,
                       openai: the names of its models)
  --model-path FILE    GGUF file (required for embedded)
  --profile NAME|FILE  latency profile: ${PROFILE_NAMES.join(', ')}, or a JSON file (emulated, scripted)
  --script FILE        its answers, JSON (required for scripted, docs/scripted-engine.md)
  --policy NAME        order of calls: ${POLICY_NAMES.join(', ')} (default plas).
                       Those that also decide what happens to KV while tools run (docs/lamps.md, not openai):
                       ${MEMORY_POLICY_NAMES.join(', ')}
  --handling LIST      what such a policy chooses from: preserve, discard, swap. One alone is always taken (default: by the
                       policy. swap on vllm needs --kv-swap-gib)
  --seats N            calls that can be in one step. openai: calls that it gets at once
  --slots N            calls whose KV cache can be resident (not vllm, openai)
  --hold-kv on|off     whether calls wait, as long as that pays, rather than take the KV of a program whose tool runs and that
                       comes before them. Only under policies that queue programs (default on, docs/embedded-engine.md)
  --context-tokens N   longest prompt and answer together
  --threads N          CPU threads per engine (embedded only; default: the cores less one, shared by the engines)
  --prefill-chunk-tokens N  prompt tokens of one call in a step (embedded only; default ${PREFILL_CHUNK_TOKENS}, at most ${STEP_TOKENS_MAX}). With at
                       most ${EXACT_CHUNK_TOKENS_MAX}, a greedy answer is the same to the bit however calls are scheduled, but prefill is slower
  --system-prompt TEXT system message of conversations that have none (embedded only, default: that of its template)
  --temperature T, --top-p P  for calls that name none (embedded only; default: the GGUF's advice, else 0.8 and 0.95)
  --learn-lengths on|off  learns to predict the length of answers from their prompts, and uses that once it is better than what
                       classes of programs say (embedded only, default off, docs/lamps.md)
  --data-dir DIR       outbox of records, state and logs of vLLM (default .switchyard/agents/ID)
  --lend WHAT          lends this host's GPUs to offline applications (docs/applications.md): spare (its own engines only while
                       another agent serves their models) or all (default: nothing is lent)
  --lend-gpus N        GPUs of this host, numbers 0 to N-1. With embedded and emulated engines, shares of its cores
  --startable FILE     models that it starts engines for while it is lent, JSON
  --planner NAME       how it plans an application, to compare: ${PLANNERS.join(', ')} (default ours)
  --drain-limit-s N    after SIGTERM, how long calls under way may take (default 120)
  --help               this text

${VLLM_HELP}
${SERVER_HELP}
/metrics asks for the bearer token in the variable ${METRICS_VARIABLE}. Without that variable it is open.
If OTEL_EXPORTER_OTLP_ENDPOINT is set, spans of calls go there over OTLP/HTTP, with OTEL_EXPORTER_OTLP_HEADERS.
Events go to stdout, one JSON object a line. {"event":"ready",…} says that calls can be served.
SIGTERM or SIGINT drains and exits 0. A second one exits at once. Exit codes: 0 ended as asked, 1 failed, 2 wrong flags.
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
  script: { type: 'string' },
  policy: { type: 'string', default: 'plas' },
  seats: { type: 'string' },
  slots: { type: 'string' },
  'context-tokens': { type: 'string' },
  'hold-kv': { type: 'string' },
  handling: { type: 'string' },
  'learn-lengths': { type: 'string' },
  threads: { type: 'string' },
  'prefill-chunk-tokens': { type: 'string' },
  'system-prompt': { type: 'string' },
  temperature: { type: 'string' },
  'top-p': { type: 'string' },
  'data-dir': { type: 'string' },
  lend: { type: 'string' },
  'lend-gpus': { type: 'string' },
  startable: { type: 'string' },
  planner: { type: 'string' },
  'drain-limit-s': { type: 'string', default: '120' },
  ...SERVER_FLAGS,
  ...VLLM_FLAGS,
  help: { type: 'boolean', default: false },
} as const

export interface CliOptions {
  id: string
  region: string
  control_url: string
  token: string
  listen: { host: string; port: number }
  public_url: string | null
  engine: EngineKind
  engines: number
  /** Null: with `openai`, the names that the server has for its models. */
  model_id: string | null
  policy: PolicyName | MemoryPolicyName
  front: FrontFlags
  data_dir: string
  drain_limit_ms: number
  /** Null: its GPUs are not lent. */
  lend: { policy: LendPolicy; gpus: number; startable: Startable[]; planner: PlannerName } | null
  metrics_token: string | null
  otlp: OtlpSettings | null
}

export type CliVerdict =
  | { status: 'run'; options: CliOptions }
  | { status: 'help' }
  | { status: 'wrong'; message: string }

type Values = ReturnType<typeof parseFlags>

function parseFlags(argv: readonly string[]) {
  try {
    return parseArgs({ args: joined(argv), options: FLAGS, strict: true, allowPositionals: false }).values
  } catch (error) {
    if (error instanceof TypeError) throw new WrongFlag(error.message)
    throw error
  }
}

/** parseArgs takes a value that begins with a dash only after `=`, and every value of --vllm-args does. */
function joined(argv: readonly string[]): string[] {
  const at = argv.indexOf('--vllm-args')
  const value = argv[at + 1]
  return at === -1 || value === undefined ? [...argv] : argv.toSpliced(at, 2, `--vllm-args=${value}`)
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
  const region = idOf('--region', values.region)
  const control_url = baseUrl('--control-url', required('--control-url', values['control-url']))
  const engine = choice('--engine', values.engine, ENGINE_KINDS)
  const listen = address(values.listen)
  const public_url = values['public-url'] === undefined ? null : baseUrl('--public-url', values['public-url'])
  if (public_url === null && ['0.0.0.0', '::'].includes(listen.host)) {
    throw new WrongFlag(`--public-url is needed when --listen is ${listen.host}: no Worker can reach that address`)
  }
  const engines = whole('--engines', values.engines, 1, ENGINES_PER_AGENT_MAX)
  const front = frontFlags(values, engine, engines, env)
  const { vllm } = front
  const is_queue = engine === 'openai' || (vllm?.mode === 'attached' && vllm.socket === null)
  const not_queued = is_queue ? notQueued(values.policy) : null
  if (not_queued !== null) throw new WrongFlag(not_queued)
  const policy = choice('--policy', values.policy, ENGINE_POLICY_NAMES)
  if (values.handling !== undefined && !isMemoryPolicy(policy))
    throw new WrongFlag(
      `--handling goes with --policy ${MEMORY_POLICY_NAMES.join(', ')}: ${policy} handles no contexts`,
    )
  return {
    id,
    region,
    control_url,
    token: token(values['token-file'], env),
    listen,
    public_url,
    engine,
    engines,
    model_id: modelId(values['model-id'], engine, front),
    policy,
    front,
    data_dir: values['data-dir'] ?? join('.switchyard', 'agents', encodeURIComponent(id)),
    lend: lendOf(values, engine, engines, front, env),
    metrics_token: env[METRICS_VARIABLE]?.trim() || null,
    otlp: otlp(env),
    drain_limit_ms: whole('--drain-limit-s', values['drain-limit-s'], 0, 24 * 3600) * 1000,
  }
}

function lendOf(
  values: Values,
  engine: EngineKind,
  engines: number,
  front: FrontFlags,
  env: Readonly<Record<string, string | undefined>>,
): CliOptions['lend'] {
  const { lend, 'lend-gpus': gpus, startable, planner = 'ours' } = values
  if (lend === undefined) {
    const lone = (['lend-gpus', 'startable', 'planner'] as const).find((flag) => values[flag] !== undefined)
    if (lone !== undefined) throw new WrongFlag(`--${lone} goes with --lend spare or --lend all`)
    return null
  }
  if (engine === 'openai' || front.vllm?.mode === 'attached')
    throw new WrongFlag('--lend goes with engines that the agent runs: it cannot end a server that it does not run')
  const policy = choice('--lend', lend, LendPolicy.options)
  const count = whole('--lend-gpus', required('--lend-gpus', gpus), 1, GPUS_PER_HOST_MAX)
  const listed = front.vllm?.mode === 'process' ? front.vllm.gpus : null
  const most = listed === null ? (engine === 'vllm' ? engines : 1) : Math.max(...listed) + 1
  if (most > count) throw new WrongFlag(`--lend-gpus ${count}: its own engines use GPU ${most - 1}`)
  const models = readStartable(required('--startable', startable), env)
  const large = models.find(({ costs }) => ![...costs.keys()].some((degree) => degree <= count))
  if (large !== undefined)
    throw new WrongFlag(`--startable: ${large.model} takes more GPUs than the ${count} of --lend-gpus`)
  return { policy, gpus: count, startable: models, planner: choice('--planner', planner, PLANNERS) }
}

function otlp(env: Readonly<Record<string, string | undefined>>): OtlpSettings | null {
  try {
    return otlpSettings(env)
  } catch (error) {
    throw new WrongFlag(messageOf(error))
  }
}

function modelId(given: string | undefined, engine: EngineKind, front: FrontFlags): string | null {
  if (engine === 'openai' && given === undefined) return null
  return idOf('--model-id', given ?? defaultModelId(engine, front))
}

/** undefined: it has to be given. */
function defaultModelId(engine: EngineKind, { vllm }: FrontFlags): string | undefined {
  if (engine === 'openai') return undefined
  if (engine !== 'vllm') return MODEL_DEFAULT[engine]
  return vllm === undefined ? undefined : modelIdOf(vllm)
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
