/**
 * Idempotency keys of one tenant (or one shard of them): the call of each key, and the answer to a retry. A retry starts no
 * call while the first call is open or if it was answered. It does start one if the first call failed or its client left,
 * since the client got nothing. The semantics are those of Stripe's keys (https://docs.stripe.com/api/idempotent_requests):
 * the body of a retry must equal the first one, and gets the same answer. A streamed answer is not kept; its retry gets the
 * id of the call that answered.
 *
 * An open call is kept alive by its Worker (`heard`). If the Worker is silent for SILENCE_MS_MAX, the call died with it.
 * Times are the caller's wall clock.
 *
 * The table keeps in memory only what storage does not have yet, and looks up every other key there. Storage answers at
 * once, so nothing comes between the look-up of a key and its claim. Rows that are over count as none. Storage forgets them.
 */

/** As Stripe's. */
export const KEY_CHARS_MAX = 255
/** From a call's end on. */
export const KEPT_MS = 10 * 60_000
export const SILENCE_MS_MAX = 60_000
/** Of storage and memory. */
export const KEYS_MAX = 1_000_000
/** A longer answer is not kept. */
export const ANSWER_CHARS_MAX = 64 * 1024
/** While storage has more, answers are not kept. Keys without answers are below 500 bytes each. */
export const STORED_BYTES_MAX = 1024 * 1024 * 1024
/** Keys in memory, which are those of 100 ms unless storage is slow. */
export const UNWRITTEN_KEYS_MAX = 10_000
/** Past so many a new key is refused, so that there is room for how the calls of stored keys end. */
export const UNWRITTEN_CLAIMS_MAX = UNWRITTEN_KEYS_MAX / 2
/** Of all answers in memory; past it an answer is not kept. */
export const UNWRITTEN_ANSWERS_CHARS_MAX = 16 * 1024 * 1024

export interface KeyRow {
  key: string
  /** Of the body; equal bodies have equal ones. */
  fingerprint: string
  call: string
  state: 'open' | 'answered'
  /** The whole answer as JSON; null: it was streamed, or is not kept. */
  answer: string | null
  /** When the Worker of an open call was heard last; when an answered one ended. */
  at_ms: number
}

export type KeyVerdict =
  /** The key stands for this call: it may start. */
  | { status: 'claimed' }
  /** The call of this key is open. */
  | { status: 'open'; call: string }
  | { status: 'answered'; call: string; answer: string | null }
  /** The key stands for another body. */
  | { status: 'reused'; call: string }
  /** KEYS_MAX keys are kept. */
  | { status: 'full' }
  /** UNWRITTEN_CLAIMS_MAX keys wait for storage. */
  | { status: 'unavailable' }

export interface StoredKeys {
  /** The latest row of a key, whether it is over or not. It need not find one that was over KEPT_MS ago. */
  find(key: string, now_ms: number): KeyRow | null
  readonly count: number
  readonly bytes: number
}

/** For storage. */
export interface KeyChange {
  key: string
  /** Null: delete it. */
  row: KeyRow | null
  /** `at_ms` of the row that storage has. Null: it has none. */
  stored_at_ms: number | null
}

type Claim = Pick<KeyRow, 'key' | 'fingerprint' | 'call'>

export class IdempotencyTable {
  readonly #stored: StoredKeys
  /** By key. A change of what has no stored row is never a deletion. */
  readonly #unwritten = new Map<string, KeyChange>()
  #answersChars = 0

  constructor(stored: StoredKeys) {
    this.#stored = stored
  }

  /** Keys in memory. */
  get unwritten(): number {
    return this.#unwritten.size
  }

