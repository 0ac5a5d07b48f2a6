/**
 * A host of two "GPUs" (shares of the cores) with a home engine, lent to an application of two models, with real embedded engines behind the real
 * Worker: engines come and go stage by stage, calls reach them, kill -9 of the agent loses nothing, and the home engine returns, also in the middle
 * where an online call needs it.
 */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type AgentChild, startTestbed, type Testbed } from '../../lab/testbed/testbed.ts'
import { findOrFetchModel } from '../../ops/model/find-or-fetch.ts'
import type { PlanReply, RunReply } from '../../src/actors/hosts-rpc.ts'
import { eventually } from './support/system.ts'

const APP = { tenant: 'local', application: 'two-models' }

let bed: Testbed
let agent: AgentChild
beforeAll(async () => {
  const { path: gguf } = await findOrFetchModel({ env: process.env })
  const others = ['one', 'two'].map((id) => ({ id, context_tokens: 1024 }))
  bed = await startTestbed({
    ...{ name: 'lending', regions: ['us-east'], model: 'home' },
    flags: { entry: 'test/workerd/hosts-worker.ts', 'other-models': JSON.stringify(others) },
  })
  const startable = path.join(bed.place.root, 'startable.json')
  const models = [1024, 2048].map((context_tokens, at) => ({
    ...{ model: at === 0 ? 'one' : 'two', engine: 'embedded' },
    flags: { 'model-path': gguf, 'context-tokens': context_tokens, seats: 2, slots: 2 },
    plans: [{ gpus: 1, profile: 'tiny', loading_s: 2 }],
  }))
  writeFileSync(startable, JSON.stringify({ models }))
  agent = bed.agent({
    ...{ id: 'us-east-1', region: 'us-east' },
    flags: {
      ...{ engine: 'embedded', 'model-path': gguf, threads: 1, seats: 2, slots: 2, 'context-tokens': 1024 },
      ...{ lend: 'all', 'lend-gpus': 2, startable },
    },
  })
  await bed.startWhatIsDown()
})
afterAll(() => bed?.remove())

async function door<T>(what: 'plan' | 'run' | 'release', body: object): Promise<T> {
  const response = await fetch(`${bed.url}/test/hosts/${what}`, { method: 'POST', body: JSON.stringify(body) })
  return (await response.json()) as T
}

async function call(model: string): Promise<number> {
  const messages = [{ role: 'user', content: 'Say hello.' }]
  const body = JSON.stringify({ model, messages, max_tokens: 8 })
  const response = await bed.fetch('/v1/chat/completions', { method: 'POST', body })
  await response.text()
  return response.status
}

/** No call is made: one that finds no engine would bring a lent host back. */
async function hasEngine(model: string): Promise<boolean> {
  const response = await bed.fetch(`/admin/v1/pools?model=${model}`, { apiKey: bed.secrets.adminKey })
  const { pools } = (await response.json()) as { pools: { engines_ready: number }[] }
  return pools.some(({ engines_ready }) => engines_ready > 0)
}

const atHome = () => eventually('the host is at home', async () => (await hasEngine('home')) || undefined)

const served = (model: string) =>
  eventually(`${model} is served`, async () => ((await call(model)) === 200 ? true : undefined))

