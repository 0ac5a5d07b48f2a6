/**
 * The four programs of Autellix figure 2: decode steps per call, all there at the start, as in the engine's test of that figure
 * (gpu-agent/engine/figures.test.ts says how they follow from the text). A prompt of one token costs no step of its own.
 */
import type { WorkloadProgram } from '../../workloads/index.ts'

const DECODE_STEPS: Readonly<Record<string, readonly number[]>> = {
  A: [3, 2, 2, 3],
  B: [4, 2, 2, 2],
  C: [1, 2],
  D: [1, 3],
}

export const TOY_PROGRAMS: readonly WorkloadProgram[] = Object.entries(DECODE_STEPS).map(([id, steps]) => ({
  id,
  workload: 'toy',
  calls: steps.map((output_tokens, at) => ({
    thread: 0,
    parents: at === 0 ? [] : [at - 1],
    prompt_tokens: 1,
    shared_prefix_tokens: 0,
    output_tokens,
    tool: null,
    tool_seconds: null,
    prefix_of: null,
    same_prompt_as: null,
  })),
}))
