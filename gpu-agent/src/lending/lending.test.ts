/** A whole agent that lends its GPUs, with emulated engines: stages, calls to lent engines, a drain with a bound, crashes of the link. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { HostStatus, WantedEngine } from '../../../src/protocol/host.ts'
import { Agent } from '../agent.ts'
import type { EngineStart } from '../agent-options.ts'
import { createFront } from '../fronts/create-front.ts'
import { parseCli } from '../options.ts'
import { TOKEN } from '../testing/control-plane-stand-in.ts'
import { startControlPlane, temporaryFolder, until } from '../testing/harness.ts'
import { lendOptions } from './lend-options.ts'

const DRAIN_MS = 50
const BODY = JSON.stringify({ max_tokens: 4, messages: [{ role: 'user', content: 'hello' }] })

async function lendingAgent() {
  const folder = temporaryFolder()
  const startable = join(folder, 'startable.json')
  const plans = [1, 2].map((gpus) => ({ gpus, profile: 'fast', loading_s: 0.02 }))
  const models = ['one', 'two'].map((model) => ({ model, engine: 'emulated', plans }))
  writeFileSync(startable, JSON.stringify({ models }))
  const control = await startControlPlane()
  const flags = [
    '--id',
    'a',
    '--region',
    'here',
    '--control-url',
    control.url,
    '--engine',
    'emulated',
    '--profile',
    'fast',
  ]
  const lending = ['--lend', 'all', '--lend-gpus', '2', '--startable', startable]
  const parsed = parseCli([...flags, ...lending], { SWITCHYARD_AGENT_TOKEN: 'x' })
  if (parsed.status !== 'run' || parsed.options.lend === null) throw new Error(JSON.stringify(parsed))
  const cli = parsed.options
  const { signal } = new AbortController()
  const report = () => undefined
  const lend = lendOptions({ cli, lend: parsed.options.lend, report, leaving: signal, cores: 4 })
  const home: EngineStart = {
    id: 'a-e0',
    create: (events, _, classes) =>
      createFront(
        { engine: 'emulated', id: 'a-e0', model_id: 'test-model', policy: 'fcfs', profile: 'fast' },
        events,
        classes,
      ),
  }
  const agent = new Agent({
    ...{ id: 'a', region: 'here', control_url: control.url, token: TOKEN, listen: { host: '127.0.0.1', port: 0 } },
    ...{ public_url: null, data_dir: folder, engines: [home], report, fatal: expect.fail, random: () => 0 },
    lend: { ...lend, tuning: { drain_limit_ms: DRAIN_MS, link: { status_ms: 20 } } },
    tuning: { link: { status_ms: 10 } },
  })
  onTestFinished(() => agent.stop())
  await agent.start()
  const status = (): HostStatus | undefined => control.host_messages.findLast((one) => one.type === 'status')
  await control.until(() => status() !== undefined)
  let epoch = 0
  const stage = (...engines: WantedEngine[]): void => {
    epoch += 1
    control.downHost({ type: 'stage', epoch, lease_ms: 60_000, engines })
  }
  const running = () =>
    status()?.epoch === epoch ? status()?.engines.map(({ id, model, state }) => `${id} ${model} ${state}`) : undefined
  const comesTo = (...engines: string[]) =>
    control.until(() => JSON.stringify(running()?.toSorted()) === JSON.stringify(engines.toSorted()))
  return { control, stage, comesTo, status }
}

test('says what it lends, and that its home engine runs', async () => {
  const { control, comesTo } = await lendingAgent()
  await comesTo('a-e0 test-model ready')
  expect(control.host_messages[0]).toMatchObject({
    ...{ type: 'hello', agent: 'a', region: 'here', gpus: 2, lend: 'all' },
    models: [{ model: 'one', kind: 'emulated', degrees: [1, 2] }, { model: 'two' }],
    home: [{ id: 'a-e0', model: 'test-model', gpus: [0, 1] }],
  })
})

test('brings its engines to each stage, joins and leaves their pools, and comes home', async () => {
  const { control, stage, comesTo } = await lendingAgent()
  stage({ model: 'one', gpus: [0] }, { model: 'one', gpus: [1] })
  await comesTo('a-x0 one ready', 'a-x1 one ready')
  // One hello or two, the last of which has both.
  await control.until(() => control.hellos.some(({ model, engines }) => model === 'one' && engines.length === 2))
  stage({ model: 'two', gpus: [0, 1] })
  await comesTo('a-x0 two ready')
  await control.until(() => control.hellos.at(-1)?.model === 'two')
  stage()
  await comesTo('a-e0 test-model ready')
  await control.until(() => control.hellos.at(-1)?.model === 'test-model')
  expect(control.hellos.filter(({ model }) => model === 'test-model')).toHaveLength(2)
})

test('a call to a lent engine is served and recorded, and one that does not end in time is cancelled with a record', async () => {
  const { control, stage, comesTo } = await lendingAgent()
  stage({ model: 'one', gpus: [0] })
  await comesTo('a-x0 one ready')
  await control.until(() => control.hellos.some(({ model }) => model === 'one'))
  const hello = control.hellos.findLast(({ model }) => model === 'one')
  const epoch = hello?.engines[0]?.epoch ?? ''
  const post = async (body: string) => {
    const authorization = `Bearer ${await control.ticket({ engine: 'a-x0', epoch, model: 'one' })}`
    return fetch(`${hello?.url}/v1/chat/completions`, { method: 'POST', headers: { authorization }, body })
  }
  expect((await post(BODY)).status).toBe(200)
  await control.until(() => control.records.length === 1)
  expect(control.records[0]).toMatchObject({ engine: 'a-x0', model: 'one', outcome: 'completed' })
  const long = await post(JSON.stringify({ ...JSON.parse(BODY), max_tokens: 8000, ignore_eos: true }))
  stage()
  expect(await long.text()).toContain('agent_draining')
  await comesTo('a-e0 test-model ready')
  await control.until(() => control.records.length === 2)
  expect(control.records[1]).toMatchObject({ engine: 'a-x0', outcome: 'cancelled' })
  expect((await post(BODY)).status).toBeGreaterThanOrEqual(400)
})

test('a model that its file does not name fails with a sentence, and the host still comes home', async () => {
  const { stage, comesTo, status } = await lendingAgent()
  stage({ model: 'three', gpus: [0] })
  await comesTo('a-x0 three failed')
  expect(status()?.engines[0]?.message).toMatch('cannot start three: its --startable file does not name it')
  stage()
  await comesTo('a-e0 test-model ready')
})

test('a stage goes on while the link is lost, and a stage of an earlier epoch is refused', async () => {
  const { control, stage, comesTo, status } = await lendingAgent()
  stage({ model: 'one', gpus: [0] })
  await comesTo('a-x0 one ready')
  control.host_messages.length = 0
  for (const socket of control.sockets) socket.terminate()
  await until(() => control.host_messages.some(({ type }) => type === 'hello'))
  control.downHost({ type: 'stage', epoch: 0, lease_ms: 1000, engines: [] })
  await control.until(() => status() !== undefined)
  expect(status()).toMatchObject({ epoch: 1, engines: [{ id: 'a-x0', state: 'ready' }] })
})
