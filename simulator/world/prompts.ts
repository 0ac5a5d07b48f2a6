/**
 * The tokens of one program's prompts. A workload says which parts are the same: a prompt repeats the first tokens of an
 * earlier call's prompt and output, or is an earlier prompt, or begins with its app's head. The rest is unique. A cache sees only
 * which tokens are equal, so each token is a hash of its origin.
 *
 * The output of an emulated call follows from its prompt, its seed and the position (emulated-tokens.ts), so outputs are never
 * stored. A prompt is kept only while a later call repeats it.
 */
import { emulatedContentHash, emulatedToken } from '../../gpu-agent/engine/backends/emulated/emulated-tokens.ts'
import { invariant } from '../../gpu-agent/engine/invariant.ts'
import { hash32 } from '../../src/core/wire/hash.ts'
import { appHead, type WorkloadCall, type WorkloadProgram } from '../workloads/program.ts'

interface Spoken {
  prompt: Uint32Array
  content_hash: number
}

export class ProgramPrompts {
  readonly #program: WorkloadProgram
  readonly #tenant: string
  readonly #name: string
  readonly #spoken = new Map<number, Spoken>()
  /** How often a call's tokens are still needed, by its index: for itself, and for each call that repeats it. */
  readonly #needed: Uint16Array

  /** `name` is unique among the programs of the simulation. */
  constructor(program: WorkloadProgram, tenant: string, name: string) {
    this.#program = program
    this.#tenant = tenant
    this.#name = name
    this.#needed = new Uint16Array(program.calls.length).fill(1)
    for (const call of program.calls) {
      const source = sourceOf(call)
      if (source !== null) (this.#needed[source] as number) += 1
    }
  }

  /** Calls differ in what they say though their prompts may be the same: agents sample. */
  static seed(index: number): number {
    return index + 1
  }

  /** The prompt of call `index`; asked once for each call. */
  prompt(index: number): Uint32Array {
    return this.#speak(index).prompt
  }

  #speak(index: number): Spoken {
    const spoken = this.#spoken.get(index) ?? this.#make(index)
    const needed = (this.#needed[index] as number) - 1
    this.#needed[index] = needed
    if (needed === 0) this.#spoken.delete(index)
    else this.#spoken.set(index, spoken)
    return spoken
  }

  #make(index: number): Spoken {
    const call = this.#program.calls[index]
    invariant(call !== undefined, 'a call of the program is asked for')
    const prompt = this.#promptOf(call, index)
    return { prompt, content_hash: emulatedContentHash(prompt, ProgramPrompts.seed(index)) }
  }

  #promptOf(call: WorkloadCall, index: number): Uint32Array {
    const source = sourceOf(call)
    if (source !== null && call.same_prompt_as === source) return this.#speak(source).prompt
    const prompt = new Uint32Array(call.prompt_tokens)
    let own_from = 0
    if (source !== null) {
      own_from = call.shared_prefix_tokens
      const { prompt: earlier, content_hash } = this.#speak(source)
      prompt.set(earlier.subarray(0, own_from))
      for (let at = earlier.length; at < own_from; at++) prompt[at] = emulatedToken(content_hash, at)
    } else {
      const { key, tokens } = appHead(this.#program, call)
      own_from = tokens
      fill(prompt, 0, own_from, hash32(`${this.#tenant}\n${key}`, 1))
    }
    fill(prompt, own_from, prompt.length, hash32(`${this.#name}\n${index}`))
    return prompt
  }
}

function sourceOf({ same_prompt_as, prefix_of }: WorkloadCall): number | null {
  return same_prompt_as ?? prefix_of ?? null
}

function fill(prompt: Uint32Array, from: number, to: number, stream: number): void {
  for (let at = from; at < to; at++) prompt[at] = emulatedToken(stream, at)
}
