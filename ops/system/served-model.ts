/** What the engines of a development system serve, and where what they need lies: found, or fetched and made once. */
import { availableParallelism, totalmem } from 'node:os'
import { DEFAULT_MODEL_SHAPE, readModelShape } from '../../gpu-agent/engine/backends/llama/model-shape.ts'
import { CONTEXT_TOKENS_ASSUMED } from '../../gpu-agent/src/fronts/attached/attached-server.ts'
import { offeredModels } from '../../gpu-agent/src/fronts/attached/offered-models.ts'
import { askFacts, askModels } from '../../gpu-agent/src/fronts/attached/server-facts.ts'
import { serverOptions } from '../../gpu-agent/src/fronts/attached/server-options.ts'
import { SCRIPTED_CONTEXT_TOKENS } from '../../gpu-agent/src/fronts/front-options.ts'
import { switchyardCacheFolder } from '../model/cache-folder.ts'
import { DEFAULT_MODEL } from '../model/default-model.ts'
import { findOrFetchModel, ModelUnavailable } from '../model/find-or-fetch.ts'
import { vllmPython } from '../vllm/environment.ts'
import { deviceOf, thisHost, type VllmDevice } from '../vllm/host.ts'
import { vllmModel } from '../vllm/model.ts'
import { UpRefused } from './explain-error.ts'
import { type EngineSize, sizeEngine } from './sizing.ts'
import type { ServerFlags, UpOptions } from './up-flags.ts'

/** An emulated engine holds no KV, so its context costs nothing. */
const EMULATED_CONTEXT_TOKENS = 8192
/** For a server that is about to start. */
const SERVER_WAIT_MS = 10_000

export interface ServedModel {
  id: string
  /** A GGUF; for vLLM a folder or a name of its hub; null for emulated engines. */
  path: string | null
  context_tokens: number
  /** Of each embedded engine; null for others. */
  size: EngineSize | null
  /** What is known to suit the model; null: its file says. */
  advice: Pick<typeof DEFAULT_MODEL, 'system_prompt' | 'sampling'> | null
  vllm: { python: string; device: VllmDevice } | null
  /** Further models of the same server. */
  others: readonly { id: string; context_tokens: number }[]
}

/** Says on stderr what it fetches. Throws UpRefused for what the user can fix. */
export async function servedModel(options: UpOptions, signal: AbortSignal): Promise<ServedModel> {
  try {
    return await find(options, signal)
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof ModelUnavailable) throw new UpRefused(error.message)
    throw error
  }
}

async function find(options: UpOptions, signal: AbortSignal): Promise<ServedModel> {
  const { engine, model, regions, enginesPerRegion, contextTokens } = options
  if (options.server !== null) return await attachedModels(options, options.server, signal)
  if (engine === 'emulated')
    return {
      id: model ?? 'emulated',
      path: null,
      context_tokens: EMULATED_CONTEXT_TOKENS,
      size: null,
      advice: null,
      vllm: null,
      others: [],
    }
  if (engine === 'scripted')
    return {
      id: model ?? 'scripted',
      path: null,
      context_tokens: SCRIPTED_CONTEXT_TOKENS,
      size: null,
      advice: null,
      vllm: null,
      others: [],
    }
  if (engine === 'embedded') {
    const { id, path, is_default } = await findOrFetchModel({ model })
    const machine = { cores: availableParallelism(), memory_bytes: totalmem() }
    const shape = is_default ? DEFAULT_MODEL_SHAPE : await readModelShape(path)
    const advice = is_default ? DEFAULT_MODEL : null
    if (contextTokens !== undefined && contextTokens > shape.context_tokens)
      throw new UpRefused(`--context-tokens ${contextTokens}: the model ${id} has a context of ${shape.context_tokens}`)
    const size = sizeEngine(machine, regions.length * enginesPerRegion, shape, contextTokens)
    return { id, path, context_tokens: size.context_tokens, size, advice, vllm: null, others: [] }
  }
  const host = deviceOf(thisHost(), regions.length * enginesPerRegion)
  if (!host.ok) throw new UpRefused(host.reason)
  const python = await vllmPython(host.device, { cache_folder: switchyardCacheFolder(), signal })
  signal.throwIfAborted()
  if (!python.ok) throw new UpRefused(`Could not set up vLLM, so nothing was started: ${python.reason}`)
  const found = await vllmModel({ model, python: python.python, signal, context_tokens: contextTokens })
  return { ...found, size: null, advice: null, vllm: { python: python.python, device: host.device }, others: [] }
}

/** All that the server has, or those that `--model` names. */
async function attachedModels(
  { model, contextTokens }: UpOptions,
  { url, given }: ServerFlags,
  signal: AbortSignal,
): Promise<ServedModel> {
  const server = serverOptions({ ...given, ...(model === undefined ? {} : { model }) }, 1, process.env)
  let told = ''
  const report = (event: { event: string }): void => {
    if (!('reason' in event) || event.reason === told) return
    told = String(event.reason)
    process.stderr.write(`Waiting for the server at ${url}: ${told}\n`)
  }
  const once = { ...server, start_limit_ms: SERVER_WAIT_MS }
  const offered = await offeredModels(once, null, { report, stopping: signal }).catch((error: Error) => {
    throw new UpRefused(error.message)
  })
  const served = await askModels(server)
  const all = served.ok ? served.value : []
  const models = await Promise.all(
    offered.map(async ({ model_id }) => {
      const { context_tokens } = await askFacts(server, all, model_id, server.kind)
      const context = context_tokens ?? CONTEXT_TOKENS_ASSUMED
      return { id: model_id, context_tokens: Math.min(context, contextTokens ?? context) }
    }),
  )
  const [first, ...others] = models
  if (first === undefined) throw new UpRefused(`the server at ${url} serves no model: load one into it`)
  return { ...first, path: null, size: null, advice: null, vllm: null, others }
}
