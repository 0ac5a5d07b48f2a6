import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import type { AgentEvent } from '../../events.ts'
import type { VllmAddress } from '../vllm/process/vllm-server.ts'
import { AttachedServer, type AttachedServerOptions } from './attached-server.ts'
import { readMetrics } from './server-metrics.ts'
import { profileOf } from './server-profile.ts'

/** The lines of a vLLM 0.32.0 that are read. */
function metrics(start_s: number): string {
  const cache = 'block_size="32",cache_dtype="auto",engine="0",num_gpu_blocks="1456",num_gpu_blocks_override="None"'
  const load = 'vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n'
  return `# HELP x\nprocess_start_time_seconds ${start_s}\nvllm:cache_config_info{${cache}} 1.0\n${load}`
}

interface Vllm {
  health: number
  key: string | null
  start_s: number
  models: object[]
  port: number
  close(): Promise<void>
  listen(): Promise<void>
}

/** What stock vLLM answers to the three questions. */
async function vllmServer(): Promise<Vllm> {
  let server: Server | null = null
  const vllm: Vllm = {
    ...{ health: 200, key: null, start_s: 1_800_000_000.5, models: [{ id: 'served', max_model_len: 2048 }], port: 0 },
    async listen() {
      server = createServer((request, response) => {
        if (request.url === '/health') return void response.writeHead(vllm.health).end()
        if (request.url === '/metrics') return void response.end(metrics(vllm.start_s))
        const authorised = vllm.key === null || request.headers.authorization === `Bearer ${vllm.key}`
        response.writeHead(authorised ? 200 : 401).end(JSON.stringify({ data: vllm.models }))
      })
      await new Promise<void>((resolve) => server?.listen(vllm.port, '127.0.0.1', resolve))
      vllm.port = (server.address() as AddressInfo).port
    },
    async close() {
      server?.closeAllConnections()
      await new Promise((resolve) => server?.close(resolve))
    },
  }
  await vllm.listen()
  onTestFinished(() => vllm.close())
  return vllm
}

function attach(vllm: Vllm, changes: Partial<AttachedServerOptions> = {}) {
  const told: (VllmAddress | string)[] = []
  const events: AgentEvent[] = []
  const attached = new AttachedServer({
    ...{
      engine: 'a-e0',
      url: `http://127.0.0.1:${vllm.port}`,
      api_key: null,
      socket: null,
      order: 'fcfs',
      model: null,
    },
    ...{ model_id: 'm', seats: null, kv_tokens: null, context_tokens: null, start_limit_ms: 60_000 },
    ...{ kind: 'vllm', probe: null, url_flag: '--vllm-url', key_variable: 'SWITCHYARD_VLLM_KEY' },
    report: (event) => void events.push(event),
    ...{ probe_pause: { min_ms: 1, max_ms: 5 }, watch_ms: 5, identity_ms: 5 },
    ...changes,
  })
  onTestFinished(() => attached.stop())
  const started = attached.start({ up: (address) => told.push(address), down: (reason) => told.push(reason) })
  // A test that expects a rejection awaits it itself.
  started.catch(() => undefined)
  return { attached, told, events, started }
}

test('says what it is, and states its reduced powers once', async () => {
  const vllm = await vllmServer()
  const { told, events, started } = attach(vllm)
  await started
  expect(told).toEqual([
    {
      url: `http://127.0.0.1:${vllm.port}`,
      ...{ api_key: null, socket: null, served_model: 'served', context_tokens_max: 2048 },
      ...{ api_version: null, key_header: null, native_apis: [], continues: null, token_chunks: false },
      ...{ kv_capacity_tokens: 46_592, seats: 256, order: 'fcfs', epoch: expect.any(String) },
      queued: { seats: null, server_seats: null, kv_tokens: 46_592, takes_back: true, stops: false, reports: true },
      profile: profileOf('vllm'),
    },
  ])
  const [event] = events.filter(({ event }) => event === 'server_attached')
  expect(event).toMatchObject({ reduced: expect.arrayContaining([expect.stringMatching(/no running call yields/)]) })
})

test('the operator tells what vLLM does not: seats, a shorter context, which model', async () => {
  const vllm = await vllmServer()
  vllm.models = [
    { id: 'one', max_model_len: 2048 },
    { id: 'two', max_model_len: 512 },
    { id: 'lora', parent: 'one' },
  ]
  const { told, started } = attach(vllm, { model: 'two', seats: 4, context_tokens: 1024, order: 'priority' })
  await started
  expect(told[0]).toMatchObject({ served_model: 'two', context_tokens_max: 512, seats: 4, order: 'priority' })
  await expect(attach(vllm).started).rejects.toThrow(/several models: say with --model which of one, two is m/)
  await expect(attach(vllm, { model: 'three' }).started).rejects.toThrow(
    /serves no model three \(--model\), but one, two/,
  )
})

test('a key that it does not take ends the start with what to do', async () => {
  const vllm = await vllmServer()
  vllm.key = 'right'
  await expect(attach(vllm, { api_key: 'wrong' }).started).rejects.toThrow(/SWITCHYARD_VLLM_KEY/)
  await attach(vllm, { api_key: 'right' }).started
})

test('one that is not there yet is waited for, within the limit', async () => {
  const vllm = await vllmServer()
  await vllm.close()
  const { events, started } = attach(vllm)
  await expect.poll(() => events.length).toBeGreaterThan(1)
  await vllm.listen()
  await started
  await vllm.close()
  await expect(attach(vllm, { start_limit_ms: 1 }).started).rejects.toThrow(/nothing answers at .*--vllm-url/)
})

test('one that was away has another epoch', async () => {
  const vllm = await vllmServer()
  const { told, started } = attach(vllm)
  await started
  await vllm.close()
  await expect.poll(() => told.length).toBe(2)
  expect(told[1]).toMatch(/does not answer/)
  await vllm.listen()
  await expect.poll(() => told.length).toBe(3)
  expect((told[2] as VllmAddress).epoch).not.toBe((told[0] as VllmAddress).epoch)
})

test('one whose process is another, or that says that its engine died, is told as down', async () => {
  const vllm = await vllmServer()
  const { attached, told, started } = attach(vllm)
  await started
  vllm.start_s += 60
  await expect.poll(() => told.length).toBe(3)
  expect(told[1]).toBe('it was started again')
  vllm.health = 503
  await expect.poll(() => told.length).toBe(4)
  expect(told[3]).toMatch(/its engine has died/)
  vllm.health = 200
  await expect.poll(() => told.length).toBe(5)
  attached.suspect('its answers are no chunks')
  await expect.poll(() => told.length).toBe(7)
  expect(told[5]).toBe('its answers are no chunks')
})

test('a side channel that does not answer is named', async () => {
  const vllm = await vllmServer()
  const { started } = attach(vllm, { socket: '/nowhere.sock', start_limit_ms: 1 })
  await expect(started).rejects.toThrow(/\/nowhere.sock \(--vllm-socket\).*ENOENT/)
})

test('metrics: ranks add up, and what is missing is null', () => {
  expect(readMetrics(metrics(5) + metrics(5))).toEqual({ kv_capacity_tokens: 2 * 46_592, process_start_s: 5 })
  const told = 'block_size="32",kv_cache_size_tokens="40000",num_gpu_blocks="1456"'
  expect(readMetrics(`vllm:cache_config_info{${told}} 1.0\n`).kv_capacity_tokens).toBe(40_000)
  expect(readMetrics('vllm:cache_config_info{block_size="32",num_gpu_blocks="None"} 1\n')).toEqual({
    kv_capacity_tokens: null,
    process_start_s: null,
  })
})
