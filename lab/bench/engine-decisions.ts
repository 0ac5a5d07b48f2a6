/** Time of the scheduler's own work at a steady number of live calls: each call that ends is replaced by another. */
import { EmulatedModel, stepDurationUs } from '../../gpu-agent/engine/backends/emulated/emulated-backend.ts'
import { PROFILES } from '../../gpu-agent/engine/backends/emulated/profiles/index.ts'
import { createPolicy, type PolicyName } from '../../gpu-agent/engine/order/policies/index.ts'
import { Scheduler } from '../../gpu-agent/engine/scheduler.ts'
import { schedulerConfig } from '../../gpu-agent/engine/scheduler-config.ts'
import type { EngineCall } from '../../gpu-agent/engine/types.ts'
import { seededRandom } from '../../simulator/random.ts'
import { quantile } from '../../simulator/statistics.ts'
import { ClassSketch } from '../../src/core/classes/class-sketch.ts'
import { type IndexTable, indexTable } from '../../src/core/classes/index-table.ts'
import { TenantShares } from '../../src/core/pool/tenant-shares.ts'

export interface DecisionTimes {
  policy: PolicyName
  live_calls: number
  seats: number
  /** `plan`: who runs in the next step. */
  decision_us_p50: number
  decision_us_p99: number
  /** `commit`: charging the step, ending calls. */
  commit_us_p50: number
  /** `submit` of one call. */
  submit_us_p50: number
}

const WARM_STEPS = 1500
const PROMPT_TOKENS_MAX = 200
const OUTPUT_TOKENS_MAX = 120
const PROGRAMS = 500
/** Programs have received between nothing and so much, so that all levels are in use. */
const ATTAINED_US_MAX = 40_000_000

/** Programs of a class end with so many output tokens, in calls of the mean that is played. */
const CLASS_ENDS = 300
const PROGRAM_OUTPUT_TOKENS_MAX = 2_000

export function measureDecisions(policy: PolicyName, live_calls: number, steps: number): DecisionTimes {
  const profile = PROFILES['emulated-8b']
  const table = classTable()
  const { slots, slot_tokens_max, block_tokens, capacity_blocks, max_step_tokens, prefill_chunk_tokens } = profile
  const scheduler = new Scheduler(
    schedulerConfig({
      ...{ slots, slot_tokens_max, block_tokens, capacity_blocks, max_step_tokens, prefill_chunk_tokens },
      epoch: 'bench',
      policy: createPolicy({ name: policy }, { classes: { tableOf: () => table } }),
      shares: new TenantShares(),
      seats: profile.seats,
      waiting_calls_max: live_calls,
      waiting_calls_per_tenant_max: live_calls,
      swap: { costs: profile.swap_costs, recompute_us_per_token: profile.per_prefill_token_us, image_tokens_max: 1e6 },
      copies_prefixes: true,
    }),
  )
  const model = new EmulatedModel()
  const draw = generator(live_calls)
  const times = { decision: [] as number[], commit: [] as number[], submit: [] as number[] }
  const admitted = new Set<string>()
  const calls = new Map<string, EngineCall>()
  let now_us = 0
  let lease = 0
  const submit = () => {
    const call = drawCall(`${lease++}`, draw)
    calls.set(call.lease, call)
    timed(times.submit, () => scheduler.submit(call, now_us))
  }
  for (let index = 0; index < live_calls; index++) submit()
  for (let step = 0; step < WARM_STEPS + steps; step++) {
    if (step === WARM_STEPS) for (const samples of Object.values(times)) samples.length = 0
    const plan = timed(times.decision, () => scheduler.plan(now_us))
    for (const work of plan.work) {
      if (admitted.has(work.lease)) continue
      admitted.add(work.lease)
      model.admit(calls.get(work.lease) as EngineCall)
    }
    const outcome = model.step(plan)
    const started_us = now_us
    now_us += stepDurationUs(profile, plan)
    const { ended } = timed(times.commit, () => scheduler.commit(plan, outcome, started_us, now_us))
    for (const end of ended) {
      model.release(end.lease)
      calls.delete(end.lease)
      admitted.delete(end.lease)
      submit()
    }
  }
  return {
    policy,
    live_calls,
    seats: profile.seats,
    decision_us_p50: round(quantile(times.decision, 0.5)),
    decision_us_p99: round(quantile(times.decision, 0.99)),
    commit_us_p50: round(quantile(times.commit, 0.5)),
    submit_us_p50: round(quantile(times.submit, 0.5)),
  }
}

/** For policies that learn. */
function classTable(): IndexTable {
  const draw = generator(1)
  const sketch = new ClassSketch()
  for (let end = 0; end < CLASS_ENDS; end++) {
    const output_tokens = 1 + draw(PROGRAM_OUTPUT_TOKENS_MAX)
    const calls = Math.ceil((2 * output_tokens) / OUTPUT_TOKENS_MAX)
    sketch.add({ output_tokens, calls, path_us: 1, service_us: 1, tool_us: 0, later_prompt_tokens: output_tokens })
  }
  return indexTable(sketch)
}

function drawCall(lease: string, draw: (below: number) => number): EngineCall {
  const program = draw(PROGRAMS)
  const settled_service_us = draw(ATTAINED_US_MAX)
  return {
    lease,
    tenant: `tenant ${program % 4}`,
    tenant_weight: 1,
    program: `program ${program}`,
    thread: '0',
    ...{ class: 'class', sequence: null, open_elsewhere_us: 0 },
    program_output_tokens: Math.floor((settled_service_us / ATTAINED_US_MAX) * PROGRAM_OUTPUT_TOKENS_MAX),
    settled_service_us,
    critical_path_us: settled_service_us,
    program_wait_us: draw(ATTAINED_US_MAX),
    cache_salt: `salt ${program % 4}`,
    prompt: Array.from({ length: 1 + draw(PROMPT_TOKENS_MAX) }, (_, index) => program * 1000 + index),
    max_output_tokens: 1 + draw(OUTPUT_TOKENS_MAX),
    sampling: { temperature: 0, top_p: 1, seed: 0 },
  }
}

function timed<T>(samples: number[], work: () => T): T {
  const started_ms = performance.now()
  const result = work()
  samples.push((performance.now() - started_ms) * 1000)
  return result
}

/** Whole numbers below a bound: every policy and size meets calls of the same kind. */
function generator(seed: number): (below: number) => number {
  const random = seededRandom(seed)
  return (below) => Math.floor(random() * below)
}

function round(value: number): number {
  return Math.round(value * 100) / 100
}
