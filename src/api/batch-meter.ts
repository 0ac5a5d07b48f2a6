/**
 * One request for the records of many programs. An agent's batch has records of several programs of a tenant, which storage
 * confirms one after the other. Those that are confirmed within METER_GATHER_MS are metered together: the tenant's actor takes more
 * records than requests, and requests are billed.
 *
 * Keeps true: a caller hears of its records only what became of the request that had them.
 */
import type { ProvenRecord } from '../core/program/program-state.ts'

/** From the first confirmed record of a tenant to the request. No client waits for it. */
export const METER_GATHER_MS = 10

/** An object of a tenant (core/program/tenant-shards.ts). */
export interface MeterPlace {
  tenant: string
  shard: number
}

export interface BatchMeterOptions {
  /** Actors that the batch asks. Of one alone nothing is gathered. */
  groups: number
  meter: (place: MeterPlace, records: readonly ProvenRecord[]) => Promise<void>
  wait: (ms: number) => Promise<void>
}

interface Gathered {
  records: ProvenRecord[]
  metered: Promise<void>
}

export class BatchMeter {
  readonly #options: BatchMeterOptions
  /** By place; none of them is under way yet. */
  readonly #gathered = new Map<string, Gathered>()

  constructor(options: BatchMeterOptions) {
    this.#options = options
  }

  /** Resolves when the records are counted, and rejects if that is not known. */
  record(place: MeterPlace, records: readonly ProvenRecord[]): Promise<void> {
    const { groups, meter } = this.#options
    if (groups <= 1) return meter(place, records)
    const name = JSON.stringify([place.tenant, place.shard])
    const waiting = this.#gathered.get(name)
    if (waiting !== undefined) {
      waiting.records.push(...records)
      return waiting.metered
    }
    const gathered = [...records]
    const metered = this.#meterSoon(name, place, gathered)
    this.#gathered.set(name, { records: gathered, metered })
    return metered
  }

  async #meterSoon(name: string, place: MeterPlace, records: readonly ProvenRecord[]): Promise<void> {
    await this.#options.wait(METER_GATHER_MS)
    this.#gathered.delete(name)
    await this.#options.meter(place, records)
  }
}
