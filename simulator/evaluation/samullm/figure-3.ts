/** SamuLLM's Fig. 3: how many requests decode in each iteration of vicuna-13b with 1,000 requests of ShareGPT, planned and with other lengths. */
import { A100_COSTS } from '../../../gpu-agent/planner/costs/a100.ts'
import { IterationCosts } from '../../../gpu-agent/planner/costs/iteration-costs.ts'
import { lengthsOf } from '../../../gpu-agent/planner/lengths/model-lengths.ts'
import { LOGGED_ENGINE } from '../../../gpu-agent/planner/runs/engine-settings.ts'
import { ReplicaRun } from '../../../gpu-agent/planner/runs/replica-run.ts'
import { shareGpt } from '../../planner/paper/applications.ts'
import type { Panel } from '../figure.ts'
import { seriesColor } from '../plots/colors.ts'
import { type LinePoint, lineChart } from '../plots/line-chart.ts'
import { workloadOf } from './play-cell.ts'

const MODEL = 'vicuna-13b-v1.5'
const REQUESTS = 1000
/** Points of a line. */
const POINTS = 150

export function figure3(seed: number): Panel {
  const lines = [
    { name: 'as planned', stream: 1 },
    { name: 'with other lengths', stream: 2 },
  ].map(({ name, stream }, at) => ({ name, color: seriesColor(at), points: runningRequests(seed, stream) }))
  return {
    name: 'figure-3-running-requests',
    alt: `Requests that decode in each iteration of ${MODEL}, ${REQUESTS} requests of ShareGPT: ${lines.map(({ name }) => name).join(' and ')}`,
    svg: lineChart({
      title: `${MODEL}, ${REQUESTS} requests of ShareGPT`,
      x: 'decode iteration',
      y: 'running requests',
      lines,
    }),
  }
}

function runningRequests(seed: number, stream: number): LinePoint[] {
  const costs = A100_COSTS.models.find(({ model, tp }) => model === MODEL && tp === 1)
  const [node] = workloadOf(shareGpt(MODEL, REQUESTS, { seed }), lengthsOf, seed * 10 + stream).nodes
  if (costs === undefined || node === undefined) throw new RangeError(`${MODEL} has costs and requests`)
  const running: number[] = []
  const { block_tokens } = LOGGED_ENGINE
  const run = new ReplicaRun(
    {
      ...LOGGED_ENGINE,
      costs: new IterationCosts(costs),
      step_tokens: costs.max_model_tokens,
      capacity_blocks: Math.floor(costs.kv_tokens / block_tokens),
      onDecodes: (calls, iterations) => {
        for (let at = 0; at < iterations; at += 1) running.push(calls)
      },
    },
    {
      known_tokens: node.input_tokens,
      left_tokens: node.output_tokens,
      ready_s: new Float64Array(REQUESTS),
      next: node.next,
    },
    0,
  )
  run.run()
  const every = Math.max(1, Math.floor(running.length / POINTS))
  return running.flatMap((calls, x) =>
    x % every === 0 ? [{ x, y: { mean: calls, half_width: null, samples: 1 } }] : [],
  )
}
