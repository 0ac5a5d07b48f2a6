import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../../../testing/harness.ts'
import { parseGpus, type VllmHost } from './vllm-host.ts'
import { commandOf, fingerprintOf, gpusOfEngine, modelFault, type VllmWish } from './vllm-launch.ts'

const CPU: VllmHost = {
  device: 'cpu',
  vllm_version: '0.32.0',
  versions_run: ['0.32.0'],
  entry: ['-m', 'vllm.entrypoints.openai.api_server'],
  plugin_folder: '/plugin/src',
  gpus: [],
  cuda: '13.0',
  cuda_driver: null,
  flashinfer: 'cannot',
}
const CUDA: VllmHost = {
  ...CPU,
  device: 'cuda',
  entry: ['-m', 'vllm.entrypoints.cli.main', 'serve'],
  plugin_folder: null,
  gpus: parseGpus('0, NVIDIA H100 80GB HBM3, 81559, 580.159\n1, NVIDIA H100 80GB HBM3, 81559, 580.159\n'),
}
const PLACE = { port: 4711, socket: '/run/e.sock', api_key: 'secret' }

function wish(changes: Partial<VllmWish> = {}): VllmWish {
  return {
    ...{ python: 'python3', model: 'org/name', model_id: 'm', args: [], gpus: null, engine_index: 0, engines: 1 },
    ...{ seats: null, context_tokens: null, kv_swap_gib: null, scheduler: { policy: 'plas', ordering: 'modelled' } },
    ...changes,
  }
}

/** The last value of a flag, which is the one that counts. */
function flagValue(args: readonly string[], flag: string): string | undefined {
  const at = args.lastIndexOf(flag)
  return at === -1 ? undefined : args[at + 1]
}

test('on a CPU: bfloat16, eager, blocks of 32, a bounded KV cache; what the operator says wins', () => {
  const { args, env } = commandOf(wish(), CPU, [], PLACE, {})
  expect(flagValue(args, '--dtype')).toBe('bfloat16')
  expect(flagValue(args, '--block-size')).toBe('32')
  expect(args).toContain('--enforce-eager')
  expect(Number(env.VLLM_CPU_KVCACHE_SPACE)).toBeGreaterThanOrEqual(1)
  const given = commandOf(wish({ args: ['--dtype=float32'], seats: 2 }), CPU, [], PLACE, {
    VLLM_CPU_KVCACHE_SPACE: '3',
  })
  expect(given.args).not.toContain('bfloat16')
  expect(given.args.filter((word) => word === '--max-num-seqs')).toHaveLength(1)
  expect(flagValue(given.args, '--max-num-seqs')).toBe('2')
  expect(given.env.VLLM_CPU_KVCACHE_SPACE).toBe('3')
})

test('the KV swap: its connector, and the device memory that it takes beside the KV cache is left free', () => {
  const { args } = commandOf(wish({ kv_swap_gib: 64 }), CUDA, [0, 1], PLACE, {})
  expect(JSON.parse(flagValue(args, '--kv-transfer-config') ?? '')).toEqual({
    kv_connector: 'BulkSwapConnector',
    kv_connector_module_path: 'switchyard_vllm.swap.connector',
    kv_role: 'kv_producer',
    kv_connector_extra_config: { arena_gib: 64, ring_gib: 1, prefetch_gib: 1 },
  })
  // Of 81,559 MiB two GiB are 0.0251.
  expect(flagValue(args, '--gpu-memory-utilization')).toBe('0.894')
  const sized = wish({ kv_swap_gib: 64, args: ['--kv-cache-memory-bytes', '8G'] })
  expect(flagValue(commandOf(sized, CUDA, [0], PLACE, {}).args, '--gpu-memory-utilization')).toBeUndefined()
  const cpu = commandOf(wish({ kv_swap_gib: 1 }), CPU, [], PLACE, {}).args
  expect(flagValue(cpu, '--gpu-memory-utilization')).toBeUndefined()
  expect(flagValue(cpu, '--kv-transfer-config')).toContain('"ring_gib":0.125')
})

