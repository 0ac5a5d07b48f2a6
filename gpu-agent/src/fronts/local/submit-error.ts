/** Why an engine takes no call, as a client is told. */
import type { NativeApi, StreamError } from '../../../../src/protocol/index.ts'
import type { DriverVerdict } from '../../../engine/driver.ts'
import { badRequest, engineFull, unavailable } from '../../openai/errors.ts'
import type { Dialect } from '../engine-front.ts'

const PROMPT_PARAMS = { chat: 'messages', completions: 'prompt', embeddings: 'input' } as const

export function submitError(
  verdict: Extract<DriverVerdict, { ok: false }>,
  dialect: Exclude<Dialect, NativeApi>,
): StreamError {
  const { code, message } = verdict
  if (code === 'engine_full') return engineFull(message, verdict.retry_after_s)
  if (code !== 'context_length_exceeded') return unavailable(code, message)
  return badRequest(code, message, PROMPT_PARAMS[dialect])
}
