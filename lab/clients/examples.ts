/**
 * The programs in examples/ that use a client library. Each runs as its first lines say, in the environment of the framework
 * that it shows, and must leave one program with exactly the threads and parents of its code.
 */
import { copyFile, cp, mkdir } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { runTool } from '../../ops/python/run-tool.ts'
import { NAMES } from '../packages/names.ts'
import { ROOT } from '../testbed/repository.ts'
import { CLIENTS, type Client } from './clients.ts'
import { clientVersion, type Installed, installClient } from './environments.ts'
import { PYTHON_CLIENT_ROOT } from './python-client-environment.ts'

const RUN_TIMEOUT_MS = 180_000
const LISTED_TIMEOUT_MS = 20_000
const POLL_MS = 200
const TYPESCRIPT_CLIENT_ROOT = path.join(ROOT, 'clients', 'typescript')

export interface Example {
  id: string
  file: string
  /** The client whose environment it runs in. */
  client: string
  app: string
  /** Of each call, its thread and those of its parents, sorted. */
  calls: readonly string[]
}

export const EXAMPLES: readonly Example[] = [
  {
    id: 'example-langgraph',
    file: 'langgraph/research.py',
    client: 'langgraph',
    app: 'city-research',
    calls: [
      'look_up after main',
      'look_up-2 after main',
      'look_up-3 after main',
      'main after look_up, look_up-2, look_up-3',
      'main first',
    ],
  },
  {
    id: 'example-agents-sdk',
    file: 'agents-sdk/handoff.py',
    client: 'openai-agents-py',
    app: 'travel-desk',
    calls: [
      'triage first',
      'weather-expert after triage',
      'weather-expert after weather-expert',
      'weather-expert after weather-expert',
    ],
  },
  {
    id: 'example-ai-sdk',
    file: 'ai-sdk/research.mjs',
    client: 'ai-sdk',
    app: 'city-research',
    calls: ['main after reporter, reporter-2', 'main first', 'reporter after main', 'reporter-2 after main'],
  },
]

const Programs = z.object({
  data: z.array(z.object({ id: z.string(), app: z.string().nullable(), calls: z.number() })),
})
const Calls = z.object({
  data: z.array(z.object({ id: z.string(), thread: z.string(), parents: z.array(z.string()) })),
})

interface ExampleRun {
  version: string
  works: boolean
  program_correct: boolean | null
  detail: string
}

interface Server {
  url: string
  key: string
  model: string
}

export async function tryExample(example: Example, server: Server): Promise<ExampleRun> {
  const client = CLIENTS.find(({ id }) => id === example.client) as Client
  const head = { version: clientVersion(client), works: false, program_correct: null }
  const installed = await installClient(client)
  if (!installed.ok) return { ...head, detail: installed.reason }
  const prepared = await prepare(example, client, installed)
  if (!prepared.ok) return { ...head, detail: prepared.reason }
  const { PATH, HOME } = process.env
  const run = await runTool([installed.interpreter, prepared.file], {
    timeout_ms: RUN_TIMEOUT_MS,
    env: {
      ...{ PATH, HOME, PYTHONPATH: path.join(PYTHON_CLIENT_ROOT, 'src'), PYTHONDONTWRITEBYTECODE: '1' },
      ...{ OPENAI_BASE_URL: `${server.url}/v1`, OPENAI_API_KEY: server.key, MODEL: server.model },
    },
  })
  if (run.status !== 'done') return { ...head, detail: run.status === 'absent' ? 'it is not there' : run.reason }
  const fault = await faultOf(example, server)
  return { ...head, works: true, program_correct: fault === null, detail: fault ?? '' }
}

/** A module's imports are looked up from where it lies; the npm package is taken as it would be published. */
async function prepare(
  { file }: Example,
  { language }: Client,
  { folder }: Installed & { ok: true },
): Promise<{ ok: true; file: string } | { ok: false; reason: string }> {
  const source = path.join(ROOT, 'examples', file)
  if (language === 'python') return { ok: true, file: source }
  const published = path.join(folder, 'node_modules', NAMES.client)
  await mkdir(published, { recursive: true })
  const compiler = path.join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc')
  const project = ['-p', path.join(TYPESCRIPT_CLIENT_ROOT, 'tsconfig.json'), '--outDir', path.join(published, 'dist')]
  const built = await runTool([process.execPath, compiler, ...project], { timeout_ms: RUN_TIMEOUT_MS })
  if (built.status !== 'done')
    return { ok: false, reason: 'reason' in built ? built.reason : 'TypeScript is not there' }
  await copyFile(path.join(TYPESCRIPT_CLIENT_ROOT, 'package.json'), path.join(published, 'package.json'))
  const copy = path.join(folder, 'examples', file)
  await cp(source, copy)
  return { ok: true, file: copy }
}

/** Null: one program, with the calls of the example's code. */
async function faultOf({ app, calls }: Example, { url, key }: { url: string; key: string }): Promise<string | null> {
  const get = async (route: string): Promise<unknown> =>
    await (await fetch(`${url}${route}`, { headers: { authorization: `Bearer ${key}` } })).json()
  const deadline = performance.now() + LISTED_TIMEOUT_MS
  for (;;) {
    const { data: programs } = Programs.parse(await get('/v1/programs?state=ended&limit=100'))
    const [program, another] = programs.filter((listed) => listed.app === app)
    if (another !== undefined) return `more than one program of ${app}`
    const listed =
      program === undefined ? [] : Calls.parse(await get(`/v1/programs/${program.id}/calls?limit=100`)).data
    const seen = descriptions(listed)
    if (JSON.stringify(seen) === JSON.stringify(calls)) return null
    if (performance.now() > deadline) return program === undefined ? `no ended program of ${app}` : seen.join('; ')
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
}

function descriptions(calls: z.infer<typeof Calls>['data']): string[] {
  const threads = new Map(calls.map(({ id, thread }) => [id, thread]))
  const described = calls.map(({ thread, parents }) => {
    const after = parents.map((parent) => threads.get(parent) ?? parent).toSorted()
    return after.length === 0 ? `${thread} first` : `${thread} after ${after.join(', ')}`
  })
  return described.toSorted()
}
