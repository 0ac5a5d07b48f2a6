/** A thread of its own for one size, so that its heap may be larger than a process has by default. */
import { parentPort, workerData } from 'node:worker_threads'
import { runScale, type ScalePoint } from './scale-run.ts'

parentPort?.postMessage(runScale(workerData as ScalePoint))
