/**
 * Fits a ChainProfile to programs that are chains. Marginals are the trace's own tables; persistence and correlations come from
 * autocovariances and means of normal scores; then programs are drawn and the scores' mean and deviation are set to those drawn, since
 * programs of many calls weigh more in a call's marginal than the copula knows.
 */
import { seededRandom } from '../../random.ts'
import {
  type ChainProfile,
  type ChainStratum,
  drawChain,
  LEVELS,
  type Marginal,
  type OutputClass,
  type Persistence,
} from '../chain-profile.ts'
import { normalScores } from '../normal-scores.ts'
import type { WorkloadCall, WorkloadProgram } from '../program.ts'
import { tableOf } from '../table.ts'
import { choleskyShrunk, clamp, correlation, mean, normalised } from './statistics.ts'

export interface ChainSource {
  workload: string
  provenance: string
  prompt_tokens_max: number
  strata: readonly {
    name: string
    app: string
    app_prefix_tokens: number
    tool: string
    tools: number
    programs: readonly WorkloadProgram[]
  }[]
}

const CALIBRATION_ROUNDS = 3
const CALIBRATION_PROGRAMS = 6000
const SEED = 20250219
/** Lag at which only the program's level is left of an autocovariance. */
const FAR = 3
const CLASS_SAMPLES_MIN = 20

export function fitChains(source: ChainSource): ChainProfile {
  const total = source.strata.reduce((sum, { programs }) => sum + programs.length, 0)
  const strata = source.strata.map((stratum) => fitStratum(stratum, stratum.programs.length / total))
  const profile: ChainProfile = {
    shape: 'chains',
    workload: source.workload,
    provenance: source.provenance,
    prompt_tokens_max: source.prompt_tokens_max,
    strata,
  }
  for (let round = 0; round < CALIBRATION_ROUNDS; round += 1) centre(profile)
  return profile
}

function fitStratum(source: ChainSource['strata'][number], share: number): ChainStratum {
  const { programs, name, app, app_prefix_tokens, tool: tool_name, tools } = source
  const calls = programs.flatMap((program) => program.calls)
  const later = programs.map((program) => program.calls.slice(1))
  const timed = calls.flatMap(({ tool_seconds }) => (tool_seconds === null ? [] : [tool_seconds]))
  const output = scoresBy(programs, (call) => call.output_tokens, outputClass)
  const prompt = scoresBy(programs, newTokens, () => 'all').map((scores) => scores.slice(1))
  const tool = scoresBy(
    programs.map((program) => ({ ...program, calls: program.calls.filter((call) => call.tool_seconds !== null) })),
    (call) => call.tool_seconds ?? 0,
    () => 'all',
  )
  const persistence = { output: persistenceOf(output), prompt: persistenceOf(prompt), tool: persistenceOf(tool) }
  const columns = [
    normalScores(programs.map((program) => program.calls.length)),
    normalScores(programs.map((program) => newTokens(program.calls[0] as WorkloadCall))),
    levelScores(output),
    levelScores(prompt),
    levelScores(tool),
  ]
  const marginal = (sample: readonly number[], otherwise: readonly number[]): Marginal => ({
    table: tableOf(sample.length >= CLASS_SAMPLES_MIN ? sample : otherwise.length > 0 ? otherwise : [1]),
    mean: 0,
    sd: 1,
  })
  const added = (step: 'tool' | 'answer') =>
    programs.flatMap((program) =>
      program.calls
        .slice(1)
        .filter((_, i) => stepOf(program.calls[i]) === step)
        .map(newTokens),
    )
  const outputs = (of: OutputClass) =>
    programs.flatMap((program) =>
      program.calls.filter((call) => outputClass(call, program) === of).map((call) => call.output_tokens),
    )
  const all_outputs = calls.map((call) => call.output_tokens)
  const all_added = later.flat().map(newTokens)
  return {
    name,
    share,
    app,
    app_prefix_tokens,
    calls: marginal(
      programs.map((program) => program.calls.length),
      programs.map((program) => program.calls.length),
    ),
    first_prompt_tokens: marginal(
      columns[1] === undefined ? [] : programs.map(({ calls: [first] }) => first?.prompt_tokens ?? 1),
      [],
    ),
    new_prompt_tokens: { tool: marginal(added('tool'), all_added), answer: marginal(added('answer'), all_added) },
    output_tokens: {
      tool: marginal(outputs('tool'), all_outputs),
      answer: marginal(outputs('answer'), all_outputs),
      last: marginal(outputs('last'), all_outputs),
    },
    tool_seconds: timed.length === 0 ? null : marginal(timed, timed),
    tool_shares: toolShares(programs),
    tool_repeats: tools === 1 ? 0 : toolRepeats(programs),
    tool: tool_name,
    tools,
    persistence,
    correlation: choleskyShrunk(levelCorrelation(columns, persistence)),
  }
}

