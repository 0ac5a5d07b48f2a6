/**
 * One tenant's running programs as the page shows them. Each change has a version, so every viewer gets what changed since the
 * version that it has, and the actors are asked once for all viewers. Pure: the caller passes rows, details and the time.
 */
import type { ProgramListed } from '../../actors/contracts.ts'
import type { OpenLeaseRef } from '../../core/program/program-state.ts'
import type { QueuePosition } from '../../protocol/index.ts'
import type { LiveDetail, LiveProgram, LiveTenant } from '../../protocol/live.ts'
import { firstToWait, positionJson } from '../program-json.ts'

/** Programs of a tenant that the page shows, those that started last. */
export const ROWS_MAX = 1_000
/** Programs that ended, remembered for viewers that are behind. One further behind gets all rows again. */
export const GONE_MAX = 2_000
/** Rates and shares are taken over this time. */
export const RATE_WINDOW_MS = 30_000

interface Kept {
  row: LiveProgram
  version: number
}

interface Sample {
  at_ms: number
  output_tokens: number
  service_s: number
}

export class LiveRows {
  version = 0
  running = 0
  readonly #rows = new Map<string, Kept>()
  /** Of programs with an open call. */
  readonly #open = new Map<string, readonly OpenLeaseRef[]>()
  #gone: { id: string; version: number }[] = []
  /** Versions before this one are not known any more. */
  #oldest = 0
  #samples: Sample[] = []
  #output_tokens = 0
  #service_s = 0

  /**
   * Programs whose row differs from what is shown, or that were never asked, the latest to call first. Behind them those whose
   * open call had no engine when they were asked.
   */
  changed(listed: readonly ProgramListed[]): string[] {
    const isChanged = (program: ProgramListed) => {
      const row = this.#rows.get(program.program)?.row
      return row === undefined || row.detail === null || !isSame(row, program)
    }
    const isUnplaced = ({ program, open_calls }: ProgramListed) => open_calls > 0 && !this.#open.has(program)
    return listed
      .filter((program) => isChanged(program) || isUnplaced(program))
      .sort((a, b) => Number(isChanged(b)) - Number(isChanged(a)) || b.last_arrival_ms - a.last_arrival_ms)
      .map(({ program }) => program)
  }

