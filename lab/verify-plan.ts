/**
 * `npm run verify:plan`: whether plans hold. It plans traces as `npm run simulate -- plan` does, and then plays each on a real
 * system with the number of emulated engines that the plan names, and with one engine fewer.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { flagsOrExit } from '../cli/flags.ts'
import { withProgress } from '../cli/progress.ts'
import { type Column, textTable } from '../cli/table.ts'
import { TraceError } from '../simulator/workloads/index.ts'
import { atOnce } from '../src/api/bounded-concurrency.ts'
import { TRACES, type TraceSpec } from './verify-plan/traces.ts'
import { errorShare, failuresOf, type PlayedFleet } from './verify-plan/verdict.ts'
import {
  drawnTrace,
  planned,
  playedFleet,
  type TraceToVerify,
  traceOfFile,
  type VerifiedPlan,
  writeProfile,
} from './verify-plan/verify.ts'

const NAMES = TRACES.map(({ name }) => name)
const HELP = `Whether plans hold: plans three traces as \`npm run simulate -- plan\` does, then plays each on a real system (control plane, agent,
emulated engines in real time) with the number of engines that the plan names, and with one engine fewer. The first must meet
the target, the second must not, and the p95 of the first must be within 15 % of the prediction. Exits 1 if not. About half an hour.

  npm run verify:plan -- [flags]

  --only NAME,…    of ${NAMES.join(', ')}
  --trace FILE     a trace of your own with arrival_seconds (docs/traces.md) instead; needs --p95-ms
  --p95-ms X       its target
  --programs N     of each trace only the first N
  --policy plas    of the engines and of the simulation
  --at-once 1      plays at a time, each on a system of its own: steps are so slow that two cores can play three
  --plan-only      plays nothing
  --json FILE      all figures
  --help`
const TEXT = { type: 'string' } as const
const AT_ONCE_MAX = 8
const PROGRAMS_MAX = 100_000
const FORMAT = 1

const figure = (title: string, cell: (one: PlayedFleet) => string): Column<PlayedFleet> => ({
  ...{ title, align: 'right', cell },
})
const COLUMNS: readonly Column<PlayedFleet>[] = [
  { title: 'trace', cell: ({ trace }) => trace },
  figure('engines', ({ engines }) => `${engines}`),
  figure('target ms/token', ({ target_ms }) => `${target_ms}`),
  figure('predicted p95', ({ predicted_p95_ms }) => predicted_p95_ms.toFixed(1)),
  figure('achieved p95', ({ achieved_p95_ms }) => achieved_p95_ms.toFixed(1)),
  figure('error %', (one) => (errorShare(one) * 100).toFixed(1)),
  { title: 'meets it', cell: ({ achieved_p95_ms, target_ms }) => (achieved_p95_ms <= target_ms ? 'yes' : 'no') },
  figure('calls', ({ calls }) => `${calls}`),
  figure('retried', ({ retries }) => `${retries}`),
  figure('makespan s', ({ makespan_s }) => makespan_s.toFixed(0)),
  figure('load', ({ load }) => load.toFixed(1)),
]

const values = flagsOrExit('verify:plan', HELP, {
  ...{ only: TEXT, trace: TEXT, 'p95-ms': TEXT, programs: TEXT, json: TEXT },
  policy: { ...TEXT, default: 'plas' },
  'at-once': { ...TEXT, default: '1' },
  'plan-only': { type: 'boolean', default: false },
})
const folder = mkdtempSync(path.join(tmpdir(), 'switchyard-verify-plan-'))
try {
  process.exitCode = await verify()
} catch (error) {
  if (!(error instanceof RangeError || error instanceof TraceError)) throw error
  process.stderr.write(`${error.message}\n`)
  process.exitCode = 1
} finally {
  rmSync(folder, { recursive: true, force: true })
}

/** The exit code. */
async function verify(): Promise<number> {
  const at_once = whole('--at-once', values['at-once'], AT_ONCE_MAX)
  writeProfile(folder)
  const plans: VerifiedPlan[] = []
  for (const trace of traces()) {
    const plan = await withProgress(`Planning ${trace.name}`, () => planned(trace, folder, values.policy))
    plans.push(plan)
    console.log(planLine(plan))
  }
  if (values['plan-only']) return 0
  const plays = plans.flatMap((plan) => (['named', 'fewer'] as const).map((fleet) => ({ plan, fleet })))
  const of = plays.reduce((sum, { plan }) => sum + plan.programs.length, 0)
  let ended = 0
  const work = () => atOnce(plays, at_once, ({ plan, fleet }) => playedFleet(plan, fleet, folder, () => (ended += 1)))
  const played = await withProgress('Playing', work, () => `${ended} of ${of} programs`)
  const failures = failuresOf(played)
  if (values.json !== undefined)
    writeFileSync(values.json, `${JSON.stringify({ format: FORMAT, played, failures }, null, 2)}\n`)
  console.log(`\n${textTable(COLUMNS, played)}\n`)
  console.log(failures.length === 0 ? 'Every plan held.' : failures.join('\n'))
  return failures.length === 0 ? 0 : 1
}

function traces(): TraceToVerify[] {
  const { trace, 'p95-ms': p95, only, programs } = values
  const all = trace === undefined ? specs(only).map(drawnTrace) : [traceOfFile(trace, targetOf(p95))]
  if (programs === undefined) return all
  const most = whole('--programs', programs, PROGRAMS_MAX)
  return all.map((one) => ({ ...one, programs: one.programs.slice(0, most) }))
}

function specs(only: string | undefined): readonly TraceSpec[] {
  if (only === undefined) return TRACES
  return only.split(',').map((name) => {
    const spec = TRACES.find((one) => one.name === name)
    if (spec === undefined) throw new RangeError(`--only: there is no ${name}; there are ${NAMES.join(', ')}`)
    return spec
  })
}

function targetOf(text: string | undefined): number {
  const value = Number(text)
  if (text === undefined || !(value > 0)) throw new RangeError('--trace needs --p95-ms: milliseconds a token, above 0')
  return value
}

function whole(flag: string, text: string, max: number): number {
  const value = Number(text)
  if (Number.isInteger(value) && value >= 1 && value <= max) return value
  throw new RangeError(`${flag} takes a whole number from 1 to ${max}, not ${text}`)
}

function planLine({ name, programs, plan }: VerifiedPlan): string {
  const calls = programs.reduce((sum, program) => sum + program.calls.length, 0)
  const at = (engines: number) => `${engines}: ${plan.p95_ms.get(engines)?.toFixed(0)} ms`
  return (
    `${name}: ${programs.length} programs, ${calls} calls. At most ${plan.target_ms} ms a token at p95 takes ${plan.engines} engines ` +
    `(${at(plan.engines - 1)}, ${at(plan.engines)}).`
  )
}
