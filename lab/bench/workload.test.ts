import { describe, expect, test } from 'vitest'
import { mean } from '../../simulator/statistics.ts'
import { BLOCK_TOKENS as VLLM_BLOCK_TOKENS, CONTEXT_TOKENS as VLLM_CONTEXT_TOKENS } from '../testbed/vllm-server.ts'
import { contextTokens, kvPressure, settingText } from './kv-pressure.ts'
import { POLICIES_SETTINGS, POLICIES_WORKLOADS } from './policies-settings.ts'
import { BLOCK_TOKENS as EMBEDDED_BLOCK_TOKENS } from './real-engine.ts'
import { GPU_SETTINGS, GPU_SIZE, VLLM_SETTINGS } from './vllm/settings.ts'
import {
  capacityShapes,
  drawShapes,
  kindsOf,
  textTokens,
  tokensOfCall,
  WORKLOADS,
  withArrivals,
  workloadsNamed,
} from './workload.ts'

const SEEDS = Array.from({ length: 20 }, (_, index) => index + 1)
const SCARCE = ['react', 'trees'] as const
const BENCHES = [
  { bench: 'policies', settings: POLICIES_SETTINGS, block_tokens: EMBEDDED_BLOCK_TOKENS, blocks_kept: 1 },
  { bench: 'vllm', settings: VLLM_SETTINGS, block_tokens: VLLM_BLOCK_TOKENS, blocks_kept: 1 },
]

function drawn(workload: (typeof SCARCE)[number], seed: number) {
  const setting = POLICIES_SETTINGS[workload]
  return drawShapes(seed, setting.programs, setting)
}

test('equal seeds draw equal programs, other seeds others; every seed has as many of each kind', () => {
  for (const workload of WORKLOADS) {
    const setting = VLLM_SETTINGS[workload]
    const [one, same, other] = [7, 7, 8].map((seed) => drawShapes(seed, setting.programs, setting))
    expect(one).toEqual(same)
    expect(one).not.toEqual(other)
    const counts = [one, other].map((shapes) =>
      kindsOf(workload).map((kind) => shapes?.filter((shape) => shape.kind === kind).length),
    )
    expect(counts[0]).toEqual(counts[1])
    expect(counts[0]?.every((count) => (count ?? 0) > 0)).toBe(true)
  }
})

test('arrivals are in order and within their span', () => {
  const arrivals_s = withArrivals(drawShapes(3, 40), 3, 20).map(({ arrival_s }) => arrival_s)
  expect(arrivals_s).toEqual([...arrivals_s].sort((a, b) => a - b))
  expect(Math.max(...arrivals_s)).toBeLessThan(20)
})

test('a ReAct program is a chain of 6 to 12 calls: one long prompt, then short answers of tools after a pause', () => {
  for (const { kind, calls } of SEEDS.flatMap((seed) => drawn('react', seed))) {
    expect(calls.length).toBeGreaterThanOrEqual(kind === 'short_react' ? 6 : 9)
    expect(calls.length).toBeLessThanOrEqual(kind === 'short_react' ? 8 : 12)
    const [first, ...others] = calls
    for (const [index, call] of others.entries()) {
      expect(call.parents).toEqual([index])
      expect(call.gap_ms).toBeGreaterThanOrEqual(50)
      expect(call.new_prompt_tokens + call.output_tokens).toBeLessThan((first?.new_prompt_tokens ?? 0) / 4)
    }
  }
})

test('the calls of a wave share all text of one node, and a call joins them', () => {
  for (const { kind, calls } of SEEDS.flatMap((seed) => drawn('trees', seed))) {
    const texts = textTokens(calls)
    const joins = calls.flatMap(({ parents }, index) => (parents.length > 1 ? [{ parents, index }] : []))
    expect(joins).toHaveLength(kind === 'shallow_tree' ? 2 : 4)
    let node = 0
    for (const { parents, index } of joins) {
      expect(parents.length).toBeGreaterThanOrEqual(4)
      expect(parents.length).toBeLessThanOrEqual(6)
      for (const branch of parents) {
        expect(calls[branch]?.parents).toEqual([node])
        // All but a few tokens of a branch are the node's.
        expect((texts[branch] as number) - (texts[node] as number)).toBeLessThanOrEqual(18)
      }
      node = index
    }
    expect(node).toBe(calls.length - 1)
  }
})

test('the text of a call is its first parent’s, the outputs of the others, and its own', () => {
  const call = (parents: number[], new_prompt_tokens: number, output_tokens: number) => ({
    ...{ parents, new_prompt_tokens, output_tokens },
    gap_ms: 0,
  })
  const calls = [call([], 100, 10), call([0], 5, 7), call([0], 5, 9), call([1, 2], 3, 4)]
  expect(tokensOfCall(calls, 3)).toEqual({ output_tokens: 4, prompt_tokens: 3 + 9 })
  expect(textTokens(calls)).toEqual([110, 122, 124, 122 + 9 + 3 + 4])
  expect(contextTokens({ calls })).toBe(138)
})

