/**
 * The `Backend` over node-llama-cpp: one llama.cpp sequence per slot, one decode batch per step, and a step computes
 * exactly the plan's tokens.
 *
 * How a step becomes one batch: every work item's `controlledEvaluate` is queued in one tick, in plan order (ascending
 * slots), and the library sends out what is queued on `setImmediate`. The prioritisation strategy below is called once per
 * batch; it keeps that order, takes everything and refuses a batch that is not the whole step. llama.cpp itself splits a
 * batch at every break in ascending sequence ids, hence the order.
 *
 * Where KV is: a sampled token is not in KV. It enters with the step whose range contains it, as the scheduler's
 * "computed tokens catch up" model wants. A slot's KV is changed only between steps: erasing beside an evaluation in
 * flight misbehaves.
 *
 * Failures: a work item whose evaluation fails is computed again alone, from its first token. If that fails too, its call
 * fails and the slot's KV is lost (lost-kv.ts); the other calls of the step go on. The backend is broken for good only if a
 * plan contradicts it, if a slot cannot be cleared, or if BARREN_STEPS_MAX steps in a row computed nothing.
 *
 * Exactness: with at most EXACT_CHUNK_TOKENS_MAX tokens of one sequence in a step, how a call's tokens are cut into steps
 * and what else is in them changes no bit of its KV. A call that was preempted, recomputed or resumed from its prefix then
 * gives the greedy output of a fresh run. Measured on x86: this needs flash attention, and from 64 tokens on llama.cpp takes
 * a tiled kernel that sums in another order. That kernel is faster (`npm run bench:engine -- --model`), so the cap is the
 * scheduler's to set (`--prefill-chunk-tokens`).
 *
 * Swap: an image is all of one sequence's KV, to the bit, so a restored call goes on as if it had stayed. Cleared KV is
 * not overwritten (the library offers no way to); no sequence can read another's cells, and tests fill cleared slots with
 * other text.
 */
import type { LlamaContext, LlamaContextSequence, LlamaModel } from 'node-llama-cpp'
import { OutputIncomplete } from '../../output-incomplete.ts'
import type {
  Backend,
  EngineCall,
  SampledToken,
  SlotOperation,
  StepOutcome,
  StepPlan,
  StepWork,
  SwapCosts,
  TokenLogprobs,
} from '../../types.ts'
import { type AdmittedCall, type Advanced, advanceSequence } from './advance-sequence.ts'
import { BatchGate } from './batch-gate.ts'
import { EmbeddingContext } from './embedding-context.ts'
import { embeddingDimensions } from './embedding-shape.ts'
import type { KvImages } from './kv-images.ts'
import { grammarState } from './llama-grammar.ts'
import { EXACT_CHUNK_TOKENS_MAX, PREFILL_CHUNK_TOKENS, SLOTS_MAX, STEP_TOKENS_MAX } from './llama-limits.ts'
import { LostKv } from './lost-kv.ts'
import { measureBackend } from './measure-backend.ts'
import type { MeasuredCosts } from './measure-costs.ts'
import { evaluatedTokens, slotSequence, truncate } from './sequences.ts'
import { sampleSerially } from './serial-sampling.ts'
import { TokenAdjustments } from './token-adjustments.ts'
import { logprobsOf, TokenProbabilities } from './token-probabilities.ts'

export interface LlamaBackendOptions {
  model: LlamaModel
  slots: number
  /** KV cells per slot, committed at creation (rounded up to a multiple of 256). A slot holds one token less. */
  context_tokens: number
  threads: number
  /** Tokens of a prompt that a step usually computes: prefill is measured with it. Default: PREFILL_CHUNK_TOKENS. */
  prefill_chunk_tokens?: number
}

/** The scheduler counts its images from 0. */
const COPY_IMAGE = -1
/** Steps in a row in which every call failed: the context itself is damaged. */
export const BARREN_STEPS_MAX = 3

