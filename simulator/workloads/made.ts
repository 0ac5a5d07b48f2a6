/**
 * Workloads that were made up, each for one thing that the recorded ones lack: programs that are all alike, waves of parallel calls, contexts that
 * fill KV, questions beside agents, and lengths without a typical size.
 */
import { normal } from '../random.ts'
import type { WorkloadCall, WorkloadProgram } from './program.ts'
import { resolvePrefixes } from './resolve-prefixes.ts'

export const MADE_NAMES = [
  'equal-chains',
  'parallel-waves',
  'long-contexts',
  'questions-and-agents',
  'heavy-tails',
] as const
export type MadeName = (typeof MADE_NAMES)[number]

type Random = () => number
/** Log-normal: half of the values are below `median`. */
interface Size {
  median: number
  sigma: number
  max: number
}

interface Chain {
  calls: number
  first_prompt_tokens: Size
  new_prompt_tokens: Size
  output_tokens: Size
  tool_seconds: Size | null
}

/** A chain ends before its context would be larger. */
const CONTEXT_TOKENS_MAX = 30_000
const exactly = (median: number): Size => ({ median, sigma: 0, max: median })
const around = (median: number, sigma: number, max = CONTEXT_TOKENS_MAX): Size => ({ median, sigma, max })
const EMPTY_PROMPT = exactly(0)

const CALLS: Readonly<Record<MadeName, (random: Random) => WorkloadCall[]>> = {
  'equal-chains': (random) =>
    chain(random, {
      ...{ calls: 6, first_prompt_tokens: exactly(1000), new_prompt_tokens: exactly(100) },
      ...{ output_tokens: exactly(200), tool_seconds: exactly(1) },
    }),
  'parallel-waves': waves,
  'long-contexts': (random) =>
    chain(random, {
      ...{ calls: between(random, 2, 6), first_prompt_tokens: around(12_000, 0.3, 24_000) },
      ...{ new_prompt_tokens: around(500, 0.7), output_tokens: around(120, 0.7), tool_seconds: exactly(2) },
    }),
  'questions-and-agents': (random) =>
    random() < 0.9
      ? chain(random, {
          ...{ calls: 1, first_prompt_tokens: around(200, 0.5), new_prompt_tokens: EMPTY_PROMPT },
          ...{ output_tokens: around(30, 0.5), tool_seconds: null },
        })
      : chain(random, {
          ...{ calls: between(random, 15, 24), first_prompt_tokens: around(800, 0.5) },
          ...{ new_prompt_tokens: around(100, 0.5), output_tokens: around(400, 0.4), tool_seconds: exactly(1) },
        }),
  'heavy-tails': (random) =>
    chain(random, {
      // Pareto of index 1, cut off at 50.
      ...{ calls: 1 + Math.floor(1 / (1 - random() * 0.98)), first_prompt_tokens: around(400, 0.7) },
      ...{ new_prompt_tokens: around(60, 0.8), output_tokens: around(150, 0.8, 4000), tool_seconds: exactly(0.5) },
    }),
}

export function drawMade(name: MadeName, id: string, random: Random): WorkloadProgram {
  return { id, workload: name, calls: resolvePrefixes(CALLS[name](random)) }
}

function chain(random: Random, { calls: count, ...sizes }: Chain): WorkloadCall[] {
  const calls: WorkloadCall[] = []
  let context_tokens = 0
  for (let index = 0; index < count; index += 1) {
    const first = index === 0
    const last = index === count - 1
    const added_tokens = whole(random, first ? sizes.first_prompt_tokens : sizes.new_prompt_tokens)
    const output_tokens = whole(random, sizes.output_tokens)
    const seconds = sizes.tool_seconds === null || last ? null : sized(random, sizes.tool_seconds)
    if (!first && context_tokens + added_tokens + output_tokens > CONTEXT_TOKENS_MAX) break
    calls.push({
      ...{ thread: 0, parents: first ? [] : [index - 1] },
      ...{ prompt_tokens: context_tokens + added_tokens, shared_prefix_tokens: context_tokens, output_tokens },
      ...{ tool: seconds === null ? null : 'tool', tool_seconds: seconds },
    })
    context_tokens += added_tokens + output_tokens
  }
  return calls
}

/** One to four waves of two to six calls, which share their prompts with the first call of the wave before. */
function waves(random: Random): WorkloadCall[] {
  const call = (
    thread: number,
    parents: readonly number[],
    shared: number,
    added: Size,
    output: Size,
  ): WorkloadCall => ({
    ...{ thread, parents, prompt_tokens: shared + whole(random, added), shared_prefix_tokens: shared },
    ...{ output_tokens: whole(random, output), tool: null, tool_seconds: null },
  })
  const calls = [call(0, [], 0, around(1500, 0.3), around(80, 0.5))]
  let parents: readonly number[] = [0]
  for (let left = between(random, 1, 4); left > 0; left -= 1) {
    const base = calls[parents[0] as number] as WorkloadCall
    const width = between(random, 2, 6)
    const first = calls.length
    for (let thread = 0; thread < width; thread += 1) {
      calls.push(call(thread, parents, base.prompt_tokens + base.output_tokens, around(60, 0.4), around(120, 0.7)))
    }
    parents = Array.from({ length: width }, (_, thread) => first + thread)
  }
  return calls
}

/** Both included. */
function between(random: Random, low: number, high: number): number {
  return low + Math.floor(random() * (high - low + 1))
}

function whole(random: Random, size: Size): number {
  return Math.max(1, Math.round(sized(random, size)))
}

function sized(random: Random, { median, sigma, max }: Size): number {
  return Math.min(max, median * Math.exp(sigma * normal(random)))
}
