/** A worker thread: plays the specs that it is given, one after another. */
import { parentPort } from 'node:worker_threads'
import { playRun } from './play.ts'
import type { RunOutcome } from './run-outcome.ts'
import type { RunSpec } from './run-spec.ts'

export type WorkerMessage = { kind: 'progress'; ended_share: number } | { kind: 'outcome'; outcome: RunOutcome }

/** Progress is reported each time that this share of the programs has ended. */
const TOLD_SHARE = 0.05

parentPort?.on('message', (spec: RunSpec) => {
  post({ kind: 'outcome', outcome: outcomeOf(spec) })
})

/** Throws with the spec in the message, so that the run can be played again by itself. */
function outcomeOf(spec: RunSpec): RunOutcome {
  let told = 0
  try {
    return playRun(spec, (ended_share) => {
      if (ended_share < told + TOLD_SHARE) return
      told = ended_share
      post({ kind: 'progress', ended_share })
    })
  } catch (error) {
    throw new Error(`This run failed: ${JSON.stringify(spec)}`, { cause: error })
  }
}

function post(message: WorkerMessage): void {
  parentPort?.postMessage(message)
}
