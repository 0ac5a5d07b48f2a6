/**
 * Holds a call to what its ticket lets it use of its program's budget: less output than the client asked for, or a refusal
 * before the prompt is computed.
 */
import { outputRoom } from '../../../src/core/budget/call-cap.ts'
import type { StreamError, TicketClaims } from '../../../src/protocol/index.ts'
import { budgetExceeded } from '../openai/errors.ts'

/** Tokens that a server's chat template adds to a text whose bytes are counted. */
const TEMPLATE_TOKENS = 64

export type CappedOutput = { ok: true; output_tokens_max: number } | { ok: false; error: StreamError }

/**
 * Output tokens that each of `sequences` may have. `prompt_tokens`: of all prompts of the call. `asked`: what the client lets
 * each have, 0 for a call that only reads its prompt.
 */
export function cappedOutput(
  { budget }: Pick<TicketClaims, 'budget'>,
  prompt_tokens: number,
  sequences: number,
  asked: number,
): CappedOutput {
  if (budget === undefined) return { ok: true, output_tokens_max: asked }
  const each = Math.floor(outputRoom(budget, prompt_tokens) / sequences)
  if (each < Math.min(1, asked)) return { ok: false, error: budgetExceeded() }
  return { ok: true, output_tokens_max: Math.min(asked, each) }
}

/** Of an Anthropic body. Its API refuses a limit of the answer that thinking alone may use up. 0: the body names none. */
export function thinkingTokens({ thinking }: { thinking?: unknown }): number {
  const { budget_tokens } = (thinking ?? {}) as { budget_tokens?: unknown }
  return typeof budget_tokens === 'number' ? budget_tokens : 0
}

/** The most tokens that a prompt can have that only its server can count. `parts`: all that its template may write. */
export function promptTokensAtMost(parts: readonly unknown[]): number {
  let bytes = 0
  for (const part of parts) if (part != null) bytes += Buffer.byteLength(JSON.stringify(part))
  return bytes + TEMPLATE_TOKENS
}