  /** What a claim is told of a key that stands for a call. Null: it stands for none. */
  known({ key, fingerprint, call }: Claim, now_ms: number): KeyVerdict | null {
    const row = notOver(this.#last(key, now_ms).row, now_ms)
    if (row === null) return null
    // The same question again: its answer was lost.
    if (row.call === call) return { status: 'claimed' }
    if (row.fingerprint !== fingerprint) return { status: 'reused', call: row.call }
    if (row.state === 'open') return { status: 'open', call: row.call }
    return { status: 'answered', call: row.call, answer: row.answer }
  }

  claim(claim: Claim, now_ms: number): KeyVerdict {
    const known = this.known(claim, now_ms)
    if (known !== null) return known
    const { key, fingerprint, call } = claim
    const last = this.#last(key, now_ms)
    if (this.#isFull) return { status: 'full' }
    if (this.#unwritten.size >= UNWRITTEN_CLAIMS_MAX) return { status: 'unavailable' }
    this.#change({ ...last, row: { key, fingerprint, call, state: 'open', answer: null, at_ms: now_ms } })
    return { status: 'claimed' }
  }

  /** The call is open and its Worker lives. Opens the key where it was lost meanwhile. */
  heard({ key, fingerprint, call }: Claim, now_ms: number): void {
    const last = this.#last(key, now_ms)
    const known = notOver(last.row, now_ms)
    if (known === null ? this.#isFull : known.call !== call || known.state !== 'open') return
    this.#change({ ...last, row: { key, fingerprint, call, state: 'open', answer: null, at_ms: now_ms } })
  }

  /** The client has its whole answer. */
  answered({ key, fingerprint, call }: Claim, answer: string | null, now_ms: number): void {
    const last = this.#last(key, now_ms)
    const known = notOver(last.row, now_ms)
    if (known === null ? this.#isFull : known.call !== call) return
    const kept = answer !== null && this.#hasRoomFor(answer) ? answer : null
    this.#change({ ...last, row: { key, fingerprint, call, state: 'answered', answer: kept, at_ms: now_ms } })
  }

  /** The client got nothing, or not all of it: its retry is a call of its own. */
  failed({ key, call }: Pick<Claim, 'key' | 'call'>, now_ms: number): void {
    const last = this.#last(key, now_ms)
    if (last.row?.call === call) this.#change({ ...last, row: null })
  }

  /** What storage does not have. The caller writes it before anything else asks, or gives it back. */
  takeUnwritten(): KeyChange[] {
    const taken = [...this.#unwritten.values()]
    this.#unwritten.clear()
    this.#answersChars = 0
    return taken
  }

  giveBack(taken: readonly KeyChange[]): void {
    for (const change of taken) this.#change(change)
  }

  #last(key: string, now_ms: number): KeyChange {
    const unwritten = this.#unwritten.get(key)
    if (unwritten !== undefined) return unwritten
    const row = this.#stored.find(key, now_ms)
    return { key, row, stored_at_ms: row?.at_ms ?? null }
  }

  /** Without effect where memory is full of what storage does not take. An open call then counts as lost after SILENCE_MS_MAX. */
  #change(change: KeyChange): void {
    const before = this.#unwritten.get(change.key)
    if (before === undefined && this.#unwritten.size >= UNWRITTEN_KEYS_MAX) return
    this.#answersChars += (change.row?.answer?.length ?? 0) - (before?.row?.answer?.length ?? 0)
    if (change.row === null && change.stored_at_ms === null) this.#unwritten.delete(change.key)
    else this.#unwritten.set(change.key, change)
  }

  /** Counts a stored key twice while a change of it is in memory. */
  get #isFull(): boolean {
    return this.#stored.count + this.#unwritten.size >= KEYS_MAX
  }

  #hasRoomFor({ length }: string): boolean {
    if (length > ANSWER_CHARS_MAX || this.#answersChars + length > UNWRITTEN_ANSWERS_CHARS_MAX) return false
    return this.#stored.bytes <= STORED_BYTES_MAX
  }
}

function notOver(row: KeyRow | null, now_ms: number): KeyRow | null {
  if (row === null) return null
  return now_ms - row.at_ms >= (row.state === 'open' ? SILENCE_MS_MAX : KEPT_MS) ? null : row
}