it('lends engines stage by stage, and takes them back', async () => {
  await atHome()
  const node = { template_tokens: 0, max_output_tokens: 32 }
  const nodes = [
    { ...node, id: 'a', model: 'one', requests: { count: 50, tokens: 20 } },
    { ...node, id: 'b', model: 'two', from: { nodes: ['a'], each: 1 } },
  ]
  const request = { ...APP, nodes: { name: 'x', nodes }, regions: null, gpus_max: 1, seed: 1 }
  const plan = await eventually('the host is linked', async () => {
    const reply = await door<PlanReply>('plan', request)
    return reply.status === 'planned' ? reply : undefined
  })
  expect(plan.hosts).toEqual([{ agent: 'us-east-1', region: 'us-east', gpus: 1 }])
  expect(plan.plan.stages.map((stage) => stage.nodes.map((one) => plan.plan.nodes[one.node]?.ids))).toEqual([
    [['a']],
    [['b']],
  ])
  expect(plan.plan.guessed_lengths).toEqual(['one', 'two'])
  const run = (...done: string[]) => door<RunReply>('run', { ...APP, plan_id: plan.plan_id, done })
  const ready = (id: string, ...done: string[]) =>
    eventually(`${id} is ready`, async () => {
      const reply = await run(...done)
      if (reply.status !== 'running') throw new Error(JSON.stringify(reply))
      const state = reply.nodes.find((one) => one.node === id)?.state
      if (state === 'failed') throw new Error(JSON.stringify(reply.nodes))
      return state === 'ready' ? reply : undefined
    })

  const first = await ready('a')
  expect(first.nodes.map(({ state }) => state)).toEqual(['ready', 'later'])
  await served('one')
  expect(await hasEngine('home')).toBe(false)

  const second = await ready('b', 'a')
  expect(second.epoch).toBeGreaterThan(first.epoch)
  await served('two')
  expect(await call('one')).toBe(503)

  await agent.end('SIGKILL')
  await agent.start()
  expect((await ready('b', 'a')).epoch).toBe(second.epoch)
  await served('two')

  expect(await run('a', 'b')).toEqual({ status: 'done' })
  await atHome()
  expect(await call('two')).toBe(503)
})

interface Application {
  status: string
  nodes: { id: string; completed: number; failed: number }[]
}

it('runs an application whose models no engine serves, with kill -9 of the agent in the middle', async () => {
  await atHome()
  const says = (content: string) => ({ messages: [{ role: 'user', content }], max_tokens: 24, temperature: 0 })
  const nodes = [
    { id: 'first', model: 'one', requests: 'lines', body: says('Count from {{n}} upwards.') },
    { id: 'second', model: 'two', from: { nodes: ['first'] }, body: says('Continue: {{first.output}}') },
  ]
  const lines = Array.from({ length: 24 }, (_, n) => ({ n }))
  const body = JSON.stringify({ id: 'borrows', name: 'borrows', nodes, input: { lines } })
  const created = await bed.fetch('/v1/applications', { method: 'POST', body })
  expect(created.status, await created.text()).toBeLessThan(300)
  const look = async () => (await (await bed.fetch('/v1/applications/borrows')).json()) as Application
  const counted = (application: Application) => application.nodes.reduce((sum, { completed }) => sum + completed, 0)
  await eventually('some calls are made', async () => (counted(await look()) > 4 ? true : undefined))
  await agent.end('SIGKILL')
  await agent.start()
  const ended = await eventually(
    'it completes',
    async () => {
      const application = await look()
      return application.status === 'completed' ? application : undefined
    },
    200_000,
  )
  expect(ended.nodes.map(({ id, completed, failed }) => [id, completed, failed])).toEqual([
    ['first', 24, 0],
    ['second', 24, 0],
  ])
  for (const node of ['first', 'second']) {
    const output = await (await bed.fetch(`/v1/applications/borrows/nodes/${node}/output`)).text()
    const lines = output.trimEnd().split('\n')
    expect(lines.map((line) => JSON.parse(line).line)).toEqual(Array.from({ length: 24 }, (_, at) => at + 1))
  }
  await atHome()
})

it('brings the home engine back for an online call, while the application waits', async () => {
  await atHome()
  const messages = [{ role: 'user', content: 'Count from {{n}} upwards.' }]
  const nodes = [{ id: 'slow', model: 'one', requests: 'lines', body: { messages, max_tokens: 48 } }]
  const lines = Array.from({ length: 400 }, (_, n) => ({ n }))
  const body = JSON.stringify({ id: 'waits', name: 'waits', nodes, input: { lines } })
  expect((await bed.fetch('/v1/applications', { method: 'POST', body })).status).toBeLessThan(300)
  await served('one')
  expect(await call('home')).toBe(503)
  await served('home')
  expect(await call('one')).toBe(503)
  const state = await (await bed.fetch('/v1/applications/waits')).json()
  expect(state).toMatchObject({ status: 'running', nodes: [{ failed: 0 }] })
  expect((await bed.fetch('/v1/applications/waits/cancel', { method: 'POST' })).status).toBe(200)
})
