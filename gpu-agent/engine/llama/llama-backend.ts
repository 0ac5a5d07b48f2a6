/**
 * The `Backend` over node-llama-cpp: one llama.cpp sequence per slot, one decode batch per step, and a step computes
 * exactly the plan's tokens.
 *
 * How a step becomes one batch: every work item's `controlledEvaluate` is queued in one tick, in plan order (ascending
 * slots), and the library sends out what is queued on `setImmediate`. The prioritisation strategy below is called once per
 * batch; it keeps that order, takes everything and refuses a batch that is not the whole step. llama.cpp itself splits a
 * batch at every break in ascending sequence ids, hence the order.
 *
 * Where KV stands: a sampled token is not in KV. It enters with the step whose range contains it, as the scheduler's
 * "computed tokens catch up" model wants. A slot's KV is changed only between steps: erasing beside an evaluation in
 * flight misbehaves. A step that fails leaves slots in unknown states, so the backend is then broken for good.
 *
 * Exactness: how a call's tokens are cut into steps and who shares them changes no bit of its KV, so a call that was
 * preempted, recomputed or resumed from its prefix gives the greedy output of a fresh run. Measured on x86: this holds with
 * flash attention and fewer than 64 tokens of one sequence at a time (from 64 on llama.cpp takes a tiled kernel that sums
 * in another order; without flash attention it never holds). It costs a third of prefill speed: 113 for 170 tokens/s.
 *
 * Sampling keeps no state: top_p (llama.cpp applies it before temperature), temperature, and a seed from seed and
 * position. No top-k: OpenAI has none.
 */
import type { ControlledEvaluateInputItem, LlamaContext, LlamaContextSequence, LlamaModel, Token } from 'node-llama-cpp'
import type {
  Backend,
  EngineCall,
  Sampling,
  SlotOperation,
  StepOutcome,
  StepPlan,
  StepWork,
  SwapCosts,
} from '../types.ts'
import { CALL_STEP_TOKENS_MAX, SLOTS_MAX, STEP_TOKENS_MAX, THREADS_DEFAULT } from './llama-limits.ts'
import { tokenSeed } from './sampling-seed.ts'
import { sampleSerially } from './serial-sampling.ts'

export interface LlamaBackendOptions {
  model: LlamaModel
  slots: number
  /** KV cells per slot, committed at creation (rounded up to a multiple of 256). A slot holds one token less. */
  context_tokens: number
  threads?: number
}

interface AdmittedCall {
  /** Prompt, then what was sampled. */
  readonly tokens: number[]
  readonly sampling: Sampling
}

export class LlamaBackend implements Backend {
  readonly slots: number
  readonly slot_tokens_max: number
  readonly copies_prefixes = false
  /** Decode batches sent to llama.cpp since start. One per step with work. */
  batches = 0

