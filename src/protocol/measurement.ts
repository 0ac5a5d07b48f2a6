/**
 * What an engine measures of one call, and an agent of one lease: every other form of it derives from this one. All
 * durations come from one monotonic clock of the measuring process.
 */
import { z } from 'zod'
import { HandlingDecision } from './handling.ts'
import { Count, Microseconds } from './ids.ts'
import { ProgramSource } from './program-source.ts'

/** Pauses that are kept of a call, the first ones. */
export const PAUSES_MAX = 16
/** From when to when after its arrival a call had lost its seat, and whether its KV was moved out of the cache meanwhile. */
export const Pause = z.tuple([Microseconds, Microseconds, z.boolean()])
export type Pause = z.infer<typeof Pause>

export const Measurement = z.object({
  prompt_tokens: Count,
  /** Prompt tokens whose prefill was skipped because their KV was resident. */
  cached_tokens: Count,
  /** That this lease generated. */
  output_tokens: Count,
  /** Output of the call that another engine had generated, and that this one computed again to go on from it. */
  resumed_tokens: Count.default(0),
  /** Summed duration of the engine steps in which the call was scheduled (the papers' model execution time). */
  service_wall_us: Microseconds,
  /** The call's own share of GPU work, by core/call/service.ts. */
  service_modelled_us: Microseconds,
  /** Time on the engine in which the call was not scheduled. */
  wait_us: Microseconds,
  /** Of it, in the agent's own queue before a server that the agent does not run. Left out: nothing tells that apart. */
  queue_wait_us: Microseconds.optional(),
  preemptions: Count,
  // Engines and stored rows of versions that did not count these leave them out.
  /** KV tokens of preempted calls that were saved out of the cache, and put back. */
  swapped_out_tokens: Count.default(0),
  swapped_in_tokens: Count.default(0),
  /** KV tokens of preempted calls that were computed again. */
  recomputed_tokens: Count.default(0),
  /** Time for which engine steps waited for the call's KV to be moved. */
  swap_us: Microseconds.default(0),
  /** TTFT: from arrival on the engine to the first generated token; null if there was none. */
  first_token_us: Microseconds.nullable(),
  /** From arrival on the engine to the end. */
  duration_us: Microseconds,
  // As of the call's arrival on the engine. Left out where its policy knows nothing that means anything outside of it.
  /** Its place in the order: a lower rank runs first. Without an expectation it is the level: 0 is Q1. */
  rank: z.number().optional(),
  /** Output that the program was expected to have from there on, where the policy goes by what programs of the class had. */
  expected_remaining_tokens: z.number().nonnegative().optional(),
  /** When it was preempted. Left out: it was not, or its engine does not tell when. */
  pauses: z.array(Pause).max(PAUSES_MAX).optional(),
  /** What was decided for the call's context when it ended. Left out: the policy decides nothing, or no tool was expected. */
  handled: HandlingDecision.optional(),
})
export type Measurement = z.infer<typeof Measurement>

/** In the process table, for every lease. */
export const StoredMeasurement = Measurement.omit({ duration_us: true, handled: true })
export type StoredMeasurement = z.infer<typeof StoredMeasurement>

/** What adds up over the leases of a program. */
export const MeasuredSums = StoredMeasurement.omit({
  first_token_us: true,
  queue_wait_us: true,
  rank: true,
  expected_remaining_tokens: true,
  pauses: true,
})
export type MeasuredSums = z.infer<typeof MeasuredSums>
export const MEASURED_SUMS = Object.keys(MeasuredSums.shape) as readonly (keyof MeasuredSums)[]

export const NOTHING_MEASURED: Measurement = {
  prompt_tokens: 0,
  cached_tokens: 0,
  output_tokens: 0,
  resumed_tokens: 0,
  service_wall_us: 0,
  service_modelled_us: 0,
  wait_us: 0,
  preemptions: 0,
  swapped_out_tokens: 0,
  swapped_in_tokens: 0,
  recomputed_tokens: 0,
  swap_us: 0,
  first_token_us: null,
  duration_us: 0,
}

