/**
 * Which plans of a node are worth playing in full. A node with thousands of requests computes at a steady pace, so its plans can be told apart by the
 * pace of a few hundred requests: of those with as many GPUs, only the fastest and those close to it are kept.
 *
 * Nodes with fewer requests, and those whose requests follow each other, keep all plans: there the last requests decide, and with them latency.
 */
import { gpusOf, type Plan } from '../plan.ts'
import { type ReplicaConfig, ReplicaRun } from './replica-run.ts'

/** From so many requests for each GPU on. */
export const STEADY_REQUESTS = 500
/** Played for each degree of tensor parallelism: what fills all seats, and as much again. */
const SAMPLE = 512
/** Slower than the fastest by no more than this. */
const CLOSE = 1.15

export function steadyPlans(
  plans: readonly Plan[],
  configs: ReadonlyMap<number, ReplicaConfig>,
  input_tokens: Int32Array,
  output_tokens: Int32Array,
): Plan[] {
  const known_tokens = input_tokens.subarray(0, SAMPLE)
  const left_tokens = output_tokens.subarray(0, SAMPLE)
  const requests = {
    known_tokens,
    left_tokens,
    ready_s: new Float64Array(known_tokens.length),
    next: new Int32Array(known_tokens.length).fill(-1),
  }
  const takes_s = new Map<number, number>()
  for (const [tp, config] of configs) {
    const run = new ReplicaRun(config, requests, 0)
    run.run()
    takes_s.set(tp, run.now_s)
  }
  const pace = ({ dp, tp }: Plan) => dp / (takes_s.get(tp) ?? Number.POSITIVE_INFINITY)
  return plans.filter((plan) => {
    const rivals = plans.filter((one) => gpusOf(one) === gpusOf(plan))
    return pace(plan) * CLOSE >= Math.max(...rivals.map(pace))
  })
}
