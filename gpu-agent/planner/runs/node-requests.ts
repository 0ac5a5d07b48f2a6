/**
 * The requests of a node between stages: which have ended when, and what is left of the others. A request that was cut short goes on from the text so
 * far, which is computed again as its prompt (as vLLM does after a preemption).
 */
import type { NodeWorkload } from '../workload.ts'
import { type ReplicaConfig, ReplicaRun } from './replica-run.ts'

/** Immutable. */
export interface NodeRequests {
  /** Prompt and what was generated. */
  known_tokens: Int32Array
  /** 0: ended. */
  left_tokens: Int32Array
  finish_s: Float64Array
  unfinished: number
}

/** The replicas of a node with the requests that each of them answers. */
export interface Replicas {
  runs: readonly ReplicaRun[]
  /** By replica: the node's number of each request. */
  members: readonly Int32Array[]
}

export function nodeRequests({ input_tokens, output_tokens }: NodeWorkload): NodeRequests {
  return {
    known_tokens: input_tokens,
    left_tokens: output_tokens,
    finish_s: new Float64Array(input_tokens.length).fill(Number.POSITIVE_INFINITY),
    unfinished: input_tokens.length,
  }
}

/**
 * Deals what is left out to replicas. Requests that follow each other stay together, and the longest sequences are dealt first, each to the replica
 * with the fewest tokens of prompts (output lengths are not known when it happens). Others are dealt in turn. `next`: null if none follows another.
 */
export function deal(requests: NodeRequests, next: Int32Array | null, replicas: number): Int32Array[] {
  return next === null ? dealInTurn(requests, replicas) : dealSequences(requests, next, replicas)
}

function dealInTurn({ left_tokens, unfinished }: NodeRequests, replicas: number): Int32Array[] {
  const hands = Array.from({ length: replicas }, (_, at) => new Int32Array(Math.ceil((unfinished - at) / replicas)))
  let dealt = 0
  for (let request = 0; request < left_tokens.length; request += 1) {
    if (left_tokens[request] === 0) continue
    ;(hands[dealt % replicas] as Int32Array)[Math.floor(dealt / replicas)] = request
    dealt += 1
  }
  return hands
}

function dealSequences(requests: NodeRequests, next: Int32Array, replicas: number): Int32Array[] {
  const { left_tokens, known_tokens } = requests
  const sequences = headsOf(requests, next).map((head) => {
    const members: number[] = []
    for (let request = head; request >= 0; request = next[request] as number)
      if ((left_tokens[request] as number) > 0) members.push(request)
    return { members, tokens: members.reduce((sum, request) => sum + (known_tokens[request] as number), 0) }
  })
  sequences.sort((a, b) => b.tokens - a.tokens || (a.members[0] as number) - (b.members[0] as number))
  const hands = Array.from({ length: replicas }, (): number[] => [])
  const loads = new Array<number>(replicas).fill(0)
  for (const { members, tokens } of sequences) {
    const at = loads.indexOf(Math.min(...loads))
    ;(hands[at] as number[]).push(...members)
    loads[at] = (loads[at] as number) + tokens
  }
  return hands.map((hand) => Int32Array.from(hand).sort())
}

/** Unfinished requests that no unfinished request of the node precedes. */
function headsOf({ left_tokens }: NodeRequests, next: Int32Array): number[] {
  const follows = new Uint8Array(next.length)
  for (let request = 0; request < next.length; request += 1) {
    const one = next[request] as number
    if (one >= 0 && (left_tokens[request] as number) > 0) follows[one] = 1
  }
  const heads: number[] = []
  for (let request = 0; request < next.length; request += 1)
    if ((left_tokens[request] as number) > 0 && follows[request] === 0) heads.push(request)
  return heads
}

export interface ReplicaStart {
  config: ReplicaConfig
  next: Int32Array
  start_s: number
  ready_s: (request: number) => number
}

/** A replica with some of the requests. */
export function startReplica(requests: NodeRequests, hand: Int32Array, start: ReplicaStart): ReplicaRun {
  const count = hand.length
  const known_tokens = new Int32Array(count)
  const left_tokens = new Int32Array(count)
  const ready_s = new Float64Array(count)
  const next = new Int32Array(count).fill(-1)
  const place = new Map<number, number>()
  for (let at = 0; at < count; at += 1) {
    const request = hand[at] as number
    known_tokens[at] = requests.known_tokens[request] as number
    left_tokens[at] = requests.left_tokens[request] as number
    ready_s[at] = start.ready_s(request)
    // Sequences are dealt whole, and in their order.
    if ((start.next[request] as number) >= 0) place.set(start.next[request] as number, at)
    const before = place.get(request)
    if (before !== undefined) next[before] = at
  }
  return new ReplicaRun(start.config, { known_tokens, left_tokens, ready_s, next }, start.start_s)
}

export function cloneReplicas({ runs, members }: Replicas): Replicas {
  return { runs: runs.map((run) => run.clone()), members }
}

/** What the replicas have done so far, times later by `shift_s`. */
export function takeRequests(before: NodeRequests, { runs, members }: Replicas, shift_s: number): NodeRequests {
  const known_tokens = before.known_tokens.slice()
  const left_tokens = before.left_tokens.slice()
  const finish_s = before.finish_s.slice()
  let unfinished = 0
  for (const [at, run] of runs.entries()) {
    const hand = members[at] as Int32Array
    for (const [place, request] of hand.entries()) {
      const end_s = run.finish_s[place] as number
      if (end_s === Number.POSITIVE_INFINITY) continue
      left_tokens[request] = 0
      finish_s[request] = end_s + shift_s
    }
    for (const { request: place, ...left } of run.unfinished()) {
      const request = hand[place] as number
      known_tokens[request] = left.known_tokens
      left_tokens[request] = left.left_tokens
      unfinished += 1
    }
  }
  return { known_tokens, left_tokens, finish_s, unfinished }
}
