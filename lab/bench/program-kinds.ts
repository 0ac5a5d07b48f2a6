/**
 * The kinds of programs that the policy benchmarks draw. Sizes are an agent's scaled down to a model of 135 M parameters on a
 * CPU, so that a queue fits a minute.
 *
 * Chats and small trees have short contexts: the engine holds all of them, and only seats are scarce. In the `chats` workload,
 * three quarters of the programs, the short chats, do a quarter of the work.
 *
 * ReAct chains and trees over a long root have a long context from the first call on, each its own: a program's own choice of
 * tools, or its own documents. A first prompt that all programs shared would be one cached prefix, and memory would not be scarce.
 *
 * Writers write long texts about long documents. Questions about shorter documents take their seats and their memory while they
 * write: what a preempted writer had computed is lost, unless it is swapped.
 *
 * Chats, agents and long texts, and agents whose tools take seconds (`lookup`, `build`, `wait`), have the sizes that `gpu-check` plays: those
 * of programs on a model of 8 B parameters on a GPU.
 */
export type ProgramKind =
  | 'short_chat'
  | 'long_chat'
  | 'tree'
  | 'short_react'
  | 'long_react'
  | 'shallow_tree'
  | 'deep_tree'
  | 'question'
  | 'writer'
  | 'chat'
  | 'agent'
  | 'long'
  | 'lookup'
  | 'build'
  | 'wait'

export interface CallShape {
  /** Indices of calls of the same program that must end before this one is issued. */
  parents: readonly number[]
  /** Tokens that the call's prompt adds to its parents' prompts and outputs. */
  new_prompt_tokens: number
  output_tokens: number
  /** From the end of its last parent: the way to the client and back, and a tool. */
  gap_ms: number
}

/** A whole number between these, both included. */
export type Range = readonly [low: number, high: number]
export type Between = (low: number, high: number) => number

type DrawCalls = (between: Between, first_prompt_tokens: Range | null) => CallShape[]

/** Less than a step of the engine: a seat that is given away in it is asked back at once. */
const QUICK_GAP_MS: Range = [3, 12]
/** A tool between two calls: some 5 to 30 steps, long enough for other programs to take the seat and the KV blocks. */
const TOOL_GAP_MS: Range = [50, 250]

/** ReAct: a tool's answer of a line, and a thought with the next tool's name and arguments. */
const TOOL_ANSWER_TOKENS: Range = [10, 18]
const THOUGHT_TOKENS: Range = [6, 12]
const SHORT_REACT_CALLS: Range = [6, 8]
const LONG_REACT_CALLS: Range = [9, 12]

/** A tree over a long root: waves of calls that share all text so far, each wave judged by one call. */
const WAVE_CALLS: Range = [4, 6]
const BRANCH_PROMPT_TOKENS: Range = [3, 6]
const BRANCH_OUTPUT_TOKENS: Range = [6, 12]
const SHALLOW_WAVES = 2
const DEEP_WAVES = 4

/** A text, and its second version. */
const WRITER_CALLS: Range = [1, 2]
const WRITER_OUTPUT_TOKENS: Range = [100, 160]
const REVISION_PROMPT_TOKENS: Range = [10, 18]
/** Of a question's first prompt, over a writer's. */
const QUESTION_SHARE = 1 / 3
const QUESTION_CALLS: Range = [1, 3]
const QUESTION_OUTPUT_TOKENS: Range = [6, 16]

interface FullSize {
  calls: Range
  first_prompt_tokens: Range
  /** What each later call's prompt has more than the last call and its answer. */
  later_prompt_tokens: Range
  output_tokens: Range
  gap_ms: Range
}

const CHAT: FullSize = {
  ...{ calls: [1, 3], first_prompt_tokens: [500, 1100], later_prompt_tokens: [40, 160] },
  ...{ output_tokens: [30, 120], gap_ms: [100, 500] },
}
const AGENT: FullSize = {
  ...{ calls: [4, 7], first_prompt_tokens: [1400, 2600], later_prompt_tokens: [150, 500] },
  ...{ output_tokens: [40, 160], gap_ms: [100, 500] },
}
const LONG: FullSize = {
  ...{ calls: [1, 2], first_prompt_tokens: [3200, 6200], later_prompt_tokens: [200, 600] },
  ...{ output_tokens: [600, 1100], gap_ms: [100, 500] },
}
const LOOKUP: FullSize = {
  ...{ calls: [4, 7], first_prompt_tokens: [1000, 1800], later_prompt_tokens: [100, 300] },
  ...{ output_tokens: [30, 90], gap_ms: [100, 600] },
}
const BUILD: FullSize = {
  ...{ calls: [3, 5], first_prompt_tokens: [1700, 3200], later_prompt_tokens: [200, 600] },
  ...{ output_tokens: [60, 160], gap_ms: [1500, 5000] },
}
const WAIT: FullSize = {
  ...{ calls: [2, 3], first_prompt_tokens: [1700, 3200], later_prompt_tokens: [200, 600] },
  ...{ output_tokens: [40, 120], gap_ms: [6000, 10_000] },
}

