import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { profileOf } from '../../attached/server-profile.ts'
import { type FakeHost, fakeHost, startVllm } from '../testing/fake-host.ts'
import { endStrays } from './engine-folder.ts'
import { startOf } from './process-group.ts'
import type { VllmAddress } from './vllm-server.ts'
import { readState, type VllmState } from './vllm-state.ts'

function addressIn(told: readonly (VllmAddress | string)[], index: number): VllmAddress {
  const found = told[index]
  if (found === undefined || typeof found === 'string') throw new Error(`no address: ${JSON.stringify(told)}`)
  return found
}

function stateOf(host: FakeHost): VllmState {
  const found = readState(host.options.folder)
  if (found.status !== 'found') throw new Error(found.status)
  return found.state
}

/** An agent that starts a vLLM and is killed with kill -9. */
async function abandon(host: FakeHost): Promise<void> {
  const script = fileURLToPath(new URL('../testing/abandoned-agent.ts', import.meta.url))
  const agent = spawn(process.execPath, [script, JSON.stringify(host.options)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => void agent.kill('SIGKILL'))
  for await (const line of createInterface({ input: agent.stdout })) if (line === '{"event":"up"}') break
  agent.kill('SIGKILL')
  await expect.poll(() => startOf(agent.pid ?? 0)).toBe(null)
}

test('serves with what its hello says, keeps its key to itself, and leaves nothing behind when it is stopped', async () => {
  const host = fakeHost({ seats: 7 })
  const { vllm, told, events, started } = startVllm(host)
  await started
  const { url, api_key, socket, ...rest } = addressIn(told, 0)
  const { pid } = stateOf(host)
  const kept = { served_model: 'm', context_tokens_max: 2048, kv_capacity_tokens: 4096, seats: 7, order: 'plugin' }
  const own = { queued: null, profile: profileOf('vllm') }
  expect(rest).toEqual({ ...kept, ...own, epoch: `epoch-${pid}` })
  expect((await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${api_key}` } })).status).toBe(200)
  const given = JSON.parse(host.text('given.json'))
  expect(given.argv.join(' ')).not.toContain(api_key)
  expect(JSON.stringify(events)).not.toContain(api_key)
  expect(statSync(host.options.folder).mode & 0o777).toBe(0o700)
  expect(statSync(join(host.options.folder, 'state.json')).mode & 0o777).toBe(0o600)
  expect(events.map(({ event }) => event)).toEqual(expect.arrayContaining(['vllm_starting', 'vllm_up']))
  expect(host.alive()).toHaveLength(2)
  await vllm.stop()
  expect(host.alive()).toEqual([])
  expect(readState(host.options.folder).status).toBe('none')
  expect(existsSync(socket ?? '')).toBe(false)
})

test('a socket in a folder whose path is too long lies in a private folder of its own, which goes with it', async () => {
  const host = fakeHost()
  const folder = join(host.options.folder, 'x'.repeat(100))
  const { vllm, told, started } = startVllm(host, { folder })
  await started
  const socket = addressIn(told, 0).socket ?? ''
  expect(Buffer.byteLength(socket)).toBeLessThanOrEqual(103)
  expect(statSync(dirname(socket)).mode & 0o777).toBe(0o700)
  await vllm.stop()
  expect(existsSync(dirname(socket))).toBe(false)
})

test('a vLLM that dies takes its other processes along and is started again as another epoch', async () => {
  const host = fakeHost()
  const { told, events, started } = startVllm(host)
  await started
  const [leader, engine] = host.pids()
  process.kill(leader ?? 0, 'SIGKILL')
  await expect.poll(() => told.length).toBe(3)
  expect(told[1]).toMatch(/SIGKILL/)
  expect(addressIn(told, 2).epoch).not.toBe(addressIn(told, 0).epoch)
  expect(startOf(engine ?? 0)).toBe(null)
  expect(events).toContainEqual(expect.objectContaining({ event: 'vllm_down', reason: told[1] }))
})

test('a restart that fails is told each time and tried again', async () => {
  const host = fakeHost()
  const { told, events, started } = startVllm(host)
  await started
  host.setMode('fail\nModuleNotFoundError: something')
  process.kill(host.pids()[0] ?? 0, 'SIGKILL')
  const downs = () => events.filter(({ event }) => event === 'vllm_down')
  await expect.poll(() => downs().length).toBeGreaterThan(2)
  expect(told).toHaveLength(2)
  host.setMode('serve')
  await expect.poll(() => told.length).toBe(3)
})

test('the first start fails with a sentence that quotes the log', async () => {
  const host = fakeHost()
  host.setMode('fail\nRuntimeError: the moon is full')
  await expect(startVllm(host).started).rejects.toThrow(/RuntimeError: the moon is full/)
  expect(host.alive()).toEqual([])
})

test('a vLLM of another version than those that the scheduler was run with is named, whether it starts or not', async () => {
  const host = fakeHost()
  host.setVersion('0.31.0')
  const { vllm, events, started } = startVllm(host)
  await started
  const message = "Switchyard's scheduler has been run with vLLM 0.32.0, and this is 0.31.0."
  expect(events).toContainEqual({ event: 'vllm_note', engine: 'a-e0', message })
  await vllm.stop()
  host.setMode('fail\napi_server.py: error: unrecognized arguments: --scheduler-cls')
  await expect(startVllm(host).started).rejects.toThrow(message)
})

test('a driver that is too old for that vLLM is named before anything is started', async () => {
  const host = fakeHost()
  host.setGpu({ cuda: '13.0', cuda_driver: '12.4' })
  await expect(startVllm(host).started).rejects.toThrow(
    /driver 550\.90\.07 runs CUDA 12\.4.*install driver 580 or later/,
  )
  expect(host.pids()).toEqual([])
})

test('FlashInfer’s kernels: a note before the first start, and a phase of its own while they are compiled', async () => {
  const host = fakeHost()
  host.setGpu({ cuda: '13.0', cuda_driver: '13.0', flashinfer: 'compiles' })
  host.setMode('compiling')
  const { vllm, events } = startVllm(host)
  const phases = () => events.map((event) => (event.event === 'vllm_loading' ? event.phase : ''))
  await expect.poll(phases).toContain("compiling FlashInfer's kernels, which are kept")
  const notes = events.filter(({ event }) => event === 'vllm_note')
  expect(notes).toEqual([expect.objectContaining({ message: expect.stringMatching(/download-kernels$/) })])
  await vllm.stop()
  expect(host.alive()).toEqual([])
})

test('a port that another process took costs one more try', async () => {
  const host = fakeHost()
  host.setMode('port-taken-once')
  const { told, started } = startVllm(host)
  await started
  expect(told).toHaveLength(1)
  expect(host.pids()).toHaveLength(4)
})

test('a start past its limit fails and is ended', async () => {
  const host = fakeHost()
  host.setMode('stuck')
  await expect(startVllm(host, { start_limit_ms: 1500 }).started).rejects.toThrow(/--vllm-start-limit-s/)
  expect(host.alive()).toEqual([])
})

test('stopping during a start ends it', async () => {
  const host = fakeHost()
  host.setMode('stuck')
  const { vllm, started } = startVllm(host)
  await expect.poll(() => host.pids().length).toBe(2)
  await vllm.stop()
  await expect(started).rejects.toThrow('the agent stops')
  expect(host.alive()).toEqual([])
})

test('one that is deaf to SIGTERM is killed', async () => {
  const host = fakeHost()
  host.setMode('deaf')
  const { vllm, started } = startVllm(host, { stop_ms_max: 300 })
  await started
  await vllm.stop()
  expect(host.alive()).toEqual([])
})

test('one that the front finds hanging is started again', async () => {
  const host = fakeHost()
  const { vllm, told, started } = startVllm(host)
  await started
  const before = host.alive()
  vllm.suspect('a stream was silent for 60 s')
  await expect.poll(() => told.length).toBe(3)
  expect(told[1]).toMatch(/started again: a stream was silent for 60 s/)
  for (const pid of before) expect(startOf(pid)).toBe(null)
})

test('one that is stopped in its tracks, and one that says that its engine died, are started again', async () => {
  const host = fakeHost()
  const health = { health_ms: 50, silence_ms_max: 1500, broken_ms_max: 100 }
  const { told, started } = startVllm(host, { health })
  await started
  process.kill(host.pids()[0] ?? 0, 'SIGSTOP')
  await expect.poll(() => told.length).toBe(3)
  expect(told[1]).toMatch(/its \/health has not answered for 1.5 s/)
  const second = host.alive()
  host.setMode('broken')
  await expect.poll(() => told.length).toBe(4)
  expect(told[3]).toMatch(/^vLLM ended while it served/)
  await expect.poll(() => second.filter((pid) => startOf(pid) !== null)).toEqual([])
})

test('an agent that leaves in this very moment takes it along', async () => {
  const host = fakeHost()
  const { leaving, started } = startVllm(host)
  await started
  leaving.abort()
  await expect.poll(() => host.alive()).toEqual([])
})

test('the next agent finds it after a crash: same process, same epoch', async () => {
  const host = fakeHost()
  await abandon(host)
  const { pid } = stateOf(host)
  const { vllm, told, events, started } = startVllm(host)
  await started
  expect(addressIn(told, 0).epoch).toBe(`epoch-${pid}`)
  expect(events).toContainEqual(expect.objectContaining({ event: 'vllm_up', pid, how: 'found' }))
  expect(host.text('wishes')).toBe('')
  // It is watched like one that this agent started.
  process.kill(pid, 'SIGKILL')
  await expect.poll(() => told.length).toBe(3)
  await vllm.stop()
  expect(host.alive()).toEqual([])
})

test('where only the policy differs, the found one is told of it and goes on', async () => {
  const host = fakeHost()
  await abandon(host)
  const { pid } = stateOf(host)
  const scheduler = { policy: 'atlas', ordering: 'modelled' }
  const { told, started } = startVllm(host, { wish: { ...host.options.wish, scheduler } })
  await started
  expect(addressIn(told, 0).epoch).toBe(`epoch-${pid}`)
  await expect.poll(() => host.text('wishes')).toContain('"policy":"atlas"')
  expect(stateOf(host).scheduler).toEqual(scheduler)
})

test('one that was started with other settings is ended and replaced', async () => {
  const host = fakeHost()
  await abandon(host)
  const { pid } = stateOf(host)
  const { told, events, started } = startVllm(host, { wish: { ...host.options.wish, seats: 3 } })
  await started
  expect(addressIn(told, 0).epoch).not.toBe(`epoch-${pid}`)
  expect(startOf(pid)).toBe(null)
  expect(events).toContainEqual(expect.objectContaining({ message: expect.stringContaining('other settings') }))
})

test('of one whose server has died meanwhile, the other processes are ended before a new start', async () => {
  const host = fakeHost()
  await abandon(host)
  const [leader, engine] = host.pids()
  process.kill(leader ?? 0, 'SIGKILL')
  await expect.poll(() => startOf(leader ?? 0)).toBe(null)
  expect(startOf(engine ?? 0)).not.toBe(null)
  await startVllm(host).started
  expect(startOf(engine ?? 0)).toBe(null)
})

test('what runs in the folders of engines that this agent does not have is ended', async () => {
  const host = fakeHost()
  await abandon(host)
  const data_dir = dirname(dirname(host.options.folder))
  await endStrays(data_dir, 1)
  expect(host.alive()).toHaveLength(2)
  await endStrays(data_dir, 0)
  expect(host.alive()).toEqual([])
  await endStrays(join(data_dir, 'absent'), 0)
})

test('a damaged state file is removed and told', async () => {
  const host = fakeHost()
  mkdirSync(host.options.folder, { recursive: true })
  writeFileSync(join(host.options.folder, 'state.json'), '{"v":1')
  const { events, started } = startVllm(host)
  await started
  expect(events).toContainEqual(expect.objectContaining({ message: expect.stringContaining('state.json') }))
  expect(readFileSync(join(host.options.folder, 'state.json'), 'utf8')).toContain('"pid"')
})
