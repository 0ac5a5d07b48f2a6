/** Between the page and the thread that plays a capacity plan. Plain data. */
export type Measure = 'ms_per_token' | 'program_s'

export interface PlanRequest {
  /** As the API gave them: the thread checks them. */
  tenants: { tenant: string; weight: number; programs: unknown[] }[]
  /** A name of PLAN_PROFILES, or the text of a file. */
  profile: { name: string } | { file: string; text: string }
  policies: string[]
  balancer: string
  measure: Measure
  at_most: number
  engines_max: number
  /** Of a GPU for an hour. Null: not asked. */
  gpu_cost: number | null
  /** Null: the one that was called; several are refused. */
  model: string | null
}

export interface PlannedSize {
  engines: number
  p95: number
  meets: boolean
  busy_share: number
  cached_prompt_share: number
}

export interface PlannedFleet {
  profile: string
  policy: string
  balancer: string
  fewest_engines: number | null
  gpus: number | null
  cost_per_hour: number | null
  played: PlannedSize[]
}

export interface PlanResult {
  fleets: PlannedFleet[]
  sentence: string
  advice: 'more_engines' | 'more_traffic' | 'floor' | null
  served: { programs: number; calls: number; span_s: number; engines: number; p95: number; cached_prompt_share: number }
  p95_as_served: number
  too_long: number
}

export type PlanMessage =
  | { kind: 'playing'; profile: string; engines: number }
  | { kind: 'planned'; result: PlanResult }
  /** What was asked cannot be planned; the text says why. */
  | { kind: 'refused'; reason: string }
