/**
 * How many calls may be at a server at once. With too few it idles, with too many its own queue orders the calls. A pure
 * controller: it is given one look at the load after another, and answers with the limit.
 *
 * Where the server reports its queue, that is enough: the limit grows while calls wait here and none waits there, and shrinks
 * to one that waits there when more than WAITING_THERE_MAX do. A limit that was too high is not tried again for a while.
 *
 * Where it does not, each limit is held for a window in which calls wait here all the time. A server with so many seats writes
 * no more answers than that at once, however many calls it has: where some calls are always without output, it is full, and one
 * call more than it writes for is enough. Where all calls have output at once, more of them may be worth something: at first the
 * limit grows by half at every look that sees this, since bursts are short, and then it
 * doubles while the work done per second grows by GAIN_MIN, then the interval is halved down to the least limit that still has
 * nearly all of the best rate. That one is held. A higher one is tried now and then, each time after a longer pause, and the
 * search begins again when the rate falls or the time to the first token rises for some windows. Windows differ by chance, so
 * every comparison has a margin.
 */

export const LIMIT_MAX = 1024
/** Where nothing is known. */
export const LIMIT_FIRST = 4
export const WAITING_THERE_MAX = 2
/** Of one that was too high: not exceeded again for so long. */
export const CEILING_US = 20_000_000
const GROWTH = 0.25
/** Reports in a row that say the same, before the limit grows: a call may have been on its way. */
const AGREEING_REPORTS = 2

/** A window has so much time at its limit, and so many first tokens or the time of WINDOW_US_MAX. */
const WINDOW_US_MIN = 1_500_000
const WINDOW_US_MAX = 5_000_000
/** What twice as many calls must bring. */
const GAIN_MIN = 1.06
/** Of the best rate: a limit that has this is as good. */
const ENOUGH = 0.97
const FALLEN = 0.75
const TTFT_RISEN = 3
export const PROBE_US_MIN = 20_000_000
export const PROBE_US_MAX = 320_000_000
/** Looks in a row, at least two seconds, at which two calls or more had no output: fewer are prompts being computed. */
const FULL_LOOKS = 8
/** A server that writes for so much fewer calls than the limit is full with less. */
const FEWER = 0.8
/** Mean writing over the limit, from which a server that was full is taken to have more seats. */
const MORE_SEATS = 0.9
/** Mean over most calls that are written at once: with less they come and go between looks. */
const STEADY = 0.6
const TRACK_WEIGHT = 0.3
/** Windows in a row that must be unlike what is held before it is searched for again. */
const CHANGES_MIN = 2

export interface LoadLook {
  now_us: number
  /** Calls at the server. */
  sent: number
  /** Of them, those without output so far. */
  unanswered: number
  /** Calls that wait here. */
  waiting: number
  /** Calls that wait there, by the server's own report; null: it makes none, or none has come since the last look. */
  waiting_there: number | null
  /** Work done since the last look, as modelled service. */
  work_us: number
  /** Times to the first token at the server, of calls that had it since the last look. */
  ttft_us: readonly number[]
}

export interface ConcurrencyConfig {
  /** The operator's; nothing is learned. Null: learned. */
  seats: number | null
  /** What the server says of itself, and may have fewer of when its memory is full; null: it does not. */
  server_seats: number | null
}

export class Concurrency {
  readonly #config: ConcurrencyConfig
  readonly #max: number
  readonly #search: RateSearch
  #limit: number
  #reports = false
  #idle_reports = 0
  #ceiling = LIMIT_MAX
  #ceiling_until_us = Number.NEGATIVE_INFINITY

  constructor(config: ConcurrencyConfig) {
    const { seats, server_seats } = config
    this.#config = config
    // A server that runs so many at once never idles if one more waits there.
    this.#max = bounded(server_seats === null ? LIMIT_MAX : server_seats + 1)
    this.#limit = bounded(seats ?? (server_seats === null ? LIMIT_FIRST : this.#max))
    this.#search = new RateSearch(this.#limit)
  }

  get limit(): number {
    return this.#limit
  }

