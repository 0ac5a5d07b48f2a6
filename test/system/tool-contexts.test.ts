/**
 * Contexts of programs whose tools run, through the whole system: what the API shows of the decision, that an engine which
 * keeps a context is told when the program goes on on another engine or ends, and that nothing is left of an engine that is killed.
 */
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startTestbed, type Testbed } from '../../lab/testbed/testbed.ts'
import { findOrFetchModel } from '../../ops/model/find-or-fetch.ts'

const MODEL = 'emulated-8b'
const REGION = 'us-east'
const AGENTS = ['us-east-1', 'us-east-2'] as const

interface Kv {
  handling: string
  reason: string
  waste_byte_s: { preserve: number; discard: number; swap: number | null }
}
interface Shown {
  activity: string
  tools: { call: string; kv: Kv | null }[]
  data: { kv: Kv | null; leases: { engine: string }[] }[]
}

let testbed: Testbed
const urls = new Map<string, string>()
beforeAll(async () => {
  testbed = await startTestbed({ name: 'tool-contexts', regions: [REGION], agents_per_region: 2, model: MODEL })
  const flags = { engine: 'emulated', profile: MODEL, policy: 'vllm-preserve', 'context-tokens': 4096 }
  for (const id of AGENTS) {
    const { ready } = await testbed.agent({ id, region: REGION, flags }).start()
    urls.set(id, String(ready.url))
  }
})
afterAll(() => testbed.remove())

/** The engine that answered. */
async function call(prompt: string, program = 'moving', bed = testbed): Promise<string> {
  const messages = [{ role: 'user', content: prompt }]
  const response = await bed.fetch('/v1/chat/completions', {
    method: 'POST',
    headers: { 'x-program-id': program },
    body: JSON.stringify({ model: bed.model, messages, max_tokens: 8, temperature: 0 }),
  })
  if (!response.ok) throw new Error(`the call was answered with ${response.status}: ${await response.text()}`)
  const { usage } = (await response.json()) as { usage: { switchyard: { engine: string } } }
  return usage.switchyard.engine
}

const shown = async (path: string) => (await (await testbed.fetch(path)).json()) as Shown

async function metric(agent: string, name: string): Promise<number> {
  const text = await (await fetch(`${urls.get(agent)}/metrics`)).text()
  const line = text.split('\n').find((one) => one.startsWith(`switchyard_agent_${name}`))
  return line === undefined ? 0 : Number(line.split(' ').at(-1))
}

it('is shown with its wastes, and discarded where its program has left', async () => {
  const engine = await call('The first of two calls.')
  const first = engine.slice(0, -'-e0'.length)
  const kv = { handling: 'preserve', reason: 'only_choice', waste_byte_s: { preserve: expect.any(Number) } }
  await expect.poll(() => shown('/v1/programs/moving')).toMatchObject({ activity: 'acting', tools: [{ kv }] })
  expect(await metric(first, `tool_contexts_total{engine="${engine}",handling="preserve"}`)).toBe(1)

  const order = { method: 'POST', apiKey: testbed.secrets.adminKey }
  expect((await testbed.fetch(`/admin/v1/agents/${first}/drain`, order)).status).toBe(200)
  const second = await call('The second of two calls.')
  expect(second).not.toBe(engine)
  const gone = () => metric(first, `tool_context_events_total{engine="${engine}",event="expired"}`)
  await expect.poll(gone).toBe(1)
  const { data } = await shown('/v1/programs/moving/calls')
  expect(data.map(({ leases }) => leases.map((lease) => lease.engine))).toEqual([[engine], [second]])
  expect(data[0]).toMatchObject({ kv })
})

it('is discarded when its program has ended', async () => {
  const engine = await call('The only call.', 'ending')
  const agent = engine.slice(0, -'-e0'.length)
  await expect.poll(() => shown('/v1/programs/ending')).toMatchObject({ tools: [{ kv: { handling: 'preserve' } }] })
  const expired = () => metric(agent, `tool_context_events_total{engine="${engine}",event="expired"}`)
  const before = await expired()
  expect((await testbed.fetch('/v1/programs/ending', { method: 'DELETE' })).status).toBe(200)
  await expect.poll(expired).toBe(before + 1)
})

/** Images that a process has open. They have no names. */
function imagesOf(pid: string): string[] {
  return readdirSync(`/proc/${pid}/fd`).filter((fd) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`).includes('/switchyard-kv-')
    } catch {
      // Closed since the folder was read.
      return false
    }
  })
}

/** A context of a killed engine: its policy, how it is kept when the engine is killed, and what tells that it is. */
const KILLED = [
  {
    // Nothing says how long its tool takes: it is preserved at first, and moved out as the tool lasts.
    ...{ kept: 'moved out', policy: 'infercept', images: 1, reason: 'not_foreseen' },
    sign: 'tool_context_events_total{engine="us-east-1-e0",event="revised"}',
  },
  {
    ...{ kept: 'pinned', policy: 'vllm-preserve', images: 0, reason: 'only_choice' },
    sign: 'tool_contexts_total{engine="us-east-1-e0",handling="preserve"}',
  },
] as const

it.each(KILLED)(
  'leaves nothing behind when its engine is killed with a context $kept, and its program goes on',
  async ({ policy, images, reason, sign }) => {
    const model = await findOrFetchModel({})
    const bed = await startTestbed({ name: `tool-${policy}`, regions: [REGION], model: model.id })
    try {
      const sizes = { seats: 1, slots: 2, 'context-tokens': 512, threads: 1 }
      const agent = bed.agent({
        ...{ id: 'us-east-1', region: REGION },
        flags: { engine: 'embedded', 'model-path': model.path, policy, ...sizes },
      })
      const { ready } = await agent.start()
      urls.set('us-east-1', String(ready.url))
      const named = () => readdirSync('/dev/shm').filter((name) => name.startsWith('switchyard-kv-'))
      const before = named()
      const prompt = `Say something about ${'rain and wind and '.repeat(20)}sun.`
      await call(prompt, 'stays', bed)
      await expect.poll(() => metric('us-east-1', sign), { timeout: 20_000 }).toBe(1)
      const [child = ''] = readFileSync(`/proc/${agent.pid}/task/${agent.pid}/children`, 'utf8').split(' ')
      await expect.poll(() => imagesOf(child).length).toBe(images)

      process.kill(Number(child), 'SIGKILL')
      await expect.poll(() => call(prompt, 'stays', bed).catch(() => null), { timeout: 60_000 }).toBe('us-east-1-e0')
      expect(existsSync(`/proc/${child}`)).toBe(false)
      expect(named().filter((name) => !before.includes(name))).toEqual([])
      const { data } = (await (await bed.fetch('/v1/programs/stays/calls')).json()) as Shown
      expect(data[0]).toMatchObject({ kv: { handling: 'preserve', reason } })
    } finally {
      await bed.remove()
    }
  },
  180_000,
)