test('KV holds so few writers that questions take their blocks, and the rings of the swap leave room for two', () => {
  const setting = VLLM_SETTINGS.writers
  for (const seed of SEEDS) {
    const shapes = drawShapes(seed, setting.programs, setting)
    const writers = shapes.filter(({ kind }) => kind === 'writer').map(contextTokens)
    expect((setting.kv_tokens ?? 0) / mean(writers)).toBeLessThan(4)
    expect(2 * Math.max(...writers)).toBeLessThan(((setting.kv_tokens ?? 0) * 3) / 4)
    const questions = shapes.filter(({ kind }) => kind === 'question').map(contextTokens)
    expect(Math.max(...questions)).toBeLessThan(Math.min(...writers))
  }
})

describe.each(BENCHES)('KV in bench:$bench', ({ settings, block_tokens, blocks_kept }) => {
  test.each(SCARCE)('%s: a quarter to a third of the live programs’ contexts fit, for every seed', (workload) => {
    const setting = settings[workload]
    const { kv_tokens, load, programs, capacity_live_programs } = setting
    if (kv_tokens === null) throw new Error('its KV is not limited')
    expect(kv_tokens % block_tokens).toBe(0)
    for (const seed of SEEDS) {
      const { fit_share } = kvPressure(drawShapes(seed, programs, setting), { load, kv_tokens })
      expect(fit_share).toBeGreaterThanOrEqual(0.25)
      expect(fit_share).toBeLessThanOrEqual(0.34)
    }
    // Capacity is measured with programs whose contexts all fit, so that no prefix is lost.
    const longest = capacityShapes(setting)
      .map(contextTokens)
      .sort((a, b) => b - a)
      .slice(0, capacity_live_programs)
    const in_blocks = longest.map((tokens) => Math.ceil(tokens / block_tokens) * block_tokens)
    expect(in_blocks.reduce((sum, tokens) => sum + tokens, 0)).toBeLessThanOrEqual(kv_tokens)
  })

  test('any one program fits the KV, with the tokens that a call adds', () => {
    for (const workload of SCARCE) {
      const { kv_tokens, programs } = settings[workload]
      const longest = Math.max(
        ...SEEDS.flatMap((seed) => drawShapes(seed, programs, settings[workload]).map(contextTokens)),
      )
      expect(longest + blocks_kept * block_tokens).toBeLessThan((kv_tokens ?? 0) / 2)
    }
  })

  test('the chats’ KV is not limited', () => {
    expect(settings.chats.kv_tokens).toBeNull()
  })
})

test('no program grows beyond what a call may have in either engine', () => {
  for (const workload of POLICIES_WORKLOADS) {
    const embedded = POLICIES_SETTINGS[workload]
    for (const seed of SEEDS) {
      const longest = Math.max(...drawShapes(seed, embedded.programs, embedded).map(contextTokens))
      expect(longest).toBeLessThan(embedded.context_tokens)
    }
  }
  for (const setting of Object.values(VLLM_SETTINGS)) {
    for (const seed of SEEDS) {
      const served = drawShapes(seed, setting.programs, setting)
      expect(Math.max(...served.map(contextTokens))).toBeLessThan(VLLM_CONTEXT_TOKENS)
    }
  }
})

test('on a GPU programs are of full size, and capacity is measured without pauses', () => {
  for (const setting of Object.values(GPU_SETTINGS)) {
    const shapes = SEEDS.flatMap((seed) => drawShapes(seed, setting.programs, setting))
    expect(Math.max(...shapes.map(contextTokens))).toBeLessThan(GPU_SIZE.context_tokens)
    expect(shapes.some(({ calls }) => calls.some(({ gap_ms }) => gap_ms > 0))).toBe(true)
    expect(capacityShapes(setting).every(({ calls }) => calls.every(({ gap_ms }) => gap_ms === 0))).toBe(true)
    const contexts_fit = (setting.kv_tokens ?? 0) / mean(shapes.map(contextTokens))
    expect(contexts_fit).toBeGreaterThan(setting.capacity_live_programs)
  }
})

test('workloads are named one by one, or all at once', () => {
  expect(workloadsNamed('all', WORKLOADS)).toEqual(['chats', 'react', 'trees', 'writers'])
  expect(workloadsNamed('trees, react', WORKLOADS)).toEqual(['react', 'trees'])
  expect(workloadsNamed('react,forests', WORKLOADS)).toBeNull()
  expect(workloadsNamed('', WORKLOADS)).toBeNull()
  expect(workloadsNamed('all', POLICIES_WORKLOADS)).toEqual(['chats', 'react', 'trees'])
  expect(workloadsNamed('writers', POLICIES_WORKLOADS)).toBeNull()
})

test('the sentence over a workload says how many contexts fit', () => {
  const setting = VLLM_SETTINGS.react
  expect(settingText(drawShapes(1, 40, setting), setting)).toMatch(
    /^react: 40 programs at 2 × capacity; KV of 5536 tokens holds 6\.\d contexts of \d+ tokens; 20 programs are live/,
  )
  expect(settingText(drawShapes(1, 9), VLLM_SETTINGS.chats)).toBe(
    'chats: 9 programs at 1.5 × capacity; KV holds all of them',
  )
})
