/** A release in a copy of the versioned files, under a real git. */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { LAST_RELEASE, Release } from '../../ops/deploy/offline-checks.ts'
import { ROOT } from '../testbed/repository.ts'
import { type Git, gitIn, prepareRelease, VERSIONED, versionsIn, writeRelease } from './version.ts'

const TODAY = '2026-11-23'
let root: string
let git: Git

beforeEach(async () => {
  root = mkdtempSync(path.join(tmpdir(), 'switchyard-release-'))
  mkdirSync(path.join(root, 'ops/deploy'), { recursive: true })
  for (const file of [...Object.keys(VERSIONED), 'CHANGELOG.md', 'wrangler.toml', 'migrations']) {
    mkdirSync(path.dirname(path.join(root, file)), { recursive: true })
    cpSync(path.join(ROOT, file), path.join(root, file), { recursive: true })
  }
  git = gitIn(root)
  await git('init', '--quiet', '--initial-branch', 'main')
  await git('config', 'user.name', 'A')
  await git('config', 'user.email', 'a@example.com')
  await git('add', '.')
  await git('commit', '--quiet', '--message', 'First')
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

const read = (file: string): string => readFileSync(path.join(root, file), 'utf8')

test('all files state one version', () => {
  const versions = Object.entries(VERSIONED).flatMap(([file, patterns]) => versionsIn(read(file), patterns))
  expect(versions).not.toContain(null)
  expect(new Set(versions).size).toBe(1)
})

test('a release writes every version, dates the changelog, commits and tags', async () => {
  const prepared = await prepareRelease(root, '7.8.9', TODAY, git)
  if (!prepared.ok) throw new Error(prepared.reason)
  await writeRelease(root, prepared, git)
  for (const [file, patterns] of Object.entries(VERSIONED)) {
    expect(new Set(versionsIn(read(file), patterns)), file).toEqual(new Set(['7.8.9']))
  }
  expect(read('CHANGELOG.md')).toContain(`## Unreleased\n\n## 7.8.9 (${TODAY})\n\n### Added`)
  const kept = Release.parse(JSON.parse(read(LAST_RELEASE)))
  expect(kept.version).toBe('7.8.9')
  expect(Object.keys(kept.migrations).length).toBeGreaterThan(3)
  expect(await git('status', '--porcelain')).toBe('')
  expect(await git('tag', '--list', '--points-at', 'HEAD')).toBe('v7.8.9')
})

test('the version that the packages have can be their first release, and nothing is written by preparing it', async () => {
  const { version } = JSON.parse(read('package.json')) as { version: string }
  expect(await prepareRelease(root, version, TODAY, git)).toMatchObject({ ok: true })
  expect(await git('status', '--porcelain')).toBe('')
})

test.each([
  ['no version', '1.2', async () => undefined, /is no version/],
  ['an earlier version', '0.0.1', async () => undefined, /is later than 0\.0\.1/],
  ['a candidate of what is there', '0.1.0-rc.1', async () => undefined, /is later than 0\.1\.0-rc\.1/],
  ['another branch', '7.0.0', () => git('switch', '--quiet', '--create', 'topic'), /git switch main/],
  ['changes', '7.0.0', async () => writeFileSync(path.join(root, 'x'), ''), /Commit or stash/],
  ['a tag', '7.0.0', () => git('tag', 'v7.0.0'), /exists already/],
])('%s is refused with what to do', async (_, version, prepare, reason) => {
  await prepare()
  expect(await prepareRelease(root, version, TODAY, git)).toEqual({
    ok: false,
    reason: expect.stringMatching(reason),
  })
})

test('a release without changes is refused', async () => {
  writeFileSync(path.join(root, 'CHANGELOG.md'), '# Changelog\n\n## Unreleased\n\n## 0.1.0 (2026-01-01)\n\n- A\n')
  await git('commit', '--quiet', '--all', '--message', 'Empty')
  expect(await prepareRelease(root, '7.0.0', TODAY, git)).toMatchObject({
    ok: false,
    reason: expect.stringContaining('nothing under "Unreleased"'),
  })
})
