/**
 * Where the outputs of a node are found by the nodes that take them: in memory until a part in R2 has them, and in R2 from then
 * on. An output is handed on once it is stored, so that no result exists whose inputs a crash could change.
 */
import type { NodeState } from '../../core/application/application-state.ts'
import { readOutput, type StoredOutput } from '../../core/application/output-line.ts'
import { RESULT_BYTES_MAX } from '../../core/batch/line-result.ts'
import { LineSource } from '../batch/line-source.ts'
import type { StoredResult } from '../batch/result-packs.ts'

type Lookup = { status: 'here'; bytes: Uint8Array } | { status: 'written' } | { status: 'pending' }

export class NodeOutputs {
  readonly #state: NodeState
  /** In no part yet. */
  readonly #recent = new Map<string, Uint8Array>()
  readonly #asked = new Map<string, (() => void)[]>()

  constructor(state: NodeState) {
    this.#state = state
  }

  /** They are stored. */
  add(results: readonly StoredResult[]): void {
    for (const { bytes } of results) {
      const output = readOutput(bytes)
      const key = keyOf(output.line, output.unit)
      if (!this.#isWritten(output.line, output.unit)) this.#recent.set(key, bytes)
      const asked = this.#asked.get(key) ?? []
      this.#asked.delete(key)
      for (const answer of asked) answer()
    }
  }

  /** A part has more of them. */
  written(): void {
    for (const key of this.#recent.keys()) {
      const [line = 0, unit = 0] = key.split('/').map(Number)
      if (this.#isWritten(line, unit)) this.#recent.delete(key)
    }
  }

  lookUp(line: number, unit: number): Lookup {
    const bytes = this.#recent.get(keyOf(line, unit))
    if (bytes !== undefined) return { status: 'here', bytes }
    return { status: this.#isWritten(line, unit) ? 'written' : 'pending' }
  }

  /** Of one that is pending. */
  whenThere(line: number, unit: number, answer: () => void): void {
    const key = keyOf(line, unit)
    this.#asked.set(key, [...(this.#asked.get(key) ?? []), answer])
  }

  #isWritten(line: number, unit: number): boolean {
    const { done } = this.#state
    return line <= done.lines || (line === done.lines + 1 && unit < done.unit)
  }
}

/** Reads what is written, for one reader that asks in the order of the input, or nearly so. */
export class OutputReader {
  readonly #bucket: R2Bucket
  readonly #tenant: string
  readonly #state: NodeState
  #source: LineSource | null = null
  #last: StoredOutput | null = null

  constructor(bucket: R2Bucket, tenant: string, state: NodeState) {
    this.#bucket = bucket
    this.#tenant = tenant
    this.#state = state
  }

  async read(line: number, unit: number): Promise<StoredOutput> {
    const before = this.#last
    if (before !== null && before.line === line && before.unit === unit) return before
    const is_behind = before !== null && (before.line > line || (before.line === line && before.unit > unit))
    if (this.#source === null || is_behind) this.#source = this.#from(line)
    for (;;) {
      const next = await this.#source.next()
      const bytes = next.status === 'line' ? next.line.bytes : null
      if (bytes === null) {
        this.#source = null
        throw new Error(`the output ${this.#state.output.file} lacks line ${line}, unit ${unit}`)
      }
      this.#last = readOutput(bytes)
      if (this.#last.line === line && this.#last.unit === unit) return this.#last
    }
  }

  /** From the last part that begins before the line. */
  #from(line: number): LineSource {
    const { output, part_lines } = this.#state
    const part = Math.max(
      0,
      part_lines.findLastIndex((first) => first < line),
    )
    const offset = output.parts.slice(0, part).reduce((sum, { bytes }) => sum + bytes, 0)
    return new LineSource(this.#bucket, this.#tenant, output.parts, { offset, lines: 0 }, RESULT_BYTES_MAX)
  }
}

function keyOf(line: number, unit: number): string {
  return `${line}/${unit}`
}
