/**
 * `npm run bench:policies`: what program-level order is worth on the real model, in overload. Each policy meets the same
 * programs at the same times. Seeds are interleaved over the policies, so that what else the machine does falls on all of
 * them alike.
 */
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { loadLlamaRuntime } from '../../gpu-agent/engine/backends/llama/llama-runtime.ts'
import { POLICY_NAMES, type PolicyName } from '../../gpu-agent/engine/order/policies/index.ts'
import { findOrFetchModel } from '../../ops/model/find-or-fetch.ts'
import type { ServiceReading } from '../../src/core/call/service.ts'
import { comparisonReport, goalsOf } from './comparison.ts'
import { settingText } from './kv-pressure.ts'
import { FIGURES_FORMAT, type Figures, type Parameters, readFigures, writeFigures } from './policies-file.ts'
import { policiesPlot } from './policies-plot.ts'
import { POLICIES_COMPARISON, ratiosToFcfs } from './policies-report.ts'
import { type Bench, measureCapacity, runOnce, spanOf } from './policies-runs.ts'
import {
  POLICIES_SETTINGS,
  POLICIES_WORKLOADS,
  type PoliciesSetting,
  type PoliciesWorkload,
} from './policies-settings.ts'
import { SEATS } from './real-engine.ts'
import { drawShapes, LABELS, workloadsNamed } from './workload.ts'

const POLICIES = POLICY_NAMES.join(',')
const HELP = `Program token latency under each policy, on the real model, in overload. A run takes about a minute, and several where a
policy loses its prefixes.

  npm run bench:policies -- [flags]

  --workload all      ${POLICIES_WORKLOADS.join(', ')}, with commas between them, or all:
                      chats: short and long chats and small trees, whose KV all fits
                      react: chains of tool calls with long contexts, of which KV holds a third
                      trees: waves of calls that share a long context, of which KV holds a third
  --policies ${POLICIES}
                      what to compare; fcfs is the base of the ratios
  --seeds 3           draws of each workload; each policy plays each
  --first-seed 1
  --programs N        a run (default: ${defaults('programs')})
  --load X            arrival rate as a multiple of what the engine can serve, measured first
                      (default: ${defaults('load')})
  --service modelled  the reading that orders calls: modelled (own share of work, as engines that serve) or wall (as the paper)
  --labels workload   by which learned tells programs apart: one label for a workload, or kind, one for each kind of its programs
  --threads 1         of llama.cpp
  --model PATH        a GGUF (default: the shipped small model)
  --json FILE         all figures. Runs in FILE are not repeated, new ones are added to it
  --runs-max N        stop after N runs; the same command goes on where it stopped
  --plot FILE.svg     a plot
  --help`

const { values } = parseArgs({
  options: {
    workload: { type: 'string', default: 'all' },
    policies: { type: 'string', default: POLICIES },
    seeds: { type: 'string', default: '3' },
    'first-seed': { type: 'string', default: '1' },
    programs: { type: 'string' },
    load: { type: 'string' },
    service: { type: 'string', default: 'modelled' },
    labels: { type: 'string', default: 'workload' },
    threads: { type: 'string', default: '1' },
    model: { type: 'string' },
    json: { type: 'string' },
    'runs-max': { type: 'string', default: '1000' },
    plot: { type: 'string' },
    help: { type: 'boolean', short: 'h', default: false },
  },
})
if (values.help) {
  console.log(HELP)
  process.exit(0)
}
const workloads = workloadsNamed(values.workload, POLICIES_WORKLOADS)
if (workloads === null) fail(`--workload is all or of ${POLICIES_WORKLOADS.join(', ')}, not ${values.workload}`)
const policies = values.policies.split(',').map(policyName)
const seeds = whole('--seeds', values.seeds)
const first_seed = whole('--first-seed', values['first-seed'])
const runs_max = whole('--runs-max', values['runs-max'])
const settings = workloads.map(settingOf)
const threads = whole('--threads', values.threads)
const reading = serviceReading(values.service)
const labels = LABELS.find((name) => name === values.labels)
if (labels === undefined) fail(`--labels is ${LABELS.join(' or ')}, not ${values.labels}`)

const model = await findOrFetchModel(values.model === undefined ? {} : { model: values.model })
const parameters: Parameters = { model: model.id, seats: SEATS, threads, service: reading, labels }
const before =
  values.json === undefined ? { ok: true as const, figures: null } : readFigures(values.json, parameters, settings)
if (!before.ok) fail(`--json: ${before.message}`)

