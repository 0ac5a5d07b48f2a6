/**
 * Runs of one program whose stored rows do not all load. Such a run must not go on from a part of its state, and must not
 * stop its program either. So it is set aside: the rows that do not load become a dead letter (store/dead-letters.ts). If
 * the run itself loads, it ends and is archived with the rest of its rows. If not, it is forgotten here, and later records
 * of it become dead letters too.
 *
 * Keeps true: no row leaves the object's storage before D1 has it.
 */
import { z } from 'zod'
import type { Checkpoint, ProgramRows, ProvenRecord } from '../core/program/program-state.ts'
import { logFailure } from '../platform/log.ts'
import { type DeadLetter, deadRunId, keepDeadLetters } from '../store/dead-letters.ts'
import type { StoredRun } from './run-table.ts'

export const UNREADABLE = 'rows that do not load'

/** A run as storage has it. */
export interface LoadedRun {
  run: string
  /** Whether the archive has all of it. */
  archived: boolean
  /** The rows that load. Null: the run's own row does not, so there is nothing to add the others to. */
  rows: ProgramRows | null
  /** Null: `rows` are all of the run's. */
  checkpoint: Checkpoint | null
  /** Texts of rows that do not load. */
  unreadable: string[]
}

interface Surroundings {
  database(): D1Database
  /** Removes a run from storage, after D1 has its rows. */
  forget(run: string): Promise<void>
}

interface BrokenRun extends LoadedRun {
  isKept: boolean
}

export class BrokenRuns {
  readonly #around: Surroundings
  readonly #tenant: string
  readonly #program: string
  readonly #runs = new Map<string, BrokenRun>()

  constructor({ tenant, program }: { tenant: string; program: string }, around: Surroundings) {
    this.#tenant = tenant
    this.#program = program
    this.#around = around
  }

  /** Returns the runs that load, broken ones included, and which of them are broken. */
  restore(loaded: readonly LoadedRun[]): { runs: StoredRun[]; ended: Set<string> } {
    const runs: StoredRun[] = []
    const ended = new Set<string>()
    for (const { rows, ...one } of loaded) {
      const { run, archived, unreadable, checkpoint } = one
      if (unreadable.length === 0 && rows !== null) {
        runs.push({ rows, archived, checkpoint })
        continue
      }
      logFailure('run_broken', `${unreadable.length} rows do not load`, { tenant: this.#tenant, run })
      // What the archive has whole must not be written over with a part.
      const left = archived ? null : rows
      this.#runs.set(run, { ...one, rows: left, isKept: false })
      if (left === null) continue
      runs.push({ rows: left, archived: false, checkpoint: null })
      ended.add(run)
    }
    return { runs, ended }
  }

  get isEmpty(): boolean {
    return this.#runs.size === 0
  }

  /** Whether the run is here and nothing of it loads. */
  isLost(run: string): boolean {
    return this.#runs.get(run)?.rows === null
  }

  /** Before a run is archived: D1 has its rows that do not load. */
  async keep(run: string): Promise<void> {
    const broken = this.#runs.get(run)
    if (broken === undefined || broken.isKept) return
    const { unreadable } = broken
    const content = JSON.stringify(unreadable)
    await keepDeadLetters(this.#around.database(), [this.#letter({ run, kind: 'run', agent: null, content })])
    broken.isKept = true
  }

  archived(run: string): void {
    this.#runs.delete(run)
  }

  /** Sets runs aside of which nothing loads. What D1 does not take stays here until the next try. */
  async setAside(): Promise<string[]> {
    const gone: string[] = []
    for (const [run, { rows }] of this.#runs) {
      if (rows !== null) continue
      try {
        await this.keep(run)
        await this.#around.forget(run)
        this.#runs.delete(run)
        gone.push(run)
      } catch (error) {
        logFailure('run_not_set_aside', error, { tenant: this.#tenant, run })
      }
    }
    return gone
  }

  /** Records of a run that cannot be read. */
  async bury(records: readonly ProvenRecord[]): Promise<void> {
    if (records.length === 0) return
    logFailure('records_buried', `${records.length} records of runs that do not load`, { tenant: this.#tenant })
    const letters = records.map((record) =>
      this.#letter({ run: record.run, kind: 'record', agent: record.agent, content: JSON.stringify(record) }, record),
    )
    await keepDeadLetters(this.#around.database(), letters)
  }

  #letter(of: Pick<DeadLetter, 'run' | 'kind' | 'agent' | 'content'>, record?: ProvenRecord): DeadLetter {
    const place = { tenant: this.#tenant, program: this.#program }
    const id = record === undefined ? deadRunId({ ...place, run: of.run }) : `record:${record.lease}`
    return { id, at_ms: Date.now(), ...place, reason: UNREADABLE, ...of }
  }
}

/** Whether stored data is not as it was written, as opposed to storage that does not answer. */
export function isUnreadable(error: unknown): boolean {
  return error instanceof z.ZodError || error instanceof SyntaxError
}
