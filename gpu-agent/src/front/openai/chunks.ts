/**
 * OpenAI's stream chunks of one call: a role chunk (chat), content chunks, a chunk with the finish reason, and, when the
 * client asked for usage, a chunk with `usage` and no choices; the chunks before that one then carry `usage: null`.
 */
import type { FinishReason, UsageExtension } from '../../../../src/protocol/index.ts'
import type { Dialect } from '../../engine-front.ts'

export interface ChunkOptions {
  dialect: Dialect
  call: string
  model: string
  /** Seconds since 1970. */
  created_s: number
  /** Names the engine; says so when tokens are emulated. */
  system_fingerprint: string
  include_usage: boolean
}

export interface Usage {
  prompt_tokens: number
  completion_tokens: number
  cached_tokens: number
  switchyard: UsageExtension
}

export class ChunkBuilder {
  readonly #options: ChunkOptions
  readonly #frame: object

  constructor(options: ChunkOptions) {
    const chat = options.dialect === 'chat'
    this.#options = options
    this.#frame = {
      id: `${chat ? 'chatcmpl' : 'cmpl'}-${options.call}`,
      object: chat ? 'chat.completion.chunk' : 'text_completion',
      created: options.created_s,
      model: options.model,
      system_fingerprint: options.system_fingerprint,
    }
  }

  /** The first chunk of a chat call; completions have none. */
  role(): object | null {
    return this.#options.dialect === 'chat'
      ? this.#choice({ role: 'assistant', content: '', refusal: null }, null)
      : null
  }

  content(text: string): object {
    return this.#choice({ content: text }, null)
  }

  finish(reason: FinishReason): object {
    return this.#choice({}, reason)
  }

  usage(usage: Usage): object | null {
    if (!this.#options.include_usage) return null
    const { prompt_tokens, completion_tokens, cached_tokens, switchyard } = usage
    return {
      ...this.#frame,
      choices: [],
      usage: {
        prompt_tokens,
        completion_tokens,
        total_tokens: prompt_tokens + completion_tokens,
        prompt_tokens_details: { cached_tokens },
        switchyard,
      },
    }
  }

  #choice(delta: { content?: string; role?: string; refusal?: null }, finish_reason: FinishReason | null): object {
    const body = this.#options.dialect === 'chat' ? { delta } : { text: delta.content ?? '' }
    const chunk = { ...this.#frame, choices: [{ index: 0, ...body, logprobs: null, finish_reason }] }
    return this.#options.include_usage ? { ...chunk, usage: null } : chunk
  }
}
