/**
 * What a server says of itself, each kind in its own words: which one it is, its models, how long a context may be, how many
 * calls it runs, how much KV it has. Everything is checked and bounded, since any of it may be wrong; what is missing or
 * impossible is null, and told as not known.
 */
import { z } from 'zod'
import { type Asked, type Asking, ask, askJson, deploymentOf } from './ask-server.ts'
import { loadOfMetrics, METRICS_BYTES_MAX, readMetrics } from './server-metrics.ts'
import type { ServerKind } from './server-profile.ts'

export const MODELS_MAX = 512
/** Of seats, tokens and contexts: more than this is no server's. */
const COUNT_MAX = 1_000_000_000

const Whole = z.number().int().min(1).max(COUNT_MAX)
/** A number that cannot be meant counts as not told. */
const told = Whole.nullish().catch(null)

export interface ServedModel {
  id: string
  context_tokens_max: number | null
  owned_by: string | null
}

export interface ServerFacts {
  kind: ServerKind
  version: string | null
  models: readonly ServedModel[]
  /** Calls that it runs at once. */
  seats: number | null
  kv_tokens: number | null
  context_tokens: number | null
  /** It reports its queue in /metrics. */
  reports_queue: boolean
  /** It reuses prefixes of prompts. */
  prefix_cache: boolean | null
  /** Its model's chat template has tools. */
  tools: boolean | null
  /** Seconds since 1970 at which its process started. */
  process_start_s: number | null
}

const Models = z.object({
  data: z
    .array(
      z.object({
        id: z.string().min(1).max(256),
        owned_by: z.string().nullish().catch(null),
        max_model_len: told,
        context_length: told,
        meta: z.object({ n_ctx: told }).nullish().catch(null),
        parent: z.string().nullish().catch(null),
      }),
    )
    .max(MODELS_MAX),
})

/** Adapters are left out: they are listed beside the model that they adapt. */
export async function askModels(server: Asking): Promise<Asked<ServedModel[]>> {
  const answer = await ask(server, '/v1/models')
  if (!answer.ok) return answer
  if (/^\s*</.test(answer.value)) {
    return { ok: false, status: 200, reason: 'its /v1/models is a web page: is this the address of its API?' }
  }
  const deployment = deploymentOf(server.url)
  if (deployment !== null) return { ok: true, value: [{ id: deployment, context_tokens_max: null, owned_by: null }] }
  let value: unknown = null
  try {
    value = JSON.parse(answer.value)
  } catch {
    return { ok: false, status: 200, reason: 'its /v1/models is not JSON' }
  }
  const parsed = Models.safeParse(value)
  if (!parsed.success) return { ok: false, status: 200, reason: 'its /v1/models is not that of an OpenAI server' }
  const models = parsed.data.data.filter(({ parent }) => parent === null || parent === undefined)
  return {
    ok: true,
    value: models.map(({ id, max_model_len, context_length, meta, owned_by }) => ({
      id,
      context_tokens_max: max_model_len ?? meta?.n_ctx ?? context_length ?? null,
      owned_by: owned_by ?? null,
    })),
  }
}

const Props = z.object({
  total_slots: told,
  build_info: z.string().nullish().catch(null),
  default_generation_settings: z.object({ n_ctx: told }).nullish().catch(null),
  chat_template_caps: z.object({ supports_tools: z.boolean().nullish() }).nullish().catch(null),
})
const OllamaVersion = z.object({ version: z.string() })
const OllamaShow = z.object({
  parameters: z.string().nullish().catch(null),
  model_info: z.record(z.string(), z.unknown()).nullish().catch(null),
})
const OllamaRunning = z.object({
  models: z.array(z.object({ name: z.string().nullish(), model: z.string().nullish(), context_length: told })),
})
const SglangInfo = z.object({
  context_length: told,
  max_total_num_tokens: told,
  max_running_requests: told,
  disable_radix_cache: z.boolean().nullish().catch(null),
  version: z.string().nullish().catch(null),
})
const TgiInfo = z.object({
  max_total_tokens: told,
  max_concurrent_requests: told,
  max_batch_total_tokens: told,
  version: z.string().nullish().catch(null),
})

type Told = Partial<Omit<ServerFacts, 'models' | 'kind'>>

/** `model`: whose context is asked for. `kind`: the operator's word; null: found out. */
export async function askFacts(
  server: Asking,
  models: readonly ServedModel[],
  model: string,
  kind: ServerKind | null,
): Promise<ServerFacts> {
  const metrics = await ask(server, '/metrics', { bytes_max: METRICS_BYTES_MAX })
  const text = metrics.ok ? metrics.value : ''
  const found = kind ?? (await findKind(server, models, text))
  const specific = await ASKED[found](server, model)
  const { kv_capacity_tokens, process_start_s } = readMetrics(text)
  return {
    ...{ kind: found, models, version: null, seats: null, prefix_cache: null, tools: null, process_start_s },
    kv_tokens: kv_capacity_tokens,
    reports_queue: loadOfMetrics(text, 0) !== null,
    context_tokens: models.find(({ id }) => id === model)?.context_tokens_max ?? null,
    ...known(specific),
  }
}

