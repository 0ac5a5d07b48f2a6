/** `npm run fuzz`: the whole API of a system of its own. Exits 1 for an answer that must not be. */
import { randomInt } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { fail, readFlags, wholeNumber } from '../../../cli/flags.ts'
import { withProgress } from '../../../cli/progress.ts'
import { type ApiFuzzReport, fuzzApi } from './fuzz-api.ts'

export const API_HELP = `Sends drawn requests to every route of a system that it starts for itself, and checks the answers: no 500, no key,
nothing of another tenant, and \`npm run status\` well afterwards. Beside them an enrolled agent sends nonsense over its links.

  npm run fuzz -- [flags]
  npm run fuzz -- orders [flags]    the two languages' orders of programs against each other; --help tells its flags

  --requests N   so many drawn requests (default 10000; about 600 a second on two idle cores)
  --minutes N    stops drawing requests after N minutes. The checks at the end are made all the same (default 1440)
  --examples N   then schemathesis on /openapi.json, as a tenant and as the operator, with N examples per operation and
                 phase (default 20; 0 leaves it out). It is installed once under the user's cache
  --seed N       the same seed draws the same requests, but for ids that answers gave (default: chosen and printed)
  --at-once N    requests under way at a time (default 16)
  --json FILE    counts per route, and faults
  --help`

/** A run of so many has succeeded on every route, or the fuzzer has lost its way there. */
const REACHED_REQUESTS_MIN = 5_000
const SEED_MAX = 2 ** 31 - 1
const REQUESTS_MAX = 100_000_000
const MINUTES_MAX = 1_440
const AT_ONCE_MAX = 256
const EXAMPLES_MAX = 100_000

export async function runApiCommand(args: string[]): Promise<void> {
  const flags = readFlags('fuzz', args, {
    requests: { type: 'string', default: '10000' },
    examples: { type: 'string', default: '20' },
    minutes: { type: 'string', default: `${MINUTES_MAX}` },
    seed: { type: 'string' },
    'at-once': { type: 'string', default: '16' },
    json: { type: 'string' },
    help: { type: 'boolean', default: false },
  })
  if (!flags.ok) fail(flags.reason)
  const { values } = flags
  if (values.help) {
    console.log(API_HELP)
    return
  }
  const seed = values.seed === undefined ? randomInt(SEED_MAX) : wholeNumber('--seed', values.seed, 0, SEED_MAX)
  const requests = wholeNumber('--requests', values.requests, 1, REQUESTS_MAX)
  const minutes_max = wholeNumber('--minutes', values.minutes, 1, MINUTES_MAX)
  const at_once = wholeNumber('--at-once', values['at-once'], 1, AT_ONCE_MAX)
  const examples_max = wholeNumber('--examples', values.examples, 0, EXAMPLES_MAX)
  let shown = 'starting the system'
  const onProgress = (text: string): void => {
    shown = text
  }
  const report = await withProgress(
    `Fuzzing the API with seed ${seed}`,
    () => fuzzApi({ seed, requests, minutes_max, at_once, examples_max, onProgress }),
    () => shown,
  )
  const { table, ...json } = report
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(json, null, 2)}\n`)
  console.log(table)
  const { links, frames, calls } = report.hostile_agent
  console.log(`\n${report.requests} requests in ${report.seconds.toFixed(0)} s, seed ${seed}`)
  if (report.drawn < requests && !report.is_gone)
    console.log(`--minutes ${minutes_max} was over after ${report.drawn} of ${requests} drawn requests.`)
  console.log(`The hostile agent opened ${links} links, sent ${frames} frames and got ${calls} calls.`)
  const faults = faultsOf(report)
  if (faults !== null) fail(faults)
  console.log('No 500, no key and nothing of another tenant in an answer; the system is well.')
}

/** Null: there are none. */
export function faultsOf(report: ApiFuzzReport): string | null {
  const { drawn, is_gone, faults, faults_total, unreached, unhealthy, kept_folder } = report
  const lines = faults.map(({ route, what, request, answer }) => `${route}: ${what}\n  ${request}\n  ${answer}`)
  if (faults_total > faults.length) lines.push(`${faults_total - faults.length} more faults`)
  if (unreached.length > 0 && drawn >= REACHED_REQUESTS_MIN && !is_gone)
    lines.push(`No request succeeded on ${unreached.join(', ')}`)
  if (unhealthy !== null) lines.push(`The system is not well: ${unhealthy}`)
  if (kept_folder !== null) lines.push(`Its logs and its state are kept in ${kept_folder}.`)
  return lines.length === 0 ? null : lines.join('\n')
}
