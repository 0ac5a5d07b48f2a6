/** Applications and the hosts that they borrow. Calls and the HostsActor's answers are scripted. */
import { afterEach, beforeAll, expect, it, vi } from 'vitest'
import { HostsActor } from '../../src/actors/hosts/hosts-actor.ts'
import type { PlanReply, RunReply, RunRequest } from '../../src/actors/hosts-rpc.ts'
import { NODE_ANSWERS_MIN } from '../../src/core/application/learned-lengths.ts'
import type { HostPlan } from '../../src/protocol/host.ts'
import {
  completed,
  create,
  echo,
  nodeOf,
  promptOf,
  questions,
  reached,
  serveCalls,
  takerOf,
} from './application-tools.ts'
import { answered } from './batch-tools.ts'
import { json, KEY_A, MODEL, provision, request } from './fixtures.ts'
import { soon } from './soon.ts'

beforeAll(provision)
afterEach(() => void vi.restoreAllMocks())

const NODES = [nodeOf('a', 'a({{q}})'), takerOf('b', ['a'], 'b({{a.output}})')]
const stage = (node: number, start_s: number, end_s: number) => ({
  ...{ start_s, end_s },
  nodes: [{ node, plan: { dp: 1, tp: 1 }, loading_s: 2, gpus: [[0]], finishes: true, busy_gpu_s: 5 }],
})
const PLAN: HostPlan = {
  nodes: [
    { ids: ['a'], model: MODEL, inputs: [] },
    { ids: ['b'], model: MODEL, inputs: [0] },
  ],
  stages: [stage(0, 0, 10), stage(1, 10, 25)],
  ...{ total_s: 25, planning_ms: 3, guessed_lengths: [] },
}
const HOST = { agent: 'host-1', region: 'us-east', gpus: 1 }

interface Scripted {
  plan: PlanReply
  run: (request: RunRequest) => RunReply
}

function scriptHosts({ plan, run }: Scripted) {
  const asked: string[] = []
  const hosts = HostsActor.prototype
  const planned = vi.spyOn(hosts, 'plan').mockImplementation(async () => plan)
  vi.spyOn(hosts, 'run').mockImplementation(async (request) => {
    asked.push(request.done.join(' '))
    return run(request)
  })
  const released = vi.spyOn(hosts, 'release').mockImplementation(async () => undefined)
  return { asked, planned, released }
}

const nodeState = (node: string, state: 'ready' | 'loading' | 'later' | 'done') => ({
  ...{ node, model: MODEL, state, engines: [], message: null },
})

it('plans when its lines are checked, says which nodes are done, and returns the hosts', async () => {
  let ready = false
  serveCalls((call) => {
    const is_ready = ready || promptOf(call).startsWith('a')
    return is_ready ? echo(call) : answered(503, { error: { code: 'no_engine' } }, 'no_engine')
  })
  const { asked, planned, released } = scriptHosts({
    plan: { status: 'planned', plan_id: 'p1', plan: PLAN, hosts: [HOST] },
    run: ({ done }) => {
      ready = done.includes('a')
      const nodes = [nodeState('a', ready ? 'done' : 'ready'), nodeState('b', ready ? 'ready' : 'later')]
      return { status: 'running', epoch: 1, nodes }
    },
  })
  const { id } = await create({ nodes: NODES, input: { lines: questions(5) } })
  await completed(id)
  expect(planned.mock.calls[0]?.[0]).toMatchObject({
    ...{ tenant: 'tenant-a', application: id, regions: null, gpus_max: null },
    nodes: {
      nodes: [
        { id: 'a', requests: { count: 5 } },
        { id: 'b', from: { nodes: ['a'] } },
      ],
    },
  })
  expect([...new Set(asked)]).toEqual(['', 'a'])
  expect(released).toHaveBeenCalledWith({ tenant: 'tenant-a', application: id })
  const { hosts } = await json<{ hosts: { total_s: number; stages: { nodes: object[] }[] } }>(
    request('GET', `/v1/applications/${id}/plan`, KEY_A),
  )
  expect(hosts).toMatchObject({ total_s: 25, message: null })
  expect(hosts.stages[1]?.nodes).toEqual([{ ids: ['b'], model: MODEL, dp: 1, tp: 1, loading_s: 2, gpus: [[0]] }])
  const svg = await (await request('GET', `/v1/applications/${id}/gantt.svg`, KEY_A)).text()
  expect(svg).toContain('>a plan<')
})

