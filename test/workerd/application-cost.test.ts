/** What a call of an application costs on Cloudflare beside what a line of a batch costs (docs/cost.md). Calls are served by a script. */
import { afterEach, beforeAll, expect, it, vi } from 'vitest'
import { ApplicationActor } from '../../src/actors/application/application-actor.ts'
import { PACK_MS } from '../../src/actors/application/application-run.ts'
import { LINES_PER_SLICE } from '../../src/actors/batch/slice.ts'
import { HostsActor } from '../../src/actors/hosts/hosts-actor.ts'
import {
  applicationStub,
  completed,
  create,
  echo,
  nodeOf,
  questions,
  reached,
  serveCalls,
  takerOf,
} from './application-tools.ts'
import { provision } from './fixtures.ts'
import { watchRun } from './run-billing.ts'

beforeAll(provision)
afterEach(() => void vi.restoreAllMocks())

const LINES = 500
const NODES = [nodeOf('a', 'a({{q}})'), takerOf('b', ['a'], 'b({{a.output}})')]

it('a call costs no row of its own: rows are of slices, of packs and of parts', async () => {
  serveCalls(echo)
  const alarms = vi.spyOn(ApplicationActor.prototype, 'alarm')
  const asked = (['plan', 'run', 'release'] as const).map((name) => vi.spyOn(HostsActor.prototype, name))
  const body = { id: 'cost', nodes: NODES, input: { lines: questions(LINES) } }
  await create({ ...body, start: false })
  await reached('cost', 'planned')
  const billed = await watchRun(applicationStub('cost'))
  alarms.mockClear()
  const started_ms = Date.now()
  await create({ ...body, start: true })
  await completed('cost')
  const packs_max = Math.ceil((Date.now() - started_ms) / PACK_MS) + 1
  const calls = 2 * LINES
  // Each slice starts as many calls, ends with a node, or ends with its time; the rest is the begin and the end.
  const slices = alarms.mock.calls.length
  expect(slices).toBeLessThanOrEqual(Math.ceil(calls / LINES_PER_SLICE) + NODES.length + packs_max / 10 + 4)
  expect(billed.alarms).toBeLessThanOrEqual(slices + 2)
  // The state is a row for each node and one more. Packs are made at most every PACK_MS by each node, and deleted once.
  expect(billed.puts.pack ?? 0).toBeLessThanOrEqual(NODES.length * packs_max)
  expect(billed.puts.node ?? 0).toBeLessThanOrEqual(NODES.length * (slices + 5))
  expect(billed.puts.application ?? 0).toBeLessThanOrEqual(slices + 5)
  expect(billed.d1_rows).toBeLessThanOrEqual(slices + 4 + NODES.length)
  // A part for each node, and the input once for each.
  expect(billed.r2_puts).toBe(NODES.length)
  expect(billed.r2_gets).toBeLessThanOrEqual(2 * NODES.length)
  // No host is lent: it is asked for when the application is planned, and not for each call.
  expect(asked.reduce((sum, spy) => sum + spy.mock.calls.length, 0)).toBeLessThanOrEqual(4)
})
