/**
 * Plans steps by hand, as a scheduler would, so that a test decides in each step which calls advance and by how much.
 */
import type { EngineCall, SlotOperation, StepWork, TokenLogprobs } from '../../../types.ts'
import type { LlamaBackend } from '../llama-backend.ts'
import { EXACT_CHUNK_TOKENS_MAX } from '../llama-limits.ts'

export interface HandCall {
  lease: string
  slot: number
  /** Prompt, then what was sampled. */
  tokens: number[]
  prompt_tokens: number
  computed: number
  /** One for each sampled token. */
  logprobs: (TokenLogprobs | undefined)[]
  /** Of the prompt, and how often they came. */
  prompt_logprobs: readonly TokenLogprobs[] | null
  prompts: number
  /** Where the call embeds. */
  embedding: Float32Array | null
  ended: boolean
}

/** Leases are unique over all plans of a test file, since a backend outlives a test. */
let leases = 0

export class HandPlans {
  readonly backend: LlamaBackend
  #step = 0

  constructor(backend: LlamaBackend) {
    this.backend = backend
  }

  admit(
    slot: number,
    prompt: readonly number[],
    sampling: EngineCall['sampling'] = { temperature: 0, top_p: 1, seed: 1 },
    own: Partial<EngineCall> = {},
  ): HandCall {
    leases += 1
    const lease = `lease-${leases}`
    this.backend.admit({ ...engineCall(lease, prompt, sampling), ...own })
    return { lease, slot, tokens: [...prompt], prompt_tokens: prompt.length, computed: 0, ...none() }
  }

  /** One step: each call computes up to `chunk` of its missing tokens and samples when none is left. Returns those that failed. */
  async step(
    calls: readonly HandCall[],
    chunk = EXACT_CHUNK_TOKENS_MAX,
    operations: readonly SlotOperation[] = [],
  ): Promise<string[]> {
    for (const operation of operations) {
      if (operation.op !== 'truncate') continue
      for (const call of calls) if (call.slot === operation.slot) call.computed = operation.tokens
    }
    const work: StepWork[] = [...calls]
      .sort((a, b) => a.slot - b.slot)
      .map(({ lease, slot, computed, tokens }) => {
        const to = Math.min(tokens.length, computed + chunk)
        return { lease, slot, from: computed, to, samples: to === tokens.length }
      })
    this.#step += 1
    const { sampled, failed = new Map() } = await this.backend.execute({ step: this.#step, operations, work })
    for (const { lease, to } of work) {
      const call = calls.find((candidate) => candidate.lease === lease)
      if (call === undefined) throw new Error('unreachable')
      call.computed = to
      const outcome = sampled.get(lease)
      if (outcome === undefined) continue
      call.tokens.push(outcome.token)
      call.logprobs.push(outcome.logprobs)
      if (outcome.prompt_logprobs !== undefined) {
        call.prompt_logprobs = outcome.prompt_logprobs
        call.prompts += 1
      }
      call.embedding = outcome.embedding ?? null
      call.ended = outcome.end
    }
    return [...failed.keys()]
  }

  /** Runs one call alone for `count` output tokens or to its end. */
  async run(call: HandCall, count: number, chunk = EXACT_CHUNK_TOKENS_MAX): Promise<number[]> {
    while (!call.ended && call.tokens.length - call.prompt_tokens < count) await this.step([call], chunk)
    return output(call)
  }

  clear(slot: number): Promise<unknown> {
    return this.operate([{ op: 'truncate', slot, tokens: 0 }])
  }

  /** A step without work. */
  operate(operations: readonly SlotOperation[]): Promise<unknown> {
    this.#step += 1
    return this.backend.execute({ step: this.#step, operations, work: [] })
  }
}

function none(): Pick<HandCall, 'logprobs' | 'prompt_logprobs' | 'prompts' | 'embedding' | 'ended'> {
  return { logprobs: [], prompt_logprobs: null, prompts: 0, embedding: null, ended: false }
}

export function output(call: HandCall): number[] {
  return call.tokens.slice(call.prompt_tokens)
}

export function engineCall(lease: string, prompt: readonly number[], sampling: EngineCall['sampling']): EngineCall {
  return {
    lease,
    tenant: 'tenant',
    tenant_weight: 1,
    program: lease,
    thread: 'main',
    ...{ class: 'class', sequence: null, open_elsewhere_us: 0, program_output_tokens: 0 },
    settled_service_us: 0,
    critical_path_us: 0,
    program_wait_us: 0,
    cache_salt: 'salt',
    prompt,
    max_output_tokens: 64,
    sampling,
  }
}
