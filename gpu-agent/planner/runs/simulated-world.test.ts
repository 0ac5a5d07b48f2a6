import { describe, expect, it } from 'vitest'
import { ApplicationTokens } from '../../../src/protocol/application-tokens.ts'
import { drawWorkload } from '../application.ts'
import { A100_COSTS } from '../costs/a100.ts'
import { lengthTable } from '../lengths/length-table.ts'
import { lengthsOf } from '../lengths/model-lengths.ts'
import type { ApplicationPlan, Plan, PlanOutcome } from '../plan.ts'
import { completePlan } from '../search/complete-plan.ts'
import { followPlan } from '../search/follow-plan.ts'
import { greedy } from '../search/greedy.ts'
import { maxHeuristic, minHeuristic } from '../search/heuristics.ts'
import { improvedPlan } from '../search/improved.ts'
import { simpleCosts } from '../testing/costs.ts'
import { SimulatedWorld } from './simulated-world.ts'

/** An iteration takes a second, whatever is in it. */
const SECOND = { base_us: 1_000_000, per_sequence_us: 0, per_token_us: 0, per_prompt_token_us: 0 }
const settings = { seats: 4, block_tokens: 16, step_tokens: 2048, padding_tokens_max: null }
const lengths = (tokens: number) => lengthTable(Array(101).fill(tokens), tokens, 1000)
const one: Plan = { dp: 1, tp: 1 }

function world(
  nodes: readonly object[],
  outputs: Readonly<Record<string, number>>,
  gpus: number,
  loading_s = 5,
): SimulatedWorld {
  const file = ApplicationTokens.parse({ name: 'test', nodes })
  const drawn = drawWorkload(
    file,
    (model) => lengths(outputs[model] ?? 1),
    () => 0.5,
  )
  if (!drawn.ok) throw new Error(drawn.reason)
  const costs = Object.keys(outputs).map((model) =>
    simpleCosts(SECOND, { model, loading_s, max_model_tokens: 1000, kv_tokens: 4000 }),
  )
  return new SimulatedWorld(drawn.workload, costs, [{ gpus }], settings)
}

function planned(outcome: PlanOutcome): ApplicationPlan {
  if (!outcome.ok) throw new Error(outcome.reason)
  return outcome.plan
}

describe('a stage of requests', () => {
  it('takes the iterations of its requests, and loading', () => {
    // 4 seats, 8 requests of 10 tokens: two rounds, each of a prefill and 9 decodes. Loading 5.
    const play = world([{ id: 'a', model: 'm', requests: { count: 8, tokens: 5 } }], { m: 10 }, 2)
    const forecast = play.forecast(play.start(), new Map([[0, one]]))
    expect(forecast?.end_s).toBeCloseTo(25, 6)
    const halved = play.forecast(play.start(), new Map([[0, { dp: 2, tp: 1 }]]))
    expect(halved?.end_s).toBeCloseTo(15, 6)
  })

  it('starts a request when those that it waits for end: a pipeline of two models', () => {
    const play = world(
      [
        { id: 'a', model: 'm', requests: { count: 8, tokens: 5 } },
        { id: 'b', model: 'n', from: { nodes: ['a'] } },
      ],
      { m: 10, n: 3 },
      2,
    )
    const stage = new Map([
      [0, one],
      [1, one],
    ])
    const forecast = play.forecast(play.start(), stage)
    // The second half of a ends at 25, and is answered by b in 3 iterations.
    expect(forecast?.nodes.get(0)?.end_s).toBeCloseTo(25, 6)
    expect(forecast?.nodes.get(1)?.end_s).toBeCloseTo(28, 6)
    const after = forecast?.stateAt(25)
    expect(after?.nodes.map(({ done }) => done)).toEqual([true, false])
  })

  it('plays the chunks of a document one after the other, and keeps them on one replica', () => {
    const node = { id: 'a', model: 'm', documents: { chunks: [3, 1], chunk_tokens: 10 } }
    const play = world([node], { m: 4 }, 2, 0)
    expect(play.forecast(play.start(), new Map([[0, { dp: 2, tp: 1 }]]))?.end_s).toBeCloseTo(12, 6)
    expect(play.forecast(play.start(), new Map([[0, one]]))?.end_s).toBeCloseTo(12, 6)
  })

  it('goes on without loading with the same plan, and computes what was generated again with another', () => {
    const play = world(
      [
        { id: 'a', model: 'm', requests: { count: 4, tokens: 5 } },
        { id: 'b', model: 'n', requests: { count: 4, tokens: 5 } },
      ],
      { m: 20, n: 10 },
      4,
    )
    const both = new Map([
      [0, one],
      [1, one],
    ])
    const first = play.forecast(play.start(), both)
    expect(first?.end_s).toBeCloseTo(15, 6)
    const state = first?.stateAt(15)
    if (state === undefined) throw new Error('no state')
    expect(play.forecast(state, new Map([[0, one]]))?.end_s).toBeCloseTo(25, 6)
    // Loading 5, and the prompt with what was generated in one iteration that gives the eleventh token.
    expect(play.forecast(state, new Map([[0, { dp: 2, tp: 1 }]]))?.end_s).toBeCloseTo(30, 6)
  })

  it('says the same in a sketch as in full where replicas are equal', () => {
    const play = world([{ id: 'a', model: 'm', requests: { count: 8, tokens: 5 } }], { m: 10 }, 2)
    const stage = new Map([[0, { dp: 2, tp: 1 }]])
    const [sketch, full] = [play.forecast(play.start(), stage, 'sketch'), play.forecast(play.start(), stage)]
    expect(sketch?.end_s).toBeCloseTo(full?.end_s ?? 0, 9)
    expect(sketch?.nodes.get(0)?.workBy(10)).toBeCloseTo(full?.nodes.get(0)?.workBy(10) ?? 0, 3)
  })
})

