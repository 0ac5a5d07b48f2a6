/**
 * The rate limits of an answer, in the headers of each provider. OpenAI tells durations until a limit is unused again (`6m0s`,
 * `20ms`), Azure the same without the resets, Anthropic the instants (RFC 3339). `wrong` has what proxies and small providers have
 * been seen to send: −1, 0, and limits without the rest. A refusal also has `retry-after`, and `retry-after-ms` with Azure.
 */
import type { LimitQuantity, LimitState } from '../../../../../engine/queue/limits/provider-account.ts'

export const HEADER_STYLES = ['openai', 'azure', 'anthropic', 'none', 'minus-one', 'zero'] as const
export type HeaderStyle = (typeof HEADER_STYLES)[number]

/** `real_s`: a span of the provider's clock in the client's seconds. `wall_ms`: the client's clock. */
export function limitHeaders(
  style: HeaderStyle,
  states: readonly LimitState[],
  { real_s, wall_ms }: { real_s: (span_s: number) => number; wall_ms: number },
): Record<string, string> {
  if (style === 'none') return {}
  const headers: Record<string, string> = {}
  for (const state of shortest(states)) {
    const { quantity, amount, remaining } = state
    const reset_s = real_s(state.reset_s)
    if (style === 'anthropic') {
      const name = `anthropic-ratelimit-${ANTHROPIC_NAMES[quantity]}`
      headers[`${name}-limit`] = String(amount)
      headers[`${name}-remaining`] = String(remaining)
      headers[`${name}-reset`] = new Date(wall_ms + reset_s * 1000).toISOString()
      continue
    }
    const name = quantity === 'requests' ? 'requests' : 'tokens'
    headers[`x-ratelimit-limit-${name}`] = style === 'minus-one' ? '-1' : String(amount)
    headers[`x-ratelimit-remaining-${name}`] = style === 'minus-one' ? '-1' : style === 'zero' ? '0' : String(remaining)
    if (style === 'openai') headers[`x-ratelimit-reset-${name}`] = duration(reset_s)
  }
  return headers
}

export function retryHeaders(style: HeaderStyle, retry_after_s: number): Record<string, string> {
  if (style === 'none' || style === 'minus-one' || style === 'zero') return {}
  const seconds = { 'retry-after': String(Math.ceil(retry_after_s)) }
  return style === 'anthropic' ? seconds : { ...seconds, 'retry-after-ms': String(Math.ceil(retry_after_s * 1000)) }
}

const ANTHROPIC_NAMES: Readonly<Record<LimitQuantity, string>> = {
  requests: 'requests',
  input: 'input-tokens',
  output: 'output-tokens',
  tokens: 'tokens',
}

/** One for each quantity: that of the day is told only when it refuses. */
function shortest(states: readonly LimitState[]): LimitState[] {
  return states.filter((one) => states.every(({ quantity, per_s }) => quantity !== one.quantity || per_s >= one.per_s))
}

/** As Go writes it, which OpenAI's gateway does. */
function duration(seconds: number): string {
  if (seconds < 1) return `${Math.ceil(seconds * 1000)}ms`
  const whole = Math.ceil(seconds * 1000) / 1000
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60)]
  const rest = `${Math.round((whole % 60) * 1000) / 1000}s`
  return `${hours > 0 ? `${hours}h` : ''}${hours > 0 || minutes > 0 ? `${minutes}m` : ''}${rest}`
}
