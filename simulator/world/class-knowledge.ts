/**
 * What engines know about classes of programs: from programs that ended before the run, and from those that end in it. The
 * control plane sends it to engines at intervals. Programs that have not ended count only while they have open calls, since
 * others may be over although their client has not said so.
 */
import { invariant } from '../../gpu-agent/engine/invariant.ts'
import type { ClassTables } from '../../gpu-agent/engine/order/policy.ts'
import { ClassPool } from '../../src/core/classes/class-pool.ts'
import { ClassSketch } from '../../src/core/classes/class-sketch.ts'
import { type EndedProgram, endedAsStated } from '../../src/core/classes/ended-program.ts'
import { type IndexTable, indexTable } from '../../src/core/classes/index-table.ts'
import { LogSketch } from '../../src/core/classes/log-sketch.ts'
import { programClass } from '../../src/core/program/program-class.ts'
import type { KnownTools } from '../../src/core/tools/forecast.ts'
import { sampledTurns } from '../../src/core/tools/program-turn.ts'
import { ToolBook } from '../../src/core/tools/tool-book.ts'
import type { Objective } from '../../src/protocol/objective.ts'
import type { WorkloadProgram } from '../workloads/program.ts'
import { programTurns } from '../workloads/program-turns.ts'

/** Programs end before their class is told for the first time; while few have ended it is told after each. */
const TOLD_INTERVAL_US = 60_000_000
const TOLD_AT_ONCE_ENDS = 256
const TOLD_SOON_US = 2_000_000

interface KnownClass {
  readonly name: string
  /** Of its tenant. */
  readonly pool: ClassPool
  readonly sketch: ClassSketch
  /** Programs that have not ended. */
  readonly open: Map<string, GoingOn>
  told_us: number
  tables: Partial<Record<Objective, IndexTable>>
}

interface GoingOn {
  /** So far, in calls that have ended. */
  output_tokens: number
  open_calls: number
}

export class ClassKnowledge implements ClassTables {
  readonly #classes = new Map<string, KnownClass>()
  readonly #pools = new Map<string, ClassPool>()
  readonly #told_us: number | null
  readonly #with_tools: boolean
  /** Tools of each tenant's classes together. */
  readonly #tenants = new Map<string, ToolBook>()

  /**
   * `told_us`: engines are told of a class at most so often. Null: as the control plane tells them. `with_tools`: what programs
   * did between their calls is learned too, and known at once.
   */
  constructor(told_us: number | null = null, with_tools = false) {
    this.#told_us = told_us
    this.#with_tools = with_tools
  }

  /** A program of the class has started a call. */
  called(tenant: string, program_class: string, program: string): void {
    const { open } = this.#of(tenant, program_class)
    const before = open.get(program)
    if (before === undefined) open.set(program, { output_tokens: 0, open_calls: 1 })
    else before.open_calls += 1
  }

  /** A call of a program of the class has ended. */
  wentOn(tenant: string, program_class: string, program: string, output_tokens: number, now_us: number): void {
    const known = this.#of(tenant, program_class)
    const going_on = known.open.get(program)
    invariant(going_on !== undefined, 'a call that ends has begun')
    going_on.output_tokens += output_tokens
    going_on.open_calls -= 1
    this.#tell(known, now_us)
  }

  /** A program of the class has ended. */
  ended(tenant: string, program_class: string, name: string, program: WorkloadProgram, now_us: number): void {
    const known = this.#of(tenant, program_class)
    known.open.delete(name)
    const turns = this.#with_tools ? sampledTurns(programTurns(program), program.id) : []
    known.sketch.add({ ...endedProgram(program), turns })
    this.#tell(known, now_us)
    if (turns.length === 0) return
    const book = this.#tenants.get(tenant) ?? new ToolBook()
    this.#tenants.set(tenant, book)
    for (const turn of turns) book.add(turn)
  }

  /** What is known of the tools of a class and its tenant. */
  toolsOf(tenant: string, program_class: string): KnownTools {
    return {
      of_class: this.#of(tenant, program_class).sketch.tools,
      of_tenant: () => this.#tenants.get(tenant) ?? null,
    }
  }

  tableOf(tenant: string, program_class: string, objective: Objective): IndexTable {
    const known = this.#of(tenant, program_class)
    if (known.tables[objective] === undefined) {
      known.sketch.going_on = new LogSketch()
      for (const { output_tokens, open_calls } of known.open.values()) {
        if (open_calls > 0 && output_tokens > 0) known.sketch.going_on.add(output_tokens)
      }
      known.tables[objective] = indexTable(known.sketch, objective, known.pool.beside(known.sketch))
    }
    return known.tables[objective]
  }

  #of(tenant: string, program_class: string): KnownClass {
    const key = JSON.stringify([tenant, program_class])
    const known = this.#classes.get(key)
    if (known !== undefined) return known
    const pool = this.#pools.get(tenant) ?? new ClassPool()
    this.#pools.set(tenant, pool)
    const first: KnownClass = {
      name: program_class,
      pool,
      sketch: new ClassSketch(),
      open: new Map(),
      told_us: 0,
      tables: {},
    }
    this.#classes.set(key, first)
    return first
  }

  #tell(known: KnownClass, now_us: number): void {
    const usual_us = known.sketch.ends < TOLD_AT_ONCE_ENDS ? TOLD_SOON_US : TOLD_INTERVAL_US
    if (now_us < known.told_us + (this.#told_us ?? usual_us)) return
    known.told_us = now_us
    known.tables = {}
    known.pool.set(known.name, known.sketch)
  }
}

/** The label that a program's client gives, and the program's class. `labelled` false: no client gives one. */
export function classOf(program: WorkloadProgram, labelled: boolean): { app: string | null; class: string } {
  const { label = program.app ?? program.workload } = program.client ?? {}
  const app = labelled ? label : null
  return { app, class: programClass({ app, system_prompt: null, tool_names: [] }) }
}

function endedProgram({ calls }: WorkloadProgram): EndedProgram {
  return endedAsStated(
    calls.map(({ parents, prompt_tokens, shared_prefix_tokens, output_tokens, tool_seconds }) => ({
      ...{ parents, added_prompt_tokens: prompt_tokens - shared_prefix_tokens, output_tokens },
      tool_us: Math.round((tool_seconds ?? 0) * 1e6),
    })),
  )
}
