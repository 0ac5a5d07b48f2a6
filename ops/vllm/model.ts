/**
 * What vLLM is given to serve: a folder in the format of Hugging Face as it lies, a name of its hub, which vLLM fetches itself, or a
 * GGUF file (the default model too), which is turned into such a folder once: dequantised, in the user's cache, under a name that
 * says of which bytes and by which converter, and by a rename, so a folder under its final name is whole.
 */
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs'
import path from 'node:path'
import { z } from 'zod'
import { withProgress } from '../../cli/progress.ts'
import { modelCacheFolder } from '../model/cache-folder.ts'
import { DEFAULT_MODEL, DEFAULT_PIN } from '../model/default-model.ts'
import { type FoundModel, findOrFetchModel, ModelUnavailable } from '../model/find-or-fetch.ts'
import { modelIdOf } from '../model/source.ts'
import { verifyFile } from '../model/verify.ts'
import { runTool } from '../python/run-tool.ts'
import { putInPlace, withPartialFolder } from '../system/partial-folder.ts'
import { VLLM_ROOT } from './environment.ts'

const CONVERTER = path.join(VLLM_ROOT, 'tools', 'gguf_to_safetensors.py')
const CONVERSION_TIMEOUT_MS = 30 * 60_000
/** As Hugging Face's hub names a model. */
const HUB_NAME = /^[A-Za-z0-9][\w.-]{0,95}\/[A-Za-z0-9][\w.-]{0,95}$/
/** More than prompts need in development, and a KV cache of 1 GiB holds eleven of them (SmolLM2-135M). */
const CONTEXT_TOKENS_DEFAULT = 4096

export interface VllmModel {
  /** What clients write into `model`. */
  id: string
  /** What vLLM gets: a folder, or a name of the hub. */
  path: string
  context_tokens: number
}

export interface VllmModelOptions {
  /** From `--model`; else SWITCHYARD_MODEL; else the default model. */
  model?: string | undefined
  /** Converts; has transformers, gguf and accelerate. */
  python: string
  /** Asked for; left out: CONTEXT_TOKENS_DEFAULT, or what a model in a folder has if that is less. */
  context_tokens?: number | undefined
  env?: Readonly<Record<string, string | undefined>>
  signal?: AbortSignal | undefined
}

/** Throws ModelUnavailable with what the user can fix. */
export async function vllmModel(options: VllmModelOptions): Promise<VllmModel> {
  const { model, context_tokens, env = process.env } = options
  const named = model ?? (env.SWITCHYARD_MODEL === '' ? undefined : env.SWITCHYARD_MODEL)
  if (named !== undefined) {
    const folder = folderOf(named)
    if (folder !== null) return served(folder, modelIdOf(folder), context_tokens)
    if (HUB_NAME.test(named) && !existsSync(named)) {
      return { id: modelIdOf(named), path: named, context_tokens: context_tokens ?? CONTEXT_TOKENS_DEFAULT }
    }
  }
  const found = await findOrFetchModel({ model, env })
  return served(await converted(found, options), found.id, context_tokens)
}

function folderOf(named: string): string | null {
  const facts = statSync(named, { throwIfNoEntry: false })
  return facts?.isDirectory() ? path.resolve(named) : null
}

const Config = z.object({ max_position_embeddings: z.number().int().positive().optional() })

function served(folder: string, id: string, asked: number | undefined): VllmModel {
  const config = path.join(folder, 'config.json')
  if (!existsSync(config))
    throw new ModelUnavailable([`${folder} has no config.json: it is not a model in Hugging Face's format`])
  const positions = Config.safeParse(jsonOf(config)).data?.max_position_embeddings
  const longest = positions ?? Number.POSITIVE_INFINITY
  if (asked !== undefined && asked > longest)
    throw new ModelUnavailable([`--context-tokens ${asked}: the model has a context of ${longest}`])
  return { id, path: folder, context_tokens: asked ?? Math.min(longest, CONTEXT_TOKENS_DEFAULT) }
}

function jsonOf(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8'))
  } catch (error) {
    if (error instanceof SyntaxError) throw new ModelUnavailable([`${file} is not JSON: ${error.message}`])
    throw error
  }
}

async function converted(found: FoundModel, { python, env = process.env, signal }: VllmModelOptions): Promise<string> {
  const cache = modelCacheFolder(env)
  const folder = path.join(cache, `${found.id}-${await keyOf(found.path)}-safetensors`)
  if (existsSync(path.join(folder, 'config.json'))) return folder
  const run = await withPartialFolder(cache, async (partial) => {
    const made = path.join(partial, 'model')
    const outcome = await withProgress(
      `Turning ${path.basename(found.path)} into safetensors for vLLM (once, into ${cache})`,
      () =>
        runTool([python, CONVERTER, found.path, made], {
          timeout_ms: CONVERSION_TIMEOUT_MS,
          // Nothing is fetched.
          env: { ...env, HF_HUB_OFFLINE: '1' },
          signal,
        }),
    )
    if (outcome.status === 'done') await putInPlace(made, folder, () => existsSync(folder))
    return outcome
  })
  if (run.status === 'done') return folder
  const reason = run.status === 'absent' ? `${python} is not there` : run.reason
  throw new ModelUnavailable([
    `${found.path} could not be turned into safetensors, which vLLM needs: ${reason}`,
    'a folder in Hugging Face’s format needs no conversion: --model FOLDER',
  ])
}

/** Of the bytes where they are known by hash, else of the file's place, size and time; and of the converter. */
async function keyOf(file: string): Promise<string> {
  const { size, mtimeMs } = statSync(file)
  const pinned = size === DEFAULT_PIN.size_bytes && (await verifyFile(file, DEFAULT_PIN)).ok
  const source = pinned ? DEFAULT_MODEL.sha256 : `${realpathSync(file)}\0${size}\0${mtimeMs}`
  return createHash('sha256').update(source).update(readFileSync(CONVERTER)).digest('hex').slice(0, 16)
}
