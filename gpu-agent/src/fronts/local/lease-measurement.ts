/**
 * A record is of a lease, and a lease with several choices is several calls of the engine: its measurement is the sum of
 * theirs. The prompt counts once, as OpenAI counts it, with what the choice that found least of it in the cache had to say.
 * With several prompts each is a choice.
 */
import {
  type MeasuredSums,
  type Measurement,
  outlookOf,
  pausesOf,
  type TicketClaims,
  tpotUs,
  type UsageExtension,
} from '../../../../src/protocol/index.ts'

/** Of at least one choice. `prompts`: several have one answer each, and all count; the answers to one share it. */
export function summed(measurements: readonly Measurement[], prompts = 1): Measurement {
  type Figure = keyof MeasuredSums
  const of = (field: Figure) => measurements.map((one) => one[field])
  const sum = (field: Figure) => of(field).reduce((total, one) => total + one, 0)
  const first = measurements.flatMap(({ first_token_us }) => first_token_us ?? [])
  return {
    prompt_tokens: prompts > 1 ? sum('prompt_tokens') : Math.max(...of('prompt_tokens')),
    cached_tokens: prompts > 1 ? sum('cached_tokens') : Math.min(...of('cached_tokens')),
    output_tokens: sum('output_tokens'),
    resumed_tokens: sum('resumed_tokens'),
    service_wall_us: sum('service_wall_us'),
    service_modelled_us: sum('service_modelled_us'),
    wait_us: sum('wait_us'),
    preemptions: sum('preemptions'),
    swapped_out_tokens: sum('swapped_out_tokens'),
    swapped_in_tokens: sum('swapped_in_tokens'),
    recomputed_tokens: sum('recomputed_tokens'),
    swap_us: sum('swap_us'),
    first_token_us: first.length === 0 ? null : Math.min(...first),
    duration_us: Math.max(...measurements.map(({ duration_us }) => duration_us)),
    ...outlookOf(measurements[0] ?? {}),
    // Choices are preempted one by one, so only a single one has pauses of its lease.
    ...pausesOf(measurements.length === 1 ? (measurements[0] ?? {}) : {}),
    ...handledOf(measurements),
  }
}

/** What the engine measured of a call whose prompt ends with so many tokens of its own output. */
export function resumedBy(measurement: Measurement, resumed_tokens: number): Measurement {
  const prompt_tokens = Math.max(0, measurement.prompt_tokens - resumed_tokens)
  const cached_tokens = Math.min(measurement.cached_tokens, prompt_tokens)
  return { ...measurement, prompt_tokens, cached_tokens, resumed_tokens }
}

/** The context of a lease is handled when its last choice ends. */
function handledOf(measurements: readonly Measurement[]): Pick<Measurement, 'handled'> {
  const handled = measurements.find((one) => one.handled !== undefined)?.handled
  return handled === undefined ? {} : { handled }
}

/** What the final usage chunk says of it. `ordering`: the reading that `service_s` shows. */
export function usageExtension(
  { engine, region, source }: Pick<TicketClaims, 'engine' | 'region' | 'source'>,
  measurement: Measurement,
  ordering: 'wall' | 'modelled',
  emulated: boolean,
  choices: number,
): UsageExtension {
  const service_wall_s = measurement.service_wall_us / 1e6
  const service_modelled_s = measurement.service_modelled_us / 1e6
  return {
    service_s: ordering === 'wall' ? service_wall_s : service_modelled_s,
    service_wall_s,
    service_modelled_s,
    wait_s: measurement.wait_us / 1e6,
    resumed_tokens: measurement.resumed_tokens,
    ttft_s: secondsOf(measurement.first_token_us),
    tpot_s: secondsOf(tpotUs(measurement, choices)),
    preemptions: measurement.preemptions,
    swapped_out_tokens: measurement.swapped_out_tokens,
    swapped_in_tokens: measurement.swapped_in_tokens,
    recomputed_tokens: measurement.recomputed_tokens,
    swap_s: measurement.swap_us / 1e6,
    engine,
    region,
    ...(source === undefined ? {} : { source }),
    emulated,
  }
}

function secondsOf(us: number | null): number | null {
  return us === null ? null : us / 1e6
}
