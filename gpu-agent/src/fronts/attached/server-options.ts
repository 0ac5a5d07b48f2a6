/** The flags of `--engine openai`: a server that speaks the OpenAI API, ours to call and not ours to run. */
import { isIPv4 } from 'node:net'
import { NativeApi } from '../../../../src/protocol/index.ts'
import { LIMITS_MAX, type LimitSpec, parseLimit } from '../../../engine/queue/limits/limit-spec.ts'
import { baseUrl, choice, required, WrongFlag, whole } from '../../flag-values.ts'
import { KEY_HEADERS, type KeyHeader, type ServerApi } from './ask-server.ts'
import { isAnthropic, isOpenAi } from './provider-hosts.ts'
import { SERVER_KINDS, type ServerKind } from './server-profile.ts'

/** A server that the agent does not run is up or about to be. */
const START_LIMIT_S = 120
const START_LIMIT_S_MAX = 24 * 3600
export const KV_TOKENS_MAX = 1_000_000_000

export const SERVER_FLAGS = {
  url: { type: 'string' },
  'key-env': { type: 'string' },
  kind: { type: 'string' },
  api: { type: 'string' },
  'kv-tokens': { type: 'string' },
  'key-header': { type: 'string' },
  'limits-per': { type: 'string' },
  preempt: { type: 'string' },
  probe: { type: 'boolean' },
  'start-limit-s': { type: 'string' },
  limit: { type: 'string', multiple: true },
} as const

export const SERVER_HELP = `Flags of --engine openai, for any server that speaks the OpenAI API (docs/any-engine.md):
  --url URL            its base URL, with or without /v1 (required); of Azure also …/openai/deployments/NAME?api-version=VERSION
  --key-env NAME,NAME  variables of the environment that have its API keys (default: it asks for none). Each key is an engine of the
                       pool, with limits of its own
  --key-header NAME    header that takes the key: ${KEY_HEADERS.join(', ')} (default: bearer; Azure's and Anthropic's own at theirs)
  --kind KIND          ${SERVER_KINDS.join(', ')} (default: detected)
  --api API,API        APIs by which it may be called: chat, messages, responses. Calls of clients that speak one of them go to it
                       untranslated (default: detected)
  --model NAME,NAME    models of it to offer (default: all; --model-id gives a single one another name)
  --kv-tokens N        KV cache that its programs may fill (default: what it says, else programs are not held back)
  --limit LIMIT,LIMIT  limits of its key: requests=60/min, input=2M/day, output=8k/min, tokens=200k/min, concurrent=8; may be
                       repeated, and be of one model: NAME:requests=60/min (default: what its answers say)
  --limits-per WHAT    key: all models share the limits of a key; model: each has its own, and a queue of its own (default: model at
                       OpenAI, Azure and Anthropic and where --limit names a model, else key)
  --probe              find out with at most 20 calls and 2,000 tokens what it can do. Always done on local addresses
  --preempt WHAT       resume: a call with output is stopped for a better one and goes on later, where the server continues a text
                       exactly. What it computes again is in its record. never: it runs to its end (default: never)
  --start-limit-s N    how long it may take to answer for the first time (default ${START_LIMIT_S})
  --seats sets how many calls it gets at once; without it that is learned.
`

export const PREEMPTS = ['never', 'resume'] as const
export type Preempt = (typeof PREEMPTS)[number]

export interface ServerKey {
  key_variable: string
  api_key: string
}

export interface ServerOptions {
  /** Without /v1. */
  url: string
  key_variable: string | null
  api_key: string | null
  /** Engines of their own in the same pools. */
  further_keys: readonly ServerKey[]
  kind: ServerKind | null
  api?: ServerApi
  api_version?: string | null
  key_header?: KeyHeader | null
  /** Left out: all models share them. */
  limits_per?: 'key' | 'model'
  /** APIs beside chat by which it may be called. Null: found out. */
  native?: readonly NativeApi[] | null
  /** Calls with output are stopped for better ones. Left out: never. */
  preempt?: Preempt
  /** Null: all. */
  models: readonly string[] | null
  kv_tokens: number | null
  /** Calls that generate tokens may find out what it can do. */
  probe: boolean
  start_limit_ms: number
  /** Of its key, as the operator tells them. */
  limits: readonly LimitSpec[]
}

export type ServerFlagValues = {
  [flag in Exclude<keyof typeof SERVER_FLAGS, 'probe' | 'limit'>]?: string | undefined
} & {
  probe?: boolean | undefined
  limit?: string[] | undefined
  model?: string | undefined
}

