/** Draws programs of a named workload: the same name, number and seed give the same programs. */
import type { WorkloadProgram } from './program.ts'

export const WORKLOAD_NAMES = [
  'sharegpt',
  'bfcl',
  'lats',
  'mixed',
  'infercept',
  'infercept-single',
  'toolbench',
] as const
export type WorkloadName = (typeof WORKLOAD_NAMES)[number]

/** `programs`: how many. Ids are unique within a draw and name workload, seed and number. */
export function drawWorkload(name: WorkloadName, programs: number, seed: number): WorkloadProgram[] {
  throw new Error(`the profile of ${name} is not fitted (${programs} programs, seed ${seed})`)
}
