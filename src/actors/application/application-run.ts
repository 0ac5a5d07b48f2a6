/**
 * Runs the nodes of an application whose lines are checked, all at once: each node is a run of its own (batch/line-run.ts), and
 * takes the outputs of others as they are stored.
 *
 * Keeps true: memory is bounded as that of one batch, since the nodes share its bounds.
 */
import { type ApplicationState, type NodeProgress, noteWork } from '../../core/application/application-state.ts'
import { type Graph, type GraphNode, inOrder } from '../../core/application/graph.ts'
import { type Answer, type LengthSketch, withAnswers } from '../../core/application/output-lengths.ts'
import { answerIn } from '../../core/application/output-line.ts'
import { addTokens, type BatchTokens } from '../../core/batch/batch-state.ts'
import { FILE_PART_BYTES } from '../../store/file-contents.ts'
import type { ServeLine } from '../batch/line-call.ts'
import { LineRun, type RunStop } from '../batch/line-run.ts'
import { LineSource } from '../batch/line-source.ts'
import type { StoredResult } from '../batch/result-packs.ts'
import { Slice } from '../batch/slice.ts'
import type { ApplicationStorage } from './application-storage.ts'
import { NodeOutputs, OutputReader } from './node-outputs.ts'
import { NodeRequests } from './node-requests.ts'

/** A node waits for outputs to be stored, so packs are made more often than for a batch. */
export const PACK_MS = 100
const PART_BYTES_MIN = 256 * 1024
/** Results closer than this belong to one stretch of work. */
const WORK_GAP_MS = 15_000

interface NodeRun {
  node: GraphNode
  run: LineRun
  /** All its results are in R2. */
  is_written: boolean
}

type ApplicationStop = RunStop | 'deleted' | { kind: 'limit_reached' }
type ApplicationSlice = { status: 'more' } | { status: 'written' } | { status: 'stopped'; stop: ApplicationStop }

export class ApplicationRun {
  readonly #state: ApplicationState
  readonly #graph: Graph
  #runs: NodeRun[] = []
  /** By node, of results that are stored. */
  readonly #tokens: BatchTokens[]
  readonly #lengths: LengthSketch[]
  #slice: Slice | null = null
  #stop: ApplicationStop | null = null

  private constructor(state: ApplicationState, graph: Graph) {
    this.#state = state
    this.#graph = graph
    this.#tokens = state.nodes.map(({ tokens }) => tokens)
    this.#lengths = state.nodes.map(({ lengths }) => lengths)
  }

  static async resume(
    state: ApplicationState,
    graph: Graph,
    storage: ApplicationStorage,
    bucket: R2Bucket,
    serve: ServeLine,
  ): Promise<ApplicationRun> {
    const run = new ApplicationRun(state, graph)
    await run.#open(storage, bucket, serve)
    return run
  }

