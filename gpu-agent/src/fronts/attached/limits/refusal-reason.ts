/**
 * Why a provider refused a call, from its status, headers and body: for which limit, and for how long. Bodies are read for the words
 * in which OpenAI, Azure and Anthropic name limits ("requests per min (RPM)", "tokens per day (TPD)", "input tokens per minute").
 * `busy`: it is overloaded or has too many calls at once, which says nothing of limits. `spent`: the account has no credit.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { DAY_US, MINUTE_US, type Quantity } from '../../../../engine/queue/limits/limit-spec.ts'
import type { RefusedFor } from '../../../../engine/queue/limits/rate-limits.ts'
import { retryAfterUs } from './limit-news.ts'

export type RefusalReason =
  /** `amount`: of the limit; null: the body does not say. */
  | ({ kind: 'limit'; amount: number | null } & RefusedFor)
  | { kind: 'busy'; after_us: number | null }
  | { kind: 'spent' }
  /** The call alone is larger than the limit. */
  | { kind: 'too_large' }

const BODY_CHARS = 4096
const SPENT = /insufficient_quota|billing|credit balance|exceeded your current quota/i
const CONCURRENT = /concurren|too many (?:open|parallel) requests/i
const TOO_LARGE = /request too large/i
const NAMED = /\b(input[ -]tokens?|output[ -]tokens?|tokens?|requests?) per (second|min|minute|hour|day)\b/i
const AMOUNT = /\blimit:? (\d{1,15})\b/i
const SHORT = /\b(I|O)?(R|T)P(M|D|S|H)\b/
const SPANS_US: Readonly<Record<string, number>> = {
  ...{ second: 1e6, s: 1e6, min: MINUTE_US, minute: MINUTE_US, m: MINUTE_US },
  ...{ hour: DAY_US / 24, h: DAY_US / 24, day: DAY_US, d: DAY_US },
}

export function refusalReason(
  { status, headers, body }: { status: number; headers: IncomingHttpHeaders; body: string },
  wall_ms: number,
): RefusalReason {
  const after_us = retryAfterUs(headers, wall_ms)
  const text = body.slice(0, BODY_CHARS)
  if (status !== 429) return { kind: 'busy', after_us }
  if (SPENT.test(text)) return { kind: 'spent' }
  if (TOO_LARGE.test(text)) return { kind: 'too_large' }
  const amount = Number(AMOUNT.exec(text)?.[1] ?? 0) || null
  const named = NAMED.exec(text)
  if (named !== null) return { kind: 'limit', ...limitOf(named[1] ?? '', named[2] ?? ''), amount, after_us }
  const short = SHORT.exec(text)
  if (short !== null) {
    const tokens = { I: 'input tokens', O: 'output tokens' }[short[1] ?? ''] ?? 'tokens'
    return { kind: 'limit', ...limitOf(short[2] === 'R' ? 'requests' : tokens, short[3] ?? ''), amount, after_us }
  }
  if (CONCURRENT.test(text)) return { kind: 'busy', after_us }
  return { kind: 'limit', quantity: null, window_us: null, amount: null, after_us }
}

function limitOf(words: string, span: string): Pick<RefusedFor, 'quantity' | 'window_us'> {
  const what = words.toLowerCase()
  const quantity: Quantity = what.startsWith('request')
    ? 'requests'
    : what.startsWith('input')
      ? 'input'
      : what.startsWith('output')
        ? 'output'
        : 'tokens'
  return { quantity, window_us: SPANS_US[span.toLowerCase()] ?? null }
}
