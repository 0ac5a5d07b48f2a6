import { describe, expect, it } from 'vitest'
import type { WorkloadProgram } from '../program.ts'
import { continued, drawReleased, type ReleasedName, TABLE_2, toolsOf, weightsFor } from './draw-released.ts'
import { releasedPrograms } from './released.ts'

const DRAWN = 4_000

function draw(name: ReleasedName): WorkloadProgram[] {
  return Array.from({ length: DRAWN }, (_, index) => drawReleased(name, `${index}`, 1_000 + index))
}

function meanTools(programs: readonly WorkloadProgram[], augmentation: string): number {
  const of = programs.filter(({ app }) => app === `infercept/${augmentation}`)
  return of.reduce((sum, { calls }) => sum + calls.length - 1, 0) / of.length
}

describe('the released programs of InferCept', () => {
  it('are 397, of six augmentations, with the tools and contexts that were released', () => {
    const programs = releasedPrograms('multi')
    expect(programs).toHaveLength(397)
    expect(new Set(programs.map(([augmentation]) => augmentation)).size).toBe(6)
    for (const [, calls] of [...programs, ...releasedPrograms('single')]) {
      let before = 0
      for (const [prompt_tokens, shared_prefix_tokens, output_tokens] of calls) {
        expect(shared_prefix_tokens).toBeLessThanOrEqual(before)
        expect(prompt_tokens).toBeGreaterThanOrEqual(shared_prefix_tokens)
        before = prompt_tokens + output_tokens
      }
    }
  })

  it('are drawn as they are, with the means of the released file', () => {
    const programs = draw('infercept-released')
    for (const [augmentation, tools] of Object.entries({
      math: 2.81,
      qa: 3.04,
      ve: 4.35,
      chatbot: 3.46,
      image: 5.92,
    })) {
      expect(Math.abs(meanTools(programs, augmentation) - tools)).toBeLessThan(0.1 * tools)
    }
    const [first] = programs
    expect(drawReleased('infercept-released', '0', 1_000)).toEqual(first)
  })

  it('are drawn with the means of Table 2', () => {
    const programs = draw('infercept-table-2')
    for (const [augmentation, { mean }] of Object.entries(TABLE_2)) {
      expect(Math.abs(meanTools(programs, augmentation) - mean)).toBeLessThan(0.1 * mean)
    }
    for (const { calls } of programs) {
      for (const [index, call] of calls.entries()) {
        const before = calls[index - 1]
        if (before === undefined) continue
        expect(call.shared_prefix_tokens).toBeLessThanOrEqual(before.prompt_tokens + before.output_tokens)
        expect(call.prompt_tokens).toBeGreaterThanOrEqual(call.shared_prefix_tokens)
        expect(before.tool).not.toBeNull()
      }
    }
  })

  it('are drawn up to the call after their first tool', () => {
    for (const { calls } of draw('infercept-one-tool')) {
      expect(calls).toHaveLength(2)
      expect(calls.map(({ tool }) => tool !== null)).toEqual([true, false])
    }
  })

  it('are weighted so that the mean is as given', () => {
    const tools = [1, 2, 3, 4]
    for (const mean of [1.2, 2.5, 3.9]) {
      const weights = weightsFor(tools, mean)
      const total = weights.reduce((sum, weight) => sum + weight, 0)
      expect(weights.reduce((sum, weight, index) => sum + weight * (tools[index] ?? 0), 0) / total).toBeCloseTo(mean)
    }
  })

  it('are continued with the steps that they had', () => {
    const program = releasedPrograms('multi').find(([augmentation]) => augmentation === 've')
    if (program === undefined) throw new Error('there are programs of the virtual environment')
    const longer = continued(program, 20)
    expect(toolsOf(longer)).toBe(20)
    expect(longer[1].slice(0, 3)).toEqual(program[1].slice(0, 3))
    expect(toolsOf(continued(program, 1_000))).toBeLessThan(64)
  })
})
