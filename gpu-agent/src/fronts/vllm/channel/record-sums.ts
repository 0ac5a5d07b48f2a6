/** The engine's records of one lease → its measurement, and the sums that its ledger must reach. */
import { type Measurement, NOTHING_MEASURED } from '../../../../../src/protocol/index.ts'
import type { LedgerSums } from '../../../outbox/record.ts'
import { summed } from '../../local/lease-measurement.ts'
import type { EngineRecord } from './channel-messages.ts'

/** Of at least one record. `prompts`: how many the call has. */
export function measurementOf(records: readonly EngineRecord[], prompts = 1): Measurement {
  const measurements = records.map((record) => ({ ...NOTHING_MEASURED, ...record }))
  return summed(measurements, prompts)
}

export function sumsOf(records: readonly EngineRecord[]): LedgerSums {
  const sum = (of: (record: EngineRecord) => number) => records.reduce((total, record) => total + of(record), 0)
  return {
    wall_us: sum((record) => record.service_wall_us),
    modelled_us: sum((record) => record.service_modelled_us),
    // A plug-in that does not count them: at least what was sampled had its prompt computed.
    computed_tokens: sum((record) => record.computed_tokens ?? computedAtLeast(record)),
    sampled_tokens: sum((record) => record.output_tokens),
  }
}

function computedAtLeast({ prompt_tokens, cached_tokens, output_tokens }: EngineRecord): number {
  return output_tokens === 0 ? 0 : Math.max(0, prompt_tokens - cached_tokens) + output_tokens - 1
}

/** The measurement with the service that its ledger says: the same, unless the ledger had been told more. */
export function chargedAs(measurement: Measurement, { wall_us, modelled_us }: LedgerSums): Measurement {
  return { ...measurement, service_wall_us: wall_us, service_modelled_us: modelled_us }
}
