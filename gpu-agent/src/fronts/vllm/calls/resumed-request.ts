/**
 * A call whose answer began on another engine, as our plug-in goes on with it (gpu-agent/vllm/src/switchyard_vllm/resumption.py):
 * by tokens, in one choice, and without what vLLM counts by its own output.
 */
import type { Resume, StreamError } from '../../../../../src/protocol/index.ts'
import { cannotResume } from '../../../openai/errors.ts'
import type { VllmRequestBody } from './request-body.ts'

const UNCOUNTED = ['frequency_penalty', 'presence_penalty', 'logprobs', 'top_logprobs', 'prompt_logprobs', 'echo']

type Resuming = { ok: true; resume: Resume } | { ok: false; error: StreamError }

/** The answer with tokens that leave one to generate. `vocabulary_tokens` null: this server has no such plug-in. */
export function resumedRequest(
  resume: Resume,
  { fields, choices, output_tokens_max }: VllmRequestBody,
  vocabulary_tokens: number | null,
): Resuming {
  const { tokens, content, reasoning, tool_calls } = resume
  if (vocabulary_tokens === null) return refusal('it cannot be told what was generated')
  if (choices > 1) return refusal('it has several answers')
  const uncounted = UNCOUNTED.find((field) => fields[field] != null && fields[field] !== 0 && fields[field] !== false)
  if (uncounted !== undefined) return refusal(`vLLM counts ${uncounted} by its own output`)
  if (tokens.length === 0 && (content !== '' || reasoning !== '' || tool_calls.length > 0)) {
    return refusal('the engine that began it did not tell what it had generated')
  }
  if (tokens.some((token) => token >= vocabulary_tokens)) return refusal('its tokens are of another model')
  return { ok: true, resume: { ...resume, tokens: tokens.slice(0, output_tokens_max - 1) } }
}

function refusal(reason: string): Resuming {
  return { ok: false, error: cannotResume(reason) }
}
