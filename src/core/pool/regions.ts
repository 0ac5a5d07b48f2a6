/**
 * Which region serves a call: nearest first, and on to the next when the near one is too full.
 *
 * The pool of a region is asked with a limit on its load (SPILL_LOAD: queued calls per seat). If its engine is fuller, it
 * answers `busy` with the load and grants nothing, and the next region is asked. When every region was too full, the one
 * with the least load is asked again without a limit; among equal loads, the nearer one. A long prompt starts at the region
 * with its program's KV cache, at any distance.
 *
 * A region's pool may have several shards (choose-shards.ts). The pin's shard is asked first. When that is too full, the better of
 * two others is asked, and only a shard without engines or out of reach makes the walk ask a further one.
 *
 * The relay drives the walk with one RPC per step. The walk ends: it asks at most REGIONS_ASKED_MAX regions, at most
 * SHARDS_ASKED_MAX shards of each, and each of them at most twice.
 */
import { ONE_SHARD, SHARDS_ASKED_MAX, type ShardsToAsk } from './choose-shards.ts'
import { FIRST_SHARD } from './pool-shards.ts'
import { type EngineChoice, type LeaseReason, type Pin, SHORT_PROMPT_TOKENS, SPILL_LOAD } from './pool-types.ts'

/** Regions that one walk asks. Farther ones are left out. */
export const REGIONS_ASKED_MAX = 8
const EARTH_RADIUS_KM = 6371

export interface Region {
  id: string
  /** The operator's order, for clients whose place is unknown. */
  position: number
  latitude: number | null
  longitude: number | null
}

export interface Place {
  latitude: number
  longitude: number
}

/** Great-circle distance (haversine). */
export function distanceKm(a: Place, b: Place): number {
  const latitude = radians(b.latitude - a.latitude) / 2
  const longitude = radians(b.longitude - a.longitude) / 2
  const h =
    Math.sin(latitude) ** 2 + Math.cos(radians(a.latitude)) * Math.cos(radians(b.latitude)) * Math.sin(longitude) ** 2
  return 2 * EARTH_RADIUS_KM * Math.asin(Math.min(1, Math.sqrt(h)))
}

/** Regions by distance from `client`. Where the place of the client or of a region is unknown, by position. */
export function nearestFirst<R extends Region>(regions: readonly R[], client: Place | null): R[] {
  const ranked = regions.map((region) => ({ region, km: kmFrom(client, region) }))
  ranked.sort((a, b) => compare(a.km, b.km) || a.region.position - b.region.position || compareId(a.region, b.region))
  return ranked.map(({ region }) => region)
}

export interface RegionQuestion {
  region: string
  /** Of the region's pool. Left out: the first. */
  shard?: number
  /** The pin's shard was too full, and this one knows nothing of the pin. Left out: not so. */
  left_pin?: true
  /** For LeaseRequest: null grants at any load. */
  max_load: number | null
  /** Another region, or the pin's shard, should have served the call, but was too full or had no engine. */
  spilled: boolean
}

/** A pool's answer. `unreachable`: the RPC failed, and the Worker had no snapshot to choose from. */
export type RegionAnswer = EngineChoice | { status: 'unreachable' }

export type RegionVerdict =
  | {
      status: 'leased'
      region: string
      /** Left out: the first. */
      shard?: number
      choice: Extract<EngineChoice, { status: 'leased' }>
      spilled: boolean
    }
  | { status: 'none'; retry_after_s: number }

export const UNREACHABLE_RETRY_AFTER_S = 1

/** `spilled` replaces reasons about the pool alone. Reasons about the program's cache or about a failure stay. */
export function spilledReason(reason: LeaseReason): LeaseReason {
  return reason === 'least_used' || reason === 'pin_created' ? 'spilled' : reason
}

interface Busy {
  region: string
  shard: number
  left_pin: boolean
  load: number
}

export class RegionWalk {
  #first: string | null
  #unasked: string[]
  /** Of the first of them. */
  readonly #asked_shards = new Set<number>()
  /** Places that were too full, with the load that they reported. */
  #busy: Busy[] = []
  /** Of the first region. */
  #left_pin = false
  #asked: RegionQuestion | null = null
  #retry_after_s: number | null = null
  #verdict: RegionVerdict | null = null
  #spill_load: number
  #alone: boolean
  #shardsOf: (region: string) => ShardsToAsk

