/** The durations that SamuLLM prints for single models, beside the estimate of the same runs. */
import { A100_COSTS } from '../../../gpu-agent/planner/costs/a100.ts'
import { lengthsOf } from '../../../gpu-agent/planner/lengths/model-lengths.ts'
import type { Plan } from '../../../gpu-agent/planner/plan.ts'
import { SimulatedWorld } from '../../../gpu-agent/planner/runs/simulated-world.ts'
import { ensembling, shareGpt } from '../../planner/paper/applications.ts'
import { workloadOf } from './play-cell.ts'

export interface Check {
  name: string
  paper_s: number
  estimate: (seed: number) => number
}

const ONE: Plan = { dp: 1, tp: 1 }
const EIGHT: Plan = { dp: 8, tp: 1 }

/** §2 and §5.1. The paper does not say which limit its ShareGPT run has; its applications have 256 and 512. */
export const CHECKS: readonly Check[] = [
  chatGlm('1,000 requests, 1 GPU', 1000, ONE, 48),
  chatGlm('1,000 requests, 8 GPUs (loading of further replicas is fitted to this)', 1000, EIGHT, 32),
  chatGlm('10,000 requests, 1 GPU', 10_000, ONE, 356),
  chatGlm('10,000 requests, 8 GPUs', 10_000, EIGHT, 67),
  ...[256, 512, 4096].map((limit) => vicuna(limit)),
]

function chatGlm(name: string, requests: number, plan: Plan, paper_s: number): Check {
  const model = 'chatglm3-6b'
  return {
    ...{ name: `${model}, limit 512, ${name}, with loading`, paper_s },
    estimate: (seed) => {
      const { nodes, ...file } = ensembling(requests, 512, { seed })
      return durationS({ ...file, nodes: nodes.filter((node) => node.model === model) }, plan, seed, true)
    },
  }
}

function vicuna(limit: number): Check {
  const model = 'vicuna-13b-v1.5'
  return {
    name: `${model}, 1,000 requests of ShareGPT, 1 GPU, ${limit === 4096 ? 'no limit' : `limit ${limit}`}, without loading`,
    // Estimated by the authors; 92 real.
    paper_s: 98,
    estimate: (seed) => {
      const { nodes, ...file } = shareGpt(model, 1000, { seed })
      return durationS(
        { ...file, nodes: nodes.map((node) => ({ ...node, max_output_tokens: limit })) },
        ONE,
        seed,
        false,
      )
    },
  }
}

function durationS(file: Parameters<typeof workloadOf>[0], plan: Plan, seed: number, loading: boolean): number {
  const world = new SimulatedWorld(workloadOf(file, lengthsOf, seed * 10 + 1), A100_COSTS.models, [{ gpus: 8 }])
  const end_s = world.forecast(world.start(), new Map([[0, plan]]))?.end_s ?? Number.NaN
  return end_s - (loading ? 0 : world.loadingS(0, plan))
}
