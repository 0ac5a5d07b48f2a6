/**
 * Seeded programs for the policy benchmarks, as shapes (who depends on whom, how many tokens), and when they arrive. Equal
 * seeds give equal workloads, so that policies meet the same arrivals. The kinds of programs are in program-kinds.ts.
 *
 * Every workload has the same number of programs of each kind, and arrivals are those of a Poisson process given their
 * number (uniform over the span), so that the seeds differ in order and sizes and not in load.
 */
import { seededRandom } from '../../simulator/random.ts'
import { type Between, type CallShape, DRAW_CALLS, type ProgramKind, type Range } from './program-kinds.ts'

export const WORKLOADS = ['chats', 'react', 'trees', 'writers'] as const
/** Of full size, for a GPU. */
export const GPU_WORKLOADS = ['mixed', 'tools'] as const
export type SmallWorkload = (typeof WORKLOADS)[number]
export type GpuWorkload = (typeof GPU_WORKLOADS)[number]
export type WorkloadName = SmallWorkload | GpuWorkload

export interface ProgramShape {
  id: string
  kind: ProgramKind
  arrival_s: number
  calls: readonly CallShape[]
}

/** Tokens that the engine computes for programs whose prefixes are all cached. */
interface ProgramTokens {
  output_tokens: number
  prompt_tokens: number
}

/** Which workload, and how long the first prompts of its long programs are; null where its kinds say that themselves. */
export interface WorkloadMix {
  workload: WorkloadName
  first_prompt_tokens: Range | null
}

/** How a benchmark plays a workload. */
export interface WorkloadSetting extends WorkloadMix {
  programs: number
  /** Arrival rate as a multiple of what the engine serves. */
  load: number
  /** What the engine's KV is limited to; null: all programs fit. */
  kv_tokens: number | null
  /** Capacity is measured with so many programs, of which so many are live: no prefix is lost then. */
  capacity_programs: number
  capacity_live_programs: number
  /** Capacity is measured without pauses between calls: tools that take seconds would leave seats empty. Left out: with them. */
  capacity_without_pauses?: boolean
}

export const CAPACITY_SEED = 4711

/** What clients name their programs' application: one label for a workload, or one for each kind of its programs. */
export const LABELS = ['workload', 'kind'] as const
export type Labels = (typeof LABELS)[number]

export function labelOf(labels: Labels, workload: WorkloadName, kind: ProgramKind): string {
  return labels === 'kind' ? kind : workload
}

const CHATS: WorkloadMix = { workload: 'chats', first_prompt_tokens: null }

interface Shares {
  /** Of the programs, so many are of these kinds. */
  shares: readonly (readonly [ProgramKind, number])[]
  /** All others are of this kind. */
  rest: ProgramKind
}

/** As in traces of agents, most programs are short. */
const SHARES: Readonly<Record<WorkloadName, Shares>> = {
  chats: {
    shares: [
      ['long_chat', 0.12],
      ['tree', 0.12],
    ],
    rest: 'short_chat',
  },
  react: { shares: [['long_react', 0.4]], rest: 'short_react' },
  trees: { shares: [['deep_tree', 0.3]], rest: 'shallow_tree' },
  writers: { shares: [['writer', 0.3]], rest: 'question' },
  mixed: {
    shares: [
      ['agent', 0.2],
      ['long', 0.1],
    ],
    rest: 'chat',
  },
  tools: {
    shares: [
      ['build', 0.4],
      ['wait', 0.2],
    ],
    rest: 'lookup',
  },
}

/** `all` of `workloads`, or names with commas between them; null: one of them is unknown. */
export function workloadsNamed<Name extends WorkloadName>(text: string, workloads: readonly Name[]): Name[] | null {
  if (text === 'all') return [...workloads]
  const names = text.split(',').map((name) => name.trim())
  const known = workloads.filter((name) => names.includes(name))
  return known.length === names.length ? known : null
}

