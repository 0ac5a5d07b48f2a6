/** Why no engine of ours can go on with an answer that another one began: what holds for each kind of engine. */
import type { Resume } from '../../../src/protocol/index.ts'

export interface ResumedAnswer {
  answers: number
  /** The answer begins with its prompt, of which an engine names no tokens. */
  echo: boolean
  vocabulary_tokens: number
}

/** Null: it can. */
export function resumeFault(
  { tokens, content, reasoning, tool_calls }: Resume,
  { answers, echo, vocabulary_tokens }: ResumedAnswer,
): string | null {
  if (answers > 1) return 'it has several answers'
  const has_output = content !== '' || reasoning !== '' || tool_calls.length > 0
  if (tokens.length === 0 && has_output && !echo) return 'the engine that began it did not tell what it had generated'
  return tokens.some((token) => token >= vocabulary_tokens) ? 'its tokens are of another model' : null
}