const started = performance.now()
const runtime = await loadLlamaRuntime(model.path)
const bench: Bench = { runtime, reading, threads, labels }
const figures: Figures = before.figures ?? { format: FIGURES_FORMAT, parameters, workloads: {}, runs: [] }
const { runs } = figures
for (const [index, { setting, policy, seed }] of missing().slice(0, runs_max).entries()) {
  const name = `${setting.workload}, ${policy}, seed ${seed}`
  const played = await playedOf(setting)
  progress(`${name}: run ${index + 1} of ${Math.min(runs_max, missing().length + index)}\n`)
  const onProgram = (ended: number) => progress(`${name}: ${ended} of ${setting.programs} programs`)
  runs.push(await runOnce(bench, played, policy, seed, onProgram))
  save()
}
await runtime.dispose()
const left = missing().length
if (left > 0) progress(`${left} runs are left: the same command goes on with them\n`)
if (values.plot !== undefined) writeFileSync(values.plot, policiesPlot(runs))
console.log('\nProgram token latency in ms, means over seeds:\n')
console.log(comparisonReport(runs, POLICIES_COMPARISON, headings()))

async function playedOf(setting: PoliciesSetting) {
  const known = figures.workloads[setting.workload]
  if (known !== undefined) return known
  progress(`measuring what the engine can serve of ${setting.workload}\n`)
  const played = { setting, capacity: await measureCapacity(bench, setting) }
  figures.workloads[setting.workload] = played
  save()
  return played
}

/** Runs that are asked for and were not made yet, workload by workload, another policy first with each seed. */
function missing(): { setting: PoliciesSetting; policy: PolicyName; seed: number }[] {
  const isMade = (workload: PoliciesWorkload, policy: PolicyName, seed: number) =>
    runs.some((run) => run.workload === workload && run.name === policy && run.seed === seed)
  return settings.flatMap((setting) =>
    Array.from({ length: seeds }, (_, index) => first_seed + index).flatMap((seed, turn) =>
      policies
        .map((_, index) => ({ setting, policy: policies[(index + turn) % policies.length] as PolicyName, seed }))
        .filter(({ policy }) => !isMade(setting.workload, policy, seed)),
    ),
  )
}

function save(): void {
  if (values.json === undefined) return
  const arrivals = Object.values(figures.workloads).flatMap(({ setting, capacity }) => {
    const own = runs.filter(({ workload }) => workload === setting.workload)
    return [...new Set(own.map(({ seed }) => seed))].map((seed) => spanOf(seed, setting, capacity))
  })
  const goals = goalsOf(runs, POLICIES_COMPARISON)
  writeFigures(values.json, { ...figures, arrivals, ratio_to_fcfs: ratiosToFcfs(runs), goals })
}

/** Of each workload, its setting as the first seed drew it. */
function headings(): Record<PoliciesWorkload, string> {
  const heading = (workload: PoliciesWorkload) => {
    const setting = figures.workloads[workload]?.setting ?? settingOf(workload)
    return settingText(drawShapes(first_seed, setting.programs, setting), setting)
  }
  return { chats: heading('chats'), react: heading('react'), trees: heading('trees') }
}

function settingOf(workload: PoliciesWorkload): PoliciesSetting {
  const setting = POLICIES_SETTINGS[workload]
  return {
    ...setting,
    programs: values.programs === undefined ? setting.programs : whole('--programs', values.programs),
    load: values.load === undefined ? setting.load : positive('--load', values.load),
  }
}

function defaults(of: 'programs' | 'load'): string {
  return POLICIES_WORKLOADS.map((workload) => `${workload} ${POLICIES_SETTINGS[workload][of]}`).join(', ')
}

function progress(text: string): void {
  const elapsed_s = ((performance.now() - started) / 1000).toFixed(0)
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${elapsed_s} s  ${text.trimEnd()}`)
  else if (text.endsWith('\n')) process.stderr.write(`${elapsed_s} s  ${text}`)
}

function policyName(name: string): PolicyName {
  const policy = POLICY_NAMES.find((one) => one === name)
  return policy ?? fail(`--policies: there is no ${name}; there are ${POLICY_NAMES.join(', ')}`)
}

function serviceReading(name: string): ServiceReading {
  if (name !== 'wall' && name !== 'modelled') fail(`--service must be wall or modelled, not ${name}`)
  return name
}

function positive(flag: string, text: string): number {
  const value = Number(text)
  if (!(value > 0 && value < Number.POSITIVE_INFINITY)) fail(`${flag} must be a positive number, not ${text}`)
  return value
}

function whole(flag: string, text: string): number {
  const value = positive(flag, text)
  if (!Number.isSafeInteger(value)) fail(`${flag} must be a whole number, not ${text}`)
  return value
}

function fail(message: string): never {
  console.error(`${message}\n\n${HELP}`)
  process.exit(1)
}
