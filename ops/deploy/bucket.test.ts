import { expect, test } from 'vitest'
import { prepareBucket, RULE_SLACK_DAYS } from './bucket.ts'
import type { Wrangler } from './wrangler.ts'

/** Commands that begin with one of `failing` fail. */
function fakeWrangler(...failing: string[]): { wrangler: Wrangler; asked: string[] } {
  const asked: string[] = []
  const wrangler: Wrangler = async (args) => {
    const line = args.slice(2).join(' ')
    asked.push(line)
    const code = failing.some((start) => line.startsWith(start)) ? 1 : 0
    return { code, stdout: '', stderr: code === 0 ? '' : 'no' }
  }
  return { wrangler, asked }
}

const added = (asked: readonly string[]) => asked.filter((line) => line.startsWith('lifecycle add'))

test('a bucket is made once, and gets its rule by the retention', async () => {
  const missing = fakeWrangler('info')
  expect(await prepareBucket(missing.wrangler, 'switchyard', 30)).toBeNull()
  expect(missing.asked).toContain('create switchyard')
  const there = fakeWrangler()
  expect(await prepareBucket(there.wrangler, 'switchyard', 30)).toBeNull()
  expect(there.asked).not.toContain('create switchyard')
  expect(added(there.asked)[0]).toContain(`calls/ --expire-days ${30 + RULE_SLACK_DAYS}`)
})

test('another retention replaces the rule, and one that is not there is no failure', async () => {
  const { wrangler, asked } = fakeWrangler('lifecycle remove')
  expect(await prepareBucket(wrangler, 'switchyard', 90)).toBeNull()
  expect(added(asked)).toHaveLength(1)
  expect(asked.findIndex((line) => line.startsWith('lifecycle remove'))).toBeLessThan(
    asked.indexOf(added(asked)[0] ?? ''),
  )
})

test.each([
  ['no bucket', ['info', 'create'], 30, /bucket create switchyard/],
  ['no rule', ['lifecycle add'], 30, /lifecycle add switchyard/],
  ['a retention that is none', [], Number.NaN, /ARCHIVE_RETENTION_DAYS/],
])('%s is named with what fixes it', async (_, failing, days, message) => {
  expect(await prepareBucket(fakeWrangler(...failing).wrangler, 'switchyard', days)).toMatch(message)
})
