import { expect, test } from 'vitest'
import { parseBenchFlags, type VllmBenchPlan } from './flags.ts'
import { nameOf } from './schedulers.ts'
import { GPU_SETTINGS, VLLM_SETTINGS } from './settings.ts'

function plan(...argv: string[]): VllmBenchPlan {
  const parsed = parseBenchFlags(argv)
  if (typeof parsed === 'string') throw new Error(parsed)
  return parsed
}

test('the whole benchmark plays every scheduler on three seeds of every workload, the quick one is short', () => {
  expect(plan()).toMatchObject({ seeds: 3, time_s: 5400, settings: Object.values(VLLM_SETTINGS) })
  expect(plan().schedulers.map(nameOf)).toContain('fcfs-program')
  expect(plan().schedulers.map(nameOf)).not.toContain('lamps')
  const handling = 'vllm-discard,vllm-preserve,infercept,lamps,learned-memory'
  expect(plan('--schedulers', handling).schedulers.map(nameOf)).toEqual(handling.split(','))
  const quick = plan('--quick')
  expect(quick).toMatchObject({ seeds: 1, time_s: 900 })
  expect(quick.settings.map(({ programs }) => programs)).toEqual([48, 16, 14, 32])
  expect(quick.schedulers.map(nameOf)).toEqual(['stock-fcfs', 'plas', 'atlas'])
  expect(plan('--quick', '--schedulers', 'mlfq', '--seeds', '2')).toMatchObject({ seeds: 2 })
})

test('a workload, the programs of a run and the load can be chosen', () => {
  const { settings } = plan('--workload', 'react', '--programs', '9', '--load', '1.7')
  expect(settings).toEqual([{ ...VLLM_SETTINGS.react, programs: 9, load: 1.7 }])
  expect([plan().labels, plan('--labels', 'kind').labels]).toEqual(['workload', 'kind'])
  expect(plan('--workload', 'chats,trees').settings.map(({ workload }) => workload)).toEqual(['chats', 'trees'])
})

test('on a GPU other workloads are played, once, on a vLLM with the plug-in and one without', () => {
  const gpu = parseBenchFlags([], 'gpu') as VllmBenchPlan
  expect(gpu).toMatchObject({ seeds: 1, settings: Object.values(GPU_SETTINGS) })
  expect(new Set(gpu.schedulers.map(({ scheduler }) => scheduler))).toEqual(new Set(['stock-fcfs', 'switchyard']))
  expect(parseBenchFlags(['--workload', 'tools', '--programs', '9'], 'gpu')).toMatchObject({
    settings: [{ workload: 'tools', programs: 9 }],
  })
  expect(parseBenchFlags(['--workload', 'chats'], 'gpu')).toMatch('--workload is all or of mixed, tools')
})

test('what is wrong is named', () => {
  expect(parseBenchFlags(['--schedulers', 'plas,rr'])).toMatch('there is no rr')
  expect(parseBenchFlags(['--seeds', '0'])).toMatch('--seeds must be a whole number from 1')
  expect(parseBenchFlags(['--programs', '100001'])).toMatch('--programs')
  expect(parseBenchFlags(['--load', '0'])).toMatch('--load')
  expect(parseBenchFlags(['--labels', 'program'])).toBe('--labels is workload or kind, not program')
  expect(parseBenchFlags(['--load', '100.1'])).toMatch('--load')
  expect(parseBenchFlags(['--sched', 'plas'])).toMatch('--sched')
  expect(parseBenchFlags(['--workload', 'forests'])).toMatch('--workload is all or of chats, react, trees, writers')
  expect(parseBenchFlags(['--help'])).toBe('help')
})