/** Of anything that has these fields and more. */
export function storedMeasurement(of: StoredMeasurement): StoredMeasurement {
  const { first_token_us } = of
  return { ...measuredSums(of), first_token_us, ...outlookOf(of), ...queueWaitOf(of), ...pausesOf(of) }
}

/** What an engine's policy knew of a call when it came. */
export type Outlook = Pick<Measurement, 'rank' | 'expected_remaining_tokens'>

/** Of anything that has these fields and more. Nothing where neither is known. */
export function outlookOf({ rank, expected_remaining_tokens }: Nullable<Outlook>): Outlook {
  const known = expected_remaining_tokens == null ? {} : { expected_remaining_tokens }
  return rank == null ? known : { rank, ...known }
}

/** Of anything that has this field and more. Nothing where it is not known. */
export function queueWaitOf({ queue_wait_us }: Nullable<Pick<Measurement, 'queue_wait_us'>>): {
  queue_wait_us?: number
} {
  return queue_wait_us == null ? {} : { queue_wait_us }
}

/** Of anything that has these fields and more. */
export function pausesOf({ pauses }: Pick<Measurement, 'pauses'>): Pick<Measurement, 'pauses'> {
  return pauses === undefined ? {} : { pauses }
}

type Nullable<T> = { [field in keyof T]: T[field] | null }

/** Of anything that has these fields and more. */
export function measuredSums(of: MeasuredSums): MeasuredSums {
  return Object.fromEntries(MEASURED_SUMS.map((field) => [field, of[field]])) as MeasuredSums
}

/** `sign` −1: takes `of` away. */
export function addSums(to: MeasuredSums, of: Readonly<MeasuredSums>, sign: 1 | -1 = 1): void {
  for (const field of MEASURED_SUMS) to[field] += sign * of[field]
}

/**
 * TPOT: the time per output token after the first, microseconds; null if no choice has a second token. A lease of several
 * choices, which run side by side, counts as one of their mean length.
 */
export function tpotUs(
  of: Pick<Measurement, 'first_token_us' | 'duration_us' | 'output_tokens'>,
  choices = 1,
): number | null {
  const later_tokens = of.output_tokens / choices - 1
  if (of.first_token_us === null || later_tokens <= 0) return null
  return Math.max(0, of.duration_us - of.first_token_us) / later_tokens
}

/** `usage.switchyard` of the final usage chunk. */
export const UsageExtension = Measurement.pick({
  resumed_tokens: true,
  preemptions: true,
  swapped_out_tokens: true,
  swapped_in_tokens: true,
  recomputed_tokens: true,
}).extend({
  /** Time for which engine steps waited for the call's KV to be moved. */
  swap_s: z.number().nonnegative().default(0),
  /** In the pool's ordering reading. */
  service_s: z.number().nonnegative(),
  service_wall_s: z.number().nonnegative(),
  service_modelled_s: z.number().nonnegative(),
  wait_s: z.number().nonnegative(),
  /** From arrival on the engine to the first token; null: there was none. */
  ttft_s: z.number().nonnegative().nullable(),
  /** Per output token after the first; null: there was no second one. */
  tpot_s: z.number().nonnegative().nullable(),
  engine: z.string(),
  region: z.string(),
  /** Why the call belongs to its program; left out where the control plane did not say. */
  source: ProgramSource.optional(),
  /** Left out: by the engine itself. `outside`: by the times of chunks and by the usage, before a server that measures nothing. */
  measured: z.literal('outside').optional(),
  /** Left out: counted by the engine. `estimated`: its server told no usage, so tokens are estimates, rounded up. */
  tokens: z.literal('estimated').optional(),
  /** Of `wait_s`, where it was measured outside: in the agent's queue, and at the server. */
  queue_wait_s: z.number().nonnegative().optional(),
  server_wait_s: z.number().nonnegative().optional(),
  /** True when tokens came from a latency model and not from a language model. */
  emulated: z.boolean(),
})
export type UsageExtension = z.infer<typeof UsageExtension>
