/** One run: a scheduler serves one seed's programs through the whole control plane. And what the machine can serve, measured first. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Handling } from '../../../gpu-agent/engine/memory/handling/waste.ts'
import type { VllmServer } from '../../testbed/vllm-server.ts'
import { latenciesOf } from '../latencies.ts'
import {
  CAPACITY_SEED,
  capacityShapes,
  drawShapes,
  type Labels,
  labelOf,
  type ProgramShape,
  tokensOf,
  tokensOfCall,
  type WorkloadName,
  type WorkloadSetting,
  withArrivals,
} from '../workload.ts'
import { nominalWorkUs } from './nominal-work.ts'
import { playPrograms } from './play-programs.ts'
import { type PluginCounts, pluginStatus, switchTo } from './plugin-channel.ts'
import { nameOf, type SchedulerName, type ServerName } from './schedulers.ts'
import type { ControlPlane } from './serving.ts'

/** Between two agents: the pool forgets the one that left. */
const SETTLE_MS = 500

export interface VllmRun extends SchedulerName, ReturnType<typeof latenciesOf> {
  workload: WorkloadName
  /** Of the scheduler, as flags and tables name it. */
  name: string
  seed: number
  preemptions: number
  /** Time in the plug-in's code; null: there is no plug-in. */
  decision_ms_per_step: number | null
  steps: number | null
  /** Of preempted calls; null: there is no plug-in. */
  swapped_out_tokens: number | null
  swapped_in_tokens: number | null
  recomputed_tokens: number | null
  /** Contexts of programs whose tools ran, by what was decided; null: there is no plug-in. */
  handled: Readonly<Record<Handling, number>> | null
}

export interface VllmCapacity {
  programs: number
  busy_s: number
  work_us_per_s: number
}

/** What the runs of one workload share. */
export interface VllmBench {
  plane: ControlPlane
  servers: ReadonlyMap<ServerName, VllmServer>
  setting: WorkloadSetting
  labels: Labels
}

/**
 * How fast stock vLLM does the workload's own mix with every prefix cached: a closed loop of a few live programs, over the time
 * until the last of them has begun. After that seats stand empty, and long programs are bound by latency.
 */
export async function measureCapacity(bench: VllmBench, onProgram: (ended: number) => void): Promise<VllmCapacity> {
  const { plane, servers, setting } = bench
  const { workload, capacity_programs: programs, capacity_live_programs: live_max } = setting
  const shapes = withArrivals(capacityShapes(setting), CAPACITY_SEED, 0)
  const server = serverOf(servers, 'stock-fcfs')
  let work_us = 0
  let busy_s = 0
  const measured = { work_us: 0 }
  await plane.serving(server, { scheduler: 'stock-fcfs', policy: 'fcfs' }, () => {
    const started_ms = performance.now()
    return playPrograms(plane, shapes, {
      ...{ run: `capacity-${workload}`, app: appOf(bench), live_max, onProgram },
      onCall: ({ calls }, index) => {
        work_us += nominalWorkUs(tokensOfCall(calls, index))
      },
      onEntered: (entered) => {
        if (entered < programs) return
        busy_s = (performance.now() - started_ms) / 1000
        measured.work_us = work_us
      },
    })
  })
  return { programs, busy_s, work_us_per_s: measured.work_us / busy_s }
}

function appOf({ labels, setting }: VllmBench): (program: ProgramShape) => string {
  return ({ kind }) => labelOf(labels, setting.workload, kind)
}

/** How long the machine needs for this seed's programs at its capacity. */
export function workS(seed: number, setting: WorkloadSetting, { work_us_per_s }: VllmCapacity): number {
  return nominalWorkUs(tokensOf(drawShapes(seed, setting.programs, setting))) / work_us_per_s
}

export async function runOnce(
  bench: VllmBench,
  capacity: VllmCapacity,
  scheduler: SchedulerName,
  seed: number,
  onProgram: (ended: number) => void,
): Promise<VllmRun> {
  const { plane, servers, setting } = bench
  const { workload } = setting
  const server = serverOf(servers, scheduler.scheduler)
  const span_s = workS(seed, setting, capacity) / setting.load
  const programs = withArrivals(drawShapes(seed, setting.programs, setting), seed, span_s)
  const before = await countsOf(server, scheduler, plane.model)
  const name = nameOf(scheduler)
  const run = `${workload}-${name}-${seed}`
  const played = await plane.serving(server, scheduler, () =>
    playPrograms(plane, programs, { run, app: appOf(bench), onProgram }),
  )
  const after = await countsOf(server, null, plane.model)
  await sleep(SETTLE_MS)
  return { ...scheduler, workload, name, seed, ...latenciesOf(workload, played), ...growth(before, after) }
}

/** Fails if the plug-in does not know one of the policies: better before the first run than after some. */
export async function checkPolicies(
  { plane, servers }: VllmBench,
  schedulers: readonly SchedulerName[],
): Promise<void> {
  for (const { scheduler, policy } of schedulers) {
    const server = serverOf(servers, scheduler)
    if (server.socket !== null) await switchTo(server, policy, plane.model)
  }
}

interface Counts {
  preemptions: number
  plugin: PluginCounts | null
}

/** `next`: the scheduler whose turn it is; ours is told its policy. */
async function countsOf(server: VllmServer, next: SchedulerName | null, model: string): Promise<Counts> {
  if (server.socket === null) return { preemptions: await server.preemptions(), plugin: null }
  const plugin = next === null ? await pluginStatus(server) : await switchTo(server, next.policy, model)
  return { preemptions: await server.preemptions(), plugin }
}

type OfPlugin = 'steps' | 'swapped_out_tokens' | 'swapped_in_tokens' | 'recomputed_tokens'

type Growth = Pick<VllmRun, 'preemptions' | 'decision_ms_per_step' | 'handled' | OfPlugin>

function growth(before: Counts, after: Counts): Growth {
  const preemptions = after.preemptions - before.preemptions
  const grown = (name: OfPlugin | 'decision_us') =>
    before.plugin === null || after.plugin === null ? null : after.plugin[name] - before.plugin[name]
  const steps = grown('steps')
  const decision_us = grown('decision_us')
  return {
    ...{ preemptions, steps },
    decision_ms_per_step: decision_us === null || steps === null ? null : decision_us / 1000 / steps,
    swapped_out_tokens: grown('swapped_out_tokens'),
    swapped_in_tokens: grown('swapped_in_tokens'),
    recomputed_tokens: grown('recomputed_tokens'),
    handled: before.plugin === null || after.plugin === null ? null : handledSince(before.plugin, after.plugin),
  }
}

function handledSince({ handled: before }: PluginCounts, { handled: after }: PluginCounts): Record<Handling, number> {
  const grown = (name: Handling) => after[name] - before[name]
  return { preserve: grown('preserve'), discard: grown('discard'), swap: grown('swap') }
}

function serverOf(servers: ReadonlyMap<ServerName, VllmServer>, name: ServerName): VllmServer {
  const server = servers.get(name)
  if (server === undefined) throw new Error(`no vLLM was started for ${name}`)
  return server
}
