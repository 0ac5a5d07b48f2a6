/**
 * Which earlier call a shared prefix repeats. The line format says how much is shared, not with whom, so it is resolved once, at load:
 *
 * - One parent: with it, if it is long enough; this covers every chain.
 * - `sample` calls (tree search): with the sample call that created the node being expanded. The first of the siblings goes on in that
 *   call's thread. Siblings of equal parents and prompt length are one prompt asked several times.
 * - `value` calls: with the value call of the parent node, whose prompt has exactly the shared length and whose thread the siblings' first goes on.
 * - Otherwise "the previous call" means: the latest parent, then the latest call of the thread, then the latest call
 *   that is long enough.
 *
 * What fits no call is left null: those tokens then count as new.
 */
import type { WorkloadCall } from './program.ts'

interface Siblings {
  first: number
  thread: number
}

export function resolvePrefixes(calls: readonly WorkloadCall[]): WorkloadCall[] {
  const groups = new Map<string, Siblings>()
  const resolved: WorkloadCall[] = []
  for (const [index, call] of calls.entries()) {
    const siblings = call.kind === 'sample' ? siblingsOf(groups, call, index) : null
    const same_prompt_as = siblings === null || siblings.first === index ? null : siblings.first
    const prefix_of =
      call.shared_prefix_tokens === 0
        ? null
        : same_prompt_as !== null
          ? (resolved[same_prompt_as]?.prefix_of ?? null)
          : prefixOf(resolved, call, groups)
    resolved.push({ ...call, prefix_of, same_prompt_as })
  }
  return resolved
}

function siblingsOf(groups: Map<string, Siblings>, call: WorkloadCall, index: number): Siblings {
  const key = siblingsKey(call)
  const known = groups.get(key)
  if (known !== undefined) return known
  const siblings = { first: index, thread: call.thread }
  groups.set(key, siblings)
  return siblings
}

function siblingsKey({ parents, prompt_tokens, shared_prefix_tokens }: WorkloadCall): string {
  return `${parents.join(',')}|${prompt_tokens}|${shared_prefix_tokens}`
}

function prefixOf(earlier: readonly WorkloadCall[], call: WorkloadCall, groups: Map<string, Siblings>): number | null {
  if (call.kind === 'value') {
    const sample = earlier[call.parents[0] ?? -1]
    const thread = sample === undefined ? call.thread : (groups.get(siblingsKey(sample))?.thread ?? call.thread)
    const exact = (c: WorkloadCall) => c.kind === 'value' && c.prompt_tokens === call.shared_prefix_tokens
    return (
      latest(earlier, (c) => exact(c) && c.thread === thread) ?? latest(earlier, exact) ?? generalPrefix(earlier, call)
    )
  }
  if (call.kind === 'sample') {
    const ofThread = (c: WorkloadCall) => c.kind === 'sample' && c.thread === call.thread
    return (
      latest(earlier, (c) => ofThread(c) && textTokens(c) === call.shared_prefix_tokens) ??
      latest(earlier, (c) => ofThread(c) && isLongEnough(c, call)) ??
      latest(earlier, (c) => c.kind === 'sample' && isLongEnough(c, call)) ??
      generalPrefix(earlier, call)
    )
  }
  return generalPrefix(earlier, call)
}

function generalPrefix(earlier: readonly WorkloadCall[], call: WorkloadCall): number | null {
  for (const parent of [...call.parents].sort((a, b) => b - a)) {
    const candidate = earlier[parent]
    if (candidate !== undefined && isLongEnough(candidate, call)) return parent
  }
  return (
    latest(earlier, (c) => c.thread === call.thread && isLongEnough(c, call)) ??
    latest(earlier, (c) => isLongEnough(c, call))
  )
}

function latest(earlier: readonly WorkloadCall[], fits: (call: WorkloadCall) => boolean): number | null {
  const index = earlier.findLastIndex(fits)
  return index < 0 ? null : index
}

function isLongEnough(candidate: WorkloadCall, call: WorkloadCall): boolean {
  return textTokens(candidate) >= call.shared_prefix_tokens
}

function textTokens({ prompt_tokens, output_tokens }: WorkloadCall): number {
  return prompt_tokens + output_tokens
}
