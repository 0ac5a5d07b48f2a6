/**
 * `GET /v1/programs/{id}/fcfs`: what the calls of a program would have waited under first come, first served, as the API answers
 * and as the page and the command line read it.
 */
import * as z from 'zod'

/**
 * Of a call. `open`: it has not ended. `too_early`: calls that ran beside it are forgotten.
 *
 * Of an engine. `limits`: its provider's limits decide, and not seats. `too_long`: the replay took too many events. `busy`: the
 * agent replayed too often just now. `gone`: the agent serves the engine no longer, or has no link. `silent`: it did not answer.
 */
export const CallUnknown = z.enum(['open', 'too_early'])
export const EngineUnknown = z.enum(['limits', 'too_long', 'busy', 'gone', 'silent'])
export type EngineUnknown = z.infer<typeof EngineUnknown>

const Seconds = z.number().nonnegative()

const CallWait = z.object({
  id: z.string(),
  engine: z.string(),
  wait_s: Seconds.nullable().describe('As it was measured. Null: unknown'),
  fcfs_wait_s: Seconds.nullable().describe('As it is estimated. Null: unknown'),
  at_least: z.boolean().describe('An earlier call is still open and counts with what it was served so far'),
  unknown: CallUnknown.nullable().describe(
    'open: it has not ended. too_early: calls that ran beside it are forgotten. Null: it is estimated',
  ),
})

const EngineReplay = z.object({
  engine: z.string(),
  region: z.string(),
  unknown: EngineUnknown.nullable().describe(
    'limits: its provider’s limits decide, not seats. too_long: the replay took too many events. busy: ask again in a second. gone: it is not served any more. silent: its agent did not answer. Null: it was replayed',
  ),
})

export const FcfsWaits = z.object({
  object: z.literal('program.fcfs_waits'),
  program: z.string(),
  run: z.string(),
  estimate: z.literal(true),
  wait_s: Seconds.describe('Measured, summed over the calls that are estimated'),
  fcfs_wait_s: Seconds.describe('Estimated, summed over the same calls'),
  estimated_calls: z.number().int().nonnegative(),
  engines: z.array(EngineReplay),
  calls: z
    .array(CallWait)
    .describe('Calls that the agents remember, by engine. One that moved between engines is there for each'),
})
export type FcfsWaits = z.infer<typeof FcfsWaits>

/** After the name of an engine. */
const ENGINE_WORDS: Readonly<Record<EngineUnknown, string>> = {
  limits: 'waits for its provider’s limits and not for seats',
  too_long: 'has had too much to replay',
  busy: 'has replayed too often just now: ask again in a second',
  gone: 'is not served any more',
  silent: 'did not answer',
}

/** What is not estimated and why, one sentence an item. */
export function notEstimated({ engines, calls, estimated_calls }: FcfsWaits): string[] {
  const said = engines.flatMap(({ engine, unknown }) =>
    unknown === null ? [] : [`${engine} ${ENGINE_WORDS[unknown]}.`],
  )
  const counted = (reason: NonNullable<FcfsWaits['calls'][number]['unknown']>): number =>
    calls.filter(({ unknown }) => unknown === reason).length
  const [open, early] = [counted('open'), counted('too_early')]
  if (open > 0) said.push(`${calls_(open)} still open.`)
  if (early > 0) said.push(`${calls_(early)} too long ago: what ran beside them is forgotten.`)
  if (said.length === 0 && estimated_calls === 0) said.push('Its engines do not remember its calls.')
  return said
}

const calls_ = (number: number): string => (number === 1 ? '1 call is' : `${number} calls are`)