  /** In the order of the graph. */
  get progress(): NodeProgress[] {
    return this.#graph.map((node, number) => {
      const counts = this.#runs.find((one) => one.node === node)?.run
      const { completed = 0, failed = 0 } = counts?.counts ?? {}
      const [tokens, lengths] = [this.#tokens[number] as BatchTokens, this.#lengths[number] as LengthSketch]
      return { completed, failed, running: counts?.open ?? 0, tokens, lengths }
    })
  }

  /** Ids of nodes that have no requests left. */
  get done(): string[] {
    return this.#runs.filter(({ is_written }) => is_written).map(({ node }) => node.id)
  }

  /** Engines of these nodes have become ready. */
  retryNow(nodes: readonly string[]): void {
    for (const { node, run } of this.#runs) if (nodes.includes(node.id)) run.retryNow()
  }

  /** Starts calls until `until_ms`, or as many as one event may. Open ones go on between slices. */
  async slice(until_ms: number): Promise<ApplicationSlice> {
    const slice = new Slice(until_ms)
    this.#slice = slice
    const open = this.#runs.filter(({ is_written }) => !is_written)
    const ended = await Promise.allSettled(open.map((one) => this.#sliceOf(one, slice)))
    for (const { run, node } of open) if (run.open > 0) this.#noteWork(this.#graph.indexOf(node))
    const failed = ended.find((one) => one.status === 'rejected')
    if (failed !== undefined) throw failed.reason
    if (this.#stop !== null) return { status: 'stopped', stop: this.#stop }
    if (this.#isLimited) {
      await Promise.all(open.map(({ run }) => run.drained()))
      return { status: 'stopped', stop: { kind: 'limit_reached' } }
    }
    return { status: this.#runs.every(({ is_written }) => is_written) ? 'written' : 'more' }
  }

  /** Takes effect in the slice that runs. Open calls are aborted. */
  stop(stop: RunStop): void {
    this.#stop ??= stop
    for (const { run } of this.#runs) run.stop(stop)
    this.#slice?.end()
  }

  /** After it was stopped: what has finished is stored. */
  async store(): Promise<void> {
    for (const { run, is_written } of this.#runs) {
      if (is_written) continue
      run.stop({ kind: 'cancelled' })
      await run.store()
    }
  }

  async #open(storage: ApplicationStorage, bucket: R2Bucket, serve: ServeLine): Promise<void> {
    const { tenant, key, input, nodes } = this.#state
    const outputs = nodes.map((state) => new NodeOutputs(state))
    const share = 1 / nodes.length
    for (const node of inOrder(this.#graph)) {
      const number = this.#graph.indexOf(node)
      const state = nodes[number] as ApplicationState['nodes'][number]
      const own = outputs[number] as NodeOutputs
      const sources = [node, ...node.sources].map((source) => {
        const at = this.#graph.indexOf(source)
        const of = nodes[at] as typeof state
        return [
          source.id,
          { outputs: outputs[at] as NodeOutputs, reader: new OutputReader(bucket, tenant, of) },
        ] as const
      })
      const source = new NodeRequests({
        ...{ node, graph: this.#graph, start: state.done, share, sources: new Map(sources) },
        lines: new LineSource(bucket, tenant, input.parts, state.done),
        mayStart: () => !this.#isLimited,
      })
      const packs = storage.packs(number)
      const run = await LineRun.resume({
        ...{ tenant, key, source, serve, packs, counts: state, pack_ms: PACK_MS, share },
        part_bytes: Math.max(PART_BYTES_MIN, share * FILE_PART_BYTES),
        files: {
          ...{ bucket, tenant },
          fileOf: () => state.output,
          save: async (first, results) => {
            state.lengths = withAnswers(state.lengths, answersOf(results))
            for (const [, { end }] of first) state.part_lines.push(end.unit === 0 ? end.lines : end.lines + 1)
            await storage.putDone(number, state, packs)
            own.written()
          },
        },
        onStored: (results) => {
          this.#noteResults(number, results)
          own.add(results)
        },
      })
      source.onReady = () => run.wake()
      this.#runs.push({ node, run, is_written: false })
    }
  }

  async #sliceOf(one: NodeRun, slice: Slice): Promise<void> {
    try {
      const found = await one.run.slice(slice)
      one.is_written = found.status === 'written'
      // Hosts hear of it at once.
      if (one.is_written) slice.end()
      if (found.status !== 'stopped') return
      this.#stop ??= found.stop
      slice.end()
    } catch (error) {
      // The other nodes' slices end too, before anything is begun again.
      slice.end()
      throw error
    }
  }

  #noteResults(number: number, results: readonly StoredResult[]): void {
    if (results.length === 0) return
    const before = this.#tokens[number] as BatchTokens
    this.#tokens[number] = results.reduce((sum, { tokens }) => addTokens(sum, tokens), before)
    this.#lengths[number] = withAnswers(this.#lengths[number] as LengthSketch, answersOf(results))
    this.#noteWork(number)
    if (this.#isLimited) this.#slice?.end()
  }

  #noteWork(number: number): void {
    const state = this.#state.nodes[number]
    if (state !== undefined) noteWork(state, Date.now(), WORK_GAP_MS)
  }

  get #isLimited(): boolean {
    const { tokens: tokens_max } = this.#state.limits
    if (tokens_max === null) return false
    return this.#tokens.reduce((sum, { input, output }) => sum + input + output, 0) >= tokens_max
  }
}

function answersOf(results: readonly StoredResult[]): Answer[] {
  return results.flatMap(({ bytes }) => answerIn(bytes) ?? [])
}
