/**
 * What a server answers when it does not serve a call → the error that a client gets. A client's own mistake is told in its
 * words, which name no more than the client's own fields and the model's limits. What the operator must fix (a wrong key,
 * a wrong model name) is no client's mistake: another engine may serve the call, and the operator is told.
 */
import { z } from 'zod'
import type { StreamError } from '../../../../../src/protocol/index.ts'
import { unsupported } from '../../../openai/capabilities.ts'
import { badRequest, engineFailed, engineFull, unavailable } from '../../../openai/errors.ts'
import type { VllmRequestEnd } from './vllm-request.ts'

const RETRY_AFTER_S = 1

/** Codes are numbers with vLLM and llama.cpp and words with OpenAI. */
const Told = z.object({
  message: z.string(),
  param: z.string().nullish().catch(null),
  code: z.number().int().nullish().catch(null),
})
const VllmError = z.object({ error: Told })
/** Of SGLang, of TGI, and of web frameworks. */
const OtherErrors = z.union([
  Told.extend({ object: z.literal('error') }),
  z.object({ error: z.string() }).transform(({ error }) => ({ message: error, param: null, code: null })),
  z.object({ detail: z.string() }).transform(({ detail }) => ({ message: detail, param: null, code: null })),
])

export interface Refusal {
  error: StreamError
  /** For the operator; null: nothing for him to do. */
  report: string | null
  /** Whether the whole server is at fault, and not this call. */
  suspect: boolean
}

const NOBODY_THERE = new Set(['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'ENOTFOUND'])

/** `server`: its name, for the operator. */
export function refusalOf(
  end: Exclude<VllmRequestEnd, { kind: 'done' }>,
  prompt_param: string,
  server = 'vLLM',
): Refusal {
  if (end.kind === 'unreachable') {
    const report = `${server} does not answer: ${end.message}`
    const suspect = end.code !== null && NOBODY_THERE.has(end.code)
    return { error: unavailable('engine_down', 'the engine is down'), report, suspect }
  }
  if (end.kind === 'cut') {
    const report = `a stream of ${server} broke off: ${end.message}`
    return { error: engineFailed("the engine's stream broke off"), report, suspect: false }
  }
  return statusRefusal(end.status, end.body, prompt_param, server)
}

/** A vLLM has the routes of what its model can do. The body is that of its web framework: vLLM's own tell an unknown model. */
export function isMissingRoute({ status, body }: { status: number; body: string }): boolean {
  // llama.cpp answers 501 for what it was not started for.
  return status === 405 || status === 501 || (status === 404 && body.includes('"detail":"Not Found"'))
}

/** An error in place of a chunk. Null: the data is no error. */
export function streamedError(chunk: unknown, prompt_param: string, server = 'vLLM'): Refusal | null {
  const parsed = VllmError.safeParse(chunk)
  if (!parsed.success) return null
  const { message, param, code } = parsed.data.error
  return classified(code ?? 500, message, param ?? null, prompt_param, server)
}

function statusRefusal(status: number, body: string, prompt_param: string, server: string): Refusal {
  const { message, param } = errorIn(body)
  return classified(status, message, param, prompt_param, server)
}

function errorIn(body: string): { message: string; param: string | null } {
  try {
    const value: unknown = JSON.parse(body)
    const told = VllmError.safeParse(value).data?.error ?? OtherErrors.safeParse(value).data
    if (told !== undefined) return { message: told.message, param: told.param ?? null }
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
  }
  return { message: '', param: null }
}

const CONTEXT =
  /maximum context length|exceeds model's maximum|exceeds? the (available )?context|context (size|window|length)|longer than the model|max_total_tokens/i
/** What is left of the context is what vLLM checks; what the client asked for is at least 1. */
const NO_ROOM = /max_tokens must be at least 1, got/
const NO_PARSER = /requires --(enable-auto-tool-choice|tool-call-parser)/
const TOOLS_REPORT =
  'a call asks for tools, and this vLLM has no parser for them: start it with --enable-auto-tool-choice and the ' +
  '--tool-call-parser of its model'
/** vLLM repeats for its own log what the error's fields say. */
const SUFFIX = / \(parameter=[^()]*\)$/
/** vLLM names its own stages in place of a field: what a client sent is `messages` or `prompt`. */
const STAGES = new Set(['input_tokens', 'input_text'])

function classified(
  status: number,
  message: string,
  param: string | null,
  prompt_param: string,
  server: string,
): Refusal {
  if (status === 400 || status === 413 || status === 422) return clientError(message, param, prompt_param)
  const nothing = { report: null, suspect: false }
  if (status === 429) return { error: engineFull('the engine takes no further calls', RETRY_AFTER_S), ...nothing }
  if (status >= 500) {
    const report = `${server} failed a call with status ${status}: ${message}`
    return { error: engineFailed('the engine failed'), report, suspect: false }
  }
  const report =
    status === 401 || status === 403
      ? `${server} refuses the agent's key (status ${status}): give the agent the key that ${server} was started with`
      : `${server} answered status ${status}: ${message === '' ? 'is it an OpenAI server, and its model named as the agent names it?' : message}`
  return { error: engineFailed('the engine refused the call'), report, suspect: false }
}

function clientError(said: string, param: string | null, prompt_param: string): Refusal {
  const message = said.replace(SUFFIX, '')
  const refusal = (error: StreamError, report: string | null = null): Refusal => ({ error, report, suspect: false })
  if (NO_PARSER.test(message)) return refusal(unsupported('tools'), TOOLS_REPORT)
  if (NO_ROOM.test(message)) {
    const full = `The ${prompt_param} fill the model's context and leave no room for a completion. Please reduce their length.`
    return refusal(badRequest('context_length_exceeded', full, prompt_param))
  }
  if (CONTEXT.test(message)) return refusal(badRequest('context_length_exceeded', message, prompt_param))
  const named = param !== null && STAGES.has(param) ? prompt_param : param
  return refusal(badRequest('invalid_value', message === '' ? 'The engine refuses this body.' : message, named))
}
