/**
 * `npm run deploy -- --verify URL`: what a first user would do, one step after the other, against a system that is deployed.
 * Each step says what it found. A step that fails says what to look at next, and steps that need it are left out.
 */
import { AdminClient, TenantClient } from '../switchyard/client.ts'
import { CHECKS, CheckFailed, type CheckName, type Found } from './verify-checks.ts'

export interface VerifyOptions {
  url: string
  /** Null: calls, streams and batches are left out. */
  api_key: string | null
  /** Null: engines are left out. */
  admin_key: string | null
  /** Null: the admin key opens /metrics too. */
  metrics_token: string | null
  /** Null: the first that the key may use. */
  model: string | null
  batch_limit_ms: number
}

export interface Finding {
  check: CheckName
  result: 'ok' | 'FAILED' | 'left out'
  detail: string
}

/** In order. `told`: called with each as it is found. */
export async function verify(options: VerifyOptions, told: (finding: Finding) => void): Promise<Finding[]> {
  const url = options.url.replace(/\/+$/, '')
  const { api_key, admin_key } = options
  const found: Found = {
    ...{ ...options, url, program: `verify-${crypto.randomUUID()}`, model: options.model },
    tenant: api_key === null ? null : new TenantClient(url, api_key),
    admin: admin_key === null ? null : new AdminClient(url, admin_key),
  }
  const findings: Finding[] = []
  for (const { name, needs, missing, run } of CHECKS) {
    const absent = missing(found)
    const failed = needs.find((need) => findings.some(({ check, result }) => check === need && result !== 'ok'))
    const finding: Finding =
      absent === null && failed === undefined
        ? await outcome(name, () => run(found))
        : { check: name, result: 'left out', detail: absent ?? `it needs ${failed}` }
    findings.push(finding)
    told(finding)
  }
  return findings
}

/** 0: everything that was checked is well. 1: something is not. 3: nothing answers. */
export function exitCodeOf(findings: readonly Finding[]): number {
  const failed = findings.filter(({ result }) => result === 'FAILED')
  if (failed.length === 0) return 0
  return failed.some(({ check }) => check === 'health') ? 3 : 1
}

export function findingLine({ check, result, detail }: Finding): string {
  return `${result.padEnd(8)}  ${check.padEnd(7)}  ${detail}`
}

async function outcome(check: CheckName, run: () => Promise<string>): Promise<Finding> {
  try {
    return { check, result: 'ok', detail: await run() }
  } catch (error) {
    const { message, cause } = error as Error
    const why = cause instanceof Error && !(error instanceof CheckFailed) ? `${message}: ${cause.message}` : message
    return { check, result: 'FAILED', detail: why }
  }
}
