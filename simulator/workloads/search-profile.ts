/**
 * Workloads whose programs search a tree: LATS, language agent tree search. A program is a sequence of rounds behind barriers. A round asks
 * the prompt of one node `width` times (`sample` calls, each with a tool); the answers that ended in a state worth it become nodes and are judged
 * (`value` calls); a failed path may be reflected upon (`reflect`), which lengthens every later sample's prompt. Then the search goes
 * deeper, to a child of the node, or elsewhere, to a node chosen before.
 *
 * What happens in a round is drawn by how deep it is, how many reflections there were, and whether it is the program's last; where the search goes
 * next by what happened. Token counts follow from the tree: a node's prompt is its parent's prompt, the answer, and what the tool observed.
 */
import type { WorkloadCall, WorkloadProgram } from './program.ts'
import { type Table, valueAt } from './table.ts'

/** A round's outcome: answers that finish, nodes judged, and whether a reflection follows. With its share among those of its situation. */
export interface RoundOutcome {
  finishes: number
  values: number
  reflects: boolean
  share: number
}

export interface SearchProfile {
  shape: 'search'
  workload: string
  provenance: string
  width: number
  /** Heads that all prompts of a kind start with, in every program. */
  head_tokens: Record<'sample' | 'value' | 'reflect', number>
  /** What each reflection adds to the prompts of later samples. */
  reflection_tokens: number
  rounds: Table
  root_prompt_tokens: Table
  output_tokens: Record<'sample' | 'value' | 'reflect', Table>
  observation_tokens: Table
  reflect_prompt_tokens: Table
  tool_seconds: Record<'search' | 'lookup', Table>
  lookup_share: number
  /** By `situation`. */
  outcomes: Readonly<Record<string, readonly RoundOutcome[]>>
  /** No node is deeper; a node there has no children. */
  depth_max: number
  /** That the next round is at a child of this one's node, where one was judged, by `phase` and depth. */
  deeper: Readonly<Record<string, number>>
  /** Depth of the node that a search that goes elsewhere goes to, by `phase`. */
  elsewhere_depth: Readonly<Record<string, Table>>
}

export function situation(last: boolean, reflections: number, depth: number): string {
  return `${last ? 'last' : 'inner'} reflections=${reflections} depth=${depth}`
}

export function phase(reflections: number, round: number): string {
  const age = round < 4 ? 0 : round < 8 ? 4 : round < 16 ? 8 : round < 32 ? 16 : 32
  return `reflections=${reflections} round>=${age}`
}

interface Node {
  prompt_tokens: number
  depth: number
  thread: number
  /** The sample call that made it and the value call that judged it; the root has neither. */
  sample: number | null
  value: number | null
  expanded: boolean
}

export function drawSearch(profile: SearchProfile, id: string, random: () => number): WorkloadProgram {
  const calls = new Search(profile, random).run()
  return {
    id,
    workload: profile.workload,
    app: profile.workload,
    app_prefix_tokens_by_kind: profile.head_tokens,
    calls,
  }
}

class Search {
  readonly #profile: SearchProfile
  readonly #random: () => number
  readonly #calls: WorkloadCall[] = []
  readonly #nodes: Node[] = []
  #threads = 1
  #reflections = 0
  /** What the next round waits for. */
  #barrier: readonly number[] = []

  constructor(profile: SearchProfile, random: () => number) {
    this.#profile = profile
    this.#random = random
  }

