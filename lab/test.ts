/**
 * `npm test`: check, the Python client library and policy core, unit and workerd tests, then the whole system on the real model, then vLLM: our scheduler
 * on its own scheduler class, and a real server under the whole system. `--fast` leaves the system and vLLM out.
 * The model is fetched first and required: a test that needs it fails without it and never skips. So is vLLM, but where it cannot run:
 * there one line says why its steps are left out, and they count as nothing.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { flagsOrExit } from '../cli/flags.ts'
import { switchyardCacheFolder } from '../ops/model/cache-folder.ts'
import { findOrFetchModel } from '../ops/model/find-or-fetch.ts'
import { vllmTestsRefusal } from '../ops/vllm/environment.ts'

const HELP = `Checks and tests everything. About twenty minutes on two cores.

  npm test
  npm run test:fast    leaves the whole system and vLLM out

vLLM is installed once under the user's cache, 6 GB (Linux on x86-64). SWITCHYARD_VLLM=off leaves it out.

  npx vitest run --project unit|workerd|system|vllm FILE    runs one file`
const flags = flagsOrExit('test', HELP, { fast: { type: 'boolean', default: false } })
const reports = mkdtempSync(path.join(tmpdir(), 'switchyard-test-'))
const totals = { passed: 0, failed: 0, skipped: 0 }
const skipped: string[] = []

async function run(title: string, command: string, args: string[], env: NodeJS.ProcessEnv = {}): Promise<boolean> {
  console.log(`\n── ${title}`)
  const started = performance.now()
  const child = spawn(command, args, { stdio: 'inherit', env: { ...process.env, ...env } })
  const code = await new Promise<number>((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (exit) => resolve(exit ?? 1))
  })
  console.log(`── ${title}: ${code === 0 ? 'ok' : 'FAILED'} in ${((performance.now() - started) / 1000).toFixed(0)} s`)
  return code === 0
}

type Counts = Partial<Record<`num${'Passed' | 'Failed' | 'Pending' | 'Todo'}Tests`, number>>
/** Of Vitest, as JSON. */
interface Report extends Counts {
  testResults: { name: string; assertionResults: { fullName: string; status: string }[] }[]
}

async function vitest(project: string, env: NodeJS.ProcessEnv): Promise<boolean> {
  const report = path.join(reports, `${project}.json`)
  const ok = await run(
    `${project} tests`,
    'vitest',
    ['run', '--project', project, '--reporter=default', '--reporter=json', `--outputFile.json=${report}`],
    env,
  )
  const { testResults, ...counts } = JSON.parse(readFileSync(report, 'utf8')) as Report
  totals.passed += counts.numPassedTests ?? 0
  totals.failed += counts.numFailedTests ?? 0
  totals.skipped += (counts.numPendingTests ?? 0) + (counts.numTodoTests ?? 0)
  for (const { name, assertionResults } of testResults) {
    const left_out = assertionResults.filter(({ status }) => status !== 'passed' && status !== 'failed')
    skipped.push(...left_out.map(({ fullName }) => `${path.relative('.', name)}: ${fullName}`))
  }
  return ok && (counts.numPassedTests ?? 0) > 0
}

/** What needs vLLM itself. */
async function vllm(env: NodeJS.ProcessEnv): Promise<void> {
  const refusal = vllmTestsRefusal(switchyardCacheFolder())
  if (refusal !== null) {
    console.log(`\n── vLLM: LEFT OUT, neither its scheduler's tests nor a real server ran: ${refusal}`)
    return
  }
  results.push(
    await run("the vLLM plug-in on vLLM's own scheduler", process.execPath, ['lab/vllm-tests.ts', 'scheduler']),
  )
  results.push(await vitest('vllm', env))
}

const results: boolean[] = []
try {
  results.push(await run('check', process.execPath, ['lab/check.ts']))
  results.push(await run('the Python client library', process.execPath, ['lab/python-client.ts', 'test']))
  results.push(await run("the vLLM plug-in's policy core", process.execPath, ['lab/vllm-tests.ts', 'core']))
  const model = await findOrFetchModel({})
  const env = { SWITCHYARD_MODEL: model.path, SWITCHYARD_REQUIRE_MODEL: '1' }
  const projects = flags.fast ? ['unit', 'workerd'] : ['unit', 'workerd', 'system']
  for (const project of projects) results.push(await vitest(project, env))
  if (!flags.fast) await vllm(env)
} finally {
  rmSync(reports, { recursive: true, force: true })
}
if (skipped.length > 0) console.log(`\nSkipped:\n${skipped.join('\n')}`)
console.log(`\n${totals.passed} passed, ${totals.failed} failed, ${totals.skipped} skipped`)
if (!results.every(Boolean)) process.exit(1)