  look(load: LoadLook): number {
    this.#reports ||= load.waiting_there !== null
    const { seats, server_seats } = this.#config
    if (seats !== null) return this.#limit
    if (this.#reports) this.#byReport(load)
    else if (server_seats === null) this.#limit = this.#search.look(load)
    return this.#limit
  }

  #byReport({ now_us, sent, unanswered, waiting, waiting_there }: LoadLook): void {
    if (waiting_there === null) return
    // Other clients' calls wait there too.
    const ours = Math.min(waiting_there, unanswered)
    if (ours > WAITING_THERE_MAX) {
      this.#limit = bounded(Math.min(this.#limit, sent) - ours + 1)
      this.#ceiling = this.#limit + 1
      this.#ceiling_until_us = now_us + CEILING_US
    }
    const wants_more = ours === 0 && waiting > 0 && sent >= this.#limit
    this.#idle_reports = wants_more ? this.#idle_reports + 1 : 0
    if (this.#idle_reports < AGREEING_REPORTS) return
    this.#idle_reports = 0
    const grown = this.#limit + Math.max(1, Math.floor(this.#limit * GROWTH))
    const ceiling = now_us < this.#ceiling_until_us ? this.#ceiling : this.#max
    this.#limit = bounded(Math.min(grown, ceiling, this.#max))
  }
}

interface Point {
  limit: number
  /** The most calls that had output and had not ended, and their mean. */
  writing: number
  writing_mean: number
  /** Work per second of time. */
  rate: number
  ttft_us: number
}

type Phase =
  /** `lower`: the limit tried before this one, `lowest` the one before that; null: there was none. */
  | { name: 'double'; lowest: Point | null; lower: Point | null }
  | { name: 'halve'; low: Point; high: Point }
  /** `changes`: windows in a row that were unlike it. `full`: the server was seen to write for no more. */
  | { name: 'hold'; held: Point; probe_at_us: number; probe_us: number; changes: number; full: boolean }
  /** A higher limit, for one window. */
  | { name: 'probe'; held: Point; probe_us: number }

const NONE: Point = { limit: 0, writing: 0, writing_mean: 0, rate: 0, ttft_us: 0 }

class RateSearch {
  #limit: number
  #phase: Phase = { name: 'double', lowest: null, lower: null }
  #window_us = 0
  #work_us = 0
  #ttft_us: number[] = []
  #writing = 0
  #writing_sum = 0
  #looks = 0
  #last_us: number | null = null
  // Looks in a row at which calls waited there.
  #full_looks = 0
  #full_writing = 0
  #full_sum = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  look(load: LoadLook): number {
    const { now_us, sent, unanswered, waiting, work_us, ttft_us } = load
    const span_us = this.#last_us === null ? 0 : now_us - this.#last_us
    this.#last_us = now_us
    const full = this.#fullness(load)
    if (full !== null && full.limit < this.#limit * FEWER) {
      this.#hold(full, now_us, true)
      this.#clear()
      return this.#limit
    }
    // Only a server that is given all that it may have shows what a limit is worth.
    if (waiting === 0 || sent !== this.#limit) return this.#limit
    if (this.#begins && unanswered === 0) return this.#grow(waiting)
    this.#window_us += span_us
    this.#work_us += work_us
    this.#ttft_us.push(...ttft_us)
    this.#looks += 1
    this.#writing = Math.max(this.#writing, sent - unanswered)
    this.#writing_sum += sent - unanswered
    const enough = this.#window_us >= WINDOW_US_MIN && this.#ttft_us.length >= Math.max(4, this.#limit)
    if (!enough && this.#window_us < WINDOW_US_MAX) return this.#limit
    const sorted = this.#ttft_us.sort((a, b) => a - b)
    const median_us = sorted[Math.floor(sorted.length / 2)] ?? 0
    const { writing, writing_mean } = { writing: this.#writing, writing_mean: this.#writing_sum / this.#looks }
    const rate = this.#work_us / this.#window_us
    this.#decide({ limit: this.#limit, writing, writing_mean, rate, ttft_us: median_us }, now_us)
    this.#clear()
    return this.#limit
  }

  /** Calls have waited there at so many looks in a row, whether it was given all that it may have or not. */
  #fullness({ sent, unanswered }: LoadLook): Point | null {
    const writing = sent - unanswered
    const waits = unanswered >= 2 && writing > 0
    this.#full_looks = waits ? this.#full_looks + 1 : 0
    this.#full_writing = waits ? Math.max(this.#full_writing, writing) : 0
    this.#full_sum = waits ? this.#full_sum + writing : 0
    if (this.#full_looks < FULL_LOOKS) return null
    const point = { ...NONE, limit: sent, writing: this.#full_writing, writing_mean: this.#full_sum / this.#full_looks }
    this.#full_looks = 0
    this.#full_writing = 0
    this.#full_sum = 0
    const limit = fullAt({ ...point, limit: Number.POSITIVE_INFINITY })
    return limit === null ? null : { ...point, limit }
  }

  /** Nothing has been compared so far. */
  get #begins(): boolean {
    return this.#phase.name === 'double' && this.#phase.lower === null
  }

  /** All that it was given are written at once: no window is needed to see that it has room. */
  #grow(waiting: number): number {
    this.#limit = bounded(this.#limit + Math.min(waiting, Math.ceil(this.#limit / 2)))
    this.#clear()
    return this.#limit
  }

  #clear(): void {
    this.#writing = 0
    this.#writing_sum = 0
    this.#looks = 0
    this.#window_us = 0
    this.#work_us = 0
    this.#ttft_us = []
  }

  #decide(point: Point, now_us: number): void {
    const phase = this.#phase
    const full = fullAt(point)
    if (full !== null && phase.name !== 'hold') {
      this.#hold({ ...point, limit: full }, now_us, true)
      return
    }
    if (phase.name === 'double') this.#doubled(point, phase, now_us)
    else if (phase.name === 'halve') this.#halved(point, phase, now_us)
    else if (phase.name === 'probe') this.#probed(point, phase, now_us)
    else this.#held(point, phase, now_us)
  }

