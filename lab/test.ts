/**
 * `npm test`: check, the Python client library and policy core, unit and workerd tests, the whole system on the real model, and vLLM: our scheduler
 * on its own scheduler class, and a real server under the whole system. `--fast` leaves the system and vLLM out. `--long` takes what
 * would make it longer than 20 minutes instead: chaos, one budget against everything, kills of a real vLLM and its other policies.
 * The model is fetched first and required: a test that needs it fails without it and never skips. So is vLLM, but where it cannot run:
 * there one line says why its parts are left out, and they count as nothing.
 *
 * A part uses one core or waits, the system's tests half of the time, so PARTS_AT_ONCE run side by side, the longest first, and the system's
 * tests are two parts. Each line of their output begins with its part's name.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { flagsOrExit } from '../cli/flags.ts'
import { switchyardCacheFolder } from '../ops/model/cache-folder.ts'
import { findOrFetchModel } from '../ops/model/find-or-fetch.ts'
import { vllmTestsRefusal } from '../ops/vllm/environment.ts'
import { reportOf } from './test-report.ts'

const PARTS_AT_ONCE = 3
/** A part that prints nothing for so long hangs. A file of tests that start whole systems takes minutes, on a busy machine up to ten. */
const SILENT_MIN_MAX = 30
/** A line of pytest's summary. */
const PYTEST_FAILED = /^(FAILED|ERROR) \S+\.py/

const HELP = `Checks and tests everything but what takes long. Under 20 minutes on two idle cores.

  npm test
  npm run test:fast    leaves the whole system and vLLM out
  npm run test:long    takes what takes long: plays of faults, and kills of a real vLLM

vLLM is installed once under the user's cache, 6 GB (Linux on x86-64). SWITCHYARD_VLLM=off leaves it out.

  npx vitest run FILE    runs one file`
const flags = flagsOrExit('test', HELP, {
  fast: { type: 'boolean', default: false },
  long: { type: 'boolean', default: false },
})

interface Part {
  /** Begins each line of its output. */
  name: string
  title: string
  command: string
  args: string[]
  /** Vitest's own, as JSON. */
  report?: string
}

const folder = mkdtempSync(path.join(tmpdir(), 'switchyard-test-'))
let passed = 0
const skipped: string[] = []
const failed: string[] = []
const failed_parts: string[] = []

function node(name: string, title: string, ...args: string[]): Part {
  return { name, title, command: process.execPath, args }
}

function vitest(project: string, name = project, ...more: string[]): Part {
  const report = path.join(folder, `${name}.json`)
  const args = [
    'run',
    '--project',
    project,
    '--reporter=default',
    '--reporter=json',
    `--outputFile.json=${report}`,
    ...more,
  ]
  return { name, title: `${name} tests`, command: 'vitest', args, report }
}

/** The longest first. */
function parts(): Part[] {
  return flags.long ? longParts() : usualParts()
}

function longParts(): Part[] {
  const plays = vitest('long')
  if (!hasVllm()) return [plays]
  return [vitest('long-vllm'), plays, node('model', 'the vLLM plug-in with a real model', 'lab/vllm-tests.ts', 'model')]
}

function usualParts(): Part[] {
  const unit = vitest('unit*', 'unit')
  const workerd = vitest('workerd*', 'workerd')
  const short = [
    node('check', 'check', 'lab/check.ts'),
    node('core', "the vLLM plug-in's policy core", 'lab/vllm-tests.ts', 'core'),
    node('python', 'the Python client library', 'lab/python-client.ts', 'test'),
  ]
  if (flags.fast) return [unit, workerd, ...short]
  const [first, second] = [1, 2].map((half) => vitest('system', `system-${half}`, `--shard=${half}/2`)) as [Part, Part]
  if (!hasVllm()) return [first, second, unit, workerd, ...short]
  const scheduler = node('scheduler', "the vLLM plug-in on vLLM's own scheduler", ...['lab/vllm-tests.ts', 'scheduler'])
  return [unit, second, first, workerd, scheduler, vitest('vllm'), ...short]
}

/** Says why not. */
function hasVllm(): boolean {
  const refusal = vllmTestsRefusal(switchyardCacheFolder())
  if (refusal !== null)
    console.log(`── vLLM: LEFT OUT, neither its scheduler's tests nor a real server ran: ${refusal}`)
  return refusal === null
}

async function run({ name, title, command, args, report }: Part, env: NodeJS.ProcessEnv): Promise<void> {
  console.log(`── ${title}`)
  const started = performance.now()
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], env })
  const silence = setTimeout(() => {
    console.log(`── ${title}: it has printed nothing for ${SILENT_MIN_MAX} minutes, so it is ended`)
    child.kill('SIGKILL')
  }, SILENT_MIN_MAX * 60_000)
  for (const stream of [child.stdout, child.stderr])
    createInterface({ input: stream }).on('line', (line) => {
      silence.refresh()
      console.log(`${name} │ ${line}`)
      if (report === undefined && PYTEST_FAILED.test(line)) failed.push(`${name}: ${line}`)
    })
  const code = await new Promise<number>((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (exit) => resolve(exit ?? 1))
  })
  clearTimeout(silence)
  const has_tested = report === undefined || count(name, report) > 0
  const is_ok = code === 0 && has_tested
  if (!is_ok) failed_parts.push(title)
  console.log(`── ${title}: ${is_ok ? 'ok' : 'FAILED'} in ${((performance.now() - started) / 1000).toFixed(0)} s`)
}

/** Adds what a part's report says to the totals, and returns how many of its tests passed. */
function count(part: string, report: string): number {
  const one = reportOf(report, process.cwd())
  passed += one.passed
  skipped.push(...one.skipped)
  failed.push(...one.failed.map((test) => `${part}: ${test}`))
  return one.passed
}

try {
  const model = await findOrFetchModel({})
  const env = {
    ...process.env,
    SWITCHYARD_MODEL: model.path,
    SWITCHYARD_REQUIRE_MODEL: '1',
    // vLLM's threads wait for each other in busy loops, which takes from the other parts more than a second thread gives.
    OMP_NUM_THREADS: '1',
    VLLM_CPU_OMP_THREADS_BIND: 'nobind',
    // Hundreds of processes of the same code start.
    NODE_COMPILE_CACHE: path.join(folder, 'compile-cache'),
  }
  const waiting = parts()
  const next = async (): Promise<void> => {
    for (let part = waiting.shift(); part !== undefined; part = waiting.shift()) await run(part, env)
  }
  await Promise.all(Array.from({ length: PARTS_AT_ONCE }, next))
} finally {
  rmSync(folder, { recursive: true, force: true })
}
if (skipped.length > 0) console.log(`\nSkipped:\n${skipped.join('\n')}`)
if (failed.length > 0) console.log(`\nFailed:\n${failed.join('\n')}`)
console.log(`\n${passed} passed, ${failed.length} failed, ${skipped.length} skipped`)
if (failed_parts.length > 0) {
  console.log(`Failed: ${failed_parts.join('; ')}. Their lines begin with the name of the part.`)
  process.exit(1)
}
