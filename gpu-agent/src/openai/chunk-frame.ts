/**
 * What all of one call's OpenAI chunks have in common, for every source of their text: id, model, times, the choice around a
 * delta, the finish reason, and the usage chunk, which goes out only to a client that asked for usage (the chunks before
 * it then carry `usage: null`).
 */
import { createHash } from 'node:crypto'
import type { FinishReason, UsageExtension } from '../../../src/protocol/index.ts'
import type { Usage as WireUsage } from '../../../src/protocol/openai.ts'
import type { TextDialect } from '../fronts/engine-front.ts'

export interface FrameOptions {
  dialect: TextDialect
  call: string
  model: string
  /** Seconds since 1970. */
  created_s: number
  /** Names the engine; says so when tokens are emulated. */
  system_fingerprint: string
  include_usage: boolean
}

export interface Usage extends Pick<WireUsage, 'prompt_tokens' | 'completion_tokens'> {
  cached_tokens: number
  switchyard: UsageExtension
}

export interface Delta {
  role?: string
  content?: string | null
  refusal?: null
  reasoning?: string
  tool_calls?: object[]
}

export interface ChoiceFinish {
  reason: FinishReason
  /** The stop string that was met: `stop_reason` of the choice, as vLLM calls it. */
  stop: string | null
}

export class ChunkFrame {
  readonly dialect: TextDialect
  readonly #call: string
  readonly #include_usage: boolean
  readonly #frame: object

  constructor({ dialect, call, model, created_s, system_fingerprint, include_usage }: FrameOptions) {
    const chat = dialect === 'chat'
    this.dialect = dialect
    this.#call = call
    this.#include_usage = include_usage
    this.#frame = {
      id: `${chat ? 'chatcmpl' : 'cmpl'}-${call}`,
      object: chat ? 'chat.completion.chunk' : 'text_completion',
      created: created_s,
      model,
      system_fingerprint,
    }
  }

  /** A completion has no delta: it gets the delta's content as text. */
  choice(
    index: number,
    delta: Delta,
    finish_reason: FinishReason | null,
    logprobs: object | null,
    stop: string | null = null,
  ): object {
    const body = this.dialect === 'chat' ? { delta } : { text: delta.content ?? '' }
    const stopped = stop === null ? {} : { stop_reason: stop }
    const chunk = { ...this.#frame, choices: [{ index, ...body, logprobs, finish_reason, ...stopped }] }
    return this.#include_usage ? { ...chunk, usage: null } : chunk
  }

  finish(index: number, { reason, stop }: ChoiceFinish): object {
    return this.choice(index, {}, reason, null, stop)
  }

  /** The same call served again names its tool calls alike. */
  toolCallId(choice: number, index: number): string {
    return `call_${createHash('sha256').update(`${this.#call}:${choice}:${index}`).digest('hex').slice(0, 24)}`
  }

  usage({ prompt_tokens, completion_tokens, cached_tokens, switchyard }: Usage): object | null {
    if (!this.#include_usage) return null
    const usage: WireUsage & { switchyard: UsageExtension } = {
      prompt_tokens,
      completion_tokens,
      total_tokens: prompt_tokens + completion_tokens,
      prompt_tokens_details: { cached_tokens },
      switchyard,
    }
    return { ...this.#frame, choices: [], usage }
  }
}