test('without the KV swap vLLM gets no connector, and with another size of it another process', () => {
  expect(commandOf(wish(), CUDA, [0], PLACE, {}).args).not.toContain('--kv-transfer-config')
  const prints = [null, 1, 2].map((kv_swap_gib) => fingerprintOf(wish({ kv_swap_gib }), CUDA, [0], {}))
  expect(new Set(prints).size).toBe(3)
})

test('what the agent owns comes last, and secrets are not among the arguments nor passed on', () => {
  const { args, env } = commandOf(wish({ args: ['--seed', '1'] }), CPU, [], PLACE, {
    SWITCHYARD_AGENT_TOKEN: 'token',
    OTEL_EXPORTER_OTLP_HEADERS: 'key',
    PYTHONPATH: '/mine',
    HF_TOKEN: 'hub',
  })
  expect(args.indexOf('--seed')).toBeLessThan(args.indexOf('--port'))
  expect(flagValue(args, '--host')).toBe('127.0.0.1')
  expect(flagValue(args, '--scheduler-cls')).toBe('switchyard_vllm.ProgramAwareScheduler')
  expect(JSON.parse(env.SWITCHYARD_VLLM_OPTIONS ?? '')).toEqual({
    policy: 'plas',
    ordering: 'modelled',
    socket: '/run/e.sock',
  })
  expect(args.join(' ')).not.toContain('secret')
  expect(env).toMatchObject({ VLLM_API_KEY: 'secret', PYTHONPATH: '/plugin/src:/mine', HF_TOKEN: 'hub' })
  expect(env).not.toHaveProperty('SWITCHYARD_AGENT_TOKEN')
  expect(env).not.toHaveProperty('OTEL_EXPORTER_OTLP_HEADERS')
  expect(env).not.toHaveProperty('HF_HUB_OFFLINE')
})

test('engines with other sockets, keys and policies have the same arguments, so that they share compiled code', () => {
  const policies = ['plas', 'atlas'].map((policy) => wish({ kv_swap_gib: 8, scheduler: { policy } }))
  const places = [PLACE, { ...PLACE, socket: '/run/other.sock', api_key: 'other' }]
  const [one, other] = policies.map((given, index) => commandOf(given, CUDA, [0], places[index] ?? PLACE, {}))
  expect(one?.args).toEqual(other?.args)
  expect(one?.env.SWITCHYARD_VLLM_OPTIONS).not.toBe(other?.env.SWITCHYARD_VLLM_OPTIONS)
})

test('several engines on one CPU share its cores', () => {
  expect(commandOf(wish(), CPU, [], PLACE, {}).env).not.toHaveProperty('OMP_NUM_THREADS')
  const { env } = commandOf(wish({ engines: 2 }), CPU, [], PLACE, { OMP_NUM_THREADS: '3' })
  expect(env).toMatchObject({ VLLM_CPU_OMP_THREADS_BIND: 'nobind', OMP_NUM_THREADS: '3' })
})

test('a model folder is served without asking the hub', () => {
  expect(commandOf(wish({ model: temporaryFolder() }), CPU, [], PLACE, {}).env.HF_HUB_OFFLINE).toBe('1')
})

test('on a GPU seats are scarce unless the operator says otherwise, and FlashInfer samples only where it has kernels', () => {
  const { args, env } = commandOf(wish(), CUDA, [0], PLACE, {})
  expect(flagValue(args, '--max-num-seqs')).toBe('128')
  expect(env.VLLM_USE_FLASHINFER_SAMPLER).toBe('0')
  const given = commandOf(wish({ seats: 512 }), CUDA, [0], PLACE, { VLLM_USE_FLASHINFER_SAMPLER: '1' })
  expect(given.args.filter((word) => word === '--max-num-seqs')).toHaveLength(1)
  expect(flagValue(given.args, '--max-num-seqs')).toBe('512')
  expect(given.env.VLLM_USE_FLASHINFER_SAMPLER).toBe('1')
  const compiles = commandOf(wish(), { ...CUDA, flashinfer: 'compiles' }, [0], PLACE, {})
  expect(compiles.env).not.toHaveProperty('VLLM_USE_FLASHINFER_SAMPLER')
  expect(commandOf(wish(), CPU, [], PLACE, {}).env).not.toHaveProperty('VLLM_USE_FLASHINFER_SAMPLER')
})

