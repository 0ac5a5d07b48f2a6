import { expect, it } from 'vitest'
import { type ApplicationState, newApplication, noteWork, resumed, SPANS_MAX } from './application-state.ts'

const GIVEN = {
  ...{ id: 'a', tenant: 't', key: 'k', name: 'n', digest: 'd', input: { file: 'f', parts: [] }, start: true },
  ...{ limits: { calls: null, tokens: null }, completion_window: '24h', metadata: null, regions: null },
  ...{ created_at_ms: 1000, expires_at_ms: 5000 },
}

function stateOf(change: Partial<ApplicationState>): ApplicationState {
  return { ...newApplication(GIVEN, ['file-1']), ...change }
}

it('goes on where it stopped, with what the client says now', () => {
  const ended = { is_checked: true, started_at_ms: 1500, ended_at_ms: 3000 }
  const again = { ...GIVEN, key: 'k2', expires_at_ms: 9000, limits: { calls: null, tokens: 7 } }
  for (const status of ['cancelled', 'expired', 'failed', 'limit_reached'] as const) {
    expect(resumed(stateOf({ ...ended, status, ending: status }), again, 4000)).toMatchObject({
      ...{ status: 'running', ending: null, ended_at_ms: null, started_at_ms: 1500, key: 'k2', expires_at_ms: 9000 },
      limits: { tokens: 7 },
    })
  }
  expect(resumed(stateOf({ ...ended, status: 'completed' }), again, 4000)).toBeNull()
})

it('one that only was planned begins when it is sent to start', () => {
  const planned = stateOf({ is_checked: true, status: 'planned', start: false })
  expect(resumed(planned, { ...GIVEN, start: false }, 4000)).toBeNull()
  expect(resumed(planned, GIVEN, 4000)).toMatchObject({ status: 'running', start: true, started_at_ms: 4000 })
  expect(resumed(stateOf({ status: 'running', is_checked: true }), GIVEN, 4000)).toBeNull()
})

it('notes stretches of work, and joins the closest beyond a bound', () => {
  const node = { spans: [] as [number, number][] }
  for (const at of [0, 10, 15, 100, 105]) noteWork(node, at, 10)
  expect(node.spans).toEqual([
    [0, 15],
    [100, 105],
  ])
  for (let at = 0; at < SPANS_MAX; at += 1) noteWork(node, 1000 + 100 * at, 10)
  expect(node.spans).toHaveLength(SPANS_MAX)
  expect(node.spans[0]).toEqual([0, 105])
})
