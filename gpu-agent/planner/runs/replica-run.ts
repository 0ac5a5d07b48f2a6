/**
 * One replica of a model answering its requests in simulated time (SamuLLM §4.1, the request scheduling simulator): first come, first served, as
 * gpu-agent/engine schedules with policy fcfs and without chunked prefill. replica-run.property.test.ts holds it to that engine. It exists beside the
 * engine because planning takes hundreds of such runs in a second: an event here takes many decode iterations at once, and costs the same however many
 * requests decode.
 *
 * - An iteration computes whole prompts if there are any, or one token of each request that decodes.
 * - Requests get seats and blocks of KV in order of their arrival. If no block is left for one that decodes, the last one of all gives its blocks up
 *   and computes them again later. If that is the one itself, it pauses. Unlike in the engine, a request that lost its blocks takes none back from
 *   requests that arrived later and decode by then: it waits until some are free.
 * - A request may name the next one (`next`), which becomes ready when it ends: the chunks of a document, fused into one node.
 */
import type { IterationCosts } from '../costs/iteration-costs.ts'
import { DecodeBatch } from './decode-batch.ts'
import { RequestQueue } from './request-queue.ts'
import { WorkTimeline } from './work-timeline.ts'

export interface ReplicaConfig {
  costs: IterationCosts
  seats: number
  /** Tokens of prompts in one iteration. A longer prompt is computed alone. */
  step_tokens: number
  block_tokens: number
  capacity_blocks: number
  /**
   * Prompts of an iteration are padded to the longest, as in the vLLM of the logs (max_paddings), by at most so many tokens together; padding counts in
   * `step_tokens` and in time. The first prompt that does not fit closes the iteration. Null: no padding, and later prompts that fit are computed too.
   */
  padding_tokens_max: number | null
  /** Told of each run of decode iterations: of how many requests, and how many iterations. */
  onDecodes?: (calls: number, iterations: number) => void
}

/** Parallel arrays, one entry a request, in the order in which those of equal ready time are served. */
export interface ReplicaRequests {
  /** Prompt, and what was generated before. */
  known_tokens: Int32Array
  left_tokens: Int32Array
  /** Not before this time; Infinity: not known yet. */
  ready_s: Float64Array
  /** -1: none. */
  next: Int32Array
}

export interface Unfinished {
  request: number
  known_tokens: number
  left_tokens: number
}

export class ReplicaRun {
  readonly #config: ReplicaConfig
  readonly #known: Int32Array
  readonly #left: Int32Array
  #next: Int32Array
  /** Infinity: not ended. */
  readonly finish_s: Float64Array
  #queue: RequestQueue
  /** Have blocks for their tokens, which are still to be computed. */
  #prompts: number[] = []
  #batch: DecodeBatch
  /** Decodes, or has paused; in the order of arrival, ended ones included. */
  #admitted: number[] = []
  #paused = -1
  #free_blocks: number
  #left_requests: number
  now_s: number
  readonly work: WorkTimeline

  constructor(config: ReplicaConfig, requests: ReplicaRequests, start_s: number) {
    this.#config = config
    this.#known = requests.known_tokens.slice()
    this.#left = requests.left_tokens.slice()
    this.#next = requests.next
    const count = this.#known.length
    this.finish_s = new Float64Array(count).fill(Number.POSITIVE_INFINITY)
    this.#queue = RequestQueue.of(requests.ready_s, requests.next)
    this.#batch = new DecodeBatch(count, config.seats, config.block_tokens)
    this.#free_blocks = config.capacity_blocks
    this.#left_requests = count
    this.now_s = start_s
    this.work = new WorkTimeline(start_s)
  }

