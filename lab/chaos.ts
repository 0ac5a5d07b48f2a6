/**
 * `npm run chaos`: programs of two tenants on a whole system in real processes, while everything that can fail does, by a
 * plan that follows from a seed; then the five invariants of the design are asked after. Exits 1 if one is broken.
 */
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { z } from 'zod'
import { fail, flagsOrExit, wholeNumber } from '../cli/flags.ts'
import { withProgress } from '../cli/progress.ts'
import { agentIdsOf } from '../ops/workerd/agent-ids.ts'
import { PROCESSES_MAX } from '../src/processes/owner.ts'
import { mayMount, runInside } from './chaos/private-mounts.ts'
import { CHAOS_PLACE, PROGRAMS_AT_ONCE_DEFAULT, runChaos } from './chaos/run.ts'
import { FAULTS, makeSchedule, type PlannedFault } from './chaos/schedule.ts'
import { type StreamCounts, WHOLE_SHARE_GOAL } from './chaos/stream-counts.ts'

const HELP = `Runs programs on a whole system while its parts fail, and checks what must hold all the same.

  npm run chaos -- [flags]

  --seed N         plan of faults and programs; the same seed is the same plan (default: chosen and printed)
  --minutes M      of faults and load; the checks come after (default 2)
  --workers N      processes of the control plane (default 1)
  --programs N     at work at a time (default 14); fewer for a machine that has other work
  --log FILE       event log, one JSON object a line (default chaos-SEED.jsonl)
  --replay FILE    the faults of an event log, at the times at which they were planned, with its seed
  --json FILE      counts and violations
  --help`

const MINUTES_MAX = 24 * 60
const PROGRAMS_MAX = 256
const SHOWN_MAX = 20

const values = flagsOrExit('chaos', HELP, {
  seed: { type: 'string' },
  minutes: { type: 'string' },
  workers: { type: 'string', default: '1' },
  programs: { type: 'string' },
  log: { type: 'string' },
  replay: { type: 'string' },
  json: { type: 'string' },
})

const Planned = z.object({
  at_ms: z.number().min(0),
  for_ms: z.number().min(0),
  fault: z.enum(FAULTS),
  target: z.string(),
})
const Started = z.object({
  event: z.literal('start'),
  seed: z.number().int(),
  duration_ms: z.number().positive(),
  schedule: z.array(Planned),
  workers: z.number().int().min(1).default(1),
})

interface Plan {
  seed: number
  duration_ms: number
  schedule: PlannedFault[]
  workers: number
}

function newPlan(): Plan {
  const seed = values.seed === undefined ? Date.now() % 1_000_000 : Number(values.seed)
  if (!Number.isSafeInteger(seed) || seed < 0) fail('--seed must be a whole number, 0 or greater')
  const minutes = Number(values.minutes ?? '2')
  if (!(minutes > 0 && minutes <= MINUTES_MAX)) fail(`--minutes must be above 0 and at most ${MINUTES_MAX}`)
  const duration_ms = Math.round(minutes * 60_000)
  const { regions, agents_per_region } = CHAOS_PLACE
  const agents = regions.flatMap((region) => agentIdsOf(region, agents_per_region).map((id) => ({ id, region })))
  const workers = wholeNumber('--workers', values.workers, 1, PROCESSES_MAX)
  const schedule = makeSchedule(seed, duration_ms, { regions, agents, small_disks: mayMount(), workers })
  return { seed, duration_ms, schedule, workers }
}

function oldPlan(file: string): Plan {
  if (values.seed !== undefined || values.minutes !== undefined)
    fail('--replay takes seed and minutes from its file; leave --seed and --minutes out')
  try {
    const [first = ''] = readFileSync(file, 'utf8').split('\n', 1)
    return Started.parse(JSON.parse(first))
  } catch (error) {
    fail(`${file} does not begin with the plan of a chaos run: ${(error as Error).message.split('\n', 1)[0]}`)
  }
}

const programs_at_once = Number(values.programs ?? PROGRAMS_AT_ONCE_DEFAULT)
if (!(Number.isSafeInteger(programs_at_once) && programs_at_once > 0 && programs_at_once <= PROGRAMS_MAX))
  fail(`--programs must be a whole number from 1 to ${PROGRAMS_MAX}`)
const inside = await runInside()
if (inside !== null) process.exit(inside)
const plan = values.replay === undefined ? newPlan() : oldPlan(values.replay)
const logFile = path.resolve(values.log ?? `chaos-${plan.seed}.jsonl`)
const again = `npm run chaos -- --replay ${path.relative(process.cwd(), logFile)}`
writeFileSync(logFile, `${JSON.stringify({ event: 'start', started_at: new Date().toISOString(), ...plan })}\n`)
if (!mayMount()) console.log('This host allows no mounts of a user (unshare), so no disk is filled.')
console.log(
  `Seed ${plan.seed}, ${plan.duration_ms / 60_000} min, ${plan.schedule.length} faults planned. Log: ${logFile}`,
)

let shown = 'starting the system'
const result = await withProgress(
  'Chaos',
  () =>
    runChaos({
      ...plan,
      small_disks: mayMount(),
      programs_at_once,
      log: (event) => appendFileSync(logFile, `${JSON.stringify(event)}\n`),
      progress: (text) => {
        shown = text
      },
    }),
  () => shown,
)
appendFileSync(logFile, `${JSON.stringify({ event: 'result', ...result })}\n`)
if (values.json !== undefined) {
  writeFileSync(values.json, `${JSON.stringify({ ...plan, schedule: plan.schedule.length, ...result }, null, 2)}\n`)
}

console.log(`${result.programs} programs, ${result.calls} calls: ${listed(result.ends)}`)
console.log(`Faults: ${listed(result.faults)}`)
tellStreams(result.streams)
const { budgets } = result
console.log(
  `Budgets: ${budgets.tenants} tenants; refused ${listed(budgets.refused) || 'none'}; asked ${budgets.asked} times, ${budgets.sums_compared} sums of spend compared`,
)
const broken = Object.entries(result.violations).filter(([, whats]) => whats.length > 0)
for (const [invariant, whats] of broken) {
  console.log(`BROKEN ${invariant}: ${whats.length}`)
  for (const what of whats.slice(0, SHOWN_MAX)) console.log(`  ${what}`)
}
if (broken.length > 0) {
  console.log(`Seed ${plan.seed} failed. Again: ${again}`)
  process.exit(1)
}
console.log(`Seed ${plan.seed}: every invariant held.`)

function tellStreams({ lost, refused, ...of }: StreamCounts): void {
  const share = `${(100 * of.completed_share).toFixed(2)} %, goal ${100 * WHOLE_SHARE_GOAL} %`
  const next = `next token after ${of.next_token_p50_ms} ms (p50), ${of.next_token_p99_ms} ms (p99)`
  console.log(`Streams: ${of.streams}, ${of.broken} broken after their first event, ${of.resumed} resumed`)
  console.log(`  of the broken ${of.completed} ended whole (${share}), ${next}`)
  const apis = Object.entries(of.by_api).map(([api, n]) => `${api} ${n.completed} of ${n.broken}`)
  console.log(`  by API: ${apis.join(', ')}; lost: ${listed(lost) || 'none'}`)
  console.log(`  refused: ${listed(refused) || 'none'}`)
  console.log(`  ${of.left_by_client} left by clients, ${of.ended_with_control_plane} ended with the control plane`)
}

function listed(counts: Readonly<Record<string, number>>): string {
  return Object.entries(counts)
    .sort(([, a], [, b]) => b - a)
    .map(([what, count]) => `${count} ${what}`)
    .join(', ')
}