export class LlamaBackend implements Backend {
  readonly slots: number
  readonly slot_tokens_max: number
  readonly copies_prefixes: boolean
  readonly prefill_tokens_per_s: number
  /** As measured: a step in which a few calls decode. */
  readonly step_us: number
  /** Null: it makes no embeddings. */
  readonly embedding_dimensions: number | null
  /** Decode batches sent to llama.cpp since start. One per step with work. */
  batches = 0

  readonly #context: LlamaContext
  readonly #model: LlamaModel
  readonly #sequences: readonly LlamaContextSequence[]
  readonly #calls = new Map<string, AdmittedCall>()
  readonly #gate: BatchGate
  readonly #probabilities: TokenProbabilities
  /** Null: no file system has room for the KV of all slots. */
  readonly #images: KvImages | null
  readonly #embeddings: EmbeddingContext | null
  readonly #swap: SwapCosts | null
  /** Tokens that measuring has computed. */
  readonly #measured_tokens: number
  readonly #lost = new LostKv()
  #barren_steps = 0
  #executing = false
  #broken: unknown = null
  #sampling_error: unknown = null

  static async create(options: LlamaBackendOptions): Promise<LlamaBackend> {
    if (!Number.isInteger(options.slots) || options.slots < 1 || options.slots > SLOTS_MAX) {
      throw new RangeError(`slots must be between 1 and ${SLOTS_MAX}`)
    }
    const gate = new BatchGate()
    const context = await options.model.createContext({
      sequences: options.slots,
      contextSize: options.context_tokens,
      batchSize: STEP_TOKENS_MAX,
      flashAttention: true,
      threads: { ideal: options.threads, min: 1 },
      batching: { itemPrioritizationStrategy: (batch) => gate.pass(batch) },
    })
    try {
      const sequences = Array.from({ length: options.slots }, () => slotSequence(context))
      const { images, costs } = await measureBackend(
        sequences,
        gate,
        options.prefill_chunk_tokens ?? PREFILL_CHUNK_TOKENS,
      )
      return new LlamaBackend(context, options, sequences, gate, images, costs)
    } catch (error) {
      await context.dispose()
      throw error
    }
  }

  private constructor(
    context: LlamaContext,
    { model, threads }: LlamaBackendOptions,
    sequences: readonly LlamaContextSequence[],
    gate: BatchGate,
    images: KvImages | null,
    { swap, prefill_tokens_per_s, step_us }: MeasuredCosts,
  ) {
    this.#context = context
    this.#model = model
    this.#sequences = sequences
    this.#gate = gate
    this.#images = images
    this.#swap = images === null ? null : swap
    const dimensions = embeddingDimensions(model)
    const embeds = images !== null && dimensions !== null
    this.#embeddings = embeds ? new EmbeddingContext(model, images, context.contextSize, threads) : null
    this.embedding_dimensions = embeds ? dimensions : null
    this.slots = sequences.length
    this.slot_tokens_max = context.contextSize - 1
    this.copies_prefixes = images !== null
    this.prefill_tokens_per_s = prefill_tokens_per_s
    this.step_us = step_us
    this.#measured_tokens = evaluatedTokens(sequences)
    this.#probabilities = new TokenProbabilities(model)
    sampleSerially(
      context,
      (sample, index, token) => this.#probabilities.read(sample, index, token),
      (error) => {
        this.#sampling_error = error
      },
    )
  }

  swapCosts(): SwapCosts | null {
    return this.#swap
  }

