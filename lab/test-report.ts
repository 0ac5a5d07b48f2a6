import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { z } from 'zod'

const MESSAGE_CHARS_MAX = 500
// biome-ignore lint/suspicious/noControlCharactersInRegex: a terminal's colours begin with one.
const COLOUR = /\u001b\[[0-9;]*m/g

const Report = z.object({
  testResults: z.array(
    z.object({
      name: z.string(),
      status: z.string(),
      message: z.string().default(''),
      assertionResults: z.array(
        z.object({
          fullName: z.string(),
          status: z.string(),
          failureMessages: z.array(z.string()).nullish(),
        }),
      ),
    }),
  ),
})

export interface TestReport {
  passed: number
  /** `file: name`, and below it the beginning of why. A file that could not be loaded is one of them. */
  failed: string[]
  /** `file: name`. */
  skipped: string[]
}

/** What Vitest's JSON report at `file` says, its paths relative to `root`. All empty if there is none, of a Vitest that did not start. */
export function reportOf(file: string, root: string): TestReport {
  const report: TestReport = { passed: 0, failed: [], skipped: [] }
  if (!existsSync(file)) return report
  for (const result of Report.parse(JSON.parse(readFileSync(file, 'utf8'))).testResults) {
    const name = path.relative(root, result.name)
    const tests = result.assertionResults
    for (const { fullName, status, failureMessages } of tests) {
      if (status === 'passed') report.passed += 1
      else if (status === 'failed') report.failed.push(`${name}: ${fullName}${why(failureMessages?.join('\n'))}`)
      else report.skipped.push(`${name}: ${fullName}`)
    }
    const has_failed_test = tests.some(({ status }) => status === 'failed')
    if (result.status === 'failed' && !has_failed_test) report.failed.push(`${name}${why(result.message)}`)
  }
  return report
}

function why(message = ''): string {
  const text = message.replace(COLOUR, '').trim().slice(0, MESSAGE_CHARS_MAX)
  return text === '' ? '' : `\n    ${text.replaceAll('\n', '\n    ')}`
}
