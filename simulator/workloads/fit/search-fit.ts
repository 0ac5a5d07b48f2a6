/**
 * Fits a SearchProfile to traces of tree searches. The trace's rounds are found again (samples of equal parents and prompt, then what
 * follows them), every round's node by its prompt and thread, and each distribution of the profile is what was seen, grouped by situation.
 * A situation seen less than OUTCOMES_MIN times takes the outcomes of all situations that are alike in being last or not.
 */

import type { WorkloadCall, WorkloadProgram } from '../program.ts'
import { resolvePrefixes } from '../resolve-prefixes.ts'
import { phase, type RoundOutcome, type SearchProfile, situation } from '../search-profile.ts'
import { type Table, tableOf } from '../table.ts'
import { mean, normalised } from './statistics.ts'

export interface SearchSource {
  workload: string
  provenance: string
  head_tokens: SearchProfile['head_tokens']
  reflection_tokens: number
  programs: readonly WorkloadProgram[]
}

const OUTCOMES_MIN = 15

interface Round {
  index: number
  last: boolean
  depth: number
  reflections: number
  node_prompt_tokens: number
  outcome: Omit<RoundOutcome, 'share'>
  /** The next round is at a child of this one's node; null: there is none. */
  deeper: boolean | null
  next_depth: number | null
}

export function fitSearch({
  workload,
  provenance,
  head_tokens,
  reflection_tokens,
  programs,
}: SearchSource): SearchProfile {
  const seen = programs.map((program) => roundsOf(program.calls, reflection_tokens))
  const rounds = seen.flatMap((program) => program.rounds)
  const calls = programs.flatMap((program) => program.calls)
  const ofKind = (kind: string) => tableOf(calls.filter((call) => call.kind === kind).map((call) => call.output_tokens))
  const tools = calls.filter((call) => call.tool === 'search' || call.tool === 'lookup')
  const secondsOf = (tool: string) =>
    tableOf(tools.filter((call) => call.tool === tool).map((call) => call.tool_seconds ?? 0))
  return {
    shape: 'search',
    workload,
    provenance,
    width: WIDTH,
    head_tokens,
    reflection_tokens,
    rounds: tableOf(seen.map((program) => program.rounds.length)),
    root_prompt_tokens: tableOf(programs.map((program) => program.calls[0]?.prompt_tokens ?? 1)),
    output_tokens: { sample: ofKind('sample'), value: ofKind('value'), reflect: ofKind('reflect') },
    observation_tokens: tableOf(seen.flatMap((program) => program.observations)),
    reflect_prompt_tokens: tableOf(calls.filter((call) => call.kind === 'reflect').map((call) => call.prompt_tokens)),
    tool_seconds: { search: secondsOf('search'), lookup: secondsOf('lookup') },
    lookup_share: normalised(mean(tools.map((call) => (call.tool === 'lookup' ? 1 : 0)))),
    outcomes: outcomesOf(rounds),
    depth_max: rounds.reduce((deepest, round) => Math.max(deepest, round.depth), 0),
    deeper: sharesOf(rounds),
    elsewhere_depth: depthsOf(rounds),
  }
}

const WIDTH = 5

function roundsOf(given: readonly WorkloadCall[], reflection_tokens: number) {
  const calls = resolvePrefixes(given)
  const depth_of = new Map<number, number>()
  const prompt_of = new Map<number, number>([[-1, calls[0]?.prompt_tokens ?? 0]])
  const rounds: (Round & { made: Set<number>; creator: number })[] = []
  const observations: number[] = []
  let reflections = 0
  for (const [index, call] of calls.entries()) {
    const round = rounds.at(-1)
    if (call.kind === 'sample') {
      if (call.same_prompt_as === null || call.same_prompt_as === undefined) {
        const creator = creatorOf(calls, index, prompt_of, reflections * reflection_tokens)
        const depth = creator < 0 ? 0 : (depth_of.get(creator) ?? 0) + 1
        if (round !== undefined) {
          round.deeper = round.made.has(creator)
          round.next_depth = depth
        }
        rounds.push({
          index: rounds.length,
          last: true,
          depth,
          reflections,
          node_prompt_tokens: call.prompt_tokens - reflections * reflection_tokens,
          outcome: { finishes: 0, values: 0, reflects: false },
          deeper: null,
          next_depth: null,
          made: new Set(),
          creator,
        })
        if (round !== undefined) round.last = false
      }
      const current = rounds.at(-1)
      if (current === undefined) continue
      depth_of.set(index, current.depth)
      if (call.tool === 'finish') current.outcome.finishes += 1
    } else if (call.kind === 'value' && round !== undefined) {
      const sample = call.parents[0] ?? 0
      prompt_of.set(sample, call.prompt_tokens)
      round.made.add(sample)
      round.outcome.values += 1
      observations.push(call.prompt_tokens - round.node_prompt_tokens - (calls[sample]?.output_tokens ?? 0))
    } else if (call.kind === 'reflect' && round !== undefined) {
      round.outcome.reflects = true
      reflections += 1
    }
  }
  return { rounds, observations }
}

/** The sample that made the node being expanded: of its thread, with its prompt; -1: the root. */
function creatorOf(
  calls: readonly WorkloadCall[],
  index: number,
  prompt_of: ReadonlyMap<number, number>,
  reflected_tokens: number,
): number {
  const call = calls[index] as WorkloadCall
  if (call.shared_prefix_tokens === 0) return -1
  for (let i = index - 1; i >= 0; i -= 1) {
    const made = prompt_of.get(i)
    if (made === call.prompt_tokens - reflected_tokens && calls[i]?.thread === call.thread) return i
  }
  return calls[index]?.prefix_of ?? -1
}

function outcomesOf(rounds: readonly Round[]): Record<string, RoundOutcome[]> {
  const groups = Map.groupBy(rounds, (round) => situation(round.last, round.reflections, round.depth))
  const outcomes: Record<string, RoundOutcome[]> = {}
  for (const [key, group] of groups) {
    const last = group[0]?.last ?? false
    outcomes[key] = countOutcomes(group.length >= OUTCOMES_MIN ? group : rounds.filter((round) => round.last === last))
  }
  outcomes.any = countOutcomes(rounds)
  return outcomes
}

function countOutcomes(rounds: readonly Round[]): RoundOutcome[] {
  const groups = Map.groupBy(rounds, ({ outcome }) => JSON.stringify(outcome))
  return [...groups.values()].map((group) => ({
    ...(group[0] as Round).outcome,
    share: normalised(group.length / rounds.length),
  }))
}

function sharesOf(rounds: readonly Round[]): Record<string, number> {
  const groups = Map.groupBy(
    rounds.filter((round) => round.deeper !== null && round.outcome.values > 0),
    (round) => `${phase(round.reflections, round.index)} depth=${round.depth}`,
  )
  return Object.fromEntries(
    [...groups].map(([key, group]) => [key, normalised(mean(group.map((round) => (round.deeper === true ? 1 : 0))))]),
  )
}

function depthsOf(rounds: readonly Round[]): Record<string, Table> {
  const groups = Map.groupBy(
    rounds.filter((round) => round.deeper === false),
    (round) => phase(round.reflections, round.index),
  )
  return Object.fromEntries(
    [...groups].map(([key, group]) => [key, tableOf(group.map((round) => round.next_depth ?? 1))]),
  )
}
