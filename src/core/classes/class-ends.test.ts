import { describe, expect, it } from 'vitest'
import { ClassEnds, ClassEndsData, RUNS_REMEMBERED_MAX } from './class-ends.ts'

const program = { output_tokens: 5, calls: 1, path_us: 1, service_us: 1, tool_us: 0, later_prompt_tokens: 0 }

describe('the ends of a class', () => {
  it('count once, however often they are told, also when they are stored in between', () => {
    const ends = ClassEnds.none()
    expect(ends.add('run-1', program, 10)).toBe(true)
    expect(ends.add('run-1', program, 20)).toBe(false)
    const restored = new ClassEnds(ClassEndsData.parse(JSON.parse(JSON.stringify(ends.data()))))
    expect(restored.add('run-1', program, 30)).toBe(false)
    expect(restored.ends).toBe(1)
    expect(restored.last_end_ms).toBe(10)
    expect(restored.add('run-2', program, 40)).toBe(true)
    expect([restored.ends, restored.last_end_ms]).toEqual([2, 40])
    expect(restored.data().runs).toEqual(['run-1', 'run-2'])
  })

  it('are remembered up to a bound, the oldest forgotten first', () => {
    const ends = ClassEnds.none()
    for (let run = 0; run <= RUNS_REMEMBERED_MAX; run++) ends.add(`${run}`, program, run)
    expect(ends.data().runs).toHaveLength(RUNS_REMEMBERED_MAX)
    expect(ends.add('1', program, 0)).toBe(false)
    expect(ends.add('0', program, 0)).toBe(true)
    expect(ClassEndsData.safeParse(ends.data()).success).toBe(true)
  })
})