export const DRAW_CALLS: Readonly<Record<ProgramKind, DrawCalls>> = {
  short_chat: (between) => shortTurns(between, between(1, 3), [6, 16]),
  long_chat: (between) => shortTurns(between, between(8, 12), [20, 32]),
  tree,
  short_react: (between, first) => react(between, between(...SHORT_REACT_CALLS), given(first)),
  long_react: (between, first) => react(between, between(...LONG_REACT_CALLS), given(first)),
  shallow_tree: (between, first) => longTree(between, SHALLOW_WAVES, given(first)),
  deep_tree: (between, first) => longTree(between, DEEP_WAVES, given(first)),
  question: (between, first) => questions(between, given(first)),
  writer: (between, first) => turns(between, between(...WRITER_CALLS), given(first), WRITER_OUTPUT_TOKENS),
  chat: fullSize(CHAT),
  agent: fullSize(AGENT),
  long: fullSize(LONG),
  lookup: fullSize(LOOKUP),
  build: fullSize(BUILD),
  wait: fullSize(WAIT),
}

function fullSize({ calls, first_prompt_tokens, later_prompt_tokens, output_tokens, gap_ms }: FullSize): DrawCalls {
  return (between) =>
    Array.from({ length: between(...calls) }, (_, index) => ({
      parents: index === 0 ? [] : [index - 1],
      new_prompt_tokens: between(...(index === 0 ? first_prompt_tokens : later_prompt_tokens)),
      output_tokens: between(...output_tokens),
      gap_ms: index === 0 ? 0 : between(...gap_ms),
    }))
}

function shortTurns(between: Between, turns: number, [low, high]: Range): CallShape[] {
  return Array.from({ length: turns }, (_, turn) => ({
    parents: turn === 0 ? [] : [turn - 1],
    new_prompt_tokens: between(4, 10),
    output_tokens: between(low, high),
    gap_ms: turn === 0 ? 0 : between(...QUICK_GAP_MS),
  }))
}

/** A root, two waves of four to six calls, and a call that joins them: the shape of a search or of a map and reduce. */
function tree(between: Between): CallShape[] {
  const call = (parents: readonly number[]): CallShape => ({
    parents,
    new_prompt_tokens: between(3, 6),
    output_tokens: between(6, 12),
    gap_ms: parents.length === 0 ? 0 : between(...QUICK_GAP_MS),
  })
  const wave = Array.from({ length: between(4, 6) }, (_, index) => index + 1)
  const second = wave.map((index) => index + wave.length)
  return [call([]), ...wave.map(() => call([0])), ...wave.map((index) => call([index])), call(second)]
}

function react(between: Between, calls: number, first_prompt_tokens: Range): CallShape[] {
  return Array.from({ length: calls }, (_, index) => ({
    parents: index === 0 ? [] : [index - 1],
    new_prompt_tokens: index === 0 ? between(...first_prompt_tokens) : between(...TOOL_ANSWER_TOKENS),
    output_tokens: between(...THOUGHT_TOKENS),
    gap_ms: index === 0 ? 0 : between(...TOOL_GAP_MS),
  }))
}

/** Each wave's branches go on from the same node, with which they share its whole text; the call that joins them is the next node. */
function longTree(between: Between, waves: number, first_prompt_tokens: Range): CallShape[] {
  const branch = (parents: readonly number[]): CallShape => ({
    parents,
    new_prompt_tokens: between(...BRANCH_PROMPT_TOKENS),
    output_tokens: between(...BRANCH_OUTPUT_TOKENS),
    gap_ms: between(...QUICK_GAP_MS),
  })
  const root = { new_prompt_tokens: between(...first_prompt_tokens), output_tokens: between(...BRANCH_OUTPUT_TOKENS) }
  const calls: CallShape[] = [{ parents: [], gap_ms: 0, ...root }]
  for (let wave = 0; wave < waves; wave++) {
    const node = calls.length - 1
    const branches = Array.from({ length: between(...WAVE_CALLS) }, (_, index) => node + 1 + index)
    calls.push(...branches.map(() => branch([node])), branch(branches))
  }
  return calls
}

function questions(between: Between, [low, high]: Range): CallShape[] {
  const first: Range = [Math.round(low * QUESTION_SHARE), Math.round(high * QUESTION_SHARE)]
  return turns(between, between(...QUESTION_CALLS), first, QUESTION_OUTPUT_TOKENS)
}

function turns(between: Between, calls: number, first_prompt_tokens: Range, output_tokens: Range): CallShape[] {
  return Array.from({ length: calls }, (_, turn) => ({
    parents: turn === 0 ? [] : [turn - 1],
    new_prompt_tokens: between(...(turn === 0 ? first_prompt_tokens : REVISION_PROMPT_TOKENS)),
    output_tokens: between(...output_tokens),
    gap_ms: turn === 0 ? 0 : between(...QUICK_GAP_MS),
  }))
}

function given(first_prompt_tokens: Range | null): Range {
  if (first_prompt_tokens === null) throw new RangeError('this kind of program needs first_prompt_tokens')
  return first_prompt_tokens
}
