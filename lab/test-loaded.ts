/**
 * `npm run test:loaded`: `npm test` again and again beside busy loops. A test that depends on the machine's speed fails here
 * sooner or later.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream, mkdirSync } from 'node:fs'
import path from 'node:path'
import { fail, flagsOrExit, wholeNumber } from '../cli/flags.ts'
import { withProgress } from '../cli/progress.ts'

const HELP = `Runs npm test several times beside busy loops, and tells which runs failed. A run takes half an hour on two cores.

  npm run test:loaded -- [flags]

  --runs 10       runs, one after the other
  --loops 2       processes that do nothing but use a core
  --fast          npm run test:fast in place of npm test
  --logs DIR      what each run prints (default test-loaded)
  --help`
const WHOLE_MAX = 1000
/** Ends with its parent, however that ends. */
const BUSY = 'const parent = process.ppid; while (process.ppid === parent);'

const flags = flagsOrExit('test:loaded', HELP, {
  runs: { type: 'string', default: '10' },
  loops: { type: 'string', default: '2' },
  fast: { type: 'boolean', default: false },
  logs: { type: 'string', default: 'test-loaded' },
})
const runs = wholeNumber('--runs', flags.runs, 1, WHOLE_MAX)
mkdirSync(flags.logs, { recursive: true })
const children = new Set<ChildProcess>()
// `on` and not `once`: a second signal, which npm passes on beside the terminal's own, must not end this process first.
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    for (const child of children) child.kill(signal)
    process.exit(1)
  })
}
for (let loop = 0; loop < wholeNumber('--loops', flags.loops, 1, WHOLE_MAX); loop += 1) child(['-e', BUSY], 'ignore')

const failed: number[] = []
for (let run = 1; run <= runs; run += 1) {
  const log = path.join(flags.logs, `run-${run}.log`)
  let said = ''
  const code = await withProgress(
    `Run ${run} of ${runs}`,
    () =>
      tested(log, (text) => {
        said = text
      }),
    () => said,
  )
  if (code !== 0) failed.push(run)
  console.log(`Run ${run}: ${code === 0 ? 'passed' : `FAILED, see ${log}`}`)
}
for (const one of children) one.kill('SIGKILL')
if (failed.length > 0) fail(`${failed.length} of ${runs} runs failed: ${failed.join(', ')}`)
console.log(`All ${runs} runs passed.`)

/** Its exit code. `heard` gets the title of each part as it begins. */
async function tested(log: string, heard: (title: string) => void): Promise<number> {
  const file = createWriteStream(log)
  const one = child([path.join(import.meta.dirname, 'test.ts'), ...(flags.fast ? ['--fast'] : [])], 'pipe')
  one.stderr?.pipe(file, { end: false })
  one.stdout?.on('data', (chunk: Buffer) => {
    file.write(chunk)
    for (const [, title = ''] of chunk.toString().matchAll(/^── (.+)$/gm)) heard(title)
  })
  const [code] = (await once(one, 'close')) as [number | null]
  children.delete(one)
  file.end()
  return code ?? 1
}

function child(args: string[], stdio: 'ignore' | 'pipe'): ChildProcess {
  const started = spawn(process.execPath, args, { stdio: ['ignore', stdio, stdio] })
  children.add(started)
  return started
}
