/**
 * The R2 bucket of ended programs' calls and its lifecycle rule. Switchyard deletes segments itself when their programs
 * are past the retention. The rule is the backstop: it removes what a tenant without traffic leaves behind, and
 * segments that no row names because the Worker died between R2 and D1. Other rules of the bucket stay as they are.
 */
import type { Wrangler } from './wrangler.ts'

/** Objects under it are segments: src/store/segments.ts. */
const CALLS_PREFIX = 'calls/'
const CALLS_RULE = 'switchyard-calls'
/** From the retention to the rule's age, so that no row in D1 names an object that the rule has removed. */
export const RULE_SLACK_DAYS = 7

/** Null: the bucket is ready. Otherwise what is missing, with the command that fixes it. */
export async function prepareBucket(
  wrangler: Wrangler,
  bucket: string,
  retention_days: number,
): Promise<string | null> {
  if (!(retention_days > 0)) return 'ARCHIVE_RETENTION_DAYS in wrangler.toml is no number of days above 0'
  const info = await wrangler(['r2', 'bucket', 'info', bucket, '--json'])
  if (info.code !== 0 && (await wrangler(['r2', 'bucket', 'create', bucket], true)).code !== 0) {
    return `The R2 bucket: \`npx wrangler r2 bucket create ${bucket}\` did not make one. Is R2 enabled for the account?`
  }
  const days = String(Math.ceil(retention_days) + RULE_SLACK_DAYS)
  const rule = [CALLS_PREFIX, '--expire-days', days]
  // There may be a rule of that name, with the days of another retention.
  await wrangler(['r2', 'bucket', 'lifecycle', 'remove', bucket, '--name', CALLS_RULE])
  const added = await wrangler(['r2', 'bucket', 'lifecycle', 'add', bucket, CALLS_RULE, ...rule, '--force'])
  if (added.code !== 0) {
    const command = `npx wrangler r2 bucket lifecycle add ${bucket} ${CALLS_RULE} ${rule.join(' ')}`
    return `The lifecycle rule ${CALLS_RULE}: \`${command}\` failed: ${added.stderr.trim()}`
  }
  return null
}