describe('a sketch of thousands of requests', () => {
  it('is close to the whole, at its end and on the way', () => {
    const file = ApplicationTokens.parse({
      name: 'test',
      nodes: [{ id: 'a', model: 'chatglm3-6b', requests: { count: 8000, tokens: 30 }, max_output_tokens: 512 }],
    })
    const drawn = drawWorkload(file, lengthsOf, halton())
    if (!drawn.ok) throw new Error(drawn.reason)
    const play = () => new SimulatedWorld(drawn.workload, A100_COSTS.models, [{ gpus: 8 }])
    for (const dp of [1, 2, 5]) {
      const stage = new Map([[0, { dp, tp: 1 }]])
      const [sketched, whole] = [play(), play()]
      const sketch = sketched.forecast(sketched.start(), stage, 'sketch')
      const full = whole.forecast(whole.start(), stage)
      if (sketch === null || full === null) throw new Error('it fits')
      expect(Math.abs(sketch.end_s / full.end_s - 1)).toBeLessThan(0.04)
      const workBy = (share: number) => full.nodes.get(0)?.workBy(full.end_s * share) ?? Number.NaN
      for (const share of [0.3, 0.6, 0.9]) {
        const off = (sketch.nodes.get(0)?.workBy(full.end_s * share) ?? Number.NaN) - workBy(share)
        expect(Math.abs(off / workBy(1))).toBeLessThan(0.04)
      }
    }
  })
})

/** Evenly spread over [0, 1) (base 3), also if dealt out to 1, 2 or 5. */
function halton(): () => number {
  let index = 0
  return () => {
    index += 1
    let [value, share] = [0, 1 / 3]
    for (let rest = index; rest > 0; rest = Math.floor(rest / 3)) {
      value += (rest % 3) * share
      share /= 3
    }
    return value
  }
}

describe('whole plans', () => {
  const nodes = [
    { id: 'a', model: 'm', requests: { count: 12, tokens: 5 } },
    { id: 'b', model: 'n', requests: { count: 40, tokens: 5 } },
    { id: 'c', model: 'o', documents: { chunks: [6, 2, 2], chunk_tokens: 10 } },
    { id: 'd', model: 'p', from: { nodes: ['c'], each: 2 } },
  ]
  const outputs = { m: 20, n: 10, o: 8, p: 12 }
  const make = (times = 1) =>
    world(nodes, Object.fromEntries(Object.entries(outputs).map(([model, tokens]) => [model, tokens * times])), 4)

  it.each([
    ['greedy', greedy()],
    ['greedy without preemption', greedy({ preempt: false })],
    ['max', maxHeuristic],
    ['min', minHeuristic()],
    ['min without preemption', minHeuristic({ preempt: false })],
  ])('%s ends all nodes, each after its inputs began', (_name, rule) => {
    const { stages, total_s } = planned(completePlan(make(), rule))
    expect(
      new Set(stages.flatMap((stage) => stage.nodes.filter((node) => node.finishes).map(({ node }) => node))),
    ).toEqual(new Set([0, 1, 2, 3]))
    expect(stages.at(-1)?.end_s).toBe(total_s)
    const first = (node: number) => stages.findIndex((stage) => stage.nodes.some((one) => one.node === node))
    expect(first(3)).toBeGreaterThanOrEqual(first(2))
  })

  it('ours is at least as good as every rule, and equal from run to run', () => {
    const [ours, again] = [planned(improvedPlan(make())), planned(improvedPlan(make()))]
    expect(again).toEqual(ours)
    for (const rule of [greedy(), maxHeuristic, minHeuristic()])
      expect(ours.total_s).toBeLessThanOrEqual(planned(completePlan(make(), rule)).total_s + 1e-9)
  })

  it('followed without surprise, a plan takes the time that it says', () => {
    const plan = planned(improvedPlan(make()))
    expect(planned(completePlan(make(), followPlan(plan))).total_s).toBeCloseTo(plan.total_s, 6)
  })

  it.each([0.5, 2])('followed while outputs are %d times as long, every node still ends', (times) => {
    const plan = planned(improvedPlan(make()))
    const real = planned(completePlan(make(times), followPlan(plan)))
    expect(real.stages.flatMap((stage) => stage.nodes.filter((node) => node.finishes))).toHaveLength(4)
  })
})
