/**
 * How long a batch's answers are, by model, so that plans of applications can use them (SamuLLM §4.1). A sample of every part of
 * the results is read again, which bounds the work.
 */
import { z } from 'zod'
import { type Answer, CUT_REASONS, type ModelLengths, NO_LENGTHS, withAnswers } from '../application/output-lengths.ts'
import { usageOf } from './line-result.ts'

/** Of one batch. Lines may name more, and the others teach nothing. */
export const MODELS_MAX = 8
/** Results of one part that are read. */
export const SAMPLE_MAX = 256

/** Of chat and completions, Messages and Responses. */
const Line = z.object({
  response: z.object({
    body: z.looseObject({
      model: z.string(),
      choices: z.array(z.object({ finish_reason: z.string().nullish() })).nullish(),
      stop_reason: z.string().nullish(),
      status: z.string().nullish(),
    }),
  }),
})

const decoder = new TextDecoder()

/** `results`: of one part. */
export function withResults(
  before: readonly ModelLengths[],
  results: readonly { ok: boolean; bytes: Uint8Array }[],
): ModelLengths[] {
  const step = Math.max(1, Math.ceil(results.length / SAMPLE_MAX))
  const sample = results.filter(({ ok }, at) => ok && at % step === 0).flatMap(({ bytes }) => answerOf(bytes) ?? [])
  const lengths = new Map(before.map((one) => [one.model, one.lengths]))
  for (const [model, answers] of Map.groupBy(sample, (answer) => answer.model)) {
    if (!lengths.has(model) && lengths.size >= MODELS_MAX) continue
    lengths.set(model, withAnswers(lengths.get(model) ?? NO_LENGTHS, answers))
  }
  return [...lengths].map(([model, sketch]) => ({ model, lengths: sketch }))
}

/** Null: it has no text of its own, or several, whose tokens are counted together. */
function answerOf(bytes: Uint8Array): (Answer & { model: string }) | null {
  const read = Line.safeParse(JSON.parse(decoder.decode(bytes)))
  if (!read.success) return null
  const { body } = read.data.response
  const output_tokens = usageOf(body)?.tokens.output ?? 0
  const choices = body.choices ?? []
  if (output_tokens === 0 || choices.length > 1) return null
  const ending = choices[0]?.finish_reason ?? body.stop_reason ?? body.status ?? ''
  return { model: body.model, output_tokens, is_cut: CUT_REASONS.includes(ending) }
}
