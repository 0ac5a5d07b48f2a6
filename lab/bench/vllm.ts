/**
 * `npm run bench:vllm`: what our scheduler is worth in a real vLLM, through the whole control plane, in overload. It runs on this host's GPU if
 * there is one, else on the CPU. Every scheduler meets the same programs at the same times. Seeds are interleaved over the schedulers, so that what else the machine
 * does falls on all of them alike. Each workload has vLLMs of its own, since the size of their KV is fixed when they start.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus, tmpdir } from 'node:os'
import path from 'node:path'
import { fail } from '../../cli/flags.ts'
import { withProgress } from '../../cli/progress.ts'
import { switchyardCacheFolder } from '../../ops/model/cache-folder.ts'
import { vllmPython } from '../../ops/vllm/environment.ts'
import { deviceOf, thisHost } from '../../ops/vllm/host.ts'
import { BLOCK_TOKENS, CPU_SIZE, VllmServer, type VllmSetting } from '../testbed/vllm-server.ts'
import { comparisonReport, goalsOf } from './comparison.ts'
import { settingText } from './kv-pressure.ts'
import { policiesPlot } from './policies-plot.ts'
import { benchFlags, type VllmBenchPlan } from './vllm/flags.ts'
import { gpuFacts, gpuSize } from './vllm/gpu.ts'
import { kvBytesOfToken } from './vllm/kv-bytes.ts'
import { servedModel } from './vllm/model.ts'
import { decisionGoal, faultOf, VLLM_COMPARISON } from './vllm/report.ts'
import {
  checkPolicies,
  measureCapacity,
  runOnce,
  type VllmBench,
  type VllmCapacity,
  type VllmRun,
  workS,
} from './vllm/runs.ts'
import { nameOf, type SchedulerName, SERVERS, type ServerName } from './vllm/schedulers.ts'
import { ControlPlane } from './vllm/serving.ts'
import { drawShapes, type WorkloadName, type WorkloadSetting } from './workload.ts'

/** Of the JSON file's shape. */
const FIGURES_FORMAT = 2
/** Of a run: draining after the last arrival, another agent, counts. */
const RUN_OVERHEAD_S = 8
/** Before anything is measured: what a scheduler that loses its prefixes takes, over what the work takes at capacity. */
const SLOWER_THAN_CAPACITY = { roomy: 1.15, scarce: 2.5 }

const host = deviceOf(thisHost(), 1)
if (!host.ok) fail(host.reason)
const { device } = host
const plan = benchFlags(process.argv.slice(2), device)
const servers_needed = SERVERS.filter((one) => one === 'stock-fcfs' || plan.schedulers.some((s) => s.scheduler === one))
const size = device === 'gpu' ? gpuSize(servers_needed.length, plan.model === null) : CPU_SIZE
const started_ms = performance.now()
const folder = mkdtempSync(path.join(tmpdir(), 'switchyard-vllm-bench-'))
const stops: (() => Promise<void>)[] = []
let stopping: Promise<void> | null = null
// A second one is for nothing: the vLLMs, of process groups of their own, would outlive this process.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => void stop().then(() => process.exit(1)))
try {
  await main(plan)
} catch (error) {
  await stop()
  fail(error instanceof Error ? error.message : String(error))
}
await stop()

/** What is written to the JSON file and reported. */
interface Figures {
  workloads: { setting: WorkloadSetting; capacity: VllmCapacity }[]
  runs: VllmRun[]
}

async function main({ settings, json, plot }: VllmBenchPlan): Promise<void> {
  const python = await vllmPython(device, { cache_folder: switchyardCacheFolder() })
  if (!python.ok) throw new Error(`vLLM cannot be run here: ${python.reason}`)
  const model = await servedModel(device, { python: python.python, model: plan.model, folder })
  const kv_block_bytes = () => BLOCK_TOKENS * kvBytesOfToken(model.path)
  const server = { python: python.python, model: model.path, served_model: model.id, folder, size, kv_block_bytes }
  const plane = await withProgress('Starting the control plane', () => ControlPlane.start(model.id, size))
  stopLater(() => plane.stop())
  const played: Figures = { workloads: [], runs: [] }
  const kept = stops.length
  let servers: ReadonlyMap<ServerName, VllmServer> | null = null
  for (const [index, setting] of settings.entries()) {
    const { kv_tokens } = setting
    const kv = kv_tokens === null ? {} : { kv_blocks: Math.floor(kv_tokens / BLOCK_TOKENS) }
    servers ??= await startServers({ ...server, ...kv })
    const until_s = elapsedS() + (plan.time_s - elapsedS()) / (settings.length - index)
    await playWorkload({ plane, servers, setting, labels: plan.labels }, until_s, played)
    if (settings[index + 1]?.kv_tokens === kv_tokens) continue
    servers = null
    await stopAllBut(kept)
  }
  const { runs } = played
  if (plot !== null) writeFileSync(plot, policiesPlot(runs))
  console.log('\nProgram token latency in ms, means over seeds:\n')
  console.log(comparisonReport(runs, VLLM_COMPARISON, headings()))
  const decisions = decisionGoal(runs)
  if (decisions !== null) console.log(`\n${decisions}`)
  if (json !== null) process.stderr.write(`The figures are in ${json}\n`)
  const fault = faultOf(runs)
  if (fault !== null) throw new Error(fault)
}

