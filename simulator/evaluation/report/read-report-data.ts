/** evaluation.json from disk. What is none is refused by its first fault. */
import { readFileSync } from 'node:fs'
import { fail } from '../../../cli/flags.ts'
import { ReportData } from './report-data.ts'

export function readReportData(file: string): ReportData {
  try {
    const verdict = ReportData.safeParse(JSON.parse(readFileSync(file, 'utf8')))
    if (verdict.success) return verdict.data
    const [issue] = verdict.error.issues
    return fail(
      `${file} is not the data of an evaluation: ${issue?.path.join('.')}: ${issue?.message}. Run npm run evaluate`,
    )
  } catch (error) {
    return fail(`Cannot read ${file}: ${error instanceof Error ? error.message : String(error)}`)
  }
}
