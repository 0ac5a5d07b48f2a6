/** The programs of a plan: drawn from a workload, or read from traces. */
import { seededRandom } from '../random.ts'
import { beyondContext, drawWorkload, readTrace, type WorkloadName, type WorkloadProgram } from '../workloads/index.ts'
import type { RunPlan } from './run-plan.ts'

type ProgramsPlan = Pick<RunPlan, 'workload' | 'programs' | 'arrivals' | 'profile'>

/** A plan's programs for one seed; files are read once. */
export class WorkloadPrograms {
  readonly #plan: ProgramsPlan
  #read: WorkloadProgram[][] | null = null

  constructor(plan: ProgramsPlan) {
    this.#plan = plan
  }

  /** Throws TraceError or RangeError for the first program that does not fit into the engines' context. */
  of(seed: number): WorkloadProgram[] {
    const { workload, programs, arrivals, profile } = this.#plan
    const context_tokens = Math.min(profile.slot_tokens_max, profile.capacity_blocks * profile.block_tokens)
    if (workload.kind === 'drawn') return drawnWithin(context_tokens, workload.name, programs, seed)
    this.#read ??= workload.files.map((file) => readTrace(file, { context_tokens }))
    // A trace's own arrivals belong to its own programs.
    if (arrivals.kind === 'trace') return this.#read.flat().slice(0, programs)
    return sample(this.#read, programs, seed)
  }
}

function drawnWithin(context_tokens: number, name: WorkloadName, programs: number, seed: number): WorkloadProgram[] {
  const drawn = drawWorkload(name, programs, seed)
  for (const program of drawn) {
    const beyond = beyondContext(program, context_tokens)
    if (beyond !== null) throw new RangeError(`${program.id}: ${beyond.field}: ${beyond.reason}`)
  }
  return drawn
}

/** Programs drawn from the files in equal shares, without replacement until a file is used up, then from all of it again. */
function sample(files: readonly WorkloadProgram[][], programs: number, seed: number): WorkloadProgram[] {
  const random = seededRandom(seed)
  const left: WorkloadProgram[][] = files.map(() => [])
  return Array.from({ length: programs }, (_, index) => {
    const at = index % files.length
    if (left[at]?.length === 0) left[at] = [...(files[at] as WorkloadProgram[])]
    const deck = left[at] as WorkloadProgram[]
    const drawn = Math.floor(random() * deck.length)
    const program = deck[drawn] as WorkloadProgram
    deck[drawn] = deck.at(-1) as WorkloadProgram
    deck.pop()
    return program
  })
}
