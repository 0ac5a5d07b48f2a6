/**
 * What an agent would tell a vLLM of the kinds of programs that `gpu-check` plays: tables of other programs of these kinds. The plug-in
 * makes no table itself.
 */
import { z } from 'zod'
import type { ToldClass } from '../../gpu-agent/src/fronts/vllm/channel/class-teller.ts'
import { ClassSketch } from '../../src/core/classes/class-sketch.ts'
import { endedAsStated } from '../../src/core/classes/ended-program.ts'
import { indexTable } from '../../src/core/classes/index-table.ts'

const TENANT = 't'
const Count = z.number().int().min(0)

/** As `python -m gpu_check.stated` prints them. */
export const StatedPrograms = z.array(
  z.object({
    kind: z.string(),
    calls: z.array(
      z.object({ parents: z.array(Count), added_prompt_tokens: Count, output_tokens: Count, tool_us: Count }),
    ),
  }),
)

export function toldClasses(programs: z.infer<typeof StatedPrograms>): ToldClass[] {
  const sketches = new Map<string, ClassSketch>()
  for (const { kind, calls } of programs) {
    const sketch = sketches.get(kind) ?? new ClassSketch()
    sketches.set(kind, sketch)
    sketch.add(endedAsStated(calls))
  }
  return [...sketches].map(([kind, sketch]) => ({
    tenant: TENANT,
    class: kind,
    objective: 'token_latency',
    table: indexTable(sketch),
  }))
}