async function startServers(setting: VllmSetting) {
  const servers = new Map<ServerName, VllmServer>()
  for (const name of servers_needed) {
    const server = await VllmServer.create(name, setting)
    stopLater(() => server.stop())
    await withProgress(`Starting vLLM (${name})`, () => server.start())
    servers.set(name, server)
  }
  return servers
}

/** As many seeds as fit until `until_s`, one at least. */
async function playWorkload(bench: VllmBench, until_s: number, played: Figures): Promise<void> {
  const { setting } = bench
  const { workload, programs } = setting
  await checkPolicies(bench, plan.schedulers)
  const capacity = await shown(
    `${workload}: measuring what the machine serves`,
    setting.capacity_programs,
    (onProgram) => measureCapacity(bench, onProgram),
  )
  played.workloads.push({ setting, capacity })
  let slowest_s = 0
  for (let turn = 0; turn < plan.seeds; turn++) {
    const seed = plan.first_seed + turn
    const begun_s = elapsedS()
    const needed_s = turn === 0 ? estimateS(seed, setting, capacity) : slowest_s
    if (turn > 0 && begun_s + needed_s > until_s) {
      process.stderr.write(
        `${workload}: ${turn} of ${plan.seeds} seeds; more do not fit --minutes ${plan.time_s / 60}\n`,
      )
      return
    }
    process.stderr.write(`${workload}, seed ${seed}: about ${Math.ceil(needed_s / 60)} minutes\n`)
    for (const scheduler of rotated(plan.schedulers, turn)) {
      const label = `${workload}: ${nameOf(scheduler)}, seed ${seed}`
      played.runs.push(
        await shown(label, programs, (onProgram) => runOnce(bench, capacity, scheduler, seed, onProgram)),
      )
      save(played)
    }
    slowest_s = Math.max(slowest_s, elapsedS() - begun_s)
  }
}

/** Other schedulers first with each seed. */
function rotated(schedulers: readonly SchedulerName[], turn: number): SchedulerName[] {
  const first = turn % schedulers.length
  return [...schedulers.slice(first), ...schedulers.slice(0, first)]
}

/** All schedulers on one seed. */
function estimateS(seed: number, setting: WorkloadSetting, capacity: VllmCapacity): number {
  const slower = setting.kv_tokens === null ? SLOWER_THAN_CAPACITY.roomy : SLOWER_THAN_CAPACITY.scarce
  return plan.schedulers.length * (workS(seed, setting, capacity) * slower + RUN_OVERHEAD_S)
}

function elapsedS(): number {
  return (performance.now() - started_ms) / 1000
}

function save({ workloads, runs }: Figures): void {
  if (plan.json === null) return
  const machine = `${availableParallelism()} x ${cpus()[0]?.model.trim() ?? 'unknown CPU'}`
  const gpu = device === 'gpu' ? { gpu: gpuFacts() } : {}
  const parameters = { first_seed: plan.first_seed, seats: size.seats, context_tokens: size.context_tokens }
  const about = { format: FIGURES_FORMAT, machine, ...gpu, date: new Date().toISOString(), parameters }
  const goals = goalsOf(runs, VLLM_COMPARISON)
  writeFileSync(plan.json, `${JSON.stringify({ ...about, workloads, runs, goals }, null, 2)}\n`)
}

/** Of each workload, its setting as the first seed drew it. */
function headings(): Partial<Record<WorkloadName, string>> {
  const heading = (setting: WorkloadSetting) =>
    settingText(drawShapes(plan.first_seed, setting.programs, setting), setting)
  return Object.fromEntries(plan.settings.map((setting) => [setting.workload, heading(setting)]))
}

async function shown<T>(label: string, programs: number, work: (onProgram: (ended: number) => void) => Promise<T>) {
  let ended = 0
  const onProgram = (count: number) => {
    ended = count
  }
  return await withProgress(
    label,
    () => work(onProgram),
    () => `${ended} of ${programs} programs`,
  )
}

/** Fails if all is being stopped: what comes later would not be. */
function stopLater(one: () => Promise<void>): void {
  stops.push(one)
  if (stopping !== null) throw new Error('ended by a signal')
}

async function stop(): Promise<void> {
  stopping ??= stopEverything()
  await stopping
}

async function stopEverything(): Promise<void> {
  await stopAllBut(0)
  rmSync(folder, { recursive: true, force: true })
}

/** The last first. What is being stopped stays known, so that a signal meanwhile waits for it too. */
async function stopAllBut(kept: number): Promise<void> {
  for (let one = stops[kept]; one !== undefined; one = stops[kept]) {
    const last = stops.at(-1) ?? one
    await last()
    if (stops.includes(last)) stops.splice(stops.indexOf(last), 1)
  }
}
