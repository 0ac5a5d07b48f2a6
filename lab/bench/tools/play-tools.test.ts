/** On the real model, with tools that really sleep: what each handling leaves for the program that returns. */
import { beforeAll, expect, test } from 'vitest'
import { describeWithModel, MODEL_PATH } from '../../../gpu-agent/engine/backends/llama/testing/real-model.ts'
import { HANDLINGS } from '../../../gpu-agent/engine/memory/handling/waste.ts'
import { PREFIX_MATCH_TOKENS_MIN } from '../../../gpu-agent/engine/memory/prefix-index.ts'
import { optionsFor, playTools, type ToolsPlay, type ToolsWorkload } from './play-tools.ts'

const WORKLOAD: ToolsWorkload = { seed: 3, programs: 2, tools: 2, tool_s_max: 1, others: 6, prompt_words: 50 }
/** For the programs with tools and two calls that run: the others have to take what is not kept. */
const SLOTS = WORKLOAD.programs + 2
const TOOLS = WORKLOAD.programs * WORKLOAD.tools

describeWithModel('contexts of programs whose tools really run, on the embedded engine', () => {
  const plays = new Map<string, ToolsPlay>()
  const play = (policy: string): ToolsPlay => {
    const found = plays.get(policy)
    if (found === undefined) throw new Error(`${policy} was not played`)
    return found
  }

  beforeAll(async () => {
    for (const policy of ['vllm-preserve', 'vllm-discard', 'infercept'] as const)
      plays.set(policy, await playTools(optionsFor(policy, MODEL_PATH, SLOTS), WORKLOAD))
    for (const handling of HANDLINGS)
      plays.set(`lamps, ${handling}`, await playTools(optionsFor('lamps', MODEL_PATH, SLOTS, [handling]), WORKLOAD))
  }, 900_000)

  const share = ({ context_tokens, cached_tokens }: { context_tokens: number; cached_tokens: number }) =>
    cached_tokens / context_tokens

  test('preserved contexts are there', () => {
    const { tools, returns } = play('vllm-preserve')
    expect(tools).toMatchObject({ preserve: { decided: TOOLS, returned: TOOLS }, discard: { decided: 0 } })
    expect(returns.map(share).every((one) => one >= 0.95)).toBe(true)
    expect(returns[0]?.handled).toMatchObject({ handling: 'preserve', reason: 'only_choice' })
  })

  test('of discarded contexts nothing is', () => {
    const { tools, returns } = play('vllm-discard')
    expect(tools).toMatchObject({ discard: { decided: TOOLS, returned: TOOLS } })
    // A slot that is taken may begin with the same tokens of the chat template.
    expect(Math.max(...returns.map(({ cached_tokens }) => cached_tokens))).toBeLessThan(PREFIX_MATCH_TOKENS_MIN)
  })

  test('contexts that are swapped for tools of seconds are back, and nothing is left of their images', () => {
    const { tools, returns } = play('infercept')
    expect(tools?.swap.decided).toBeGreaterThan(0)
    expect(tools).toMatchObject({ discard: { decided: 0 }, away: 0 })
    expect(returns.map(share).every((one) => one >= 0.95)).toBe(true)
    const swapped = returns.flatMap(({ handled }) => (handled?.handling === 'swap' ? handled : []))
    for (const { reason, waste } of swapped) {
      expect(reason).toBe('least_waste')
      expect(waste.swap).toBeLessThan(Math.min(waste.preserve, waste.discard))
    }
  })

  test('one order can have each handling, as the operator says', () => {
    for (const name of HANDLINGS.map((handling) => `lamps, ${handling}`)) {
      const { tools, returns, handling } = play(name)
      const [only] = handling ?? []
      expect(tools?.[only ?? 'preserve']).toMatchObject({ decided: TOOLS, returned: TOOLS })
      expect(new Set(returns.map(({ handled }) => handled?.handling))).toEqual(new Set([only]))
      expect(new Set(returns.map(({ handled }) => handled?.reason))).toEqual(new Set(['only_choice']))
      const shares = returns.map(share)
      if (only === 'discard')
        expect(Math.max(...returns.map((one) => one.cached_tokens))).toBeLessThan(PREFIX_MATCH_TOKENS_MIN)
      else expect(Math.min(...shares), name).toBeGreaterThanOrEqual(0.95)
    }
  })

  test('answers are the same whatever was done', () => {
    const { answers } = play('vllm-discard')
    for (const [name, { answers: others }] of plays) expect(others, name).toEqual(answers)
  })
})
