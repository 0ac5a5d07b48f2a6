/** What a reader must know about a run beside its figures: settings that change what the profile or the paper says. */
import { learns, weighsMemory } from '../policies/index.ts'
import type { WorkloadProgram } from '../workloads/index.ts'
import type { RunPlan } from './run-plan.ts'

const count = (value: number) => value.toLocaleString('en-US')

export function runNotes(plan: RunPlan, history: readonly WorkloadProgram[]): string[] {
  return [...contextNote(plan), ...historyNote(plan, history)]
}

function contextNote({ profile, profile_context_tokens: own_tokens }: RunPlan): string[] {
  const tokens = profile.slot_tokens_max
  if (tokens === own_tokens) return []
  const kv_tokens = profile.capacity_blocks * profile.block_tokens
  const beyond =
    tokens > own_tokens
      ? ` Step times of longer contexts are extrapolated from the profile's formula, and the model itself may not serve them.`
      : ''
  return [
    `Context: calls of up to ${count(tokens)} tokens are accepted instead of the ${count(own_tokens)} of ${profile.name} (--context-tokens). ` +
      `KV memory stays ${count(kv_tokens)} tokens, so fewer long calls fit side by side.${beyond}`,
  ]
}

function historyNote({ policies, label, forecast }: RunPlan, history: readonly WorkloadProgram[]): string[] {
  if (history.length === 0) return []
  const isTold = (policy: RunPlan['policies'][number]) => forecast.kind === 'learned' && weighsMemory(policy)
  const learning = policies.filter((policy) => learns(policy) || isTold(policy))
  const classes = label === 'none' ? 1 : new Set(history.map(({ workload }) => workload)).size
  return [
    `History: ${count(history.length)} programs of ${count(classes)} ${classes === 1 ? 'class' : 'classes'} (--history). ` +
      (learning.length === 0
        ? `${policies.join(', ')}: no policy of this run learns from it, so it changes nothing.`
        : `${learning.join(', ')} learns from it.`),
  ]
}
