/**
 * Situations in which a call is made, as far as what follows depends on them: the tool before it, and its place in the
 * program. What is known of a situation is how often each tool followed, and how much calls wrote.
 *
 * Tools are keys here: `=name` of one that the class knows, and signs for the rest. No name is a sign.
 */
import { LogSketch } from '../classes/log-sketch.ts'
import { addAged, USE_AGE } from './tool-sketch.ts'

export const ANY = ''
export const FIRST = '^'
export const UNNAMED = '?'
export const OTHER = '*'
export const ENDS = '.'
/** The tool before follows again. It tells most where programs use tools that their class does not know by name. */
export const SAME = '~'

/** Counts below are forgotten. */
const COUNT_MIN = 1e-3
/** Calls of the program before, from which on the next place begins. */
const PLACES = [0, 1, 2, 3, 4, 5, 7, 10] as const

export function named(name: string): string {
  return `=${name}`
}

/** Null: the key is a sign. */
export function nameOf(key: string): string | null {
  return key.startsWith('=') ? key.slice(1) : null
}

/** 0 to POSITIONS − 1. */
export function placeOf(position: number): number {
  return PLACES.findLastIndex((from) => position >= from)
}

/** A name has no line break. */
export function situationKey(last: string, place: number | null): string {
  return place === null ? last : `${last}\n${place}`
}

export class Situation {
  readonly last: string
  /** Null: any. */
  readonly place: number | null
  readonly next = new Map<string, number>()
  readonly output_tokens = new LogSketch()

  constructor(last: string, place: number | null) {
    this.last = last
    this.place = place
  }

  get weight(): number {
    let weight = 0
    for (const count of this.next.values()) weight += count
    return weight
  }

  add(next: string, output_tokens: number): void {
    for (const [key, count] of this.next) {
      if (count * USE_AGE < COUNT_MIN) this.next.delete(key)
      else this.next.set(key, count * USE_AGE)
    }
    this.count(next, 1)
    addAged(this.output_tokens, output_tokens)
  }

  count(next: string, count: number): void {
    this.next.set(next, (this.next.get(next) ?? 0) + count)
  }

  merge(other: Situation): void {
    for (const [key, count] of other.next) this.count(key, count)
    this.output_tokens.merge(other.output_tokens)
  }

  /** A tool has lost its name. */
  renamed(from: string, to: string): void {
    const count = this.next.get(from)
    if (count === undefined) return
    this.next.delete(from)
    this.count(to, count)
  }
}
