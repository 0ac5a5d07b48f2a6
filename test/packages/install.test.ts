/**
 * Every package as a user gets it: packed, installed by npm or pip into an empty folder that knows nothing of this
 * repository, and used from there.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { NAMES } from '../../lab/packages/names.ts'
import { operatorPath, type ServingSystem } from '../../lab/packages/operator-path.ts'
import { type PackageName, pack } from '../../lab/packages/pack.ts'
import { ROOT } from '../../lab/testbed/repository.ts'
import { findOrFetchModel } from '../../ops/model/find-or-fetch.ts'
import { findPython } from '../../ops/python/find-python.ts'
import { runTool } from '../../ops/python/run-tool.ts'
import { freePort } from '../../ops/system/free-port.ts'

const TIMEOUT_MS = 10 * 60_000
const folder = mkdtempSync(path.join(tmpdir(), 'switchyard-install-'))
const artefacts = path.join(folder, 'artefacts')
const app = path.join(folder, 'app')
const bin = (name: string): string => path.join(app, 'node_modules', '.bin', name)
const packed = {} as Record<PackageName, string>
let system: ServingSystem

async function run(command: string[], cwd: string, env: Record<string, string> = {}): Promise<string> {
  // The Node of this process first: the machine's own may be older than the packages take.
  const PATH = `${path.dirname(process.execPath)}${path.delimiter}${process.env.PATH}`
  const ended = await runTool(command, { timeout_ms: TIMEOUT_MS, cwd, env: { ...process.env, PATH, ...env } })
  if (ended.status === 'done') return ended.output
  throw new Error(`${command.join(' ')}: ${'reason' in ended ? ended.reason : 'it is not there'}`)
}

/** Binaries for GPUs that nothing here uses, hundreds of megabytes: left out as the package's readme shows. */
const OVERRIDES = Object.fromEntries(
  ['cuda', 'cuda-ext', 'vulkan'].map((kind) => [
    `@node-llama-cpp/linux-x64-${kind}`,
    `file:${path.join(ROOT, 'vendor/empty-package-0.0.0.tgz')}`,
  ]),
)

beforeAll(async () => {
  for (const name of Object.values(NAMES)) packed[name] = await pack(name, artefacts)
  mkdirSync(app)
  writeFileSync(path.join(app, 'package.json'), JSON.stringify({ private: true, overrides: OVERRIDES }))
  const tarballs = [NAMES.system, NAMES.agent, NAMES.client].map((name) => path.resolve(packed[name]))
  await run(['npm', 'install', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error', ...tarballs], app)
  system = await operatorPath({ switchyard: bin('switchyard'), gpu_agent: bin('gpu-agent'), folder })
}, TIMEOUT_MS)

afterAll(async () => {
  await system?.stop()
  rmSync(folder, { recursive: true, force: true })
}, TIMEOUT_MS)

/** What the operator sees of the only program. */
async function programsOfAcme(): Promise<{ app: string | null; calls: number }[]> {
  return JSON.parse(await system.cli('programs', 'list', 'acme', '--json')) as { app: string | null; calls: number }[]
}

describe('the npm packages', () => {
  it('serve a program of the TypeScript client', async () => {
    writeFileSync(
      path.join(app, 'ask.mjs'),
      `import { program } from '${NAMES.client}'
const call = () => fetch(process.env.SWITCHYARD_BASE_URL + '/chat/completions', { method: 'POST',
  headers: { authorization: 'Bearer ' + process.env.SWITCHYARD_API_KEY, 'content-type': 'application/json' },
  body: JSON.stringify({ model: '${system.model}', max_tokens: 3, messages: [{ role: 'user', content: 'Hello' }] }) })
await program('from-npm', async () => { for (const _ of [1, 2]) { const r = await call(); if (!r.ok) throw new Error(await r.text()); await r.json() } })
`,
    )
    await run([process.execPath, 'ask.mjs'], app, {
      ...{ SWITCHYARD_BASE_URL: `${system.url}/v1`, SWITCHYARD_API_KEY: system.api_key },
    })
    expect(await programsOfAcme()).toContainEqual(expect.objectContaining({ app: 'from-npm', calls: 2 }))
  })

  it('start the whole system with the real model, and stop it', async () => {
    const { path: model } = await findOrFetchModel({})
    const data = ['--data-dir', path.join(folder, 'whole')]
    const port = await freePort()
    await run(
      [bin('switchyard'), 'up', '--detach', '--port', `${port}`, '--regions', 'home', '--model', model, ...data],
      app,
    )
    const pools = await run([bin('switchyard'), 'pools', ...data], app)
    expect(pools).toMatch(/home\s+\S+\s+1\s/)
    expect(await run([bin('switchyard'), 'status', ...data], app)).toContain('home-1')
    expect(await run([bin('switchyard'), 'down', ...data], app)).toContain('Stopped')
  })
})

describe('the wheels', () => {
  const python = path.join(folder, 'env', 'bin', 'python')

  beforeAll(async () => {
    const found = findPython()
    if (!found.ok) throw new Error(found.reason)
    await run([found.python, '-m', 'venv', path.join(folder, 'env')], folder)
    const wheels = [NAMES.python_client, NAMES.vllm_plugin].map((name) => path.resolve(packed[name]))
    await run([python, '-m', 'pip', 'install', '--quiet', '--no-deps', ...wheels], folder)
  }, TIMEOUT_MS)

  it('serve a program of the Python client', async () => {
    const code = `import json, os, switchyard, urllib.request
with switchyard.program("from-pypi"):
    for _ in range(2):
        body = json.dumps({"model": "${system.model}", "max_tokens": 3, "messages": [{"role": "user", "content": "Hello"}]})
        headers = {"authorization": "Bearer " + os.environ["SWITCHYARD_API_KEY"], "content-type": "application/json", **switchyard.headers()}
        request = urllib.request.Request(os.environ["SWITCHYARD_BASE_URL"] + "/chat/completions", body.encode(), headers)
        urllib.request.urlopen(request).read()
`
    await run([python, '-c', code], folder, {
      ...{ SWITCHYARD_BASE_URL: `${system.url}/v1`, SWITCHYARD_API_KEY: system.api_key },
    })
    expect(await programsOfAcme()).toContainEqual(expect.objectContaining({ app: 'from-pypi', calls: 2 }))
  })

  it('bring the order of programs with its priors, and the entry point by which vLLM finds it', async () => {
    const code = `import importlib.metadata as m, switchyard_vllm.order.policies as p, pathlib
assert (pathlib.Path(p.__file__).parent / "learned_priors.json").stat().st_size > 0
print([e.value for e in m.entry_points(group="vllm.stat_logger_plugins")])`
    expect(await run([python, '-c', code], folder)).toContain('switchyard_vllm.stat_logger:ProgramStatLogger')
  })
})
