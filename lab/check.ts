/**
 * `npm run check`: format, lint, types per runtime, dead code and unused dependencies, import directions, plain words in docs and
 * messages, and that the page's bundle and the migrations match their sources. Runs everything, then says what failed.
 */
import { spawn } from 'node:child_process'
import { availableParallelism } from 'node:os'
import path from 'node:path'
import { flagsOrExit } from '../cli/flags.ts'
import { CHECK_CACHE } from './testbed/repository.ts'

interface Check {
  name: string
  command: string[]
}

const CHECKS: Check[] = [
  { name: 'types (node)', command: tsc('node', 'tsconfig.node.json') },
  { name: 'types (worker)', command: tsc('worker', 'tsconfig.worker.json') },
  { name: 'types (page)', command: tsc('page', 'tsconfig.dashboard.json') },
  { name: 'types (npm package)', command: tsc('npm-package', 'clients/typescript/tsconfig.json') },
  { name: 'format and lint', command: ['biome', 'check', '--error-on-warnings', '.'] },
  { name: 'dead code, dependencies', command: ['knip'] },
  {
    name: 'import directions',
    command:
      'depcruise --config dependency-rules.cjs src gpu-agent cli clients/typescript/src dashboard lab ops simulator test'.split(
        ' ',
      ),
  },
  { name: 'Python client library', command: ['node', 'lab/python-client.ts', 'check'] },
  { name: 'page is built', command: ['node', 'lab/build-page.ts', '--check'] },
  { name: 'plain words, short sentences', command: ['node', 'lab/language.ts'] },
  { name: 'migrations match schemas', command: ['node', 'lab/db-generate.ts', '--check'] },
]

/** It keeps what it found, and checks again what a change can have touched. */
function tsc(name: string, project: string): string[] {
  const found = path.join(CHECK_CACHE, `${name}.tsbuildinfo`)
  return ['tsc', '-p', project, '--noEmit', '--incremental', '--tsBuildInfoFile', found]
}

flagsOrExit(
  'check',
  `Checks without running anything: ${CHECKS.map(({ name }) => name).join('; ')}.\n\n  npm run check`,
  {},
)

function run(check: Check): Promise<{ check: Check; code: number; output: string; seconds: number }> {
  const started = performance.now()
  const [command, ...args] = check.command as [string, ...string[]]
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, FORCE_COLOR: '0' } })
  const output: Buffer[] = []
  child.stdout.on('data', (chunk: Buffer) => output.push(chunk))
  child.stderr.on('data', (chunk: Buffer) => output.push(chunk))
  return new Promise((resolve) => {
    const done = (code: number, extra = '') =>
      resolve({
        check,
        code,
        output: Buffer.concat(output).toString() + extra,
        seconds: (performance.now() - started) / 1000,
      })
    child.on('error', (error) => done(127, error.message))
    child.on('close', (code) => done(code ?? 1))
  })
}

const queue = [...CHECKS]
const failed: string[] = []
async function worker() {
  for (let check = queue.shift(); check !== undefined; check = queue.shift()) {
    const { code, output, seconds } = await run(check)
    console.log(`${code === 0 ? 'ok    ' : 'FAILED'} ${check.name} (${seconds.toFixed(1)} s)`)
    if (code !== 0) {
      failed.push(check.name)
      console.log(output)
    }
  }
}
await Promise.all(Array.from({ length: Math.min(2, availableParallelism()) }, worker))
if (failed.length > 0) {
  console.error(`check failed: ${failed.join(', ')}. To fix formatting, run \`npm run format\`.`)
  process.exit(1)
}
