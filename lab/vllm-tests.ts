/**
 * `npm run test:vllm-core`: lint, types and tests of the Python package's order of programs, which needs no vLLM (40 MB of tools).
 * `npm run test:vllm`: its tests on vLLM's own scheduler class, of the KV swap and with a real model: all of vLLM (6 GB). The last is a
 * part of `npm run test:long`.
 */
import { spawn } from 'node:child_process'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { switchyardCacheFolder } from '../ops/model/cache-folder.ts'
import { ModelUnavailable } from '../ops/model/find-or-fetch.ts'
import { VLLM_ROOT, vllmPython } from '../ops/vllm/environment.ts'
import { vllmModel } from '../ops/vllm/model.ts'
import { corePython } from './fuzz/orders/core-environment.ts'
import { CHECK_CACHE } from './testbed/repository.ts'

/** About 10 s. */
const FUZZ_RUNS = 4000

const USAGE = `usage: node lab/vllm-tests.ts core|scheduler|model...

core       ruff, mypy and pytest on the order of programs, then both languages' orders against each other on random
           scenarios (Python 3.11 or later; no vLLM)
scheduler  pytest on vLLM's own scheduler class and on the KV swap, on CPU (Linux x86-64; downloads 6 GB)
model      pytest on a vLLM with the default model, on CPU (the same download)

The virtual environments are made under the user's cache, from lock files with hashes. SWITCHYARD_PYTHON names the Python.
SWITCHYARD_VLLM_PYTHON names one that has vLLM and the tests' packages already; nothing is installed then.
The random scenarios are ${FUZZ_RUNS}, always the same ones. SWITCHYARD_FUZZ_SECONDS=N plays others for N seconds instead.`

type Suite = 'core' | 'scheduler' | 'model'

const COMMANDS: Record<Suite, string[][]> = {
  core: [
    ['ruff', 'check', '--quiet', '--no-cache', '.'],
    ['ruff', 'format', '--check', '--quiet', '--no-cache', '.'],
    ['mypy', '--no-error-summary', '--cache-dir', path.join(CHECK_CACHE, 'mypy-vllm')],
    ['pytest', '-q', 'tests/order', 'tests/handling'],
  ],
  scheduler: [
    ['pytest', '-q', 'tests/scheduler'],
    ['pytest', '-q', 'tests/swap'],
  ],
  model: [['pytest', '-q', 'tests/model']],
}

const { positionals, values } = parseArgs({ allowPositionals: true, options: { help: { type: 'boolean' } } })
const suites = positionals.filter((name): name is Suite => name in COMMANDS)
if (values.help || suites.length === 0 || suites.length < positionals.length) {
  console.log(USAGE)
  process.exit(values.help ? 0 : 2)
}
for (const suite of suites) await test(suite)

/** Ends the process where a tool fails. */
async function test(suite: Suite): Promise<void> {
  const environment =
    suite === 'core' ? await corePython() : await vllmPython('cpu', { cache_folder: switchyardCacheFolder() })
  if (!environment.ok) cannotRun(environment.reason)
  const env: NodeJS.ProcessEnv = { ...process.env, PYTHONDONTWRITEBYTECODE: '1' }
  if (suite !== 'core') {
    try {
      env.SWITCHYARD_VLLM_MODEL = (await vllmModel({ python: environment.python })).path
    } catch (error) {
      if (!(error instanceof ModelUnavailable)) throw error
      cannotRun(error.message)
    }
  }
  for (const [tool, ...args] of COMMANDS[suite]) {
    if ((await run(environment.python, ['-m', tool as string, ...args], env)) === 0) continue
    console.error(`${tool} ${args.join(' ')} failed in gpu-agent/vllm`)
    process.exit(1)
  }
  if (suite !== 'core') return
  const seconds = process.env.SWITCHYARD_FUZZ_SECONDS
  const budget = seconds ? ['--seconds', seconds] : ['--seed', '1', '--runs', `${FUZZ_RUNS}`, '--seconds', '600']
  const fuzz = [path.join(import.meta.dirname, 'fuzz.ts'), 'orders', ...budget]
  const code = await run(process.execPath, fuzz, env)
  if (code !== 0) process.exit(code)
}

function cannotRun(reason: string): never {
  console.error(`The tests of gpu-agent/vllm cannot run: ${reason}`)
  process.exit(1)
}

function run(command: string, args: string[], env: NodeJS.ProcessEnv): Promise<number> {
  const child = spawn(command, args, { cwd: VLLM_ROOT, stdio: 'inherit', env })
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) => resolve(code ?? 1))
  })
}