  /** `regions`: ids, nearest first. `shardsOf` is asked at each step: an answer may tell of shards. */
  constructor(
    regions: readonly string[],
    call: { pin: Pin | null; prompt_tokens_estimate: number },
    spill_load: number = SPILL_LOAD,
    short_prompt_tokens: number = SHORT_PROMPT_TOKENS,
    shardsOf: (region: string, pin: Pin | null) => ShardsToAsk = () => ONE_SHARD,
  ) {
    const pinOf = (region: string) => (region === home ? call.pin : null)
    this.#shardsOf = (region) => shardsOf(region, pinOf(region))
    const home = call.prompt_tokens_estimate > short_prompt_tokens ? (call.pin?.region ?? null) : null
    const others = regions.filter((region) => region !== home)
    const order = home !== null && others.length < regions.length ? [home, ...others] : others
    this.#unasked = order.slice(0, REGIONS_ASKED_MAX)
    this.#first = this.#unasked[0] ?? null
    this.#spill_load = spill_load
    this.#alone = this.#unasked.length === 1
  }

  /** The pool to ask, or null when the walk is over. Repeats the question until it is answered. */
  next(): RegionQuestion | null {
    if (this.#verdict !== null) return null
    this.#asked ??= this.#nextQuestion()
    if (this.#asked === null) {
      this.#verdict = { status: 'none', retry_after_s: this.#retry_after_s ?? UNREACHABLE_RETRY_AFTER_S }
    }
    return this.#asked
  }

  /** Takes the answer of the pool asked last. */
  answer(reply: RegionAnswer): void {
    const asked = this.#asked
    if (asked === null) throw new Error('no region was asked')
    this.#asked = null
    switch (reply.status) {
      case 'leased': {
        const { max_load: _, left_pin: __, ...place } = asked
        this.#verdict = { status: 'leased', ...place, choice: reply }
        return
      }
      case 'busy': {
        const { region, shard = FIRST_SHARD, left_pin = false } = asked
        // A pool that is too full without a limit would be asked for ever.
        if (asked.max_load !== null) this.#busy.push({ region, shard, left_pin, load: reply.load })
        if (region !== this.#unasked[0]) return
        if (shard === this.#shardsOf(region).home) this.#left_pin = true
        else this.#leaveRegion()
        return
      }
      case 'none':
        this.#retry_after_s = Math.min(this.#retry_after_s ?? reply.retry_after_s, reply.retry_after_s)
        return
      case 'unreachable':
        return
    }
  }

  /** Null while there are regions to ask. */
  verdict(): RegionVerdict | null {
    return this.#verdict
  }

  #nextQuestion(): RegionQuestion | null {
    for (let region = this.#unasked[0]; region !== undefined; region = this.#unasked[0]) {
      const { home, others } = this.#shardsOf(region)
      const shards = home === null ? others : [home, ...others]
      const shard = shards.find((one) => !this.#asked_shards.has(one))
      if (shard !== undefined && this.#asked_shards.size < SHARDS_ASKED_MAX) {
        this.#asked_shards.add(shard)
        return this.#question(
          { region, shard, left_pin: this.#left_pin },
          this.#limit(shard === home && shards.length > 1),
        )
      }
      this.#leaveRegion()
    }
    const least = this.#leastBusy()
    if (least === null) return null
    this.#busy = this.#busy.filter((busy) => busy !== least)
    return this.#question(least, null)
  }

  #leaveRegion(): void {
    this.#unasked.shift()
    this.#asked_shards.clear()
    this.#left_pin = false
  }

  /** With nowhere else to go there is nothing to compare with. Beside a pin's shard that is too full, its load. */
  #limit(has_other_shards: boolean): number | null {
    if (!this.#alone || has_other_shards) return this.#spill_load
    return this.#leastBusy()?.load ?? null
  }

  #leastBusy(): Busy | null {
    let least: Busy | null = null
    for (const busy of this.#busy) {
      if (least === null || busy.load < least.load) least = busy
    }
    return least
  }

  #question({ region, shard, left_pin }: Omit<Busy, 'load'>, max_load: number | null): RegionQuestion {
    return {
      ...{ region, max_load, spilled: region !== this.#first || left_pin },
      ...(shard === FIRST_SHARD ? {} : { shard }),
      ...(left_pin ? { left_pin } : {}),
    }
  }
}

function kmFrom(client: Place | null, { latitude, longitude }: Region): number {
  if (client === null || latitude === null || longitude === null) return Number.POSITIVE_INFINITY
  return distanceKm(client, { latitude, longitude })
}

/** Not by subtraction: two infinities would give NaN. */
function compare(a: number, b: number): number {
  return a === b ? 0 : a - b
}

function compareId(a: Region, b: Region): number {
  return a.id < b.id ? -1 : 1
}

function radians(degrees: number): number {
  return (degrees * Math.PI) / 180
}