  run(): WorkloadCall[] {
    const rounds = Math.max(1, this.#tokens(this.#profile.rounds))
    const root_tokens = this.#tokens(this.#profile.root_prompt_tokens)
    let node: Node = { prompt_tokens: root_tokens, depth: 0, thread: 0, sample: null, value: null, expanded: false }
    for (let round = 0; round < rounds; round += 1) {
      const last = round === rounds - 1
      const outcome = this.#outcomeOf(situation(last, this.#reflections, node.depth))
      const at_phase = phase(this.#reflections, round)
      const children = this.#round(node, outcome)
      const deeper = this.#profile.deeper[`${at_phase} depth=${node.depth}`] ?? 0
      const next = children.length > 0 && this.#random() < deeper ? this.#any(children) : this.#elsewhere(at_phase)
      node = next ?? node
    }
    return this.#calls
  }

  /** Plays a round at the node and returns the nodes that it made. */
  #round(node: Node, outcome: RoundOutcome): Node[] {
    node.expanded = true
    const samples = this.#samples(node, outcome.finishes)
    this.#barrier = samples
    const open = node.depth < this.#profile.depth_max ? outcome.values : 0
    const judged = samples.filter((index) => this.#calls[index]?.tool !== 'finish').slice(0, open)
    const children = judged.map((sample) => this.#judge(node, sample))
    if (children.length > 0) this.#barrier = children.map((child) => child.value as number)
    this.#nodes.push(...children)
    if (outcome.reflects) this.#reflect()
    return children
  }

  #samples(node: Node, finishes: number): number[] {
    const { width, output_tokens, tool_seconds, lookup_share, reflection_tokens } = this.#profile
    const finishing = new Set<number>()
    while (finishing.size < Math.min(finishes, width)) finishing.add(Math.floor(this.#random() * width))
    const first = this.#calls.length
    const creator = node.sample === null ? undefined : this.#calls[node.sample]
    const parents = this.#barrier
    for (let i = 0; i < width; i += 1) {
      const tool = finishing.has(i) ? 'finish' : this.#random() < lookup_share ? 'lookup' : 'search'
      this.#calls.push({
        thread: i === 0 ? node.thread : this.#threads++,
        parents,
        prompt_tokens: node.prompt_tokens + this.#reflections * reflection_tokens,
        shared_prefix_tokens: creator === undefined ? 0 : this.#parentPrompt(node) + creator.output_tokens,
        output_tokens: Math.max(1, this.#tokens(output_tokens.sample)),
        tool,
        tool_seconds: tool === 'finish' ? 0 : valueAt(tool_seconds[tool], this.#random()),
        kind: 'sample',
        prefix_of: node.sample,
        same_prompt_as: i === 0 ? null : first,
      })
    }
    return Array.from({ length: width }, (_, i) => first + i)
  }

  #judge(parent: Node, sample: number): Node {
    const call = this.#calls[sample] as WorkloadCall
    const observed = this.#tokens(this.#profile.observation_tokens)
    const prompt_tokens = parent.prompt_tokens + call.output_tokens + observed
    const value = this.#calls.length
    this.#calls.push({
      thread: call.thread,
      parents: [sample],
      prompt_tokens,
      shared_prefix_tokens: parent.value === null ? 0 : parent.prompt_tokens,
      output_tokens: Math.max(1, this.#tokens(this.#profile.output_tokens.value)),
      tool: null,
      tool_seconds: null,
      kind: 'value',
      prefix_of: parent.value,
      same_prompt_as: null,
    })
    return { prompt_tokens, depth: parent.depth + 1, thread: call.thread, sample, value, expanded: false }
  }

  #reflect(): void {
    const index = this.#calls.length
    this.#calls.push({
      thread: 0,
      parents: this.#barrier,
      prompt_tokens: Math.max(1, this.#tokens(this.#profile.reflect_prompt_tokens)),
      shared_prefix_tokens: 0,
      output_tokens: Math.max(1, this.#tokens(this.#profile.output_tokens.reflect)),
      tool: null,
      tool_seconds: null,
      kind: 'reflect',
      prefix_of: null,
      same_prompt_as: null,
    })
    this.#barrier = [index]
    this.#reflections += 1
  }

  /** The prompt of the node above, without reflections: what the sample that made `node` was asked. */
  #parentPrompt(node: Node): number {
    const value = node.value === null ? undefined : this.#calls[node.value]
    const parent_value = value?.prefix_of
    if (parent_value === null || parent_value === undefined) return this.#calls[0]?.prompt_tokens ?? 0
    return this.#calls[parent_value]?.prompt_tokens ?? 0
  }

  /** A node at the depth drawn, or the nearest one; one that was not expanded if there is any. */
  #elsewhere(at_phase: string): Node | null {
    if (this.#nodes.length === 0) return null
    const table = this.#profile.elsewhere_depth[at_phase]
    const depth = table === undefined ? 1 : Math.round(valueAt(table, this.#random()))
    const distance = (node: Node) => Math.abs(node.depth - depth)
    const nearest = this.#nodes.reduce((least, node) => Math.min(least, distance(node)), Number.POSITIVE_INFINITY)
    const there = this.#nodes.filter((node) => distance(node) === nearest)
    const fresh = there.filter((node) => !node.expanded)
    return this.#any(fresh.length > 0 ? fresh : there)
  }

  #outcomeOf(key: string): RoundOutcome {
    const outcomes = this.#profile.outcomes[key] ?? this.#profile.outcomes.any ?? []
    let rest = this.#random()
    for (const outcome of outcomes) {
      rest -= outcome.share
      if (rest < 0) return outcome
    }
    return outcomes.at(-1) ?? { finishes: 0, values: 0, reflects: false, share: 1 }
  }

  #any(nodes: readonly Node[]): Node {
    return nodes[Math.floor(this.#random() * nodes.length)] as Node
  }

  #tokens(table: Table): number {
    return Math.round(valueAt(table, this.#random()))
  }
}
