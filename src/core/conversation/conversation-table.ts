/**
 * Recent conversations of one tenant, as keyed hashes: which program a call belongs to that names none.
 *
 * Every call without a name leaves an entry: the hash of its messages and, once it was answered, marks of the answer. A later
 * call continues the entry whose messages it begins with. The longest beginning wins. Of several equal ones, which many runs
 * of one agent have, the answer decides that follows the beginning. If even that is equal, the call takes the entry that no
 * call has continued, the oldest first. A further call that continues the same entry is another thread of its program.
 *
 * Where no answer agrees, because the client changed it, a beginning decides only if one program can be meant. Joining two
 * runs costs both of them their order and their place, leaving one call out costs little. So doubt starts a program.
 *
 * Keeps true:
 * - Entries, their bytes and their age are bounded. The oldest go first. What is forgotten costs joins, never calls.
 * - The work per call is bounded: by the beginnings that a call has and by BUCKET_MAX.
 * - There is no text in it.
 */
import type { ProgramSource } from '../../protocol/index.ts'
import { AGREES, agreement } from './answer-match.ts'
import { type Beginning, beginningAt, countOf } from './beginnings.ts'
import type { ConversationCall } from './conversation-call.ts'
import type { AnswerMarks } from './message-hash.ts'

/**
 * Conversations of one tenant are spread over this many tables by their opening. Changing it forgets which program they belong
 * to.
 */
export const CONVERSATION_SHARDS = 8
/**
 * The table of all calls with a traceparent. Calls of one trace may have any opening, and calls of one conversation may each
 * have a trace of their own, so only one table can know both.
 */
const TRACED_SHARD = CONVERSATION_SHARDS
export const CONVERSATIONS_MAX = 20_000
export const CONVERSATION_BYTES_MAX = 16 * 1024 * 1024
/** Entries under one hash that are looked at: the latest. */
export const BUCKET_MAX = 512
/** Calls that continue one conversation within this time run in parallel. */
const PARALLEL_MS = 10_000
/** Messages at the end of a call that the next one may leave out, such as a reminder that is always the last message. */
const TRIMMED_MAX = 2
/** Of an entry, beside its ids: hashes, marks and its places in the indexes. */
const ENTRY_BYTES = 640

export interface ConversationArrival extends ConversationCall {
  call: string
  /** Trace id of its traceparent. */
  trace: string | null
}

/** The tenant's table that a call is asked of and its answer is told. */
export function conversationShard({ opening, trace }: Pick<ConversationArrival, 'opening' | 'trace'>): number {
  return trace === null ? opening % CONVERSATION_SHARDS : TRACED_SHARD
}

export interface ConversationPlace {
  program: string
  source: ProgramSource
  /** The call that it continues. Empty: it begins a program. Null: unknown. */
  parents: string[] | null
}

/** How the answer of a call ended. Null marks: it failed, or its client left. */
export type ConversationAnswer = AnswerMarks | null

interface Entry {
  call: string
  program: string
  place: ConversationPlace
  narrow: number
  /** Of its messages. */
  hash: number
  /** Of its messages without the last, and without the last two. */
  trimmed: number[]
  state: 'open' | 'answered' | 'failed'
  answer: ConversationAnswer
  /** Key in the index of distinct answers. */
  answer_key: number
  extended: boolean
  /** It was answered or continued. */
  active_ms: number
  at_ms: number
}

interface Match {
  entry: Entry
  source: 'conversation' | 'answer'
}

interface ConversationLimits {
  entries_max: number
  bytes_max: number
  age_ms_max: number
}

export class ConversationTable {
  readonly #limits: ConversationLimits
  /** In order of arrival. */
  readonly #entries = new Map<string, Entry>()
  readonly #byHash = new Map<number, Entry[]>()
  /** By the hashes of their messages without the last ones. */
  readonly #byTrimmed = new Map<number, Entry[]>()
  readonly #byAnswer = new Map<number, Entry[]>()
  readonly #traces = new Map<string, { program: string; at_ms: number }>()
  #bytes = 0

  constructor(limits: ConversationLimits) {
    this.#limits = limits
  }

  get size(): number {
    return this.#entries.size
  }

  get bytes(): number {
    return this.#bytes
  }

  /**
   * Whether the place of the call depends on an answer that is under way: its client has it, but it was not reported yet. The
   * caller may wait for it a little.
   */
  awaitsAnswer(arrival: ConversationArrival): boolean {
    for (const beginning of longestFirst(arrival)) {
      if (beginning.answer === null) continue
      const entries = this.#exact(beginning)
      if (entries.length === 0) continue
      if (best(entries, beginning.answer) >= AGREES) return false
      return entries.some(({ state }) => state === 'open')
    }
    return false
  }

