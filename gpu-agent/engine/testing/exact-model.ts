/**
 * The oracle of scheduler tests: a backend's model that keeps every slot's tokens and refuses a plan that a real backend
 * would compute wrongly. A plan may only extend what is in the slot, and what is in the slot must be the call's own
 * tokens, of its own cache salt, however they came there: computed, kept, copied or restored from an image. What is taken
 * out of a slot is gone from it, so a plan that counts on it fails.
 */
import { EmulatedModel, type EmulatedOptions } from '../emulated-backend.ts'
import { invariant } from '../invariant.ts'
import type { EngineCall, SlotOperation, StepOutcome, StepPlan } from '../types.ts'

interface Kv {
  tokens: number[]
  salt: string | null
}

export class ExactModel {
  readonly #slots: Kv[]
  readonly #images = new Map<number, Kv>()
  /** No image id is used twice. */
  #last_image = -1
  readonly #calls = new Map<string, { call: EngineCall; tokens: number[] }>()
  readonly #model: EmulatedModel
  readonly #slot_tokens_max: number
  /** Tokens that were already in the slot when a call's first work began. */
  readonly reused = new Map<string, number>()

  constructor(slots: number, slot_tokens_max: number, options: EmulatedOptions = {}) {
    this.#slots = Array.from({ length: slots }, () => ({ tokens: [], salt: null }))
    this.#slot_tokens_max = slot_tokens_max
    this.#model = new EmulatedModel(options)
  }

  admit(call: EngineCall): void {
    this.#calls.set(call.lease, { call, tokens: Array.from(call.prompt) })
    this.#model.admit(call)
  }

  release(lease: string): void {
    this.#calls.delete(lease)
    this.#model.release(lease)
  }

  step(plan: StepPlan): StepOutcome {
    for (const operation of plan.operations) this.#apply(operation)
    let slot_before = -1
    for (const work of plan.work) {
      invariant(work.slot > slot_before, 'work is ascending by slot, one call per slot')
      slot_before = work.slot
      this.#compute(work)
    }
    const outcome = this.#model.step(plan)
    for (const [lease, { token }] of outcome.sampled) this.#calls.get(lease)?.tokens.push(token)
    return outcome
  }

  /** Tokens in all images. */
  get image_tokens(): number {
    let image_tokens = 0
    for (const { tokens } of this.#images.values()) image_tokens += tokens.length
    return image_tokens
  }

  #apply(operation: SlotOperation): void {
    if (operation.op === 'drop_image') {
      invariant(this.#images.delete(operation.image), 'an image that is dropped exists')
      return
    }
    const state = this.#slot(operation.slot)
    const { tokens } = operation
    if (operation.op === 'truncate') {
      invariant(tokens < state.tokens.length, 'a truncation drops something')
      state.tokens.length = tokens
    } else if (operation.op === 'save') {
      invariant(operation.image > this.#last_image, 'an image has an id of its own')
      invariant(tokens > 0 && tokens === state.tokens.length, 'all of a slot is saved')
      this.#last_image = operation.image
      this.#images.set(operation.image, { ...state })
      state.tokens = []
    } else {
      const source = operation.op === 'copy' ? this.#slot(operation.from) : this.#images.get(operation.image)
      invariant(source !== undefined, 'an image that is restored exists')
      invariant(state.tokens.length === 0, 'KV is put into an empty slot')
      invariant(tokens > 0 && tokens <= source.tokens.length, 'what is copied is there')
      invariant(operation.op === 'copy' || tokens === source.tokens.length, 'all of an image is restored')
      state.tokens = source.tokens.slice(0, tokens)
      state.salt = source.salt
    }
    if (state.tokens.length === 0) state.salt = null
  }

  #compute({ lease, slot, from, to, samples }: StepPlan['work'][number]): void {
    const open = this.#calls.get(lease)
    invariant(open !== undefined, 'work belongs to an admitted call')
    const state = this.#slot(slot)
    invariant(from < to && to <= open.tokens.length, 'work computes tokens that exist')
    invariant(samples === (to === open.tokens.length), 'a call samples when and only when it has caught up')
    invariant(state.tokens.length === from, 'work begins where the slot ends')
    invariant(to <= this.#slot_tokens_max, 'a slot is large enough')
    if (from > 0) invariant(state.salt === open.call.cache_salt, 'KV is reused within one cache salt')
    for (let index = 0; index < from; index++) {
      invariant(state.tokens[index] === open.tokens[index], 'the slot holds a prefix of the call')
    }
    if (!this.reused.has(lease)) this.reused.set(lease, from)
    state.salt = open.call.cache_salt
    for (let index = from; index < to; index++) state.tokens.push(open.tokens[index] as number)
  }

  #slot(slot: number): { tokens: number[]; salt: string | null } {
    const state = this.#slots[slot]
    invariant(state !== undefined, 'a plan names slots that exist')
    return state
  }
}
