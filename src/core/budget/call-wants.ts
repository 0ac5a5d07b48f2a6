/**
 * The most that a call can use, before an engine has counted its prompt. A token of text has at least a byte, so the bytes of
 * the prompt bound its tokens. What a chat template adds is not known here: an engine whose prompt is longer than was
 * reserved lowers the output instead.
 */
import { OUTPUT_TOKENS_DEFAULT, outputTokensAsked, type TokenBounds } from '../call/lease-terms.ts'
import { modelledServiceUs } from '../call/service.ts'
import { costNanos, type TokenPrices } from './call-cap.ts'
import type { CallWants } from './reservation.ts'

/** Of a chat template, for a conversation of a few messages. */
const TEMPLATE_TOKENS = 64

/** `body` in OpenAI's form. */
export function callWants(
  body: Readonly<Record<string, unknown>>,
  { sequences_max }: Pick<TokenBounds, 'sequences_max'>,
  prompt: { prompt_bytes: number; prompt_tokens_estimate: number; context_tokens_max: number },
  prices: TokenPrices | null,
): CallWants {
  const context_tokens = sequences_max * prompt.context_tokens_max
  const prompt_tokens = Math.min(prompt.prompt_bytes + sequences_max * TEMPLATE_TOKENS, context_tokens)
  const output_tokens = Math.min(sequences_max * (outputTokensAsked(body) ?? OUTPUT_TOKENS_DEFAULT), context_tokens)
  const work = { uncached_prompt_tokens: prompt_tokens, cached_prompt_tokens: 0, output_tokens }
  const used = { prompt_tokens, cached_tokens: 0, output_tokens }
  return {
    most: {
      calls: 1,
      tokens: prompt_tokens + output_tokens,
      service_us: modelledServiceUs(work),
      cost_nanos: prices === null ? 0 : costNanos(prices, used),
    },
    least_tokens: prompt.prompt_tokens_estimate + 1,
    prices,
  }
}
