/** Runs every point of a plan, on as many threads as there are cores, and gives the results in the plan's order. */
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import { pointsOf, type RunPoint } from './play-plan.ts'
import type { RunPlan } from './run-plan.ts'
import type { RunResult } from './run-result.ts'
import type { WorkerMessage, WorkerTask } from './run-worker.ts'

/** The plan cannot be played. The user sees the message without a stack. */
export class Refused extends Error {
  override readonly name = 'Refused'
}

export interface RunOptions {
  /** Default: one for each core, and no more than there are points. */
  threads?: number
  /** Points done, counting each under way by its share of ended programs. */
  onProgress?: (done: number, of: number) => void
}

export function runAll(plan: RunPlan, options: RunOptions = {}): Promise<RunResult[]> {
  return runPoints(plan, pointsOf(plan), options)
}

/** Some points of a plan, in their order. */
export async function runPoints(
  plan: RunPlan,
  points: readonly RunPoint[],
  options: RunOptions = {},
): Promise<RunResult[]> {
  const tasks: WorkerTask[] = points.map((point, index) => ({ index, point }))
  const results: RunResult[] = []
  const shares = new Float64Array(points.length)
  const { onProgress } = options
  const progressed = (index: number, share: number) => {
    shares[index] = share
    onProgress?.(
      shares.reduce((sum, one) => sum + one, 0),
      points.length,
    )
  }
  const threads = Math.min(points.length, options.threads ?? availableParallelism())
  const workers = Array.from({ length: threads }, () => newWorker(plan))
  try {
    await Promise.all(workers.map((worker) => serve(worker, tasks, results, progressed)))
  } finally {
    await Promise.all(workers.map((worker) => worker.terminate()))
  }
  return results
}

function newWorker(plan: RunPlan): Worker {
  return new Worker(new URL('./run-worker.ts', import.meta.url), { workerData: plan })
}

/** Gives the worker one task after another until there are none. */
function serve(
  worker: Worker,
  tasks: WorkerTask[],
  results: RunResult[],
  progressed: (index: number, share: number) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const next = () => {
      const task = tasks.shift()
      if (task === undefined) resolve()
      else worker.postMessage(task)
    }
    worker.on('error', reject)
    worker.on('exit', () => reject(new Error('a simulation thread stopped')))
    worker.on('message', (message: WorkerMessage) => {
      if (message.kind === 'refused') return reject(new Refused(message.message))
      if (message.kind === 'progress') return progressed(message.index, message.ended_share)
      results[message.index] = message.result
      progressed(message.index, 1)
      next()
    })
    next()
  })
}
