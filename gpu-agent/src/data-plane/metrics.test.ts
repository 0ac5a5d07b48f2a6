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
