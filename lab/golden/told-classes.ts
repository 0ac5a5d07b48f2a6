/** What a trace's policies know of classes of programs: what it has told so far, in the form in which an agent tells a plug-in. */
import type { ClassTables } from '../../gpu-agent/engine/order/policy.ts'
import type { ToldClass } from '../../gpu-agent/src/fronts/vllm/channel/class-teller.ts'
import type { IndexTable } from '../../src/core/classes/index-table.ts'
import type { Objective } from '../../src/protocol/objective.ts'

export class ToldClasses implements ClassTables {
  readonly #tables = new Map<string, IndexTable>()

  take(told: readonly ToldClass[]): void {
    for (const { tenant, class: name, objective, table } of told) this.#tables.set(key(tenant, name, objective), table)
  }

  tableOf(tenant: string, program_class: string, objective: Objective): IndexTable | null {
    return this.#tables.get(key(tenant, program_class, objective)) ?? null
  }
}

function key(...of: [tenant: string, name: string, objective: Objective]): string {
  return JSON.stringify(of)
}
