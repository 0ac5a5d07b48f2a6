/**
 * A call whose answer began on another engine, for a server that goes on with text: the body with the text behind its prompt, and
 * with what is left of its limits. What such a server cannot go on with exactly is refused before anything is sent: it would begin
 * its grammar and its parsers of tools and reasoning anew, and count penalties and log probabilities from there.
 */
import type { Resume, StreamError } from '../../../../../src/protocol/index.ts'
import { cannotResume } from '../../../openai/errors.ts'
import { COUNTED_BY_OUTPUT, countedField, resumedTokens, resumeFault } from '../../../openai/resume-fault.ts'
import type { Dialect } from '../../engine-front.ts'
import type { VllmRequestBody } from '../../vllm/calls/request-body.ts'
import { type Continuing, continuedChat } from './continuing.ts'

type Continued = { ok: true; request: VllmRequestBody; resume: Resume } | { ok: false; error: StreamError }
type Seam = { ok: true; kept: string; again: string } | { ok: false; reason: string }

/** vLLM counts repetition over the prompt too; of others that is not known. */
const COUNTED_BY_OTHERS = [...COUNTED_BY_OUTPUT, 'repetition_penalty'] as const
const GRAMMARS = ['response_format', 'structured_outputs'] as const

/** `resume` of the result: what the client has and this server says again. */
export function continuedRequest(
  resume: Resume,
  dialect: Dialect,
  request: VllmRequestBody,
  continuing: Continuing,
  is_vllm: boolean,
): Continued {
  const had = resumedTokens(resume)
  const left = request.output_tokens_max - had
  const reason = faultOf(resume, request, is_vllm) ?? (left < 1 ? 'only its end is missing' : null)
  if (reason !== null) return refusal(reason)
  const { chat, completions } = continuing
  if (dialect === 'chat' ? chat === null : dialect !== 'completions' || !completions)
    return refusal('its server does not go on with such a text exactly')
  const seam = seamOf(resume.content, request.fields, dialect !== 'chat' || chat?.keeps_space === true)
  if (!seam.ok) return refusal(seam.reason)
  const { kept, again } = seam
  const behind = kept === '' ? {} : textBehind(request.fields, kept, resume, chat, is_vllm)
  if (behind === null) return refusal('its prompt is of tokens, and the engine that began it did not name its own')
  // At least one token is generated again.
  const output_tokens_max = left + (again === '' ? 0 : 1)
  const fields = { ...request.fields, ...behind, max_tokens: output_tokens_max, ...minTokens(request.fields, had) }
  const said_again = chat?.echoes === true && dialect === 'chat' && kept !== '' ? resume.content : again
  return {
    ok: true,
    request: { ...request, fields, output_tokens_max },
    resume: { ...resume, content: said_again },
  }
}

function faultOf(resume: Resume, { fields, choices }: VllmRequestBody, is_vllm: boolean): string | null {
  const fault = resumeFault(resume, { answers: choices, echo: false, vocabulary_tokens: null })
  if (fault !== null) return fault
  if (resume.reasoning !== '') return 'it has reasoning'
  if (resume.tool_calls.length > 0) return 'it has calls of tools'
  if (Array.isArray(fields.tools) && fields.tools.length > 0 && fields.tool_choice !== 'none')
    return 'it may call tools'
  if (GRAMMARS.some((field) => fields[field] != null)) return 'its server would begin the grammar anew'
  const counted = countedField(fields, is_vllm ? COUNTED_BY_OUTPUT : COUNTED_BY_OTHERS)
  return counted === null ? null : `its server counts ${counted} by its own output`
}

/**
 * What is given back of the text. Where its end may begin a stop string, the last words are generated again, so that the server
 * meets the string as a whole. They are the same words at temperature 0 alone.
 */
function seamOf(content: string, { stop, temperature }: VllmRequestBody['fields'], keeps_space: boolean): Seam {
  const begun = Math.max(0, ...stopsOf(stop).map((one) => begunAt(content, one)))
  const text = begun === 0 ? content : content.slice(0, content.length - begun).replace(/\s*\S*$/, '')
  const kept = keeps_space ? text : text.trimEnd()
  const again = content.slice(kept.length)
  if (again !== '' && temperature !== 0) {
    const what = begun > 0 ? 'what may be a stop string' : 'white space, which its server leaves out'
    return { ok: false, reason: `what the client has ends in ${what}, and another draw may differ` }
  }
  if (!keeps_space && kept !== kept.trimStart())
    return { ok: false, reason: 'it begins with white space, which its server leaves out' }
  return { ok: true, kept, again }
}

function stopsOf(stop: unknown): string[] {
  return typeof stop === 'string' ? [stop] : Array.isArray(stop) ? stop.filter((one) => typeof one === 'string') : []
}

/** How many characters at the end of `text` begin `stop`, and do not end it. */
function begunAt(text: string, stop: string): number {
  for (let length = Math.min(stop.length - 1, text.length); length > 0; length--) {
    if (text.endsWith(stop.slice(0, length))) return length
  }
  return 0
}

/** Null: it cannot go behind this prompt. */
function textBehind(
  { messages, prompt }: VllmRequestBody['fields'],
  kept: string,
  { tokens, content }: Resume,
  chat: Continuing['chat'],
  is_vllm: boolean,
): VllmRequestBody['fields'] | null {
  if (Array.isArray(messages)) return chat === null ? null : continuedChat(messages, kept, chat.way)
  if (typeof prompt === 'string') return { prompt: prompt + kept }
  const exact = Array.isArray(prompt) && tokens.length > 0 && kept === content && is_vllm
  return exact ? { prompt: [...prompt, ...tokens] } : null
}

function minTokens({ min_tokens }: VllmRequestBody['fields'], had: number): object {
  return typeof min_tokens === 'number' ? { min_tokens: Math.max(0, min_tokens - had) } : {}
}

function refusal(reason: string): { ok: false; error: StreamError } {
  return { ok: false, error: cannotResume(reason) }
}