it('runs without hosts where none are lent, and says why', async () => {
  serveCalls(echo)
  const { asked } = scriptHosts({
    plan: { status: 'refused', reason: 'no_host', message: 'No host can run it.' },
    run: () => ({ status: 'done' }),
  })
  const { id } = await create({ nodes: NODES, input: { lines: questions(3) } })
  await completed(id)
  expect(asked).toEqual([])
  const plan = await json<{ hosts: object }>(request('GET', `/v1/applications/${id}/plan`, KEY_A))
  expect(plan.hosts).toEqual({ stages: [], total_s: null, message: 'No host can run it.' })
})

it('plans again when the plan is lost, and goes on where nobody answers', async () => {
  let calls = 0
  serveCalls((call) => {
    calls += 1
    return calls < 6 ? answered(503, { error: { code: 'no_engine' } }, 'no_engine') : echo(call)
  })
  const replies: RunReply[] = [{ status: 'lost', message: 'gone' }]
  const { planned } = scriptHosts({
    plan: { status: 'planned', plan_id: 'p2', plan: PLAN, hosts: [HOST] },
    run: () => {
      const reply = replies.shift()
      if (reply === undefined) throw new Error('the hosts are down')
      return reply
    },
  })
  const { id } = await create({ nodes: NODES, input: { lines: questions(3) } })
  await completed(id)
  expect(planned).toHaveBeenCalledTimes(2)
})

it('returns the hosts when it is cancelled', async () => {
  serveCalls(() => answered(503, { error: { code: 'no_engine' } }, 'no_engine'))
  const { asked, released } = scriptHosts({
    plan: { status: 'planned', plan_id: 'p3', plan: PLAN, hosts: [HOST] },
    run: () => ({ status: 'waiting', message: 'lent to others' }),
  })
  const { id } = await create({ nodes: NODES, input: { lines: questions(3) } })
  await soon(() => expect(asked.length).toBeGreaterThan(0))
  await request('POST', `/v1/applications/${id}/cancel`, KEY_A)
  await reached(id, 'cancelled')
  expect(released).toHaveBeenCalledWith({ tenant: 'tenant-a', application: id })
})

it('is planned with the lengths that such nodes had before', async () => {
  serveCalls(echo)
  const { planned } = scriptHosts({
    plan: { status: 'refused', reason: 'no_host', message: 'No host can run it.' },
    run: () => ({ status: 'done' }),
  })
  const nodes = [nodeOf('learn', 'learned({{q}})'), takerOf('taker', ['learn'], 'taken({{learn.output}})')]
  const lines = questions(NODE_ANSWERS_MIN + 5)
  const { id } = await create({ nodes, input: { lines } })
  await completed(id)
  const again = await create({ nodes, input: { lines: lines.slice(1) } })
  await completed(again.id)
  const asked = planned.mock.calls.at(-1)?.[0].nodes.nodes ?? []
  expect(asked.map((node) => [node.id, node.output_lengths?.mean_tokens])).toEqual([
    ['learn', 2],
    ['taker', 2],
  ])
  const shown = await json<{ planner: { nodes: { output_lengths?: object }[] } }>(
    request('GET', `/v1/applications/${again.id}/plan`, KEY_A),
  )
  expect(shown.planner.nodes[0]?.output_lengths).toMatchObject({ mean_tokens: 2 })
})