/** Levels are seen through calls: a mean over calls correlates less than the level behind it. */
function levelCorrelation(
  columns: readonly (readonly (number | null)[])[],
  persistence: Record<'output' | 'prompt' | 'tool', Persistence>,
): number[][] {
  const seen = [
    1,
    1,
    reliability(columns[2], persistence.output),
    reliability(columns[3], persistence.prompt),
    reliability(columns[4], persistence.tool),
  ]
  return LEVELS.map((_, i) =>
    LEVELS.map((__, j) => {
      if (i === j) return 1
      const raw = correlation(columns[i] ?? [], columns[j] ?? [])
      return clamp(raw / Math.max(0.3, (seen[i] ?? 1) * (seen[j] ?? 1)), -0.95, 0.95)
    }),
  )
}

/** Correlation of a program's mean score with its level. */
function reliability(means: readonly (number | null)[] | undefined, { level }: Persistence): number {
  const known = (means ?? []).filter((value) => value !== null)
  if (known.length === 0 || level === 0) return 1
  const centre_of = mean(known)
  const variance = mean(known.map((value) => (value - centre_of) ** 2))
  return clamp(level / Math.sqrt(Math.max(variance, 1e-9)), 0.1, 1)
}

function levelScores(scores: readonly (readonly number[])[]): (number | null)[] {
  return scores.map((of) => (of.length === 0 ? null : mean(of)))
}

function persistenceOf(scores: readonly (readonly number[])[]): Persistence {
  const far = autocorrelation(scores, FAR)
  const near = autocorrelation(scores, 1)
  // A program too short to show the far lag tells what it can at the near one.
  const level_square = clamp(far ?? near ?? 0, 0, 0.98)
  const neighbour = near === null ? 0 : clamp((near - level_square) / (1 - level_square), -0.9, 0.9)
  return { level: Math.sqrt(level_square), neighbour: far === null ? 0 : neighbour }
}

const PAIRS_MIN = 100

function autocorrelation(scores: readonly (readonly number[])[], lag: number): number | null {
  const pairs = scores.flatMap((of) => of.slice(lag).map((score, i) => [of[i] ?? 0, score] as const))
  if (pairs.length < PAIRS_MIN) return null
  return correlation(
    pairs.map(([a]) => a),
    pairs.map(([, b]) => b),
  )
}

function scoresBy(
  programs: readonly WorkloadProgram[],
  value: (call: WorkloadCall) => number,
  classOf: (call: WorkloadCall, program: WorkloadProgram) => string,
): number[][] {
  const places = programs.flatMap((program, p) =>
    program.calls.map((call, c) => ({ p, c, value: value(call), class: classOf(call, program) })),
  )
  const scores = programs.map((program) => new Array<number>(program.calls.length).fill(0))
  for (const group of Map.groupBy(places, (place) => place.class).values()) {
    normalScores(group.map((place) => place.value)).forEach((score, i) => {
      const place = group[i] as (typeof group)[number]
      const row = scores[place.p] as number[]
      row[place.c] = score
    })
  }
  return scores
}

/** Sets every marginal's mean and sd to those of the scores that a large draw looks up. */
function centre(profile: ChainProfile): void {
  const seen = new Map<Marginal, { n: number; sum: number; squares: number }>()
  const random = seededRandom(SEED)
  for (let i = 0; i < CALIBRATION_PROGRAMS; i += 1) {
    drawChain(profile, `${i}`, random, (marginal, score) => {
      const sums = seen.get(marginal) ?? { n: 0, sum: 0, squares: 0 }
      sums.n += 1
      sums.sum += score
      sums.squares += score ** 2
      seen.set(marginal, sums)
    })
  }
  for (const [marginal, { n, sum, squares }] of seen) {
    if (n < CLASS_SAMPLES_MIN) continue
    marginal.mean = normalised(sum / n)
    marginal.sd = Math.max(0.1, normalised(Math.sqrt(squares / n - (sum / n) ** 2)))
  }
}

function newTokens({ prompt_tokens, shared_prefix_tokens }: WorkloadCall): number {
  return prompt_tokens - shared_prefix_tokens
}

function stepOf(call: WorkloadCall | undefined): 'tool' | 'answer' {
  return call !== undefined && call.tool !== null ? 'tool' : 'answer'
}

function outputClass(call: WorkloadCall, program: WorkloadProgram): OutputClass {
  return call === program.calls.at(-1) ? 'last' : stepOf(call)
}

function toolShares(programs: readonly WorkloadProgram[]): ChainStratum['tool_shares'] {
  const share = (calls: readonly (WorkloadCall | undefined)[]) =>
    calls.length === 0 ? 0 : normalised(mean(calls.map((call) => (stepOf(call) === 'tool' ? 1 : 0))))
  const inner = programs.map((program) => program.calls.slice(0, -1))
  const after = (step: 'tool' | 'answer') =>
    inner.flatMap((calls) => calls.slice(1).filter((_, i) => stepOf(calls[i]) === step))
  return {
    first: share(inner.flatMap((calls) => calls.slice(0, 1))),
    tool: share(after('tool')),
    answer: share(after('answer')),
    last: share(programs.map((program) => program.calls.at(-1))),
  }
}

function toolRepeats(programs: readonly WorkloadProgram[]): number {
  const pairs = programs.flatMap(({ calls }) =>
    calls
      .slice(1)
      .flatMap((call, i) => (call.tool !== null && calls[i]?.tool !== null ? [call.tool === calls[i]?.tool] : [])),
  )
  return pairs.length === 0 ? 0 : normalised(pairs.filter((same) => same).length / pairs.length)
}
