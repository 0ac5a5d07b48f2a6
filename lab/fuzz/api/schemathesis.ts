/**
 * schemathesis on /openapi.json, once with a tenant's key and once with the operator's. Its requests and answers come back
 * as a HAR file, so that they are counted and judged as the fuzzer's own.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { z } from 'zod'
import { switchyardCacheFolder } from '../../../ops/model/cache-folder.ts'
import { installedPython, pythonEnvironment } from '../../../ops/python/environment.ts'
import type { EnvironmentSpec } from '../../../ops/python/environment-spec.ts'
import { runTool } from '../../../ops/python/run-tool.ts'
import type { ApiDocument } from './document.ts'
import type { SeenAnswer } from './tally.ts'

const ENVIRONMENT: EnvironmentSpec = {
  name: 'schemathesis-env',
  lock_file: path.join(import.meta.dirname, 'schemathesis.txt'),
  download: 'schemathesis, 20 MB',
  installer: 'uv',
}
const TIMEOUT_MS = 60 * 60_000
const PHASES = 'examples,coverage,fuzzing'
const PHASES_BRIEF = 'fuzzing'

export interface SchemathesisOptions {
  url: string
  key: string
  /** Of the paths that it asks. */
  paths: 'tenant' | 'admin'
  examples_max: number
  is_brief: boolean
  seed: number
}

export function schemathesisIsInstalled(): boolean {
  return installedPython(ENVIRONMENT, switchyardCacheFolder()) !== null
}

const Har = z.object({
  log: z.object({
    entries: z.array(
      z.object({
        request: z.object({
          method: z.string(),
          url: z.string(),
          postData: z.object({ text: z.string().optional() }).nullish(),
        }),
        response: z.object({
          status: z.number(),
          headers: z.array(z.object({ name: z.string(), value: z.string() })).default([]),
          content: z.object({ text: z.string().optional() }).default({}),
        }),
      }),
    ),
  }),
})

/** Throws where it cannot be installed or cannot run. */
export async function runSchemathesis(
  options: SchemathesisOptions,
  document: ApiDocument,
  onAnswer: (answer: SeenAnswer) => void,
): Promise<void> {
  const { url, key, paths, examples_max, is_brief, seed } = options
  const made = await pythonEnvironment(ENVIRONMENT, { cache_folder: switchyardCacheFolder() })
  if (!made.ok) throw new Error(made.reason)
  const folder = mkdtempSync(path.join(tmpdir(), 'switchyard-schemathesis-'))
  try {
    const har = path.join(folder, 'answers.har')
    const run = await runTool(
      [
        ...[
          made.python,
          '-m',
          'schemathesis.cli',
          'run',
          `${url}/openapi.json`,
          '--header',
          `Authorization: Bearer ${key}`,
        ],
        ...['--include-path-regex', paths === 'tenant' ? '^/v1/' : '^/admin/', '--checks', 'not_a_server_error'],
        ...[
          '--phases',
          is_brief ? PHASES_BRIEF : PHASES,
          '--max-examples',
          `${examples_max}`,
          '--seed',
          `${seed}`,
          '--no-shrink',
        ],
        ...changesOfWhatIsThere(document).flatMap((name) => ['--exclude-name', name]),
        ...['--workers', '4', '--suppress-health-check', 'all', '--warnings', 'off', '--continue-on-failure'],
        ...['--output-sanitize', 'false', '--report', 'har', '--report-har-path', har],
      ],
      // It keeps a cache where it is started.
      { timeout_ms: TIMEOUT_MS, cwd: folder },
    )
    // It exits with 1 where a check failed: the answers are judged here.
    if (run.status === 'absent' || (run.status === 'failed' && !/^exit 1:/.test(run.reason)))
      throw new Error(`schemathesis did not run: ${run.status === 'failed' ? run.reason : 'it is not there'}`)
    const routes = routesOf(document)
    for (const { request, response } of Har.parse(JSON.parse(readFileSync(har, 'utf8'))).log.entries) {
      const { pathname } = new URL(request.url)
      onAnswer({
        route: routes(request.method, pathname),
        status: response.status,
        text: `${response.headers.map(({ name, value }) => `${name}: ${value}`).join('\n')}\n${response.content.text ?? ''}`,
        request: `${request.method} ${request.url} ${request.postData?.text ?? ''}`,
      })
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/**
 * It takes ids from lists that it has read, so as the operator it would remove the agents and revoke the keys of the system
 * under test. The fuzzer asks these operations with ids of its own making.
 */
function changesOfWhatIsThere({ operations }: ApiDocument): string[] {
  const changes = operations.filter(
    ({ scheme, method, path }) => scheme === 'adminKey' && method !== 'GET' && path.includes('{'),
  )
  return changes.map(({ name }) => name)
}

/** The operation that a path belongs to, told apart as `schemathesis METHOD path`. */
function routesOf({ operations }: ApiDocument): (method: string, path: string) => string {
  const patterns = operations.map(({ name, method, path }) => {
    const pattern = new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]*')}$`)
    return { name, method, pattern }
  })
  return (method, path) => {
    const found = patterns.find((one) => one.method === method && one.pattern.test(path))
    return `schemathesis ${found?.name ?? (patterns.some(({ pattern }) => pattern.test(path)) ? `${method} (other)` : '(other)')}`
  }
}
