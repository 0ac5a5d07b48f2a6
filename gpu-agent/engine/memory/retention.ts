/**
 * Which idle prefix goes first when a call needs its blocks or its slot. Prefixes that are kept for no call go first, least
 * recently used first. A prefix whose program has an open call will be needed soon, so it goes last, and so does one that is
 * held until its program comes back (program-hold.ts). Among those of one tenant, the one whose call is last in order goes
 * first.
 */

export interface Retention<C> {
  /**
   * The open call for which the prefix of an ended call is kept. The ended call itself if the prefix is held: it stands for
   * the program's next call. Null: none.
   */
  keptFor(prefix: C): C | null
  /** Whether the prefix is pinned: its pin is ended, and what it holds moved out, before it goes. */
  isPinned(prefix: C): boolean
  /** Whether a prefix kept for `kept` goes later than one kept for `other`. Null: recent use decides. */
  outlasts(kept: C, other: C): boolean | null
  /** False: nothing is shielded from the newcomer. */
  shieldsFrom(newcomer: C): boolean
  /** Whether a newcomer waits instead of taking what is kept for `kept`. */
  isShielded(kept: C, newcomer: C): boolean
}

/** Least recently used first, regardless of waiting calls. Stock vLLM does this. */
export const LEAST_RECENTLY_USED: Retention<never> = {
  keptFor: () => null,
  isPinned: () => false,
  outlasts: () => null,
  shieldsFrom: () => false,
  isShielded: () => false,
}
