/**
 * The requests of one node: it reads the input in order and looks ahead of requests whose inputs are not there yet. Of those
 * that are ready, the first in order is given first. Of a chain, the next chunk is looked at when the one before has its output.
 */
import type { Graph, GraphNode } from '../../core/application/graph.ts'
import {
  bodyOf,
  type InputLine,
  needsOf,
  readInputLine,
  takesLine,
  unitsOf,
} from '../../core/application/line-requests.ts'
import { failedBySource, outputLine, readOutput } from '../../core/application/output-line.ts'
import type { Place } from '../../core/batch/batch-state.ts'
import { usageOf } from '../../core/batch/line-result.ts'
import { AHEAD_BYTES_MAX, type NextRequest, type RequestSource } from '../batch/line-run.ts'
import type { LineSource } from '../batch/line-source.ts'
import type { NodeOutputs, OutputReader } from './node-outputs.ts'

/** Requests that wait for their inputs. */
export const AHEAD_REQUESTS_MAX = 1024

/** A line that the node takes, and where it lies. */
interface TakenLine {
  line: InputLine
  bytes: number
  units: number
  /** Number of its first request. */
  first: number
  /** Offset of the line. */
  offset: number
  end: Place
}

interface Waiting {
  taken: TakenLine
  unit: number
  /** Outputs that are not there yet. They are read when the request is given, so that those which wait hold none. */
  missing: number
}

/** Outputs of a node, for this one. */
export interface OutputSource {
  outputs: NodeOutputs
  reader: OutputReader
}

interface Settings {
  node: GraphNode
  graph: Graph
  lines: LineSource
  start: Place
  /** By the id of the node; its own among them. */
  sources: ReadonlyMap<string, OutputSource>
  /** Of AHEAD_BYTES_MAX. */
  share: number
  /** False: no more calls may be started. */
  mayStart: () => boolean
}

export class NodeRequests implements RequestSource {
  readonly #settings: Settings
  readonly #is_chain: boolean
  /** Up to where lines are read, and requests of lines before it. */
  #read: Place
  #taken: TakenLine | null = null
  /** Of `taken`, the next one to look at. */
  #unit: number
  #is_all_read = false
  #waiting = 0
  #waiting_bytes = 0
  readonly #ready: Waiting[] = []
  /** A request has become ready. */
  onReady: () => void = () => undefined

  constructor(settings: Settings) {
    this.#settings = settings
    this.#is_chain = [...settings.node.slots.values()].some(({ kind }) => kind === 'previous')
    const { start } = settings
    this.#read = { ...start, requests: start.requests - start.unit, unit: 0 }
    this.#unit = start.unit
  }