export function serverOptions(
  values: ServerFlagValues,
  engines: number,
  env: Readonly<Record<string, string | undefined>>,
): ServerOptions {
  if (engines !== 1) throw new WrongFlag('--engines does not go with --engine openai: each model of the server is one')
  const { url, api_version } = versionedUrl('--url', required('--url', values.url))
  const [first = { key_variable: null, api_key: null }, ...further_keys] =
    values['key-env'] === undefined ? [] : keysIn(values['key-env'], env)
  const models = values.model?.split(',').map((name) => name.trim()) ?? null
  if (models?.some((name) => name === '')) throw new WrongFlag('--model is a list of names with commas between them')
  const apis = values.api === undefined ? null : apisOf(values.api)
  const named = values.kind === undefined ? null : choice('--kind', values.kind, SERVER_KINDS)
  const without_chat = apis !== null && !apis.includes('chat')
  const kind = named ?? (isAnthropic(url) || without_chat ? 'anthropic' : null)
  if (apis !== null && without_chat !== (kind === 'anthropic'))
    throw new WrongFlag('--kind anthropic is a server that speaks Messages and no chat, and --api says otherwise')
  if (kind === 'anthropic' && values.probe === true)
    throw new WrongFlag("--probe does not go with Anthropic's API: what it can do is known")
  const limits = limitsOf(values.limit ?? [])
  const { 'key-header': key_header, 'limits-per': limits_per } = values
  const by_model = limits.some(({ model }) => model !== undefined) || isOpenAi(url) || isAnthropic(url)
  return {
    ...{ limits, url, api_version },
    key_header: key_header === undefined ? null : choice('--key-header', key_header, KEY_HEADERS),
    limits_per: limits_per === undefined ? (by_model ? 'model' : 'key') : limitsPer(limits_per, limits),
    ...first,
    further_keys,
    kind,
    api: kind === 'anthropic' ? 'messages' : 'openai',
    native: apis?.filter((api) => api !== 'chat') ?? null,
    models,
    preempt: choice('--preempt', values.preempt ?? 'never', PREEMPTS),
    kv_tokens: values['kv-tokens'] === undefined ? null : whole('--kv-tokens', values['kv-tokens'], 1, KV_TOKENS_MAX),
    // Where calls are counted, nobody's are spent unasked.
    probe: values.probe === true || (isLocalUrl(url) && limits.length === 0 && kind !== 'anthropic'),
    start_limit_ms:
      whole('--start-limit-s', values['start-limit-s'] ?? String(START_LIMIT_S), 1, START_LIMIT_S_MAX) * 1000,
  }
}

const APIS = ['chat', ...NativeApi.options] as const

function apisOf(value: string): (typeof APIS)[number][] {
  const apis = value.split(',').map((one) => choice('--api', one.trim(), APIS))
  if (apis.includes('chat') || apis.includes('messages')) return [...new Set(apis)]
  throw new WrongFlag('--api must have chat or messages: calls of other APIs are translated into one of them')
}

/** Throws WrongFlag. */
export function limitsOf(given: readonly string[]): LimitSpec[] {
  const texts = given.flatMap((text) => text.split(',').map((one) => one.trim()))
  if (texts.length > LIMITS_MAX) throw new WrongFlag(`--limit may be given ${LIMITS_MAX} times at most`)
  const specs = texts.map((text) => {
    const spec = parseLimit(text)
    if (typeof spec === 'string') throw new WrongFlag(`--limit ${text}: ${spec}`)
    return spec
  })
  const names = specs.map(({ quantity, window_us, model = '' }) => `${model}:${quantity} ${window_us}`)
  const twice = texts.find((_, index) => names.indexOf(names[index] as string) !== index)
  if (twice !== undefined) throw new WrongFlag(`--limit ${twice}: that limit was given before`)
  return specs
}

function limitsPer(value: string, limits: readonly LimitSpec[]): 'key' | 'model' {
  const per = choice('--limits-per', value, ['key', 'model'] as const)
  if (per === 'key' && limits.some(({ model }) => model !== undefined))
    throw new WrongFlag('--limits-per key does not go with a --limit that names a model')
  return per
}

/** Azure has the version of its API in the query. */
function versionedUrl(flag: string, value: string): { url: string; api_version: string | null } {
  const [, base = value, api_version = null] = /^([^?#]*)\?api-version=([A-Za-z0-9.-]{1,64})$/.exec(value) ?? []
  return { url: serverUrl(flag, base), api_version }
}

/** The base to which /v1/… is added. */
export function serverUrl(flag: string, value: string): string {
  return baseUrl(flag, value).replace(/\/v1$/, '').replace(/\/+$/, '')
}

/** Of variables with commas between them. */
export function keysIn(variables: string, env: Readonly<Record<string, string | undefined>>): ServerKey[] {
  const keys = variables.split(',').map((one) => {
    const key_variable = one.trim()
    return { key_variable, api_key: keyIn(key_variable, env) }
  })
  const twice = keys.find(({ api_key }, index) => keys.findIndex((one) => one.api_key === api_key) !== index)
  if (twice === undefined) return keys
  throw new WrongFlag(`--key-env: ${twice.key_variable} has the same key as a variable before it: a key has one queue`)
}

/** Its value is never shown. */
function keyIn(variable: string, env: Readonly<Record<string, string | undefined>>): string {
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(variable)) {
    throw new WrongFlag('--key-env is the name of a variable of the environment, not the key itself')
  }
  const key = env[variable]?.trim() ?? ''
  if (key === '') throw new WrongFlag(`--key-env: the variable ${variable} is not set`)
  if (!/^[\x21-\x7e]{1,4096}$/.test(key)) throw new WrongFlag(`--key-env: ${variable} has characters that no key has`)
  return key
}

/** This machine, or a network of the operator's own: calls to it cost no money. */
export function isLocalUrl(url: string): boolean {
  const host = new URL(url).hostname.replace(/^\[|\]$/g, '')
  if (host === 'localhost' || host.endsWith('.localhost') || host.endsWith('.local') || host === '::1') return true
  if (!isIPv4(host)) return /^f[cd][0-9a-f]{2}:/.test(host)
  const [first = 0, second = 0] = host.split('.').map(Number)
  return first === 127 || first === 10 || (first === 172 && second >> 4 === 1) || (first === 192 && second === 168)
}
