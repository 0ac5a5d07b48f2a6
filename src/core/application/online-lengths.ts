/** How long answers of online calls were, by model, for plans whose models no application and no batch has used (SamuLLM §4.1). */
import type { CallEntry } from '../program/program-state.ts'
import { CUT_REASONS, type ModelLengths, NO_LENGTHS, withAnswers } from './output-lengths.ts'

type AnsweredCall = Pick<CallEntry, 'model' | 'outcome' | 'finish_reason' | 'leases'>

/** Of these models. Calls that failed or whose clients left teach nothing. Several choices of a call count as one answer. */
export function onlineLengths(calls: readonly AnsweredCall[], models: ReadonlySet<string>): ModelLengths[] {
  const answers = calls.flatMap(({ model, outcome, finish_reason, leases }) => {
    const last = leases.findLast(({ state }) => state === 'settled')
    if (!models.has(model) || outcome !== 'completed' || last === undefined) return []
    // What another engine had generated before is part of the answer.
    const output_tokens = last.resumed_tokens + last.output_tokens
    return output_tokens === 0 ? [] : [{ model, output_tokens, is_cut: CUT_REASONS.includes(finish_reason ?? '') }]
  })
  const by_model = Map.groupBy(answers, ({ model }) => model)
  return [...by_model].map(([model, of]) => ({ model, lengths: withAnswers(NO_LENGTHS, of) }))
}