  /**
   * Finds the call's program, or begins one that has the call's id, and remembers the call. A call that is asked for again
   * gets the same place.
   */
  place(arrival: ConversationArrival, now_ms: number): ConversationPlace {
    this.#forgetOld(now_ms)
    const known = this.#entries.get(arrival.call)
    if (known !== undefined) return known.place
    const match = this.#match(arrival, now_ms)
    const place = this.#placeOf(arrival, match)
    if (match !== null && match.entry.program === place.program) {
      match.entry.extended = true
      match.entry.active_ms = now_ms
    }
    this.#remember(arrival, place, now_ms)
    if (arrival.trace !== null) this.#rememberTrace(arrival.trace, place.program, now_ms)
    return place
  }

  /** The call's client has its answer, or will get none. Unknown and repeated calls change nothing. */
  answered(call: string, answer: ConversationAnswer, now_ms: number): void {
    const entry = this.#entries.get(call)
    if (entry === undefined || entry.state !== 'open') return
    entry.state = answer === null ? 'failed' : 'answered'
    entry.answer = answer
    entry.at_ms = now_ms
    entry.active_ms = now_ms
    // Moved to the end: age counts from the answer, and an agent may take long to go on.
    this.#entries.delete(call)
    this.#entries.set(call, entry)
    if (answer === null || !answer.distinct) return
    entry.answer_key = answerKey(answer)
    addTo(this.#byAnswer, entry.answer_key, entry)
  }

  #placeOf({ call, trace }: ConversationArrival, match: Match | null): ConversationPlace {
    const traced = trace === null ? undefined : this.#traces.get(trace)?.program
    if (traced !== undefined) {
      return {
        program: traced,
        source: 'trace',
        parents: match?.entry.program === traced ? parentsOf(match.entry) : null,
      }
    }
    if (match !== null) {
      return { program: match.entry.program, source: match.source, parents: parentsOf(match.entry) }
    }
    if (trace !== null) return { program: trace, source: 'trace', parents: [] }
    return { program: call, source: 'conversation', parents: [] }
  }