  clone(): ReplicaRun {
    const ready_s = new Float64Array(0)
    const requests = { known_tokens: this.#known, left_tokens: this.#left, ready_s, next: new Int32Array(0) }
    const copy = new ReplicaRun(this.#config, requests, this.now_s)
    copy.finish_s.set(this.finish_s)
    copy.#next = this.#next
    copy.#queue = this.#queue.clone()
    copy.#prompts = [...this.#prompts]
    copy.#batch = this.#batch.clone()
    copy.#admitted = [...this.#admitted]
    copy.#paused = this.#paused
    copy.#free_blocks = this.#free_blocks
    copy.#left_requests = this.#left_requests
    return copy
  }

  /** Everything that happened was later by so much. Ready times of requests still to come stay: they are told by `setReady`. */
  shift(later_s: number): void {
    this.now_s += later_s
    for (let at = 0; at < this.finish_s.length; at += 1) this.finish_s[at] = (this.finish_s[at] as number) + later_s
  }

  get done(): boolean {
    return this.#left_requests === 0
  }

  /** Ready times of requests that have not arrived, changed because what they wait for is to end at another time. */
  setReady(ready_s: (request: number) => number): void {
    this.#queue.setReady(ready_s)
  }

  unfinished(): Unfinished[] {
    const list: Unfinished[] = []
    for (let request = 0; request < this.#known.length; request += 1) {
      if (this.finish_s[request] !== Number.POSITIVE_INFINITY) continue
      if (this.#batch.has(request)) {
        const { tokens, left } = this.#batch.progress(request)
        list.push({ request, known_tokens: tokens, left_tokens: left })
      } else
        list.push({
          request,
          known_tokens: this.#known[request] as number,
          left_tokens: this.#left[request] as number,
        })
    }
    return list
  }

  /** Runs until every request has ended, or none can go on, or the next iteration would end after `until_s`. */
  run(until_s = Number.POSITIVE_INFINITY): void {
    for (;;) {
      this.#queue.arriveUntil(this.now_s)
      this.#grow()
      this.#admit()
      if (this.#prompts.length > 0) {
        if (!this.#computePrompts(until_s)) return
      } else if (this.#batch.calls > 0) {
        if (!this.#decode(until_s)) return
      } else {
        const arrival_s = this.#queue.next_arrival_s
        if (arrival_s === Number.POSITIVE_INFINITY || arrival_s > until_s) return
        this.now_s = arrival_s
      }
    }
  }

  /** Blocks for what the requests that decode know, from those that came last if there are too few. */
  #grow(): void {
    const batch = this.#batch
    let paused = this.#paused
    while (batch.due_blocks > this.#free_blocks) {
      if (paused >= 0) {
        this.#evictPaused()
        paused = -1
        continue
      }
      const last = this.#lastAdmitted()
      if (batch.isDue(last) && batch.due_blocks - 1 <= this.#free_blocks) {
        this.#pause(last)
        break
      }
      this.#admitted.pop()
      const { tokens, left } = batch.progress(last)
      this.#free_blocks += batch.remove(last)
      this.#wait(last, tokens, left)
    }
    this.#free_blocks -= batch.due_blocks
    batch.takeDue()
    if (this.#paused >= 0 && this.#free_blocks > 0) this.#resume()
  }

  #lastAdmitted(): number {
    for (;;) {
      const last = this.#admitted.at(-1) as number
      if (this.#batch.has(last)) return last
      this.#admitted.pop()
    }
  }

  #wait(request: number, known_tokens: number, left_tokens: number): void {
    this.#known[request] = known_tokens
    this.#left[request] = left_tokens
    this.#queue.putBack(request)
  }

  /** It keeps its blocks, and lacks one. */
  #pause(request: number): void {
    const { tokens, left } = this.#batch.progress(request)
    this.#batch.remove(request)
    this.#known[request] = tokens
    this.#left[request] = left
    this.#paused = request
  }

  #resume(): void {
    const request = this.#paused
    this.#paused = -1
    this.#batch.add(request, this.#known[request] as number, this.#left[request] as number)
    this.#free_blocks -= this.#batch.due_blocks
    this.#batch.takeDue()
  }

  #evictPaused(): void {
    const request = this.#paused
    this.#paused = -1
    this.#admitted.splice(this.#admitted.lastIndexOf(request), 1)
    this.#free_blocks += this.#blocksOf((this.#known[request] as number) - 1)
    this.#queue.putBack(request)
  }

  #blocksOf(tokens: number): number {
    return Math.ceil(tokens / this.#config.block_tokens)
  }

