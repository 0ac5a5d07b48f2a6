/** Threads that play specs, one each at a time; who asks while all are busy waits in order. */
import { Worker } from 'node:worker_threads'
import type { RunOutcome } from './run-outcome.ts'
import type { RunSpec } from './run-spec.ts'
import type { WorkerMessage } from './run-worker.ts'

interface Asked {
  spec: RunSpec
  timeIsUp: (() => boolean) | undefined
  /** Null: time was up before it began. */
  resolve: (outcome: RunOutcome | null) => void
  reject: (error: Error) => void
}

export class RunPool {
  readonly #waiting: Asked[] = []
  readonly #idle: Worker[] = []
  readonly #all: Worker[] = []
  readonly #under_way = new Map<Worker, Asked & { share: number }>()

  constructor(threads: number) {
    for (let at = 0; at < threads; at++) this.#start()
  }

  /** Of the runs under way, how much is done: 1.5 may be two of them at three quarters. */
  get under_way(): number {
    return [...this.#under_way.values()].reduce((sum, { share }) => sum + share, 0)
  }

  play(spec: RunSpec, timeIsUp?: () => boolean): Promise<RunOutcome | null> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ spec, timeIsUp, resolve, reject })
      this.#next()
    })
  }

  async close(): Promise<void> {
    await Promise.all(this.#all.map((worker) => worker.terminate()))
  }

  #start(): void {
    const worker = new Worker(new URL('./run-worker.ts', import.meta.url))
    this.#all.push(worker)
    this.#idle.push(worker)
    worker.on('message', (message: WorkerMessage) => this.#heard(worker, message))
    worker.on('error', (error) => this.#under_way.get(worker)?.reject(error as Error))
  }

  #heard(worker: Worker, message: WorkerMessage): void {
    const asked = this.#under_way.get(worker)
    if (asked === undefined) return
    if (message.kind === 'progress') {
      asked.share = message.ended_share
      return
    }
    this.#under_way.delete(worker)
    this.#idle.push(worker)
    asked.resolve(message.outcome)
    this.#next()
  }

  #next(): void {
    while (this.#idle.length > 0 && this.#waiting.length > 0) {
      const asked = this.#waiting.shift() as Asked
      if (asked.timeIsUp?.()) {
        asked.resolve(null)
        continue
      }
      const worker = this.#idle.pop() as Worker
      this.#under_way.set(worker, { ...asked, share: 0 })
      worker.postMessage(asked.spec)
    }
  }
}
