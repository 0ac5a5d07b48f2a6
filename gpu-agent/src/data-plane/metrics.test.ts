import { expect, test } from 'vitest'
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
