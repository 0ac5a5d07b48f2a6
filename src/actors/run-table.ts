/**
 * The runs that one ProgramActor has in memory: the running one, if any, and ended ones that the archive does not have.
 *
 * Keeps true: at most one run is running, and every change is announced, so that a flush follows it. The actor handles
 * storage, alarms and other objects.
 */
import { ProgramEntry, type ProgramOpening, type Settlement } from '../core/program/program-entry.ts'
import type { Checkpoint, ProgramRows, ProvenRecord } from '../core/program/program-state.ts'

export interface Run {
  entry: ProgramEntry
  /** Grows with every change, so that a change during a wait is noticed after it. */
  revision: number
  /** The revision that the archive has. Null: none. */
  archived_revision: number | null
}

export interface StoredRun {
  /** With a checkpoint, those that it names. */
  rows: ProgramRows
  checkpoint: Checkpoint | null
  /** Whether the archive has all of it. */
  archived: boolean
}

export class RunTable {
  /** In order of opening. */
  readonly #runs = new Map<string, Run>()
  readonly #onChange: () => void

  /** Every stored call and lease of a run. */
  readonly #history: (run: string) => Pick<ProgramRows, 'calls' | 'leases'>

  constructor(onChange: () => void, history: (run: string) => Pick<ProgramRows, 'calls' | 'leases'>) {
    this.#onChange = onChange
    this.#history = history
  }

  /** Restores stored runs. None of it counts as changed. */
  restore(stored: readonly StoredRun[]): void {
    for (const { rows, archived, checkpoint } of stored.toSorted((a, b) => startOf(a) - startOf(b))) {
      const entry = checkpoint === null ? ProgramEntry.restore(rows) : ProgramEntry.resume(rows, checkpoint)
      this.#runs.set(entry.run, { entry, revision: 0, archived_revision: archived ? 0 : null })
    }
  }

  get size(): number {
    return this.#runs.size
  }

  get all(): Run[] {
    return [...this.#runs.values()]
  }

  get(run: string): Run | undefined {
    return this.#runs.get(run)
  }

  /** The run that has not ended, whether or not it has gone stale. */
  get running(): Run | null {
    return this.all.find(({ entry }) => entry.state === 'running') ?? null
  }

  get last(): Run | null {
    return this.all.at(-1) ?? null
  }

  open(opening: ProgramOpening): Run {
    const run: Run = { entry: ProgramEntry.open(opening), revision: 0, archived_revision: null }
    this.#runs.set(opening.run, run)
    this.changed(run)
    return run
  }

  forget(run: string): void {
    this.#runs.delete(run)
  }

  changed(run: Run): void {
    run.revision += 1
    this.#onChange()
  }

  /** The run's entry with its history, unless that is not needed. */
  entryOf(run: Run, isEnough: boolean): ProgramEntry {
    const { entry } = run
    if (!isEnough && !entry.isWhole) entry.complete(this.#history(entry.run))
    return entry
  }

  /** `absent`: no run of the record's name is here. */
  settle(record: ProvenRecord, now_ms: number): Settlement | 'absent' {
    const run = this.#runs.get(record.run)
    if (run === undefined) return 'absent'
    const settlement = this.entryOf(run, run.entry.canChange(record)).settle(record, now_ms)
    if (settlement === 'applied') this.changed(run)
    return settlement
  }

  /** Whether any run has the record of this lease, including records that came under another run. */
  hasSettled(lease: string): boolean {
    return this.all.some((run) => run.entry.hasSettled(lease) || this.entryOf(run, false).hasSettled(lease))
  }
}

function startOf({ rows }: StoredRun): number {
  return rows.program.started_at_ms
}
