/** The planner's table of costs as a file: one row for each model and number of GPUs. A row that is measured again takes the place of the old one. */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { CostsFile, type ModelCosts } from '../../gpu-agent/planner/costs/model-costs.ts'

const PROVENANCE = 'Measured by npm run calibrate. Each table says where and when.'

/** Throws RangeError if the file is there and is no table. */
export function readTable(file: string): ModelCosts[] {
  if (!existsSync(file)) return []
  let data: unknown
  try {
    data = JSON.parse(readFileSync(file, 'utf8'))
  } catch (error) {
    throw new RangeError(`${file} is not JSON: ${error instanceof Error ? error.message : String(error)}`)
  }
  const found = CostsFile.safeParse(data)
  if (found.success) return found.data.models
  const [issue] = found.error.issues
  throw new RangeError(`${file} is no table of costs: ${issue?.path.join('.')}: ${issue?.message}`)
}

export function withRow(models: readonly ModelCosts[], row: ModelCosts): ModelCosts[] {
  const others = models.filter(({ model, tp }) => model !== row.model || tp !== row.tp)
  return [...others, row].sort((a, b) => (a.model === b.model ? a.tp - b.tp : a.model < b.model ? -1 : 1))
}

/** Another process sees the old table or the new one. */
export function writeTable(file: string, models: readonly ModelCosts[]): void {
  const next = `${file}.${process.pid}.tmp`
  writeFileSync(next, `${JSON.stringify({ provenance: PROVENANCE, models }, null, 2)}\n`)
  renameSync(next, file)
}
