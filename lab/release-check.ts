/**
 * `npm run release-check`: runs every documented command once, through npm as a user types it, and says which failed. About
 * an hour; CI has npm test. A command that hangs is ended at its limit and counts as failed.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fail, flagsOrExit } from '../cli/flags.ts'
import { textTable } from '../cli/table.ts'
import { freePort } from '../ops/system/free-port.ts'
import { COVERAGE } from './release/commands.ts'
import { ROOT } from './testbed/repository.ts'

const NAMES = Object.keys(COVERAGE)
const END_GRACE_MS = 20_000
const TAIL_LINES = 15

const flags = flagsOrExit(
  'release-check',
  `Runs every documented command once, as a user types it, with small figures. About an hour.

  npm run release-check -- [flags]

  --only NAME,…   of ${NAMES.filter((name) => 'run' in (COVERAGE[name] ?? {})).join(', ')}`,
  { only: { type: 'string', default: '' } },
)
const only = flags.only === '' ? NAMES : flags.only.split(',')
const unknown = only.find((name) => COVERAGE[name] === undefined)
if (unknown !== undefined) fail(`--only takes names of commands, not ${JSON.stringify(unknown)}`)

interface Row {
  command: string
  outcome: string
  seconds: string
}

const out = mkdtempSync(path.join(tmpdir(), 'switchyard-release-'))
const places = { data: path.join(out, 'data'), port: String(await freePort()), out }
const rows: Row[] = []
try {
  for (const name of only) {
    const coverage = COVERAGE[name]
    if (coverage === undefined) continue
    if ('elsewhere' in coverage) rows.push({ command: name, outcome: `left out: ${coverage.elsewhere}`, seconds: '' })
    else for (const args of coverage.run) rows.push(await once(name, args.map(filled), coverage.minutes_max * 60_000))
  }
} finally {
  // The system of the check is stopped after a failure, too.
  if (only.includes('up')) await once('down', ['--data-dir', places.data], 120_000)
  rmSync(out, { recursive: true, force: true })
}
console.log(
  textTable<Row>(
    [
      { title: 'command', cell: ({ command }) => command },
      { title: 'outcome', cell: ({ outcome }) => outcome },
      { title: 's', cell: ({ seconds }) => seconds, align: 'right' },
    ],
    rows,
  ),
)
const failed = rows.filter(({ outcome }) => outcome.startsWith('FAILED'))
if (failed.length > 0) fail(`${failed.length} of ${rows.length} commands failed.`)

function filled(arg: string): string {
  return arg.replace(/\{(data|port|out)\}/g, (_, place: keyof typeof places) => places[place])
}

async function once(name: string, args: readonly string[], limit_ms: number): Promise<Row> {
  const command = `npm run ${name}${args.length === 0 ? '' : ` -- ${args.join(' ')}`}`
  console.log(`── ${command}`)
  const started_ms = performance.now()
  const child = spawn('npm', ['run', name, '--', ...args], { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const late = setTimeout(() => {
    output += `\nnot finished after ${limit_ms / 60_000} minutes`
    child.kill('SIGTERM')
    setTimeout(() => child.kill('SIGKILL'), END_GRACE_MS).unref()
  }, limit_ms)
  const code = await new Promise<number>((resolve) => {
    child.on('error', (error) => {
      output += error.message
      resolve(127)
    })
    // Not `close`: a detached system keeps no pipe, but a process that hangs might.
    child.on('exit', (exit) => resolve(exit ?? 1))
  })
  clearTimeout(late)
  const seconds = ((performance.now() - started_ms) / 1000).toFixed(0)
  if (code !== 0) console.log(output.trimEnd().split('\n').slice(-TAIL_LINES).join('\n'))
  return { command, outcome: code === 0 ? 'ok' : `FAILED with ${code}`, seconds }
}
