/** A plan as a Gantt chart: a bar for each stage of each replica, on each of its GPUs. Stages in a row with the same plan are one bar. */
import { type ApplicationPlan, gpusOf } from '../../gpu-agent/planner/plan.ts'
import type { Gantt, GanttBar } from '../../src/core/plot/gantt.ts'

export function planGantt(
  { stages, total_s }: ApplicationPlan,
  { title, nodes, gpus }: { title: string; nodes: readonly string[]; gpus: number },
): Gantt {
  const bars: GanttBar[] = []
  const open = new Map<number, GanttBar>()
  for (const { start_s, end_s, nodes: running } of stages) {
    for (const { node, loading_s, gpus: replicas } of running) {
      for (const gpu of replicas.flat()) {
        const before = open.get(gpu)
        if (loading_s === null && before?.node === node && before.end_s === start_s) before.end_s = end_s
        else {
          const bar = { row: gpu, node, start_s, end_s, pale_s: loading_s ?? 0 }
          bars.push(bar)
          open.set(gpu, bar)
        }
      }
    }
  }
  const rows = Array.from({ length: gpus }, (_, gpu) => `GPU ${gpu}`)
  return { title, rows, nodes, bars, end_s: total_s }
}

/** GPU seconds of the plan's duration in which a GPU neither computes nor loads. */
export function idleGpuSeconds({ stages, total_s }: ApplicationPlan, gpus: number): number {
  let used_s = 0
  for (const { start_s, end_s, nodes } of stages)
    for (const { busy_gpu_s, loading_s, plan } of nodes)
      used_s += busy_gpu_s + gpusOf(plan) * Math.min(loading_s ?? 0, end_s - start_s)
  return gpus * total_s - used_s
}
