/**
 * The version of a release. All packages have one version, so that a user can tell which belong together. It is written in
 * the files of VERSIONED, and lab/release/version.test.ts holds them to each other.
 */
import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { currentRelease, LAST_RELEASE } from '../../ops/deploy/offline-checks.ts'

/** A file, and what stands before and after each version in it. Every pattern must be found, and once. */
export const VERSIONED: Readonly<Record<string, readonly RegExp[]>> = {
  'package.json': [/(\n {2}"version": ")([^"]+)(")/],
  'package-lock.json': [
    /(^\{\n {2}"name": "switchyard",\n {2}"version": ")([^"]+)(")/,
    /(\n {4}"": \{\n {6}"name": "switchyard",\n {6}"version": ")([^"]+)(")/,
    /(\n {4}"gpu-agent": \{\n {6}"name": "[^"]+",\n {6}"version": ")([^"]+)(")/,
  ],
  'gpu-agent/package.json': [/(\n {2}"version": ")([^"]+)(")/],
  'clients/typescript/package.json': [/(\n {2}"version": ")([^"]+)(")/],
  'clients/python/pyproject.toml': [/(\nversion = ")([^"]+)(")/],
  'clients/python/src/switchyard/__init__.py': [/(\n__version__ = ")([^"]+)(")/],
  'gpu-agent/vllm/pyproject.toml': [/(\nversion = ")([^"]+)(")/],
  'ops/kubernetes/gpu-agent.yaml': [/(image: switchyard-gpu-agent:)(\S+)()/],
  'gpu-agent/vllm/src/switchyard_vllm/mixin.py': [/(\nPLUGIN_VERSION = ")([^"]+)(")/],
}
const CHANGELOG = 'CHANGELOG.md'
const BRANCH = 'main'
/** The section that collects changes until a release. */
const UNRELEASED = /^## Unreleased( \([^)]*\))?\n/m
const VERSION = /^(\d+)\.(\d+)\.(\d+)(-[0-9a-z.]+)?$/

export type Git = (...args: string[]) => Promise<string>

export interface Edit {
  file: string
  text: string
  changes: string
}

export type Prepared = { ok: true; version: string; edits: Edit[] } | { ok: false; reason: string }

export function gitIn(root: string): Git {
  return async (...args) => (await promisify(execFile)('git', args, { cwd: root })).stdout.trim()
}

/** What a release would write; nothing is written here. */
export async function prepareRelease(root: string, version: string, today: string, git: Git): Promise<Prepared> {
  if (!VERSION.test(version)) return refused(`${version} is no version. Use X.Y.Z, or X.Y.Z-rc.1 for a candidate`)
  const branch = await git('rev-parse', '--abbrev-ref', 'HEAD')
  if (branch !== BRANCH) return refused(`the branch is ${branch}. Run \`git switch ${BRANCH}\` first`)
  if ((await git('status', '--porcelain')) !== '')
    return refused('the work tree has changes. Commit or stash them first')
  if ((await git('tag', '--list', `v${version}`)) !== '') return refused(`the tag v${version} exists already`)
  const edits: Edit[] = []
  for (const [file, patterns] of Object.entries(VERSIONED)) {
    const edit = versionEdit(file, await readFile(path.join(root, file), 'utf8'), patterns, version)
    if (typeof edit === 'string') return refused(edit)
    edits.push(edit)
  }
  const log = changelogEdit(await readFile(path.join(root, CHANGELOG), 'utf8'), version, today)
  if (typeof log === 'string') return refused(log)
  const text = `${JSON.stringify(await currentRelease(root, version), null, 2)}\n`
  const kept = { file: LAST_RELEASE, text, changes: 'what later versions may only add to' }
  return { ok: true, version, edits: [...edits, log, kept] }
}

export async function writeRelease(
  root: string,
  { version, edits }: Extract<Prepared, { ok: true }>,
  git: Git,
): Promise<void> {
  for (const { file, text } of edits) await writeFile(path.join(root, file), text)
  await git('add', '--', ...edits.map(({ file }) => file))
  await git('commit', '--quiet', '--message', `Release ${version}`)
  await git('tag', '--annotate', `v${version}`, '--message', `Switchyard ${version}`)
}

/** The versions that a file states, in the order of its patterns; null: a pattern was not found. */
export function versionsIn(text: string, patterns: readonly RegExp[]): (string | null)[] {
  return patterns.map((pattern) => pattern.exec(text)?.[2] ?? null)
}

function versionEdit(file: string, text: string, patterns: readonly RegExp[], version: string): Edit | string {
  const from = versionsIn(text, patterns)
  const [first] = from
  if (first === null || first === undefined || from.some((each) => each !== first))
    return `${file} has the versions ${from.join(', ')}, and should have one`
  if (!isLater(version, first) && version !== first) return `${file} has ${first}, which is later than ${version}`
  const written = patterns.reduce(
    (before, pattern) => before.replace(pattern, (_, head: string, __, tail: string) => head + version + tail),
    text,
  )
  return { file, text: written, changes: first === version ? `${version} already` : `${first} → ${version}` }
}

function changelogEdit(text: string, version: string, today: string): Edit | string {
  const [head] = UNRELEASED.exec(text) ?? []
  if (head === undefined) return `${CHANGELOG} has no section "## Unreleased"`
  const [, after = ''] = text.split(head)
  const [body = ''] = after.split(/^## /m)
  if (!/^- /m.test(body)) return `${CHANGELOG} has nothing under "Unreleased": say what users will notice`
  const dated = text.replace(head, `## Unreleased\n\n## ${version} (${today})\n`)
  return { file: CHANGELOG, text: dated, changes: `"Unreleased" becomes "${version} (${today})"` }
}

/** A candidate is earlier than its release; candidates of one release compare as text. */
function isLater(version: string, than: string): boolean {
  const [a, b] = [VERSION.exec(version), VERSION.exec(than)]
  if (a === null || b === null) return false
  for (const part of [1, 2, 3]) {
    const difference = Number(a[part]) - Number(b[part])
    if (difference !== 0) return difference > 0
  }
  if (a[4] === b[4]) return false
  return a[4] === undefined || (b[4] !== undefined && a[4] > b[4])
}

function refused(reason: string): Prepared {
  return { ok: false, reason }
}
