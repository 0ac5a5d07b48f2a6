/**
 * The prior's tables as the Python policy reads them (order/policies/learned_priors.json): the plug-in makes no table, and
 * orders classes of which it was told nothing by these.
 */
import { indexTable } from '../../src/core/classes/index-table.ts'
import { OBJECTIVES } from '../../src/protocol/objective.ts'

export const PRIORS_FILE = 'src/switchyard_vllm/order/policies/learned_priors.json'

/** A line for each step. */
export function learnedPriors(): string {
  const tables = OBJECTIVES.map((objective) => {
    const { steps, ...others } = indexTable(null, objective)
    const fields = Object.entries(others).map(([name, value]) => `"${name}":${JSON.stringify(value)}`)
    const lines = steps.map((step) => JSON.stringify(step)).join(',\n')
    return `"${objective}":{${fields.join(',')},"steps":[\n${lines}\n]}`
  })
  return `{${tables.join(',\n')}}\n`
}