  #match(arrival: ConversationArrival, now_ms: number): Match | null {
    for (const beginning of longestFirst(arrival)) {
      const found = this.#continued(beginning, arrival.narrow, now_ms)
      if (found !== null) return found
    }
    return this.#byEcho(arrival) ?? this.#retried(arrival)
  }

  /** The entry that ends where `beginning` does. */
  #continued(beginning: Beginning, narrow: number, now_ms: number): Match | null {
    const exact = this.#exact(beginning)
    const { answer } = beginning
    if (answer !== null) {
      const agreeing = agreeingBest(exact, answer)
      const found = agreeing === null ? null : chosen(agreeing, exact, narrow, now_ms)
      if (found !== null) return found
      const trimmed = this.#byTrimmed.get(beginning.hash) ?? []
      const strong = answer.distinct ? agreeingBest(trimmed, answer, AGREES) : null
      if (strong !== null) return chosen(strong, trimmed, narrow, now_ms)
    }
    const plain = exact.filter((entry) => entry.narrow === narrow)
    const fresh = plain.filter(({ extended }) => !extended)
    return onlyProgram(fresh.length > 0 ? fresh : plain)
  }

  /** A conversation whose beginning was rewritten, found by the answers that it repeats. */
  #byEcho(arrival: ConversationArrival): Match | null {
    const { narrow } = arrival
    for (const { answer } of longestFirst(arrival)) {
      if (answer === null || !answer.distinct) continue
      const entries = agreeingBest(this.#byAnswer.get(answerKey(answer)) ?? [], answer, AGREES)
      if (entries === null) continue
      const fresh = entries.filter(({ extended }) => !extended)
      const found = onlyProgram(preferred(fresh.length > 0 ? fresh : entries, narrow))
      if (found !== null) return { ...found, source: 'answer' }
    }
    return null
  }

  /** The same messages as those of a call that failed: its client tries again. */
  #retried(arrival: ConversationArrival): Match | null {
    const { narrow } = arrival
    const failed = this.#exact(whole(arrival)).filter((entry) => entry.state === 'failed' && !entry.extended)
    const [entry] = failed.filter((one) => one.narrow === narrow)
    return entry === undefined ? null : { entry, source: 'conversation' }
  }

  #exact({ hash }: Beginning): Entry[] {
    return this.#byHash.get(hash) ?? []
  }

  #remember(arrival: ConversationArrival, place: ConversationPlace, now_ms: number): void {
    const { call, length, narrow } = arrival
    const { hash } = whole(arrival)
    const trimmed: number[] = []
    for (const beginning of longestFirst(arrival)) {
      if (beginning.length < length - TRIMMED_MAX) break
      trimmed.push(beginning.hash)
    }
    const state = { state: 'open' as const, answer: null, answer_key: 0, extended: false, active_ms: now_ms }
    const entry: Entry = { call, program: place.program, place, narrow, hash, trimmed, ...state, at_ms: now_ms }
    this.#entries.set(call, entry)
    this.#bytes += bytesOf(entry)
    addTo(this.#byHash, hash, entry)
    for (const key of trimmed) addTo(this.#byTrimmed, key, entry)
    while (this.#entries.size > this.#limits.entries_max || this.#bytes > this.#limits.bytes_max) this.#forgetOldest()
  }

  #rememberTrace(trace: string, program: string, now_ms: number): void {
    this.#traces.delete(trace)
    this.#traces.set(trace, { program, at_ms: now_ms })
    if (this.#traces.size <= this.#limits.entries_max) return
    const oldest = this.#traces.keys().next()
    if (!oldest.done) this.#traces.delete(oldest.value)
  }

  #forgetOld(now_ms: number): void {
    const since_ms = now_ms - this.#limits.age_ms_max
    for (const entry of this.#entries.values()) {
      if (entry.at_ms >= since_ms) break
      this.#forget(entry)
    }
    for (const [trace, { at_ms }] of this.#traces) {
      if (at_ms >= since_ms) break
      this.#traces.delete(trace)
    }
  }

  #forgetOldest(): void {
    const oldest = this.#entries.values().next()
    if (!oldest.done) this.#forget(oldest.value)
  }

  #forget(entry: Entry): void {
    this.#entries.delete(entry.call)
    this.#bytes -= bytesOf(entry)
    removeFrom(this.#byHash, entry.hash, entry)
    for (const key of entry.trimmed) removeFrom(this.#byTrimmed, key, entry)
    if (entry.answer_key !== 0) removeFrom(this.#byAnswer, entry.answer_key, entry)
  }
}

/** All of the conversation. */
function whole({ beginnings }: ConversationArrival): Beginning {
  return beginningAt(beginnings, countOf(beginnings) - 1)
}

/** All beginnings but the whole conversation. */
function* longestFirst({ beginnings }: ConversationArrival): Iterable<Beginning> {
  for (let at = countOf(beginnings) - 2; at >= 0; at -= 1) yield beginningAt(beginnings, at)
}

/** A retry has no parent: the call before it failed. */
function parentsOf({ call, state }: Entry): string[] | null {
  return state === 'failed' ? null : [call]
}

function best(entries: readonly Entry[], answer: AnswerMarks): number {
  return entries.reduce((most, entry) => Math.max(most, entry.answer === null ? 0 : agreement(entry.answer, answer)), 0)
}

/** The entries whose answer agrees most. Null: none agrees, or only weakly and of several programs. */
function agreeingBest(entries: readonly Entry[], answer: AnswerMarks, at_least = 1): Entry[] | null {
  const most = best(entries, answer)
  if (most < at_least) return null
  const agreeing = entries.filter((entry) => entry.answer !== null && agreement(entry.answer, answer) === most)
  return most >= AGREES || onlyProgram(agreeing) !== null ? agreeing : null
}

/**
 * Of equal entries the oldest that no call has continued, else that of the only program that is active. `rivals`: what the
 * answer was told apart from.
 */
function chosen(equal: readonly Entry[], rivals: readonly Entry[], narrow: number, now_ms: number): Match | null {
  const among = preferred(equal, narrow)
  const fresh = among.find(({ extended }) => !extended)
  const active = among.filter(({ active_ms }) => now_ms - active_ms <= PARALLEL_MS)
  const entry = fresh ?? onlyProgram(active.length > 0 ? active : among)?.entry
  if (entry === undefined) return null
  return { entry, source: rivals.some(({ program }) => program !== entry.program) ? 'answer' : 'conversation' }
}

function preferred(entries: readonly Entry[], narrow: number): readonly Entry[] {
  const same = entries.filter((entry) => entry.narrow === narrow)
  return same.length > 0 ? same : entries
}

/** The latest of the entries if all are of one program. */
function onlyProgram(entries: readonly Entry[]): Match | null {
  const entry = entries.at(-1)
  if (entry === undefined || entries.some(({ program }) => program !== entry.program)) return null
  return { entry, source: 'conversation' }
}

/** A key over what an echo keeps: tool calls, else the text. */
function answerKey({ tools, text }: AnswerMarks): number {
  return tools !== 0 ? tools : text
}

function bytesOf({ call, program }: Entry): number {
  return ENTRY_BYTES + 2 * (call.length + program.length)
}

function addTo(index: Map<number, Entry[]>, key: number, entry: Entry): void {
  const entries = index.get(key)
  if (entries === undefined) index.set(key, [entry])
  else {
    entries.push(entry)
    if (entries.length > BUCKET_MAX) entries.shift()
  }
}

function removeFrom(index: Map<number, Entry[]>, key: number, entry: Entry): void {
  const entries = index.get(key)
  const at = entries?.indexOf(entry) ?? -1
  if (entries === undefined || at === -1) return
  entries.splice(at, 1)
  if (entries.length === 0) index.delete(key)
}
