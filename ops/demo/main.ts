/** `npm run demo`: three real programs at once on the running system, shown while they run and accounted for afterwards. */
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { EXIT_USAGE, fail, readFlags } from '../../cli/flags.ts'
import { DATA_DIR_DEFAULT, dataDir } from '../system/data-dir.ts'
import { type DevJson, readDevJson } from '../system/dev-json.ts'
import { chat } from './chat.ts'
import { type LiveOutput, LiveTable } from './live-table.ts'
import { Program } from './program.ts'
import { react } from './react.ts'
import { endProgram, type ProgramReport, reportOf, reportTable } from './report.ts'
import { tree } from './tree.ts'

const HELP = `Runs three programs at once on the running system: a chat, a ReAct loop with tools, a tree of parallel calls.

  npm run demo -- [flags]

  --data-dir ${DATA_DIR_DEFAULT}   of the running system
  --json [FILE]            the figures as JSON, every call included: alone, instead of the table
  --help`

const STDOUT = '-'
const WORK = { chat, react, tree }

const read = readFlags('demo', withJson(process.argv.slice(2)), {
  'data-dir': { type: 'string', default: DATA_DIR_DEFAULT },
  json: { type: 'string' },
  help: { type: 'boolean', short: 'h', default: false },
})
if (!read.ok) fail(read.reason, EXIT_USAGE)
const flags = read.values
if (flags.help) {
  console.log(HELP)
  process.exit(0)
}
const place = dataDir(flags['data-dir'])
const system = await readDevJson(place.devJson)
if (system === null) fail(`Nothing runs on ${place.root}. Start it first: npm run up`)
const shown: LiveOutput = flags.json === STDOUT ? { write: () => true } : process.stdout
const reports = await demo(system, shown)
if (flags.json !== undefined) {
  const { url, model, engine, policy } = system
  const text = `${JSON.stringify({ url, model, engine, policy, programs: reports }, null, 2)}\n`
  if (flags.json === STDOUT) process.stdout.write(text)
  else await writeFile(flags.json, text)
}
if (reports.some(({ outcome }) => outcome === 'failed')) process.exitCode = 1

/** `--json` alone is for standard output, as every command has it. */
function withJson(argv: readonly string[]): string[] {
  return argv.map((arg, at) => {
    const next = argv[at + 1]
    return arg === '--json' && (next === undefined || next.startsWith('-')) ? `--json=${STDOUT}` : arg
  })
}

async function demo({ url, apiKey, model, engine }: DevJson, shown: LiveOutput): Promise<ProgramReport[]> {
  const run = randomBytes(3).toString('hex')
  let live: LiveTable | null = null
  const programs = Object.entries(WORK).map(([title, work]) => ({
    work,
    program: new Program({
      id: `demo-${title}-${run}`,
      title,
      baseURL: `${url}/v1`,
      apiKey,
      model,
      onCall: (program, text) => live?.callEnded(program, text),
    }),
  }))
  const emulated = engine === 'emulated' ? ' (emulated: its text means nothing)' : ''
  shown.write(`Three programs on ${url}, model ${model}${emulated}\n\n`)
  live = new LiveTable(
    programs.map(({ program }) => program),
    shown,
  )
  live.start()
  await Promise.all(programs.map(({ program, work }) => program.run(work)))
  live.stop()
  const reports = await Promise.all(programs.map(({ program }) => reportOf({ url, apiKey }, program)))
  await Promise.all(programs.map(({ program }) => endProgram({ url, apiKey }, program.id)))
  shown.write(`\n${reportTable(reports)}\n\n`)
  for (const { kind, answer, error } of reports) shown.write(`${kind}: ${error ?? answer.replace(/\s+/g, ' ')}\n`)
  return reports
}