test('GPUs are shared out evenly, and tensor parallel over those of an engine', () => {
  expect(gpusOfEngine(wish({ gpus: [0, 1], engines: 2, engine_index: 1 }), CUDA)).toEqual([1])
  expect(gpusOfEngine(wish({ engines: 2, engine_index: 1 }), CUDA)).toEqual([1])
  expect(gpusOfEngine(wish(), CUDA)).toEqual([0])
  const both = gpusOfEngine(wish({ gpus: [1, 0] }), CUDA)
  expect(both).toEqual([1, 0])
  const { args, env } = commandOf(wish(), CUDA, [1, 0], PLACE, {})
  expect(flagValue(args, '--tensor-parallel-size')).toBe('2')
  expect(env).toMatchObject({ CUDA_VISIBLE_DEVICES: '1,0', CUDA_DEVICE_ORDER: 'PCI_BUS_ID' })
  expect(args.slice(0, 4)).toEqual(['-m', 'vllm.entrypoints.cli.main', 'serve', 'org/name'])
  expect(args).not.toContain('--enforce-eager')
  expect(commandOf(wish({ args: ['-pp', '2'] }), CUDA, [0, 1], PLACE, {}).args).not.toContain('--tensor-parallel-size')
})

test('GPUs that are not there are named with those that are', () => {
  expect(gpusOfEngine(wish({ gpus: [2] }), CUDA)).toMatch(/--gpus: there is no GPU 2; this host has 0 \(NVIDIA H100/)
  expect(gpusOfEngine(wish({ engines: 3 }), CUDA)).toMatch(/--engines 3 takes one GPU for each: there is no GPU 2/)
  expect(gpusOfEngine(wish(), { ...CUDA, gpus: [] })).toMatch(/nvidia-smi finds none/)
  expect(gpusOfEngine(wish({ gpus: [0] }), CPU)).toMatch(/built for CPUs/)
  expect(gpusOfEngine(wish(), CPU)).toEqual([])
})

test('a model that the disk shows to be none is named before anything is started', () => {
  const folder = temporaryFolder()
  expect(modelFault('org/name')).toBe(null)
  expect(modelFault('/nowhere/at/all')).toMatch(/no model folder/)
  expect(modelFault(folder)).toMatch(/no config.json/)
  writeFileSync(join(folder, 'config.json'), '{}')
  expect(modelFault(folder)).toBe(null)
  expect(modelFault(join(folder, 'config.json'))).toMatch(/is a file/)
})

test('a fingerprint changes with what a running vLLM cannot change, and with nothing else', () => {
  const base = fingerprintOf(wish(), CPU, [], { VLLM_X: '1', HOME: '/a' })
  expect(fingerprintOf(wish(), CPU, [], { VLLM_X: '1', HOME: '/b' })).toBe(base)
  const scheduler = { policy: 'atlas', ordering: 'modelled' }
  expect(fingerprintOf(wish({ scheduler }), CPU, [], { VLLM_X: '1' })).toBe(base)
  const others = [
    fingerprintOf(wish({ scheduler: { ...scheduler, ordering: 'wall' } }), CPU, [], { VLLM_X: '1' }),
    fingerprintOf(wish({ seats: 4 }), CPU, [], { VLLM_X: '1' }),
    fingerprintOf(wish({ args: ['--seed', '1'] }), CPU, [], { VLLM_X: '1' }),
    fingerprintOf(wish(), CPU, [], { VLLM_X: '2' }),
    fingerprintOf(wish(), { ...CPU, vllm_version: '0.33.0' }, [], { VLLM_X: '1' }),
    fingerprintOf(wish(), CPU, [0], { VLLM_X: '1' }),
  ]
  expect(new Set([base, ...others]).size).toBe(others.length + 1)
})
