/**
 * Seeded programs for the policy benchmark: short chats, long chats and trees, as shapes (who depends on whom, how many
 * tokens), with Poisson arrivals. Equal seeds give equal workloads, so that policies meet the same arrivals.
 *
 * Sizes are those of agents on a model of 135 M parameters and two cores: a mean program costs about two seconds of it.
 */

import { modelledServiceUs } from '../../src/core/service.ts'

export type ProgramKind = 'short_chat' | 'long_chat' | 'tree'

export interface CallShape {
  /** Indices of calls of the same program that must end before this one is issued. */
  parents: readonly number[]
  /** Tokens that the call's prompt adds to its parents' prompts and outputs. */
  new_prompt_tokens: number
  output_tokens: number
}

export interface ProgramShape {
  id: string
  kind: ProgramKind
  arrival_s: number
  calls: readonly CallShape[]
}

/** Shares of the three kinds, by number of programs. */
const MIX: readonly (readonly [ProgramKind, number])[] = [
  ['short_chat', 0.7],
  ['long_chat', 0.15],
  ['tree', 0.15],
]

/** mulberry32: 32 bits of state, enough for a benchmark's draws. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}

/** `rate`: programs per second; Infinity lets all arrive at once. */
export function drawWorkload(seed: number, programs: number, rate: number): ProgramShape[] {
  const random = seededRandom(seed)
  let arrival_s = 0
  return Array.from({ length: programs }, (_, index) => {
    arrival_s += -Math.log(1 - random()) / rate
    const kind = drawKind(random())
    return { id: `${kind}-${index}`, kind, arrival_s, calls: drawCalls(kind, random) }
  })
}

export function outputTokens(program: ProgramShape): number {
  return program.calls.reduce((sum, call) => sum + call.output_tokens, 0)
}

/** Modelled work of a program when each call's prefix is cached. */
export function workUs(program: ProgramShape): number {
  const uncached_prompt_tokens = program.calls.reduce((sum, call) => sum + call.new_prompt_tokens, 0)
  return modelledServiceUs({ uncached_prompt_tokens, cached_prompt_tokens: 0, output_tokens: outputTokens(program) })
}

function drawKind(u: number): ProgramKind {
  let sum = 0
  for (const [kind, share] of MIX) {
    sum += share
    if (u < sum) return kind
  }
  return 'short_chat'
}

function drawCalls(kind: ProgramKind, random: () => number): CallShape[] {
  const between = (low: number, high: number) => low + Math.floor(random() * (high - low + 1))
  if (kind === 'tree') return tree(between)
  const turns = kind === 'short_chat' ? between(1, 4) : between(6, 9)
  const [low, high] = kind === 'short_chat' ? [8, 24] : [24, 40]
  return Array.from({ length: turns }, (_, turn) => ({
    parents: turn === 0 ? [] : [turn - 1],
    new_prompt_tokens: between(10, 30),
    output_tokens: between(low, high),
  }))
}

/** A root, two waves of four calls, and a call that joins them: the shape of a search or of a map and reduce. */
function tree(between: (low: number, high: number) => number): CallShape[] {
  const call = (parents: number[]): CallShape => ({
    parents,
    new_prompt_tokens: between(8, 16),
    output_tokens: between(8, 20),
  })
  const first = [1, 2, 3, 4]
  const second = [5, 6, 7, 8]
  return [call([]), ...first.map(() => call([0])), ...second.map((_, i) => call([first[i] as number])), call(second)]
}
