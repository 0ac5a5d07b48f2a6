/**
 * OpenAI's stream chunks of one call. Each choice: a role chunk (chat), chunks of content or of tool calls (id and name
 * first, then pieces of the arguments), a chunk with the finish reason. Then, when the client asked for usage, one chunk
 * with `usage` and no choices; the chunks before it carry `usage: null`.
 */
import { createHash } from 'node:crypto'
import type { FinishReason, UsageExtension } from '../../../../src/protocol/index.ts'
import type { Dialect } from '../../engine-front.ts'
import type { TokenReport } from '../answer-logprobs.ts'
import type { TextModel } from '../text-model.ts'
import { chatLogprobs, completionLogprobs } from './logprobs.ts'

export interface ChunkOptions {
  dialect: Dialect
  call: string
  model: string
  /** Seconds since 1970. */
  created_s: number
  /** Names the engine; says so when tokens are emulated. */
  system_fingerprint: string
  include_usage: boolean
  /** Spells tokens. */
  text: Pick<TextModel, 'tokenBytes'>
}

export interface Usage {
  prompt_tokens: number
  completion_tokens: number
  cached_tokens: number
  switchyard: UsageExtension
}

interface Delta {
  role?: string
  content?: string | null
  refusal?: null
  tool_calls?: object[]
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

  /** The first chunk of a choice in chat; completions have none. `content` is null where a tool call follows. */
  role(choice: number, content: '' | null): object | null {
    return this.#options.dialect === 'chat'
      ? this.#choice(choice, { role: 'assistant', content, refusal: null }, null)
      : null
  }

  /** `reports`: of the tokens that became the text; null where they were not asked for. */
  content(choice: number, text: string, reports: readonly TokenReport[] | null = null): object {
    return this.#choice(choice, { content: text }, null, reports)
  }

  /** A tool call's beginning; `index` counts the calls of a choice. */
  toolCall(choice: number, index: number, name: string): object {
    const { call } = this.#options
    // The same call served again names its tool calls alike.
    const id = `call_${createHash('sha256').update(`${call}:${choice}:${index}`).digest('hex').slice(0, 24)}`
    return this.#choice(
      choice,
      { tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] },
      null,
    )
  }

  arguments(choice: number, index: number, text: string): object {
    return this.#choice(choice, { tool_calls: [{ index, function: { arguments: text } }] }, null)
  }

  finish(choice: number, reason: FinishReason): object {
    return this.#choice(choice, {}, reason)
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

  #choice(
    index: number,
    delta: Delta,
    finish_reason: FinishReason | null,
    reports: readonly TokenReport[] | null = null,
  ): object {
    const logprobs = reports === null || reports.length === 0 ? null : this.#logprobs(reports)
    const body = this.#options.dialect === 'chat' ? { delta } : { text: delta.content ?? '' }
    const chunk = { ...this.#frame, choices: [{ index, ...body, logprobs, finish_reason }] }
    return this.#options.include_usage ? { ...chunk, usage: null } : chunk
  }

  #logprobs(reports: readonly TokenReport[]): object {
    const { dialect, text } = this.#options
    return dialect === 'chat' ? chatLogprobs(reports, text) : completionLogprobs(reports, text)
  }
}