  async next(isDone: (request: number) => boolean, only: number | null): Promise<NextRequest> {
    if (!this.#settings.mayStart()) return { status: 'later' }
    while (this.#ready.length === 0 && !this.#is_all_read && this.#hasRoom) {
      const is_deleted = (await this.#lookAhead(isDone)) === 'deleted'
      if (is_deleted) return { status: 'deleted' }
    }
    const [first] = this.#ready
    if (first === undefined) return { status: this.#is_all_read && this.#waiting === 0 ? 'end' : 'later' }
    if (only !== null && numberOf(first) !== only) return { status: 'later' }
    this.#ready.shift()
    this.#waiting -= 1
    this.#waiting_bytes -= first.taken.bytes
    if (this.#is_chain) this.#awaitNext(first)
    return { status: 'request', request: await this.#requestOf(first) }
  }

  get #hasRoom(): boolean {
    const { share } = this.#settings
    if (this.#waiting === 0) return true
    return this.#waiting < AHEAD_REQUESTS_MAX && this.#waiting_bytes < share * AHEAD_BYTES_MAX
  }

  /** Looks at one more request, or reads one more line. */
  async #lookAhead(isDone: (request: number) => boolean): Promise<'deleted' | undefined> {
    if (this.#taken === null) return this.#readLine()
    const taken = this.#taken
    const unit = this.#unit
    this.#unit += 1
    if (this.#unit >= taken.units) this.#leaveLine()
    if (isDone(taken.first + unit)) return
    if (this.#is_chain) this.#leaveLine()
    this.#enter(taken, unit)
  }

  #leaveLine(): void {
    this.#taken = null
    this.#unit = 0
  }

  async #readLine(): Promise<'deleted' | undefined> {
    const { lines, node } = this.#settings
    const next = await lines.next()
    if (next.status === 'deleted') return 'deleted'
    if (next.status === 'end') {
      this.#is_all_read = true
      return
    }
    const read = readInputLine(next.line)
    if (read.status === 'fault') throw new Error(`line ${next.line.number} was valid and is not`)
    const before = this.#read
    const is_taken = read.status === 'line' && takesLine(node, read.line)
    const units = is_taken ? unitsOf(node, read.line) : 0
    this.#read = { ...next.line.end, requests: before.requests + units, unit: 0 }
    if (!is_taken) return
    const bytes = next.line.bytes?.length ?? 0
    this.#taken = { line: read.line, bytes, units, first: before.requests, offset: before.offset, end: this.#read }
  }

  /** It waits until its inputs are there. */
  #enter(taken: TakenLine, unit: number): void {
    const waiting: Waiting = { taken, unit, missing: 1 }
    this.#waiting += 1
    this.#waiting_bytes += taken.bytes
    for (const { node, unit: needed } of needsOf(this.#settings.node, taken.line, unit)) {
      const { outputs } = this.#sourceOf(node)
      if (outputs.lookUp(taken.line.number, needed).status !== 'pending') continue
      waiting.missing += 1
      outputs.whenThere(taken.line.number, needed, () => this.#arrived(waiting))
    }
    this.#arrived(waiting)
  }

  #arrived(waiting: Waiting): void {
    waiting.missing -= 1
    if (waiting.missing > 0) return
    const number = numberOf(waiting)
    const behind = this.#ready.findIndex((one) => numberOf(one) > number)
    this.#ready.splice(behind === -1 ? this.#ready.length : behind, 0, waiting)
    this.onReady()
  }

  /** Of a chain: the chunk after one that is given out waits for its output. */
  #awaitNext({ taken, unit }: Waiting): void {
    if (unit + 1 >= taken.units) return
    const waiting: Waiting = { taken, unit: unit + 1, missing: 1 }
    this.#waiting += 1
    this.#waiting_bytes += taken.bytes
    const { outputs } = this.#sourceOf(this.#settings.node)
    outputs.whenThere(taken.line.number, unit, () => this.#arrived(waiting))
  }

  #sourceOf(node: GraphNode): OutputSource {
    return this.#settings.sources.get(node.id) as OutputSource
  }

  /** Texts by the names of the needs, or the source that failed. */
  async #inputsOf({ taken, unit }: Waiting): Promise<Map<string, string> | GraphNode> {
    const texts = new Map<string, string>()
    const { number } = taken.line
    for (const need of needsOf(this.#settings.node, taken.line, unit)) {
      const { outputs, reader } = this.#sourceOf(need.node)
      const found = outputs.lookUp(number, need.unit)
      const { output } = found.status === 'here' ? readOutput(found.bytes) : await reader.read(number, need.unit)
      if (output === null) return need.node
      texts.set(need.name, output)
    }
    return texts
  }

  async #requestOf(waiting: Waiting) {
    const { node } = this.#settings
    const { taken, unit } = waiting
    const inputs = await this.#inputsOf(waiting)
    const { line, units, first, offset, end, bytes } = taken
    const name = { node, line, unit }
    const is_last = unit + 1 === units
    const texts = inputs instanceof Map ? [...inputs.values()] : []
    const open_bytes = texts.reduce((sum, text) => sum + text.length, bytes)
    const within: Place = { offset, lines: line.number - 1, requests: first + unit + 1, unit: unit + 1 }
    return {
      ...{ request: first + unit, bytes: open_bytes, end: is_last ? end : within, expired: null },
      call:
        inputs instanceof Map
          ? { endpoint: node.endpoint, body: bodyOf(node, line, unit, inputs) }
          : failedBySource(name, inputs),
      answered: (answer: Parameters<typeof outputLine>[1]) => ({
        result: outputLine(name, answer),
        times: answer.http_status === 200 ? (usageOf(JSON.parse(answer.body))?.times ?? null) : null,
      }),
    }
  }
}

function numberOf({ taken, unit }: Waiting): number {
  return taken.first + unit
}
