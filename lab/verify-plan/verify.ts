/** Plans traces, and plays each with the number of engines that its plan names and with one fewer. */
import { writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import path from 'node:path'
import { mean } from '../../simulator/statistics.ts'
import { readTrace, type WorkloadProgram } from '../../simulator/workloads/index.ts'
import { withSystem } from './emulated-system.ts'
import { PACED } from './paced-profile.ts'
import { type PlannedTrace, planFlags, planTrace } from './plan-trace.ts'
import { playTrace } from './play-trace.ts'
import { drawTrace, type TraceSpec, traceLine, withoutAnswers } from './traces.ts'
import { type PlayedFleet, p95Ms } from './verdict.ts'

const LOAD_INTERVAL_MS = 10_000

export interface TraceToVerify {
  name: string
  p95_ms: number
  programs: readonly WorkloadProgram[]
}

export interface VerifiedPlan extends TraceToVerify {
  plan: PlannedTrace
}

export function drawnTrace(spec: TraceSpec): TraceToVerify {
  return { name: spec.name, p95_ms: spec.p95_ms, programs: drawTrace(spec) }
}

/** Throws TraceError for a file that is none. */
export function traceOfFile(file: string, p95_ms: number): TraceToVerify {
  return { name: path.basename(file), p95_ms, programs: readTrace(file) }
}

/** Its file is written to the folder, and planned and played as it is read back. */
export async function planned(
  { name, p95_ms, programs: given }: TraceToVerify,
  folder: string,
  policy: string,
): Promise<VerifiedPlan> {
  const file = path.join(folder, `${name}.jsonl`)
  writeFileSync(file, given.map((program) => `${traceLine(withoutAnswers(program))}\n`).join(''))
  const plan = await planTrace(planFlags(file, profileFile(folder), p95_ms, policy))
  return { name, p95_ms, programs: readTrace(file), plan }
}

export function writeProfile(folder: string): void {
  writeFileSync(profileFile(folder), JSON.stringify(PACED))
}

export async function playedFleet(
  { name, programs, plan }: VerifiedPlan,
  fleet: PlayedFleet['fleet'],
  folder: string,
  onProgram: (ended: number) => void,
): Promise<PlayedFleet> {
  const engines = fleet === 'named' ? plan.engines : plan.engines - 1
  const spec = { engines, profile_file: profileFile(folder), context_tokens: PACED.slot_tokens_max }
  const loads: number[] = []
  const sampling = setInterval(() => loads.push(loadavg()[0] ?? 0), LOAD_INTERVAL_MS)
  try {
    const played = await withSystem({ ...spec, policy: plan.policy }, (endpoint) =>
      playTrace(endpoint, programs, onProgram),
    )
    return {
      ...{ trace: name, engines, fleet, target_ms: plan.target_ms },
      predicted_p95_ms: plan.p95_ms.get(engines) ?? Number.NaN,
      achieved_p95_ms: p95Ms(played),
      ...{ programs: programs.length, calls: played.calls, makespan_s: played.makespan_s },
      cached_prompt_share: played.cached_tokens / played.prompt_tokens,
      retries: played.retries,
      load: mean(loads.length === 0 ? [loadavg()[0] ?? 0] : loads),
    }
  } finally {
    clearInterval(sampling)
  }
}

function profileFile(folder: string): string {
  return path.join(folder, `${PACED.name}.json`)
}
