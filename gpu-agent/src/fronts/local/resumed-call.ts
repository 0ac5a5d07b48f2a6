/**
 * A call whose answer began on another engine of the same model: what was generated there is computed with the prompt, and
 * generation goes on behind it. Sampling goes by seed and position, so the answer is the one that an unbroken run gives.
 */
import type { Resume, StreamError } from '../../../../src/protocol/index.ts'
import type { EngineCall } from '../../../engine/types.ts'
import { cannotResume } from '../../openai/errors.ts'
import { resumeFault } from '../../openai/resume-fault.ts'
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
  if (call === undefined) throw new Error('a call has a prompt')
  const { vocabulary_tokens } = text
  const fault = resumeFault(resume, { answers: calls.length * choices, echo, vocabulary_tokens })
  if (fault !== null) return refusal(fault)
  if (call.sampling.prompt_logprobs !== undefined) return refusal('log probabilities of its prompt were asked for')
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

function refusal(reason: string): Resuming {
  return { ok: false, error: cannotResume(reason) }
}