  /** Open leases as programs last told them. Those of programs whose call has ended are forgotten. */
  openLeases(listed: readonly ProgramListed[], asked: ReadonlyMap<string, readonly OpenLeaseRef[]>): OpenLeaseRef[] {
    for (const [program, leases] of asked) this.#open.set(program, leases)
    const open = new Set(listed.filter(({ open_calls }) => open_calls > 0).map(({ program }) => program))
    for (const [program, leases] of this.#open) {
      if (!open.has(program) || leases.length === 0) this.#open.delete(program)
    }
    return inTurn([...this.#open.values()])
  }

  /** Shows where open calls are in their engines' orders. A program of which nothing is known shows nothing. */
  place(positions: ReadonlyMap<string, QueuePosition>): void {
    // A viewer may have been told of the version before while the engines were asked.
    this.version += 1
    for (const [program, kept] of this.#rows) {
      const { detail } = kept.row
      if (detail === null) continue
      const leases = this.#open.get(program) ?? []
      const first = firstToWait(leases.flatMap(({ lease }) => positions.get(lease) ?? []))
      const position = first === null ? null : positionJson(first)
      if (JSON.stringify(position) === JSON.stringify(detail.position)) continue
      this.#rows.set(program, { row: { ...kept.row, detail: { ...detail, position } }, version: this.version })
    }
  }

  take(
    listed: readonly ProgramListed[],
    running: number,
    details: ReadonlyMap<string, LiveDetail>,
    now_ms: number,
  ): void {
    this.version += 1
    this.running = running
    const isFirst = this.#samples.length === 0
    const present = new Set<string>()
    for (const program of listed.slice(0, ROWS_MAX)) {
      present.add(program.program)
      this.#put(program, details.get(program.program), isFirst)
    }
    for (const id of this.#rows.keys()) if (!present.has(id)) this.#drop(id)
    this.#samples.push({ at_ms: now_ms, output_tokens: this.#output_tokens, service_s: this.#service_s })
    this.#samples = this.#samples.filter(({ at_ms }) => now_ms - at_ms <= RATE_WINDOW_MS)
  }

  #put(program: ProgramListed, detail: LiveDetail | undefined, isFirst: boolean): void {
    const known = this.#rows.get(program.program)
    const old = known?.row.run === program.run ? known.row : null
    const service_s = program.service_us / 1e6
    if (!isFirst) {
      this.#output_tokens += Math.max(0, program.output_tokens - (old?.output_tokens ?? 0))
      this.#service_s += Math.max(0, service_s - (old?.service_s ?? 0))
    }
    if (known !== undefined && detail === undefined && isSame(known.row, program)) return
    const { program: id, run, app, source, started_at_ms, last_arrival_ms, calls, open_calls, output_tokens } = program
    const row: LiveProgram = {
      ...{ id, run, app, class: program.class, source, started_at_ms, last_arrival_ms, calls, open_calls },
      ...{ service_s, output_tokens },
      // Until the engines were asked again.
      detail: detail === undefined ? (old?.detail ?? null) : { ...detail, position: old?.detail?.position ?? null },
    }
    this.#rows.set(id, { row, version: this.version })
  }

  #drop(id: string): void {
    this.#rows.delete(id)
    this.#gone.push({ id, version: this.version })
    if (this.#gone.length <= GONE_MAX) return
    const forgotten = this.#gone.splice(0, this.#gone.length - GONE_MAX)
    this.#oldest = forgotten.at(-1)?.version ?? this.#oldest
  }

  /** `version` null: the viewer has nothing. */
  since(version: number | null): Pick<LiveTenant, 'reset' | 'changed' | 'gone'> {
    const reset = version === null || version < this.#oldest || version > this.version
    const kept = [...this.#rows.values()]
    if (reset) return { reset, changed: kept.map(({ row }) => row), gone: [] }
    return {
      reset,
      changed: kept.filter((one) => one.version > version).map(({ row }) => row),
      gone: this.#gone.filter((one) => one.version > version && !this.#rows.has(one.id)).map(({ id }) => id),
    }
  }

  /** Output that was settled, per second of the window. */
  get output_tokens_per_s(): number {
    const [first, last] = [this.#samples[0], this.#samples.at(-1)]
    if (first === undefined || last === undefined || last.at_ms <= first.at_ms) return 0
    return ((last.output_tokens - first.output_tokens) * 1000) / (last.at_ms - first.at_ms)
  }

  /** Service that was settled in the window. */
  get recent_service_s(): number {
    return (this.#samples.at(-1)?.service_s ?? 0) - (this.#samples[0]?.service_s ?? 0)
  }
}

function isSame(row: LiveProgram, program: ProgramListed): boolean {
  return (
    row.run === program.run &&
    row.calls === program.calls &&
    row.open_calls === program.open_calls &&
    row.last_arrival_ms === program.last_arrival_ms &&
    row.output_tokens === program.output_tokens &&
    row.service_s === program.service_us / 1e6 &&
    row.class === program.class
  )
}

/** The first lease of each program, then the last one of each, then the others: only so many are asked for. */
function inTurn(programs: readonly (readonly OpenLeaseRef[])[]): OpenLeaseRef[] {
  const ends = (leases: readonly OpenLeaseRef[]) => [...leases.slice(0, 1), ...leases.slice(1).toReversed()]
  const ordered = programs.map(ends)
  const most = Math.max(0, ...ordered.map(({ length }) => length))
  return Array.from({ length: most }, (_, at) => ordered.flatMap((leases) => leases.slice(at, at + 1))).flat()
}
