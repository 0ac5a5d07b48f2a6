import { expect, test } from 'vitest'
import { NO_TOOLS } from '../../engine/memory/handling/handling-counts.ts'
import { AgentMetrics } from './metrics.ts'

const NOTHING = {
  open_calls: () => 0,
  outbox_depth: () => 0,
  classes: () => ({ known: 0, ends: 0 }),
  links: () => [],
  engines: () => [],
  spans_dropped: () => 0,
}

test('holds of an engine add up, also when it starts anew and counts from 0', async () => {
  const metrics = new AgentMetrics(NOTHING)
  const holds = { contexts: 1, begun: 6, returned: 3, given_up: 1, expired: 1, held_back: 4 }
  metrics.contexts('e', { holds })
  metrics.contexts('e', { holds })
  metrics.contexts('e', { holds: { ...holds, begun: 8, returned: 5, contexts: 1 } })
  metrics.contexts('e', { holds: { contexts: 2, begun: 3, returned: 1, given_up: 0, expired: 0, held_back: 0 } })
  metrics.contexts('f', { holds: { ...holds, expired: 9 } })
  const text = await metrics.registry.metrics()
  for (const line of [
    'switchyard_agent_holds_total{engine="e",end="returned"} 6',
    'switchyard_agent_holds_total{engine="e",end="given_up"} 1',
    'switchyard_agent_holds_total{engine="e",end="expired"} 1',
    'switchyard_agent_holds_total{engine="f",end="expired"} 9',
    'switchyard_agent_held_back_total{engine="e"} 4',
    'switchyard_agent_held_contexts{engine="e"} 2',
  ]) {
    expect(text.split('\n')).toContain(line)
  }
})

test('what became of contexts while tools ran adds up by handling, also when the engine starts anew', async () => {
  const metrics = new AgentMetrics(NOTHING)
  const holds = { contexts: 0, begun: 0, returned: 0, given_up: 0, expired: 0, held_back: 0 }
  const preserve = { decided: 4, returned: 3, context_tokens: 900, cached_tokens: 870 }
  const tools = { ...NO_TOOLS, preserve, relieved: 2 }
  metrics.contexts('e', { holds, tools })
  metrics.contexts('e', { holds, tools: { ...tools, relieved: 3 } })
  metrics.contexts('e', { holds, tools: { ...NO_TOOLS, swap: { ...preserve, decided: 1 } } })
  const text = await metrics.registry.metrics()
  for (const line of [
    'switchyard_agent_tool_contexts_total{engine="e",handling="preserve"} 4',
    'switchyard_agent_tool_contexts_total{engine="e",handling="swap"} 1',
    'switchyard_agent_tool_return_tokens_total{engine="e",handling="preserve",kv="cached"} 870',
    'switchyard_agent_tool_return_tokens_total{engine="e",handling="swap",kv="computed"} 30',
    'switchyard_agent_tool_context_events_total{engine="e",event="relieved"} 3',
  ]) {
    expect(text.split('\n')).toContain(line)
  }
})

test('how well lengths are foreseen is shown of both predictors, and which of them is in use', async () => {
  const metrics = new AgentMetrics(NOTHING)
  metrics.lengths('e', {
    ...{ learned_from: 90, judged_by: 30, in_use: true },
    classifier: { acc5: 0.25, acc15: 0.5, mae_tokens: 40 },
    quantiles: { acc5: 0.125, acc15: 0.375, mae_tokens: 60.5 },
  })
  const text = await metrics.registry.metrics()
  for (const line of [
    'switchyard_agent_length_accuracy_ratio{engine="e",predictor="classifier",within="5"} 0.25',
    'switchyard_agent_length_accuracy_ratio{engine="e",predictor="quantiles",within="15"} 0.375',
    'switchyard_agent_length_error_tokens{engine="e",predictor="quantiles"} 60.5',
    'switchyard_agent_length_classifier_in_use{engine="e"} 1',
  ]) {
    expect(text.split('\n')).toContain(line)
  }
})
