import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type CliOptions, parseCli, TOKEN_VARIABLE } from '../../../options.ts'
import { temporaryFolder } from '../../../testing/harness.ts'

const ENV = { [TOKEN_VARIABLE]: 'sya-secret' }
const LEAST = ['--id', 'a', '--region', 'r', '--control-url', 'http://127.0.0.1:8787/', '--engine', 'vllm']
const MODEL = ['--model', 'org/name']
const ATTACHED = ['--vllm-url', 'http://127.0.0.1:8000/v1/', '--model-id', 'm']

function right(argv: readonly string[], env: Record<string, string> = {}): CliOptions {
  const verdict = parseCli([...LEAST, ...argv], { ...ENV, ...env })
  if (verdict.status !== 'run') throw new Error(JSON.stringify(verdict))
  return verdict.options
}

function wrong(...argv: string[]): string {
  const verdict = parseCli([...LEAST, ...argv], ENV)
  return verdict.status === 'wrong' ? verdict.message : verdict.status
}

test('one that the agent runs: what is not given has the documented default', () => {
  const options = right(MODEL)
  expect(options).toMatchObject({ engine: 'vllm', model_id: 'org/name', policy: 'plas' })
  expect(options.front.vllm).toEqual({
    ...{
      mode: 'process',
      model: 'org/name',
      python: 'python3',
      args: [],
      gpus: null,
      kv_swap_gib: null,
      start_limit_ms: 1_200_000,
    },
  })
  expect(right(MODEL, { SWITCHYARD_VLLM_PYTHON: '/venv/bin/python' }).front.vllm).toMatchObject({
    python: '/venv/bin/python',
  })
})

test('a model folder is named by its last part and by its full path', () => {
  const folder = join(temporaryFolder(), 'tiny-model')
  mkdirSync(folder)
  for (const written of [folder, `${folder}/`, `${folder}/.`]) {
    expect(right(['--model', written])).toMatchObject({ model_id: 'tiny-model', front: { vllm: { model: folder } } })
  }
})

test('every flag is taken; --vllm-args as the next word or after =', () => {
  const argv = ['--gpus', '3,1', '--engines', '2', '--vllm-python', '/py', '--vllm-start-limit-s', '90', '--seats', '8']
  argv.push('--kv-swap-gib', '16', '--context-tokens', '4096', '--policy', 'atlas', '--model-id', 'm')
  const options = right([...MODEL, ...argv, '--vllm-args', '--dtype float32 --chat-template "a b"'])
  expect(options).toMatchObject({ engines: 2, model_id: 'm', policy: 'atlas' })
  expect(options.front).toEqual({
    ...{ seats: 8, context_tokens: 4096 },
    vllm: {
      ...{ mode: 'process', model: 'org/name', python: '/py', gpus: [3, 1], start_limit_ms: 90_000, kv_swap_gib: 16 },
      args: ['--dtype', 'float32', '--chat-template', 'a b'],
    },
  })
  expect(right([...MODEL, '--vllm-args=--seed 1']).front.vllm).toMatchObject({ args: ['--seed', '1'] })
})

test('one that the agent does not run: the key comes from the environment alone', () => {
  const options = right(ATTACHED, { SWITCHYARD_VLLM_KEY: ' key ' })
  expect(options.front.vllm).toEqual({
    ...{ mode: 'attached', url: 'http://127.0.0.1:8000', api_key: 'key', socket: null, order: 'fcfs', model: null },
    ...{ kv_tokens: null, start_limit_ms: 120_000 },
  })
  expect(right([...ATTACHED, '--vllm-order=priority', '--model=x']).front.vllm).toMatchObject({
    ...{ order: 'priority', model: 'x', api_key: null },
  })
})

test('a wrong flag is named', () => {
  expect(wrong(...MODEL, '--kv-swap-gib', '0')).toContain('--kv-swap-gib')
  expect(wrong(...MODEL, '--kv-swap-gib', '1', '--vllm-args', '--kv-transfer-config {}')).toContain(
    'name BulkSwapConnector',
  )
  expect(wrong(...ATTACHED, '--kv-swap-gib', '1')).toContain('set it where that vLLM is started')
  expect(wrong()).toBe('--model or --vllm-url is required')
  expect(wrong('--vllm-url', 'http://h')).toBe('--model-id is required')
  expect(wrong(...MODEL, '--vllm-order', 'fcfs')).toBe('--vllm-order goes with --vllm-url')
  expect(wrong(...ATTACHED, '--gpus', '0')).toMatch(/^--gpus does not go with --vllm-url/)
  expect(wrong(...ATTACHED, '--engines', '2')).toMatch(/^--vllm-url is one engine/)
  expect(wrong(...ATTACHED, '--vllm-order', 'plas')).toBe('--vllm-order is one of fcfs, priority, not plas')
  expect(wrong(...ATTACHED, '--vllm-order', 'fcfs', '--vllm-socket', '/s')).toMatch(/^--vllm-order does not go with/)
  expect(wrong(...MODEL, '--gpus', '0,1,2', '--engines', '2')).toMatch(
    /^--gpus names 3, which --engines 2 cannot share/,
  )
  expect(wrong(...MODEL, '--gpus', '0,0')).toMatch(/^--gpus names a GPU twice/)
  for (const gpus of ['', 'a', '0,', '-1', '1.5', Array.from({ length: 65 }, (_, gpu) => gpu).join()]) {
    expect(wrong(...MODEL, `--gpus=${gpus}`)).toMatch(/^--gpus is a list of at most 64 numbers/)
  }
  expect(wrong(...MODEL, `--gpus=${Array.from({ length: 64 }, (_, gpu) => gpu).join()}`)).toBe('run')
  expect(wrong(...MODEL, '--vllm-args', '--data-parallel-size 2')).toBe(
    '--vllm-args --data-parallel-size: data-parallel ranks are separate engines: use --engines N',
  )
  expect(wrong(...MODEL, '--vllm-args', '--port 1')).toMatch(/^--vllm-args --port: /)
  expect(wrong(...MODEL, '--vllm-args', "'x")).toMatch(/^--vllm-args cannot be split into words/)
  expect(wrong(...MODEL, '--slots', '2')).toMatch(/^--slots does not go with --engine vllm/)
  expect(wrong(...MODEL, '--threads', '2')).toBe('--threads goes with --engine embedded')
  for (const limit of ['0', '86401']) expect(wrong(...MODEL, '--vllm-start-limit-s', limit)).toMatch(/from 1 to 86400/)
  expect(wrong(...MODEL, '--vllm-start-limit-s', '86400')).toBe('run')
})
