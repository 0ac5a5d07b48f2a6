/**
 * The planner's vocabulary (SamuLLM §3). A model execution plan is (dp, tp): dp replicas, each on tp GPUs. A stage is a set of nodes that run at the
 * same time with their plans; it ends when the first of them has answered all its requests. An application plan is a sequence of stages.
 */

export interface Plan {
  dp: number
  tp: number
}

/** By node. */
export type Stage = ReadonlyMap<number, Plan>

export interface PlannedNode {
  node: number
  plan: Plan
  /** Null: it goes on from the stage before, without loading. */
  loading_s: number | null
  /** GPUs of each replica, counted over all hosts. */
  gpus: readonly (readonly number[])[]
  finishes: boolean
  /** GPU seconds in which it computes in this stage. */
  busy_gpu_s: number
}

export interface PlannedStage {
  start_s: number
  end_s: number
  nodes: readonly PlannedNode[]
}

export interface ApplicationPlan {
  stages: readonly PlannedStage[]
  total_s: number
}

export type PlanOutcome = { ok: true; plan: ApplicationPlan } | { ok: false; reason: string }

export function gpusOf({ dp, tp }: Plan): number {
  return dp * tp
}

export function samePlan(a: Plan | null | undefined, b: Plan | null | undefined): boolean {
  return a?.dp === b?.dp && a?.tp === b?.tp
}

export function gpusOfStage(stage: Stage): number {
  let gpus = 0
  for (const plan of stage.values()) gpus += gpusOf(plan)
  return gpus
}
