/**
 * What is left of the program's budget behind a call, in the usage that its client sees: `usage.switchyard.program_budget_left`.
 * As at admission, with this call at what it has used in place of what it had reserved. Calls that were open beside it count as
 * reserved.
 */
import { AMOUNT_KINDS, type AmountKind, BUDGET_FIELDS } from '../core/budget/budget.ts'
import { costNanos } from '../core/budget/call-cap.ts'
import type { Admission } from './admit.ts'
import type { Json } from './dialects/dialect.ts'
import type { SoundData } from './sound-usage.ts'

interface Usage {
  prompt_tokens?: number
  completion_tokens?: number
  prompt_tokens_details?: { cached_tokens?: number } | null
  switchyard?: Json & { service_modelled_s?: number }
}

/** `sound`, which also tells what is left where the program has a budget. */
export function tellingBudget(
  sound: SoundData,
  { budget, reserved }: Pick<Admission, 'budget' | 'reserved'>,
): SoundData {
  if (budget === null || reserved === null) return sound
  const leftAfter = (usage: Usage): Json => {
    const prompt_tokens = usage.prompt_tokens ?? 0
    const output_tokens = usage.completion_tokens ?? 0
    const cached_tokens = usage.prompt_tokens_details?.cached_tokens ?? 0
    const { prices } = reserved
    const used = {
      ...{ calls: 1, tokens: prompt_tokens + output_tokens },
      service_us: Math.round((usage.switchyard?.service_modelled_s ?? 0) * 1e6),
      cost_nanos: prices === null ? 0 : costNanos(prices, { prompt_tokens, cached_tokens, output_tokens }),
    }
    const left = (kind: AmountKind): number | null => {
      const limit = budget.limits[kind]
      const held = reserved.amounts[kind] ?? 0
      return limit === null ? null : Math.max(0, limit - budget.used[kind] - budget.reserved[kind] + held - used[kind])
    }
    const of = Object.fromEntries(AMOUNT_KINDS.map((kind) => [kind, left(kind)]))
    const fields = Object.entries(BUDGET_FIELDS).map(([field, { kind, unit }]) => [
      field,
      (of[kind] ?? Number.NaN) / unit,
    ])
    return Object.fromEntries(fields.filter(([, amount]) => !Number.isNaN(amount)))
  }
  return (data) => {
    const checked = sound(data)
    if (!checked.includes('"switchyard":{')) return checked
    const chunk = chunkOf(checked)
    const usage = chunk?.usage
    if (usage?.switchyard === undefined) return checked
    const switchyard = { ...usage.switchyard, program_budget_left: leftAfter(usage) }
    return JSON.stringify({ ...chunk, usage: { ...usage, switchyard } })
  }
}

/** Null: it is none, which its reader says. */
function chunkOf(data: string): (Json & { usage?: Usage | null }) | null {
  try {
    return JSON.parse(data) as Json & { usage?: Usage | null }
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}