/** The kinds of programs of a workload, as tables list them. */
export function kindsOf(workload: WorkloadName): ProgramKind[] {
  const { shares, rest } = SHARES[workload]
  return [rest, ...shares.map(([kind]) => kind)]
}

/** Shapes of one workload, in the order in which they arrive; when is `withArrivals`. */
export function drawShapes(seed: number, programs: number, mix = CHATS): Omit<ProgramShape, 'arrival_s'>[] {
  const random = seededRandom(seed)
  const between: Between = (low, high) => low + Math.floor(random() * (high - low + 1))
  const { shares, rest } = SHARES[mix.workload]
  const few = shares.flatMap(([kind, share]) => Array<ProgramKind>(Math.round(programs * share)).fill(kind))
  const kinds = Array.from({ length: programs }, (_, index) => few[index] ?? rest)
  for (let last = kinds.length - 1; last > 0; last--) {
    const other = between(0, last)
    ;[kinds[last], kinds[other]] = [kinds[other] as ProgramKind, kinds[last] as ProgramKind]
  }
  return kinds.map((kind, index) => ({
    ...{ id: `${kind}-${seed}-${index}`, kind },
    calls: DRAW_CALLS[kind](between, mix.first_prompt_tokens),
  }))
}

/** The programs that capacity is measured with: of a seed that no run plays. */
export function capacityShapes(setting: WorkloadSetting): Omit<ProgramShape, 'arrival_s'>[] {
  const shapes = drawShapes(CAPACITY_SEED, setting.capacity_programs, setting)
  if (!setting.capacity_without_pauses) return shapes
  return shapes.map((shape) => ({ ...shape, calls: shape.calls.map((call) => ({ ...call, gap_ms: 0 })) }))
}

/** Arrivals over `span_s` seconds; 0 lets all arrive at once. */
export function withArrivals(
  shapes: readonly Omit<ProgramShape, 'arrival_s'>[],
  seed: number,
  span_s: number,
): ProgramShape[] {
  const random = seededRandom(seed ^ 0x5bd1e995)
  const arrivals_s = shapes.map(() => random() * span_s).sort((a, b) => a - b)
  return shapes.map((shape, index) => ({ ...shape, arrival_s: arrivals_s[index] as number }))
}

export function outputTokens({ calls }: Pick<ProgramShape, 'calls'>): number {
  return calls.reduce((sum, call) => sum + call.output_tokens, 0)
}

export function tokensOf(programs: readonly Pick<ProgramShape, 'calls'>[]): ProgramTokens {
  const sums: ProgramTokens = { output_tokens: 0, prompt_tokens: 0 }
  for (const { calls } of programs) {
    for (let index = 0; index < calls.length; index++) {
      const { output_tokens, prompt_tokens } = tokensOfCall(calls, index)
      sums.output_tokens += output_tokens
      sums.prompt_tokens += prompt_tokens
    }
  }
  return sums
}

/** The last output of a turn is computed with the next turn's prompt; outputs that a call joins are computed again. */
export function tokensOfCall(calls: readonly CallShape[], index: number): ProgramTokens {
  const { new_prompt_tokens, output_tokens, parents } = calls[index] as CallShape
  const joined_tokens = parents.slice(1).reduce((sum, parent) => sum + (calls[parent]?.output_tokens ?? 0), 0)
  return { output_tokens, prompt_tokens: new_prompt_tokens + joined_tokens }
}

/** Prompt and output of each call. A prompt is its first parent's whole text, the other parents' outputs, and its own. */
export function textTokens(calls: readonly CallShape[]): number[] {
  const texts: number[] = []
  for (const [index, { parents }] of calls.entries()) {
    const { prompt_tokens, output_tokens } = tokensOfCall(calls, index)
    const before_tokens = parents[0] === undefined ? 0 : (texts[parents[0]] as number)
    texts.push(before_tokens + prompt_tokens + output_tokens)
  }
  return texts
}