const METRIC_PREFIXES: readonly [ServerKind, string][] = [
  ['vllm', 'vllm:'],
  ['sglang', 'sglang:'],
  ['llama.cpp', 'llamacpp:'],
  ['tgi', 'tgi_'],
]
const OWNERS: Readonly<Record<string, ServerKind>> = {
  vllm: 'vllm',
  sglang: 'sglang',
  llamacpp: 'llama.cpp',
}

async function findKind(server: Asking, models: readonly ServedModel[], metrics: string): Promise<ServerKind> {
  const named = METRIC_PREFIXES.find(([, prefix]) => metrics.split('\n').some((line) => line.startsWith(prefix)))
  if (named !== undefined) return named[0]
  const owner = models.map(({ owned_by }) => OWNERS[owned_by ?? '']).find((kind) => kind !== undefined)
  if (owner !== undefined) return owner
  if ((await parsed(server, '/api/version', OllamaVersion)) !== null) return 'ollama'
  const props = await parsed(server, '/props', Props)
  if (props?.total_slots != null || props?.default_generation_settings != null) return 'llama.cpp'
  if ((await parsed(server, '/get_server_info', SglangInfo))?.max_total_num_tokens != null) return 'sglang'
  return (await parsed(server, '/info', TgiInfo))?.max_total_tokens == null ? 'openai' : 'tgi'
}

const ASKED: Readonly<Record<ServerKind, (server: Asking, model: string) => Promise<Told>>> = {
  vllm: async (server) => ({ version: (await parsed(server, '/version', OllamaVersion))?.version ?? null }),
  sglang: async (server) => {
    const info = await parsed(server, '/get_server_info', SglangInfo)
    return {
      version: info?.version ?? null,
      seats: info?.max_running_requests ?? null,
      kv_tokens: info?.max_total_num_tokens ?? null,
      context_tokens: info?.context_length ?? null,
      prefix_cache: info?.disable_radix_cache == null ? null : !info.disable_radix_cache,
    }
  },
  'llama.cpp': async (server) => {
    const props = await parsed(server, '/props', Props)
    const [seats, context] = [props?.total_slots ?? null, props?.default_generation_settings?.n_ctx ?? null]
    return {
      version: props?.build_info ?? null,
      seats,
      context_tokens: context,
      // Each slot has its own context and keeps what it last computed.
      kv_tokens: seats === null || context === null ? null : seats * context,
      prefix_cache: props === null ? null : true,
      tools: props?.chat_template_caps?.supports_tools ?? null,
    }
  },
  ollama: async (server, model) => ({
    version: (await parsed(server, '/api/version', OllamaVersion))?.version ?? null,
    context_tokens: await ollamaContext(server, model),
  }),
  tgi: async (server) => {
    const info = await parsed(server, '/info', TgiInfo)
    return {
      version: info?.version ?? null,
      context_tokens: info?.max_total_tokens ?? null,
      kv_tokens: info?.max_batch_total_tokens ?? null,
    }
  },
  openai: async () => ({}),
  anthropic: async () => ({ prefix_cache: true }),
}

/** What it runs with, where the model is loaded; else what it was set to; else what the model was made for. */
async function ollamaContext(server: Asking, model: string): Promise<number | null> {
  const running = await parsed(server, '/api/ps', OllamaRunning)
  const loaded = running?.models.find((one) => one.name === model || one.model === model)?.context_length
  if (loaded != null) return loaded
  const show = await parsed(server, '/api/show', OllamaShow, { model })
  const set = Number(/^num_ctx\s+(\d+)\s*$/m.exec(show?.parameters ?? '')?.[1])
  if (Whole.safeParse(set).success) return set
  const made = Object.entries(show?.model_info ?? {}).find(([key]) => key.endsWith('.context_length'))?.[1]
  return Whole.safeParse(made).data ?? null
}

async function parsed<T>(server: Asking, path: string, schema: z.ZodType<T>, body?: unknown): Promise<T | null> {
  const answer = await askJson(server, path, body === undefined ? {} : { body })
  return answer.ok ? (schema.safeParse(answer.value).data ?? null) : null
}

/** What was not told leaves what is known already. */
function known(told: Told): Told {
  return Object.fromEntries(Object.entries(told).filter(([, value]) => value !== null && value !== undefined))
}
