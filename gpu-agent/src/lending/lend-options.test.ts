/** How lent engines are started: which GPUs, cores and memory each has. vLLM's command lines are those that a host with eight GPUs runs. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { A100_COSTS } from '../../planner/costs/a100.ts'
import { wishOf } from '../fronts/vllm/process/create-server.ts'
import { parseGpus, type VllmHost } from '../fronts/vllm/process/vllm-host.ts'
import { commandOf, gpusOfEngine } from '../fronts/vllm/process/vllm-launch.ts'
import { parseCli, TOKEN_VARIABLE } from '../options.ts'
import { temporaryFolder } from '../testing/harness.ts'
import { homeGpus, lentFront } from './lend-options.ts'

const HOST: VllmHost = {
  ...{ device: 'cuda', vllm_version: '0.32.0', versions_run: ['0.32.0'], plugin_folder: null },
  entry: ['-m', 'vllm.entrypoints.cli.main', 'serve'],
  gpus: parseGpus(Array.from({ length: 8 }, (_, at) => `${at}, NVIDIA A100-SXM4-80GB, 81920, 580.159`).join('\n')),
  ...{ cuda: '13.0', cuda_driver: null, flashinfer: 'cannot' },
}
const PLACE = { port: 4711, socket: '/run/e.sock', api_key: 'secret' }

/** An agent with its own vLLM on GPU 0 that lends eight GPUs. */
function lending(model: object, home = ['--engine', 'vllm', '--model', 'org/home']) {
  const folder = temporaryFolder()
  const file = join(folder, 'startable.json')
  writeFileSync(join(folder, 'costs.json'), JSON.stringify(A100_COSTS))
  writeFileSync(file, JSON.stringify({ models: [model] }))
  const argv = ['--id', 'a', '--region', 'r', '--control-url', 'http://127.0.0.1:1', '--data-dir', folder, ...home]
  const read = parseCli([...argv, '--lend', 'all', '--lend-gpus', '8', '--startable', file], {
    [TOKEN_VARIABLE]: 'sya-secret',
  })
  if (read.status !== 'run' || read.options.lend === null) throw new Error(JSON.stringify(read))
  const { lend } = read.options
  const startable = lend.startable[0]
  if (startable === undefined) throw new Error('no model')
  const front = (...gpus: number[]) => lentFront({ cli: read.options, lend, cores: 16 }, startable, { id: 'a-x', gpus })
  return { cli: read.options, front, folder }
}

const VLLM = {
  ...{ model: 'big', engine: 'vllm', costs: 'costs.json', costs_model: 'Llama-2-70b-chat-hf' },
  flags: { model: 'org/big', 'vllm-args': '--gpu-memory-utilization 0.9' },
}

function commandOn(...gpus: number[]) {
  const { front } = lending(VLLM)
  const options = front(...gpus)
  const { vllm, place } = options
  if (vllm?.mode !== 'process' || place === undefined) throw new Error('not run by the agent')
  const wish = wishOf(options, vllm, place)
  const found = gpusOfEngine(wish, HOST)
  if (typeof found === 'string') throw new Error(found)
  return commandOf(wish, HOST, found, PLACE, {})
}

test.each([
  [[5], '5', undefined],
  [[2, 3], '2,3', '2'],
  [[4, 5, 6, 7], '4,5,6,7', '4'],
  [[0, 1, 2, 3, 4, 5, 6, 7], '0,1,2,3,4,5,6,7', '8'],
])('a lent vLLM on GPUs %j sees those alone, and is tensor parallel over them', (gpus, visible, degree) => {
  const { args, env } = commandOn(...gpus)
  expect(env).toMatchObject({ CUDA_DEVICE_ORDER: 'PCI_BUS_ID', CUDA_VISIBLE_DEVICES: visible })
  const at = args.indexOf('--tensor-parallel-size')
  expect(at === -1 ? undefined : args[at + 1]).toBe(degree)
  expect(args.slice(0, 4)).toEqual([...HOST.entry, 'org/big'])
  expect(args.join(' ')).toContain('--gpu-memory-utilization 0.9')
  expect(args.join(' ')).toContain('--served-model-name big')
})

test('engines that run at the same time have folders of their own, and none of a home engine', () => {
  const { front, folder } = lending(VLLM)
  const folders = [front(0, 1), front(2), front(3)].map(({ place }) => place?.folder)
  expect(folders).toEqual([1, 3, 4].map((at) => join(folder, 'vllm', `e${at}`)))
})

test('a vLLM that is built for CPUs shares the cores and the memory, and names no GPUs', () => {
  const { front } = lending({ ...VLLM, device: 'cpu' })
  const { vllm, place } = front(0, 1)
  expect(vllm).toMatchObject({ gpus: null })
  expect(place?.engines).toBe(4)
})

test('embedded engines have their share of the cores', () => {
  const embedded = {
    ...{ model: 'small', engine: 'embedded', flags: { 'model-path': 'x.gguf' } },
    plans: [{ gpus: 1, profile: 'tiny', loading_s: 1 }],
  }
  const { front } = lending(embedded)
  expect([front(3).threads, front(0, 1, 2, 3).threads]).toEqual([2, 8])
})

test('home engines take the GPUs that they are given', () => {
  const { cli } = lending(VLLM, ['--engine', 'vllm', '--model', 'org/home', '--engines', '2', '--gpus', '4,5,6,7'])
  expect(homeGpus(cli, 8)).toEqual(
    new Map([
      ['a-e0', [4, 5]],
      ['a-e1', [6, 7]],
    ]),
  )
})
