/**
 * A call whose answer began on another engine of the same model: what was generated there is computed with the prompt, and
 * generation goes on behind it. Sampling goes by seed and position, so the answer is the one that an unbroken run gives.
 */
import type { Resume, StreamError } from '../../../../src/protocol/index.ts'
import type { EngineCall } from '../../../engine/types.ts'
import { cannotResume } from '../../openai/errors.ts'
import type { Translation } from '../../openai/translate.ts'
import { endsAnswer } from './choice-output.ts'
import type { TextModel } from './text-model.ts'

type Resuming = { ok: true; calls: readonly EngineCall[]; resume: Resume | null } | { ok: false; error: StreamError }

/**
 * The calls with what is left to generate. Tokens that end the answer are left out at the end: the engine generates the last
 * of them again, and with it the end that its client did not see.
 */
export function resumed(
  calls: readonly EngineCall[],
  resume: Resume | null,
  { stops, output, choices, echo }: Pick<Translation, 'stops' | 'output' | 'choices' | 'echo'>,
  text: Pick<TextModel, 'decoder' | 'vocabulary_tokens'>,
): Resuming {
  if (resume === null) return { ok: true, calls, resume }
  const [call] = calls
  if (call === undefined || calls.length > 1 || choices > 1) return refusal('it has several answers')
  if (call.sampling.prompt_logprobs !== undefined) return refusal('log probabilities of its prompt were asked for')
  if (resume.tokens.length === 0 && hasOutput(resume) && !echo) {
    return refusal('the engine that began it did not tell what it had generated')
  }
  if (resume.tokens.some((token) => token >= text.vocabulary_tokens)) return refusal('its tokens are of another model')
  const tokens = resume.tokens.slice(0, call.max_output_tokens - 1)
  while (tokens.length > 0 && endsAnswer(tokens, { decoder: text.decoder(), stops, format: output.format }))
    tokens.pop()
  const prompt = [...Array.from(call.prompt), ...tokens]
  const max_output_tokens = call.max_output_tokens - tokens.length
  return {
    ok: true,
    calls: [{ ...call, prompt, resumed_tokens: tokens.length, max_output_tokens }],
    resume: { ...resume, tokens },
  }
}

function hasOutput({ content, reasoning, tool_calls }: Resume): boolean {
  return content !== '' || reasoning !== '' || tool_calls.length > 0
}

function refusal(reason: string): Resuming {
  return { ok: false, error: cannotResume(reason) }
}
