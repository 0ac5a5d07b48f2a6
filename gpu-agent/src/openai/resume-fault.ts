/** Why no engine of ours can go on with an answer that another one began: what holds for each kind of engine. */
import type { Resume } from '../../../src/protocol/index.ts'

export interface ResumedAnswer {
  answers: number
  /** The answer begins with its prompt, of which an engine names no tokens. */
  echo: boolean
  /** Null: it goes on from the text. */
  vocabulary_tokens: number | null
}

/** Null: it can. */
export function resumeFault(resume: Resume, { answers, echo, vocabulary_tokens }: ResumedAnswer): string | null {
  const { tokens, content, reasoning, tool_calls } = resume
  if (answers > 1) return 'it has several answers'
  const has_output = content !== '' || reasoning !== '' || tool_calls.length > 0
  const told = vocabulary_tokens === null ? resumedTokens(resume) : tokens.length
  if (told === 0 && has_output && !echo) return 'the engine that began it did not tell what it had generated'
  return vocabulary_tokens !== null && tokens.some((token) => token >= vocabulary_tokens)
    ? 'its tokens are of another model'
    : null
}

/** How many tokens the client's part of the answer took. */
export function resumedTokens({ tokens, output_tokens = tokens.length }: Resume): number {
  return output_tokens
}

/** Fields whose effect engines count by their own output alone. */
export const COUNTED_BY_OUTPUT = [
  ...['frequency_penalty', 'presence_penalty', 'logprobs', 'top_logprobs', 'prompt_logprobs', 'echo'],
] as const

/** The field of the body that keeps an engine from going on with its answer. Null: none. */
export function countedField(
  fields: Readonly<Record<string, unknown>>,
  counted: readonly string[] = COUNTED_BY_OUTPUT,
): string | null {
  return counted.find((field) => fields[field] != null && fields[field] !== 0 && fields[field] !== false) ?? null
}