  get #seated(): number {
    return this.#batch.calls + this.#prompts.length + (this.#paused < 0 ? 0 : 1)
  }

  /** A request that has paused loses its blocks to one that needs no more than those. */
  #admit(): void {
    while (this.#seated < this.#config.seats && !this.#queue.is_empty) {
      const request = this.#queue.first
      const blocks = this.#blocksOf(this.#known[request] as number)
      const paused_blocks = this.#paused < 0 ? 0 : this.#blocksOf((this.#known[this.#paused] as number) - 1)
      if (blocks > this.#free_blocks + paused_blocks) return
      this.#queue.takeFirst()
      if (blocks > this.#free_blocks) this.#evictPaused()
      this.#free_blocks -= blocks
      this.#queue.insertByArrival(this.#prompts, request)
    }
  }

  /** False: it would end after `until_s`. */
  #computePrompts(until_s: number): boolean {
    const { costs, padding_tokens_max } = this.#config
    const padded = padding_tokens_max !== null
    const computed: number[] = []
    const later: number[] = []
    let [tokens, longest] = [0, 0]
    for (const request of this.#prompts) {
      const known = this.#known[request] as number
      const closed = padded && later.length > 0
      if (
        closed ||
        (computed.length > 0 && !this.#fits(computed.length + 1, tokens + known, Math.max(longest, known)))
      ) {
        later.push(request)
        continue
      }
      computed.push(request)
      tokens += known
      longest = Math.max(longest, known)
    }
    const width = padded ? longest : tokens / computed.length
    const end_s = this.now_s + costs.prefillS(computed.length, width, tokens)
    if (end_s > until_s) return false
    this.#prompts = later
    this.#pass(end_s, costs.prefillFlops(computed.length, width))
    for (const request of computed) {
      this.#known[request] = (this.#known[request] as number) + 1
      this.#left[request] = (this.#left[request] as number) - 1
      if (this.#left[request] === 0) {
        this.#free_blocks += this.#blocksOf((this.#known[request] as number) - 1)
        this.#end(request)
        continue
      }
      this.#queue.insertByArrival(this.#admitted, request)
      this.#batch.add(request, this.#known[request] as number, this.#left[request] as number)
    }
    return true
  }

  /** So many prompts in one iteration. */
  #fits(prompts: number, tokens: number, longest: number): boolean {
    const { step_tokens, padding_tokens_max } = this.#config
    if (padding_tokens_max === null) return tokens <= step_tokens
    return longest * prompts <= step_tokens && longest * prompts - tokens <= padding_tokens_max
  }

  #decode(until_s: number): boolean {
    const { costs } = this.#config
    const batch = this.#batch
    const { calls, tokens } = batch
    const first_s = costs.decodeS(calls, batch.longest, tokens)
    const growth_s = (costs.decode_token_s[calls] as number) * calls + (costs.decode_longest_s[calls] as number)
    const endS = (steps: number) => this.now_s + steps * first_s + (growth_s * steps * (steps - 1)) / 2
    let steps = batch.stepsThatFit(batch.steps_left, this.#free_blocks)
    if (this.#queue.is_empty && this.#seated < this.#config.seats) {
      const arrival_s = this.#queue.next_arrival_s
      if (endS(steps) > arrival_s) steps = stepsWhile(steps, (some) => endS(some) < arrival_s) + 1
    }
    if (endS(steps) > until_s) steps = stepsWhile(steps, (some) => endS(some) <= until_s)
    if (steps === 0) return false
    this.#config.onDecodes?.(calls, steps)
    const flops = costs.decodeFlops(calls, tokens, steps)
    this.#free_blocks -= batch.advance(steps)
    this.#pass(endS(steps), flops)
    for (let request = batch.ended; request >= 0; request = batch.ended) {
      this.#free_blocks += batch.remove(request)
      this.#end(request)
    }
    return true
  }

  #pass(end_s: number, flops: number): void {
    this.#queue.arriveBefore(end_s)
    this.work.add(end_s, flops, end_s - this.now_s)
    this.now_s = end_s
  }

  #end(request: number): void {
    this.finish_s[request] = this.now_s
    this.#left_requests -= 1
    const next = this.#next[request] as number
    if (next < 0) return
    this.#queue.follow(next, this.now_s)
  }
}

/** The most steps, below `steps`, for which `holds`, which holds for fewer if it holds for more; 0: for none. */
function stepsWhile(steps: number, holds: (steps: number) => boolean): number {
  let [fits, exceeds] = [0, steps]
  while (exceeds - fits > 1) {
    const middle = (fits + exceeds) >> 1
    if (holds(middle)) fits = middle
    else exceeds = middle
  }
  return fits
}
