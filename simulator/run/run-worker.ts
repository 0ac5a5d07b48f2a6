/** A worker thread: simulates the points that it is given, one after another, and says how far it has come. */
import { parentPort, workerData } from 'node:worker_threads'
import { simulate } from '../simulation.ts'
import { frontConfigOf } from './front-config.ts'
import { readHistory } from './history.ts'
import type { RunPoint } from './play-plan.ts'
import type { RunPlan } from './run-plan.ts'
import { type RunResult, runResult } from './run-result.ts'
import { WorkloadPrograms } from './workload-programs.ts'

export interface WorkerTask {
  index: number
  point: RunPoint
}

export type WorkerMessage =
  | { kind: 'progress'; index: number; ended_share: number }
  | { kind: 'result'; index: number; result: RunResult }
  /** The workload is at fault. */
  | { kind: 'refused'; message: string }

/** A program in so many is reported. */
const REPORTED_SHARE = 1 / 50

const plan = workerData as RunPlan
const workload = new WorkloadPrograms(plan)
const history = readHistory(plan)

parentPort?.on('message', (task: WorkerTask) => {
  try {
    post(play(task))
  } catch (error) {
    if (!(error instanceof RangeError || (error as Error).name === 'TraceError')) throw error
    post({ kind: 'refused', message: (error as Error).message })
  }
})

function play({ index, point }: WorkerTask): WorkerMessage {
  const programs = workload.of(point.seed)
  const every = Math.max(1, Math.floor(programs.length * REPORTED_SHARE))
  const onProgram = (ended: number) => {
    if (ended % every === 0) post({ kind: 'progress', index, ended_share: ended / programs.length })
  }
  const config = { ...frontConfigOf(plan, point, programs, history), onProgram }
  const started_ms = performance.now()
  const simulated = simulate(config)
  const sim_wall_s = Math.round(performance.now() - started_ms) / 1000
  return { kind: 'result', index, result: runResult(point, simulated, sim_wall_s) }
}

function post(message: WorkerMessage): void {
  parentPort?.postMessage(message)
}
