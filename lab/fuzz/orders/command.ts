/** `npm run fuzz -- orders`: random scenarios through both languages' orders of programs. Exits 1 when they decide differently. */
import { randomInt } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { fail, readFlags, wholeNumber } from '../../../cli/flags.ts'
import { withProgress } from '../../../cli/progress.ts'
import { corePython } from './core-environment.ts'
import { describeMismatch, fuzz } from './fuzz.ts'
import { PythonOrder } from './python-order.ts'

const HELP = `Plays random scenarios on the TypeScript order of programs and on the Python one, and compares what they decide.

  npm run fuzz -- orders [flags]

  --seconds N    how long (default 30)
  --runs N       at most so many scenarios (default: as many as fit)
  --seed N       the same seed is the same scenarios (default: chosen and printed)
  --path P       play the mismatch that was printed with this path again, with its seed
  --json FILE    runs, seconds and the mismatch, shrunk
  --help`

const SECONDS_MAX = 24 * 3600
const RUNS_MAX = 2 ** 31 - 1
const SEED_MAX = 2 ** 31 - 1

export async function runOrdersCommand(args: string[]): Promise<void> {
  const flags = readFlags('fuzz orders', args, {
    seconds: { type: 'string', default: '30' },
    runs: { type: 'string', default: `${RUNS_MAX}` },
    seed: { type: 'string' },
    path: { type: 'string' },
    json: { type: 'string' },
    help: { type: 'boolean', default: false },
  })
  if (!flags.ok) fail(flags.reason)
  const { values } = flags
  if (values.help) {
    console.log(HELP)
    return
  }
  if (values.path !== undefined && (values.seed === undefined || !/^\d+(:\d+)*$/.test(values.path))) {
    fail('--path is of the form 12:0:3 and takes the --seed that it was printed with')
  }
  const seed = values.seed === undefined ? randomInt(SEED_MAX) : wholeNumber('--seed', values.seed, 0, SEED_MAX)
  const runs_max = wholeNumber('--runs', values.runs, 1, RUNS_MAX)
  const seconds_max = wholeNumber('--seconds', values.seconds, 1, SECONDS_MAX)

  const environment = await corePython()
  if (!environment.ok) fail(`The Python order cannot run: ${environment.reason}`)
  const python = new PythonOrder(environment.python)
  const budget = { seed, path: values.path, runs_max, seconds_max }
  let runs_done = 0
  const report = await withProgress(
    `Fuzzing with seed ${seed}`,
    () => fuzz(budget, python, (runs) => (runs_done = runs)),
    () => `${runs_done} scenarios`,
  )
  python.close()
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(report, null, 2)}\n`)
  const { runs, lines, seconds, mismatch } = report
  console.log(`${runs} scenarios, ${lines} events and decisions, ${seconds.toFixed(1)} s, seed ${seed}`)
  if (mismatch !== null) {
    fail(describeMismatch(mismatch, `npm run fuzz -- orders --seed ${seed} --path ${mismatch.path}`))
  }
}
