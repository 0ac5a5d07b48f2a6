/**
 * A call whose answer began on another engine, as our plug-in goes on with it (gpu-agent/vllm/src/switchyard_vllm/resumption.py):
 * by tokens, in one choice, and without what vLLM counts by its own output.
 */
import type { Resume, StreamError } from '../../../../../src/protocol/index.ts'
import { cannotResume } from '../../../openai/errors.ts'
import { countedField, resumeFault } from '../../../openai/resume-fault.ts'
import type { VllmRequestBody } from './request-body.ts'

type Resuming = { ok: true; resume: Resume } | { ok: false; error: StreamError }

/** The answer with tokens that leave one to generate. */
export function resumedRequest(
  resume: Resume,
  { fields, choices, output_tokens_max }: VllmRequestBody,
  vocabulary_tokens: number,
): Resuming {
  const fault = resumeFault(resume, { answers: choices, echo: false, vocabulary_tokens })
  if (fault !== null) return refusal(fault)
  const uncounted = countedField(fields)
  if (uncounted !== null) return refusal(`vLLM counts ${uncounted} by its own output`)
  return { ok: true, resume: { ...resume, tokens: resume.tokens.slice(0, output_tokens_max - 1) } }
}

function refusal(reason: string): Resuming {
  return { ok: false, error: cannotResume(reason) }
}
