/** What one `run` command asks for: programs, and how they are to be played. */
import type { WorkloadName } from '../workloads/index.ts'
import type { ProviderConfig } from '../world/sim-provider.ts'
import type { PlayPlan } from './play-plan.ts'

export type WorkloadSource = { kind: 'drawn'; name: WorkloadName } | { kind: 'traces'; files: readonly string[] }

/** Plain data: it travels to worker threads. */
export interface RunPlan extends PlayPlan {
  workload: WorkloadSource
  programs: number
  /** A hosted API in place of engines, behind the queue. Null: none. */
  provider: ProviderConfig | null
}
