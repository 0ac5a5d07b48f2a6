/**
 * What an answer's headers say of rate limits: `x-ratelimit-*` as OpenAI and Azure write them, with the spans that others add to
 * the names (`-minute`, `-day`), and `anthropic-ratelimit-*`. Numbers that cannot be meant (−1, a limit of 0, text) are null.
 * Instants are read with the provider's own clock, its `date` header, where it has one: a host's clock may be wrong.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { DAY_US, MINUTE_US, type Quantity } from '../../../../engine/queue/limits/limit-spec.ts'
import type { Counting, ToldLimit } from '../../../../engine/queue/limits/told-limit.ts'

const NAMES: Readonly<Record<string, Quantity>> = {
  ...{ requests: 'requests', tokens: 'tokens', 'input-tokens': 'input', 'output-tokens': 'output' },
}
const NAME = '(requests|tokens|input-tokens|output-tokens)'
const OPENAI = new RegExp(`^x-ratelimit-(limit|remaining|reset)-${NAME}(?:-(minute|hour|day))?$`)
const ANTHROPIC = new RegExp(`^anthropic-ratelimit-${NAME}-(limit|remaining|reset)$`)
const HOUR_US = DAY_US / 24
const SPANS_US: Readonly<Record<string, number>> = { minute: MINUTE_US, hour: HOUR_US, day: DAY_US }
const COUNT_MAX = 1e15
/** A reset that is later than this is no span of a limit. */
const RESET_US_MAX = 40 * DAY_US

export interface AnswerNews {
  limits: readonly ToldLimit[]
  counting: Counting
}

interface Told {
  limit?: string
  remaining?: string
  reset?: string
}

export function newsOf(headers: IncomingHttpHeaders, wall_ms: number): AnswerNews {
  const told = new Map<string, Told>()
  let counting: Counting = null
  for (const [name, value] of Object.entries(headers)) {
    if (typeof value !== 'string') continue
    const openai = OPENAI.exec(name)
    const anthropic = openai === null ? ANTHROPIC.exec(name) : null
    const [what, of, span] = openai === null ? [anthropic?.[2], anthropic?.[1], undefined] : openai.slice(1)
    if (what === undefined || of === undefined) continue
    counting ??= openai === null ? 'used' : 'reserved'
    const key = `${of} ${span ?? ''}`
    told.set(key, { ...told.get(key), [what]: value })
  }
  const clock_ms = providerClockMs(headers, wall_ms)
  const limits = [...told].map(([key, { limit, remaining, reset }]) => {
    const [of = '', span = ''] = key.split(' ')
    return {
      quantity: NAMES[of] as Quantity,
      amount: count(limit, 1),
      remaining: count(remaining, 0),
      reset_us: spanUs(reset, clock_ms),
      window_us: SPANS_US[span] ?? (counting === 'used' ? MINUTE_US : null),
    }
  })
  return { limits, counting }
}

/** `retry-after-ms`, or `retry-after` in seconds or as a date. Null: none that can be meant. */
export function retryAfterUs(headers: IncomingHttpHeaders, wall_ms: number): number | null {
  const exact = headers['retry-after-ms']
  if (typeof exact === 'string' && /^\d{1,12}(\.\d+)?$/.test(exact)) return bounded(Number(exact) * 1000)
  const said = headers['retry-after']
  if (said === undefined) return null
  if (/^\d{1,9}(\.\d+)?$/.test(said)) return bounded(Number(said) * 1e6)
  const at_ms = Date.parse(said)
  return Number.isNaN(at_ms) || !/[a-z]/i.test(said)
    ? null
    : bounded((at_ms - providerClockMs(headers, wall_ms)) * 1000)
}

function providerClockMs({ date }: IncomingHttpHeaders, wall_ms: number): number {
  const told_ms = date === undefined ? Number.NaN : Date.parse(date)
  return Number.isNaN(told_ms) ? wall_ms : told_ms
}

function count(text: string | undefined, min: number): number | null {
  if (text === undefined || !/^\d{1,16}$/.test(text)) return null
  const value = Number(text)
  return value >= min && value <= COUNT_MAX ? value : null
}

/** `6m0s`, `20ms`, `1.5` seconds, or an instant. An instant that has passed is no span. */
function spanUs(text: string | undefined, clock_ms: number): number | null {
  if (text === undefined || text.length > 64) return null
  if (/^\d{1,9}(\.\d+)?$/.test(text)) return bounded(Number(text) * 1e6)
  const match =
    /^(?:(\d{1,4})d)?(?:(\d{1,5})h)?(?:(\d{1,6})m(?!s))?(?:(\d{1,9}(?:\.\d+)?)s)?(?:(\d{1,9}(?:\.\d+)?)ms)?$/.exec(text)
  if (match !== null && text !== '') {
    const [days = 0, hours = 0, minutes = 0, seconds = 0, ms = 0] = match.slice(1).map((part) => Number(part ?? 0))
    return bounded(((days * 24 + hours) * 60 + minutes) * 60e6 + seconds * 1e6 + ms * 1000)
  }
  if (!/^\d{4}-\d\d-\d\dT/.test(text)) return null
  const at_ms = Date.parse(text)
  return Number.isNaN(at_ms) ? null : bounded((at_ms - clock_ms) * 1000)
}

function bounded(span_us: number): number | null {
  return span_us < 0 || span_us > RESET_US_MAX ? null : Math.round(span_us)
}
