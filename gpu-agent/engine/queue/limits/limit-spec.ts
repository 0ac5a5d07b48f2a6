/**
 * The limits of a provider as an operator writes them (`requests=60/min`, `tokens=1.5M/day`, `concurrent=8`), and the names of what
 * is limited. Amounts are whole and above zero: a limit of nothing would hold every call for ever.
 */

/** `tokens`: input and output together. */
export const QUANTITIES = ['requests', 'input', 'output', 'tokens'] as const
export type Quantity = (typeof QUANTITIES)[number]

export interface LimitSpec {
  quantity: Quantity | 'concurrent'
  amount: number
  /** Null of `concurrent`, which has none. */
  window_us: number | null
  /** The only model that it is of. Left out: of all. */
  model?: string
}

export const DAY_US = 24 * 3600 * 1_000_000
export const MINUTE_US = 60_000_000
const WINDOWS_US: Readonly<Record<string, number>> = {
  ...{ s: 1_000_000, second: 1_000_000, min: MINUTE_US, minute: MINUTE_US, m: MINUTE_US },
  ...{ h: 3600 * 1_000_000, hour: 3600 * 1_000_000, day: DAY_US, d: DAY_US },
}
const AMOUNT_MAX = 1e15
export const CONCURRENT_MAX = 1024
export const LIMITS_MAX = 16
const FORM = 'requests=60/min, input=2M/day, output=8k/min, tokens=200k/min or concurrent=8'

/** A string says what is wrong. */
export function parseLimit(text: string): LimitSpec | string {
  // Names of models may have colons, and limits have none.
  const of_model = /^(.{1,256}):([^:]*)$/.exec(text)
  if (of_model === null) return parseAmount(text)
  const [, model = '', limit = ''] = of_model
  const spec = parseAmount(limit)
  return typeof spec === 'string' ? spec : { ...spec, model }
}

function parseAmount(text: string): LimitSpec | string {
  const match = /^([a-z]+)=([^/]*)(?:\/(.*))?$/.exec(text)
  if (match === null) return `write a limit as ${FORM}`
  const [, quantity = '', said = '', span] = match
  const amount = amountOf(said)
  if (amount === null) {
    return `${JSON.stringify(said)} is no limit: it is a whole number above 0, with k or M for thousands and millions`
  }
  if (quantity === 'concurrent') {
    if (span !== undefined) return 'concurrent calls have no span of time: write concurrent=8'
    return amount > CONCURRENT_MAX ? `concurrent is at most ${CONCURRENT_MAX}` : { quantity, amount, window_us: null }
  }
  const limited = QUANTITIES.find((one) => one === quantity)
  if (limited === undefined) return `${quantity} is not among ${QUANTITIES.join(', ')}, concurrent`
  if (span === undefined) return `in which time? Write ${quantity}=${said}/min or /day`
  const window_us = WINDOWS_US[span]
  if (window_us === undefined) return `${JSON.stringify(span)} is no span of time: write s, min, hour or day`
  return { quantity: limited, amount, window_us }
}

/** Null: none that can be meant. */
function amountOf(text: string): number | null {
  const match = /^(\d{1,15}(?:\.\d{1,6})?)([kKmM]?)$/.exec(text)
  if (match === null) return null
  const unit = { k: 1e3, m: 1e6 }[(match[2] ?? '').toLowerCase()] ?? 1
  const amount = Math.round(Number(match[1]) * unit * 1e6) / 1e6
  return Number.isInteger(amount) && amount >= 1 && amount <= AMOUNT_MAX ? amount : null
}

/** `60 requests per minute`. */
export function limitText({ quantity, amount, window_us }: LimitSpec): string {
  const what = quantity === 'input' || quantity === 'output' ? `${quantity} tokens` : quantity
  if (window_us === null) return `${amount} calls at once`
  const span = { 1000000: 'second', 60000000: 'minute', 3600000000: 'hour', 86400000000: 'day' }[window_us]
  return `${amount} ${what} per ${span ?? `${window_us / 1e6} s`}`
}