  readonly #context: LlamaContext
  readonly #model: LlamaModel
  readonly #sequences: readonly LlamaContextSequence[]
  readonly #calls = new Map<string, AdmittedCall>()
  readonly #gate: BatchGate
  #executing = false
  #broken: unknown = null

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
      threads: { ideal: options.threads ?? THREADS_DEFAULT, min: 1 },
      batching: { itemPrioritizationStrategy: (batch) => gate.pass(batch) },
    })
    sampleSerially(context)
    return new LlamaBackend(context, options, gate)
  }

  private constructor(context: LlamaContext, options: LlamaBackendOptions, gate: BatchGate) {
    this.#context = context
    this.#model = options.model
    this.#gate = gate
    this.slots = options.slots
    this.slot_tokens_max = context.contextSize - 1
    this.#sequences = Array.from({ length: options.slots }, () =>
      context.getSequence({
        // The library's default forgets the beginning in silence when a sequence is full.
        contextShift: {
          size: 1,
          strategy() {
            throw new Error('a slot overflowed: the scheduler placed more tokens than slot_tokens_max')
          },
        },
      }),
    )
  }

  swapCosts(): SwapCosts | null {
    return null
  }

  admit(call: EngineCall): void {
    if (this.#calls.has(call.lease)) throw new Error(`lease ${call.lease} is admitted already`)
    this.#calls.set(call.lease, { tokens: [...call.prompt], sampling: call.sampling })
  }

  release(lease: string): void {
    this.#calls.delete(lease)
  }

  async execute(plan: StepPlan): Promise<StepOutcome> {
    if (this.#executing) throw new Error('a step is in flight')
    if (this.#broken !== null) throw new Error('the backend broke in an earlier step', { cause: this.#broken })
    this.#executing = true
    try {
      for (const operation of plan.operations) await this.#apply(operation)
      return await this.#compute(plan.work)
    } catch (error) {
      this.#broken = error
      throw error
    } finally {
      this.#executing = false
    }
  }

  evaluatedTokens(): number {
    let tokens = 0
    for (const { tokenMeter } of this.#sequences) tokens += tokenMeter.usedInputTokens + tokenMeter.usedOutputTokens
    return tokens
  }

  /** Tokens whose KV a slot holds, for tests. */
  slotTokens(slot: number): readonly number[] {
    return this.#sequence(slot).contextTokens
  }

  async dispose(): Promise<void> {
    this.#broken ??= new Error('disposed')
    this.#calls.clear()
    await this.#context.dispose()
  }

  async #apply(operation: SlotOperation): Promise<void> {
    if (operation.op !== 'truncate') throw new Error(`this backend cannot ${operation.op}`)
    const sequence = this.#sequence(operation.slot)
    const held = sequence.nextTokenIndex
    if (operation.tokens > held) throw new Error(`slot ${operation.slot} holds ${held} tokens, not ${operation.tokens}`)
    if (operation.tokens === held) return
    if (operation.tokens === 0) await sequence.clearHistory()
    else await sequence.eraseContextTokenRanges([{ start: operation.tokens, end: held }])
  }

  async #compute(work: readonly StepWork[]): Promise<StepOutcome> {
    const sampled = new Map<string, { token: number; end: boolean }>()
    if (work.length === 0) return { sampled }
    const inputs = this.#inputs(work)
    this.#gate.expect(work.map(({ from, to }) => to - from))
    // `allSettled`: no evaluation may still be in flight when the step is over, also when one failed.
    const results = await Promise.allSettled(
      work.map(({ slot }, index) => this.#sequence(slot).controlledEvaluate(inputs[index] ?? [])),
    )
    this.batches += this.#gate.batches()
    for (const [index, item] of work.entries()) {
      const result = results[index]
      if (result?.status !== 'fulfilled') throw new Error('llama.cpp failed a step', { cause: result?.reason })
      if (!item.samples) continue
      const token = result.value.at(-1)?.next.token
      if (token === undefined || token === null) throw new Error(`nothing was sampled for lease ${item.lease}`)
      sampled.set(item.lease, { token, end: this.#model.isEogToken(token) })
      this.#call(item.lease).tokens.push(token)
    }
    return { sampled }
  }

  #inputs(work: readonly StepWork[]): ControlledEvaluateInputItem[][] {
    let total = 0
    let previous = -1
    const inputs = work.map((item) => {
      const call = this.#call(item.lease)
      const held = this.#sequence(item.slot).nextTokenIndex
      if (item.slot <= previous) throw new Error('work is not in ascending slot order')
      if (item.from !== held) throw new Error(`slot ${item.slot} holds ${held} tokens; the plan starts at ${item.from}`)
      if (item.to <= item.from || item.to > call.tokens.length || item.to > this.slot_tokens_max) {
        throw new Error(`range ${item.from}..${item.to} of ${call.tokens.length} tokens cannot be computed`)
      }
      if (item.to - item.from > CALL_STEP_TOKENS_MAX) {
        throw new Error(`a call computes at most ${CALL_STEP_TOKENS_MAX} tokens in a step`)
      }
      if (item.samples && item.to !== call.tokens.length) throw new Error('only the last token can sample')
      previous = item.slot
      total += item.to - item.from
      return input(call, item)
    })
    if (total > STEP_TOKENS_MAX) throw new Error(`a step of ${total} tokens exceeds ${STEP_TOKENS_MAX}`)
    return inputs
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

function input({ tokens, sampling }: AdmittedCall, { from, to, samples }: StepWork): ControlledEvaluateInputItem[] {
  const items: ControlledEvaluateInputItem[] = tokens.slice(from, to) as Token[]
  const last = tokens[to - 1] as Token
  if (!samples) return items
  const options = {
    temperature: sampling.temperature,
    topK: 0,
    topP: sampling.top_p,
    minP: 0,
    seed: tokenSeed(sampling.seed, to),
  }
  items[items.length - 1] = [last, { generateNext: { token: true, options } }]
  return items
}

interface LibraryBatch {
  items: readonly { readonly tokens: readonly Token[] }[]
  size: number
}

/** Stands where the library picks a batch: lets a whole step through in queueing order, and nothing else. */
class BatchGate {
  #expected: readonly number[] = []
  #batches = 0

  expect(lengths: readonly number[]): void {
    this.#expected = lengths
    this.#batches = 0
  }

  batches(): number {
    return this.#batches
  }

  pass<Batch extends LibraryBatch>({ items }: Batch): { item: Batch['items'][number]; processAmount: number }[] {
    this.#batches += 1
    const whole =
      this.#batches === 1 &&
      items.length === this.#expected.length &&
      items.every(({ tokens }, index) => tokens.length === this.#expected[index])
    if (!whole) throw new Error('a step was split over several decode batches')
    return items.map((item) => ({ item, processAmount: item.tokens.length }))
  }
}