  admit(call: EngineCall): void {
    if (this.#calls.has(call.lease)) throw new Error(`lease ${call.lease} is admitted already`)
    const { lease, prompt, sampling, resumed_tokens = 0 } = call
    const tokens = Array.from(prompt)
    const prompt_tokens = tokens.length - resumed_tokens
    const adjustments = new TokenAdjustments(this.#model, sampling, prompt_tokens)
    const own = { tokens, prompt_tokens, prompt_logprobs: new Map(), embeds: call.embeds === true }
    const admitted = { ...own, sampling, adjustments, grammar: null, refused: null }
    try {
      const { grammar: asked } = sampling
      const grammar = asked === undefined ? null : grammarState(this.#model, asked, tokens.slice(prompt_tokens))
      this.#calls.set(lease, { ...admitted, grammar })
    } catch (error) {
      this.#calls.set(lease, { ...admitted, refused: error })
    }
  }

  release(lease: string): void {
    this.#calls.delete(lease)
  }

  async execute(plan: StepPlan): Promise<StepOutcome> {
    if (this.#executing) throw new Error('a step is in flight')
    if (this.#broken !== null) throw new Error('the backend broke in an earlier step', { cause: this.#broken })
    this.#executing = true
    try {
      const moved_us = await this.#applyAll(plan.operations)
      const outcome = await this.#compute(plan.work)
      return moved_us.size === 0 ? outcome : { ...outcome, moved_us }
    } catch (error) {
      this.#broken = error
      throw error
    } finally {
      this.#executing = false
    }
  }

  evaluatedTokens(): number {
    return evaluatedTokens(this.#sequences) - this.#measured_tokens
  }

  /** Tokens whose KV a slot holds, for tests. */
  slotTokens(slot: number): readonly number[] {
    return this.#sequence(slot).contextTokens
  }

  async dispose(): Promise<void> {
    this.#broken ??= new Error('disposed')
    this.#calls.clear()
    await this.#embeddings?.dispose()
    await this.#context.dispose()
    this.#probabilities.dispose()
    await this.#images?.dispose()
  }

  /** Returns how long each image took that was saved or restored. */
  async #applyAll(operations: readonly SlotOperation[]): Promise<Map<number, number>> {
    const moved_us = new Map<number, number>()
    for (const operation of operations) {
      const started_us = clockUs()
      await this.#apply(operation)
      if (operation.op !== 'save' && operation.op !== 'restore') continue
      const before_us = moved_us.get(operation.image) ?? 0
      moved_us.set(operation.image, before_us + clockUs() - started_us)
    }
    return moved_us
  }

  async #apply(operation: SlotOperation): Promise<void> {
    if (this.#lost.follow(operation)) return
    switch (operation.op) {
      case 'truncate':
        return truncate(this.#sequence(operation.slot), operation.tokens)
      case 'save': {
        const sequence = this.#sequence(operation.slot)
        const held = sequence.nextTokenIndex
        if (held !== operation.tokens) throw new Error(`slot holds ${held} tokens, not ${operation.tokens}`)
        const saved = await settled(this.#place().save(sequence, operation.image))
        if (!saved) this.#lost.loseImage(operation.image)
        return truncate(sequence, 0)
      }
      case 'restore': {
        const { slot, image, tokens } = operation
        if (await settled(this.#place().restore(this.#empty(slot), image, tokens))) return
        return this.#lose(slot)
      }
      case 'drop_image':
        return this.#place().drop(operation.image)
      case 'copy': {
        const { from, slot, tokens } = operation
        const [source, target] = [this.#sequence(from), this.#empty(slot)]
        if (tokens > source.nextTokenIndex) throw new Error(`slot ${from} has no ${tokens} tokens to copy`)
        if (await settled(this.#copy(source, target, tokens))) return
        return this.#lose(slot)
      }
    }
  }

  async #copy(from: LlamaContextSequence, to: LlamaContextSequence, tokens: number): Promise<void> {
    const held = from.nextTokenIndex
    const images = this.#place()
    await images.save(from, COPY_IMAGE)
    try {
      await images.restore(to, COPY_IMAGE, held)
    } finally {
      await images.drop(COPY_IMAGE)
    }
    await truncate(to, tokens)
  }

  async #lose(slot: number): Promise<void> {
    await this.#sequence(slot).clearHistory()
    this.#lost.lose(slot)
  }

  #place(): KvImages {
    if (this.#images === null) throw new Error('there is no place for images')
    return this.#images
  }

  #empty(slot: number): LlamaContextSequence {
    const sequence = this.#sequence(slot)
    if (sequence.nextTokenIndex !== 0) throw new Error(`slot ${slot} is not empty`)
    return sequence
  }

  async #compute(work: readonly StepWork[]): Promise<StepOutcome> {
    const sampled = new Map<string, SampledToken>()
    const failed = new Map<string, unknown>()
    if (work.length === 0) return { sampled }
    this.#check(work)
    const [whole, alone] = partition(work, (item) => this.#isWhole(item))
    const results = await this.#advance(whole)
    for (const [index, item] of whole.entries()) {
      const result = results[index]
      if (result?.status === 'fulfilled') this.#take(item, result.value, sampled, failed)
      else alone.push(item)
    }
    for (const item of alone) await this.#advanceAlone(item, sampled, failed)
    const tried = work.filter(({ lease }) => this.#call(lease).refused === null)
    if (tried.length > 0)
      this.#barren_steps = tried.every(({ lease }) => isBarren(failed.get(lease))) ? this.#barren_steps + 1 : 0
    if (this.#barren_steps >= BARREN_STEPS_MAX) {
      const [cause] = failed.values()
      throw new Error(`llama.cpp failed all calls of ${BARREN_STEPS_MAX} steps in a row`, { cause })
    }
    await this.#embed(work, sampled, failed)
    return failed.size === 0 ? { sampled } : { sampled, failed }
  }

  /** Of the calls whose prompt is in KV with this step. One that fails fails alone. */
  async #embed(
    work: readonly StepWork[],
    sampled: Map<string, SampledToken>,
    failed: Map<string, unknown>,
  ): Promise<void> {
    for (const { lease, slot, samples } of work) {
      if (!samples || !this.#call(lease).embeds || failed.has(lease)) continue
      const ending = { token: this.#model.tokens.eos ?? 0, end: true }
      sampled.set(lease, ending)
      try {
        if (this.#embeddings === null) throw new Error('there is no place for embeddings')
        sampled.set(lease, { ...ending, embedding: await this.#embeddings.embed(this.#sequence(slot)) })
      } catch (error) {
        failed.set(lease, error)
      }
    }
  }

  /** Its KV up to where it starts is there, and it can be computed. */
  #isWhole({ lease, slot }: StepWork): boolean {
    return !this.#lost.has(slot) && this.#call(lease).refused === null
  }

  /** One batch. Resolves when nothing is in flight any more, also when some failed. */
  async #advance(work: readonly StepWork[]): Promise<PromiseSettledResult<Advanced>[]> {
    if (work.length === 0) return []
    this.#gate.expect(work.map(({ slot, from, to }) => ({ slot, tokens: to - from })))
    const results = await Promise.allSettled(
      work.map((item) => advanceSequence(this.#sequence(item.slot), this.#call(item.lease), item)),
    )
    this.batches += this.#gate.batches()
    return results
  }

  /** Computes the item from its call's first token, in batches of its own. What fails again fails its call. */
  async #advanceAlone(item: StepWork, sampled: Map<string, SampledToken>, failed: Map<string, unknown>): Promise<void> {
    const { lease, slot, to, samples } = item
    try {
      const { refused } = this.#call(lease)
      if (refused !== null) throw refused
      await this.#sequence(slot).clearHistory()
      for (let from = 0; from < to; from += EXACT_CHUNK_TOKENS_MAX) {
        const end = Math.min(to, from + EXACT_CHUNK_TOKENS_MAX)
        const part = { ...item, from, to: end, samples: samples && end === to }
        const [result] = await this.#advance([part])
        if (result?.status !== 'fulfilled') throw result?.reason
        if (end === to) this.#take(item, result.value, sampled, failed)
      }
      this.#lost.regained(slot)
    } catch (error) {
      await this.#lose(slot)
      failed.set(lease, error)
      // The scheduler wants a token of each call that samples; it drops that of a call that ends.
      if (samples) sampled.set(lease, { token: this.#model.tokens.eos ?? 0, end: true })
    }
  }

  #take(
    { lease, samples }: StepWork,
    advanced: Advanced,
    sampled: Map<string, SampledToken>,
    failed: Map<string, unknown>,
  ): void {
    const { sampling, tokens, prompt_logprobs, embeds } = this.#call(lease)
    for (const { position, probabilities } of advanced.prompt) {
      prompt_logprobs.set(position, logprobsOf(tokens[position] ?? 0, probabilities, sampling.prompt_logprobs ?? 0))
    }
    if (samples && !embeds) sampled.set(lease, this.#sampled(lease, advanced, failed))
  }

  #sampled(lease: string, { token, probabilities }: Advanced, failed: Map<string, unknown>): SampledToken {
    const call = this.#call(lease)
    if (token !== null) {
      const first = call.tokens.length === call.prompt_tokens
      call.tokens.push(token)
      const result: SampledToken = { token, end: this.#model.isEogToken(token) }
      if (probabilities !== undefined) result.logprobs = logprobsOf(token, probabilities, call.sampling.logprobs ?? 0)
      if (first && call.sampling.prompt_logprobs !== undefined) result.prompt_logprobs = promptLogprobs(call)
      return result
    }
    if (call.grammar === null) {
      throw new Error(`nothing was sampled for lease ${lease}`, { cause: this.#sampling_error })
    }
    failed.set(lease, new OutputIncomplete(this.#sampling_error))
    return { token: this.#model.tokens.eos ?? 0, end: true }
  }

  #check(work: readonly StepWork[]): void {
    let total = 0
    let previous = -1
    for (const item of work) {
      const call = this.#call(item.lease)
      const held = this.#sequence(item.slot).nextTokenIndex
      if (item.slot <= previous) throw new Error('work is not in ascending slot order')
      if (item.from !== held && !this.#lost.has(item.slot))
        throw new Error(`slot ${item.slot} holds ${held} tokens; the plan starts at ${item.from}`)
      if (item.to <= item.from || item.to > call.tokens.length || item.to > this.slot_tokens_max) {
        throw new Error(`range ${item.from}..${item.to} of ${call.tokens.length} tokens cannot be computed`)
      }
      if (item.samples && item.to !== call.tokens.length) throw new Error('only the last token can sample')
      previous = item.slot
      total += item.to - item.from
    }
    if (total > STEP_TOKENS_MAX) throw new Error(`a step of ${total} tokens exceeds ${STEP_TOKENS_MAX}`)
  }

  #call(lease: string): AdmittedCall {
    const call = this.#calls.get(lease)
    if (call === undefined) throw new Error(`lease ${lease} was not admitted`)
    return call
  }

  #sequence(slot: number): LlamaContextSequence {
    const sequence = this.#sequences[slot]
    if (sequence === undefined) throw new Error(`there is no slot ${slot}`)
    return sequence
  }
}

function clockUs(): number {
  return performance.now() * 1000
}

/** False: it failed. */
async function settled(work: Promise<void>): Promise<boolean> {
  try {
    await work
    return true
  } catch {
    // What failed to move is computed again when it is needed (lost-kv.ts).
    return false
  }
}

function promptLogprobs({ prompt_tokens, prompt_logprobs }: AdmittedCall): TokenLogprobs[] {
  return Array.from({ length: prompt_tokens - 1 }, (_, index) => {
    const found = prompt_logprobs.get(index + 1)
    if (found === undefined) throw new Error('a prompt whose probabilities are asked for was not computed whole')
    return found
  })
}

/** Whether an item came to nothing for a reason that may be the context's. */
function isBarren(error: unknown): boolean {
  return error !== undefined && !(error instanceof OutputIncomplete)
}

function partition<T>(items: readonly T[], isFirst: (item: T) => boolean): [T[], T[]] {
  return [items.filter(isFirst), items.filter((item) => !isFirst(item))]
}
