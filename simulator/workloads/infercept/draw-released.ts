/**
 * Programs drawn from the released ones of InferCept, with replacement, as its benchmark does:
 *
 * - `infercept-released`: as they are, each equally likely.
 * - `infercept-one-tool`: the same requests up to the call after their first tool (LAMPS' single-API set).
 * - `infercept-table-2`: with as many tools as LAMPS' Table 2 says. The released means differ from it. Within an augmentation a
 *   program of n tools is drawn with weight exp(θ n), where θ gives the table's mean. The released programs of the virtual
 *   environment end before its mean of 28 tools, so they are continued: their steps repeat until the drawn number is reached.
 */
import { normal, seededRandom } from '../../random.ts'
import type { WorkloadCall, WorkloadProgram } from '../program.ts'
import { type ReleasedCall, type ReleasedProgram, releasedPrograms } from './released.ts'

export const RELEASED_NAMES = ['infercept-released', 'infercept-one-tool', 'infercept-table-2'] as const
export type ReleasedName = (typeof RELEASED_NAMES)[number]

/** Mean and standard deviation of the number of tools in a request (LAMPS Table 2, from InferCept's Table 1). */
export const TABLE_2: Readonly<Record<string, { mean: number; sd: number }>> = {
  math: { mean: 3.75, sd: 1.3 },
  qa: { mean: 2.52, sd: 1.73 },
  ve: { mean: 28.18, sd: 15.2 },
  chatbot: { mean: 4.45, sd: 1.96 },
  image: { mean: 6.91, sd: 3.93 },
  tts: { mean: 6.91, sd: 3.93 },
}
/** A program that is continued has at most so many calls. */
const CALLS_MAX = 64

export function isReleased(name: string): name is ReleasedName {
  return RELEASED_NAMES.some((known) => known === name)
}

export function drawReleased(name: ReleasedName, id: string, seed: number): WorkloadProgram {
  const random = seededRandom(seed)
  const programs = releasedPrograms(name === 'infercept-one-tool' ? 'single' : 'multi')
  const drawn = name === 'infercept-table-2' ? drawByTable2(programs, random) : pick(programs, random())
  const [augmentation, calls] = drawn
  const app = `infercept/${augmentation}`
  return { id, workload: app, app, calls: calls.map((call, index) => callOf(call, index, augmentation, calls.length)) }
}

function pick(programs: readonly ReleasedProgram[], u: number): ReleasedProgram {
  return programs[Math.min(programs.length - 1, Math.floor(u * programs.length))] as ReleasedProgram
}

/** A final call may have a tool in the released file; nothing follows it. */
function callOf(
  [prompt_tokens, shared_prefix_tokens, output_tokens, tool_us]: ReleasedCall,
  index: number,
  tool: string,
  calls: number,
): WorkloadCall {
  const follows = tool_us >= 0 && index < calls - 1
  return {
    ...{ thread: 0, parents: index === 0 ? [] : [index - 1], prompt_tokens, output_tokens },
    shared_prefix_tokens: index === 0 ? 0 : shared_prefix_tokens,
    tool: follows ? tool : null,
    tool_seconds: follows ? tool_us / 1e6 : null,
    prefix_of: index === 0 ? null : index - 1,
    same_prompt_as: null,
  }
}

/** Tools that a request has: a call without one follows the last. */
export function toolsOf([, calls]: ReleasedProgram): number {
  return calls.length - 1
}

/** Of each augmentation as many as were released. */
function drawByTable2(programs: readonly ReleasedProgram[], random: () => number): ReleasedProgram {
  const [augmentation] = pick(programs, random())
  const { of, cumulative } = tilted(augmentation, programs)
  const u = random()
  const at = cumulative.findIndex((share) => u < share)
  const program = of[at === -1 ? of.length - 1 : at] as ReleasedProgram
  if (augmentation !== 've') return program
  const { mean, sd } = TABLE_2.ve as { mean: number; sd: number }
  return continued(program, Math.max(toolsOf(program), Math.round(mean + sd * normal(random))))
}

interface Tilted {
  of: readonly ReleasedProgram[]
  cumulative: readonly number[]
}

const known_tilts = new Map<string, Tilted>()

function tilted(augmentation: string, programs: readonly ReleasedProgram[]): Tilted {
  const known = known_tilts.get(augmentation)
  if (known !== undefined) return known
  const of = programs.filter(([name]) => name === augmentation)
  const mean = augmentation === 've' ? null : (TABLE_2[augmentation]?.mean ?? null)
  const weights = mean === null ? of.map(() => 1) : weightsFor(of.map(toolsOf), mean)
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  let sum = 0
  const cumulative = weights.map((weight) => {
    sum += weight
    return sum / total
  })
  const tilt = { of, cumulative }
  known_tilts.set(augmentation, tilt)
  return tilt
}

/** exp(θ n) with the θ for which the weighted mean of n is `mean`, by bisection: the mean grows with θ. */
export function weightsFor(tools: readonly number[], mean: number): number[] {
  const weightsAt = (theta: number) => tools.map((n) => Math.exp(theta * (n - mean)))
  let low = -8
  let high = 8
  for (let round = 0; round < 80; round++) {
    const middle = (low + high) / 2
    const weights = weightsAt(middle)
    const total = weights.reduce((sum, weight) => sum + weight, 0)
    const reached = weights.reduce((sum, weight, index) => sum + weight * (tools[index] as number), 0) / total
    if (reached < mean) low = middle
    else high = middle
  }
  return weightsAt((low + high) / 2)
}

/** Its steps after the first repeat, each with the new tokens that it had, until it has so many tools. */
export function continued([augmentation, calls]: ReleasedProgram, tools: number): ReleasedProgram {
  const steps = calls.slice(1)
  if (steps.length === 0) return [augmentation, calls]
  const longer = [...calls]
  while (longer.length <= Math.min(tools, CALLS_MAX - 1)) {
    const [prompt_tokens, , output_tokens, , answer_tokens] = longer[longer.length - 1] as ReleasedCall
    const step = steps[(longer.length - 1) % steps.length] as ReleasedCall
    const shared_tokens = prompt_tokens + output_tokens
    longer.push([shared_tokens + Math.max(1, step[0] - step[1]), shared_tokens, step[2], step[3], answer_tokens])
  }
  // The last step of a released program may have had no tool; in a longer one it has that of the others.
  const tool_us = Math.max(...calls.map((call) => call[3]))
  return [
    augmentation,
    longer.map((call) => (call[3] >= 0 ? call : ([call[0], call[1], call[2], tool_us, call[4]] as const))),
  ]
}