  #doubled(point: Point, { lowest, lower }: Extract<Phase, { name: 'double' }>, now_us: number): void {
    const gains = lower === null || point.rate >= lower.rate * GAIN_MIN
    if (gains && point.limit < LIMIT_MAX) this.#try({ name: 'double', lowest: lower, lower: point }, point.limit * 2)
    else if (gains) this.#hold(point, now_us, false)
    else if (lower.rate >= point.rate * ENOUGH) this.#narrow(lowest ?? NONE, lower, now_us)
    else this.#narrow(lower, point, now_us)
  }

  #halved(point: Point, { low, high }: Extract<Phase, { name: 'halve' }>, now_us: number): void {
    const enough = point.rate >= Math.max(low.rate, high.rate) * ENOUGH
    if (enough) this.#narrow(low, point.rate > high.rate ? point : { ...point, rate: high.rate }, now_us)
    else this.#narrow(point, high, now_us)
  }

  /** The least limit that is enough lies above `low` and is at most `high`. */
  #narrow(low: Point, high: Point, now_us: number): void {
    if (high.limit - low.limit <= Math.max(1, low.limit / 8)) this.#hold(high, now_us, false)
    else this.#try({ name: 'halve', low, high }, Math.floor((low.limit + high.limit) / 2))
  }

  #held(point: Point, phase: Extract<Phase, { name: 'hold' }>, now_us: number): void {
    const { held, probe_at_us, probe_us } = phase
    const full = fullAt(point)
    const fewer = full !== null && full < held.limit * FEWER
    const slower = point.ttft_us > held.ttft_us * TTFT_RISEN && held.rate > 0
    const unlike = point.rate < held.rate * FALLEN || slower
    if (fewer || (unlike && full === null)) {
      const changes = phase.changes + 1
      if (changes < CHANGES_MIN) this.#phase = { ...phase, changes }
      else if (full !== null) this.#hold({ ...point, limit: full }, now_us, true)
      else this.#try({ name: 'double', lowest: null, lower: null }, Math.ceil(held.limit / 4))
      return
    }
    // All that it was given were written at once: a server that was full has more seats than it had.
    if (phase.full && point.writing >= held.limit && point.writing_mean >= held.limit * MORE_SEATS) {
      const limit = held.limit + Math.max(1, Math.floor(held.limit / 8))
      this.#hold({ ...point, limit }, now_us, true)
      return
    }
    // Of one that was found full between windows no rate is known.
    const unknown = held.rate === 0
    const tracked = unknown
      ? { ...point, limit: held.limit }
      : {
          ...held,
          rate: held.rate + (point.rate - held.rate) * TRACK_WEIGHT,
          ttft_us: held.ttft_us + (point.ttft_us - held.ttft_us) * TRACK_WEIGHT,
        }
    if (now_us < probe_at_us || phase.full) this.#phase = { ...phase, held: tracked, changes: 0 }
    else this.#try({ name: 'probe', held: tracked, probe_us }, held.limit + Math.max(1, Math.floor(held.limit / 4)))
  }

  #probed(point: Point, { held, probe_us }: Extract<Phase, { name: 'probe' }>, now_us: number): void {
    if (point.rate >= held.rate * GAIN_MIN) this.#try({ name: 'double', lowest: held, lower: point }, point.limit * 2)
    else this.#hold(held, now_us, false, Math.min(PROBE_US_MAX, probe_us * 2))
  }

  #hold(held: Point, now_us: number, full: boolean, probe_us = PROBE_US_MIN): void {
    this.#try({ name: 'hold', held, probe_at_us: now_us + probe_us, probe_us, changes: 0, full }, held.limit)
  }

  #try(phase: Phase, limit: number): void {
    this.#phase = phase
    this.#limit = bounded(limit)
  }
}

/**
 * The limit for a server that writes for fewer calls than it has; null: it writes for all, too shortly to tell, or not in
 * streams. A call that is being computed without output yet has a seat too, hence the margin.
 */
function fullAt({ limit, writing, writing_mean }: Point): number | null {
  if (writing === 0 || writing_mean < writing * STEADY || writing >= limit - 1 - Math.floor(limit / 8)) return null
  return bounded(writing + Math.max(1, Math.floor(writing / 8)))
}

function bounded(limit: number): number {
  return Math.min(LIMIT_MAX, Math.max(1, limit))
}
