import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { testFolder } from '../system/test-folder.ts'
import { currentRelease, LAST_RELEASE, offlineChecks, releaseFaults } from './offline-checks.ts'

const ROOT = path.join(import.meta.dirname, '..', '..')

/** A copy of what is deployed, changed. */
function checkout(change: (toml: string) => string): string {
  const root = testFolder()
  for (const name of ['src', 'migrations']) cpSync(path.join(ROOT, name), path.join(root, name), { recursive: true })
  cpSync(path.join(ROOT, 'tsconfig.base.json'), path.join(root, 'tsconfig.base.json'))
  symlinkSync(path.join(ROOT, 'node_modules'), path.join(root, 'node_modules'))
  cpSync(path.join(ROOT, 'ops/deploy'), path.join(root, 'ops/deploy'), { recursive: true })
  writeFileSync(path.join(root, 'wrangler.toml'), change(readFileSync(path.join(ROOT, 'wrangler.toml'), 'utf8')))
  return root
}

test('this repository can be deployed', async () => {
  expect(await offlineChecks(ROOT)).toMatchObject({ faults: [] })
})

test.each([
  [
    'a binding that is missing',
    (toml: string) =>
      toml.replace(/\[\[durable_objects\.bindings\]\]\nname = "CLASS"\nclass_name = "ClassActor"\n/, ''),
    /The Worker reads CLASS/,
  ],
  [
    'a name that R2 refuses',
    (toml: string) => toml.replace('bucket_name = "switchyard"', 'bucket_name = "Switch_Yard"'),
    /"Switch_Yard"/,
  ],
  [
    'a secret in the open',
    (toml: string) => toml.replace('[vars]', '[vars]\nADMIN_KEY = "x"'),
    /ADMIN_KEY is in \[vars\]/,
  ],
  [
    'a variable that is too long',
    (toml: string) => toml.replace('[vars]', `[vars]\nCORS_ORIGINS = "${'x'.repeat(6000)}"`),
    /CORS_ORIGINS in wrangler.toml has over/,
  ],
])('%s is named with what to do', async (_, change, message) => {
  const { faults } = await offlineChecks(checkout(change))
  expect(faults).toEqual([expect.stringMatching(message)])
})

test('a later version may add to what a release left, and change nothing of it', async () => {
  const now = await currentRelease(ROOT, '0.1.0')
  const [first = ''] = Object.keys(now.migrations)
  const last = Object.keys(now.migrations).sort().at(-1) ?? ''
  expect(releaseFaults(now, now)).toEqual([])
  const added = {
    ...now,
    durable_object_tags: [...now.durable_object_tags, 'v99'],
    migrations: { ...now.migrations, '9999_x.sql': 'h' },
  }
  expect(releaseFaults(now, added)).toEqual([])
  expect(releaseFaults(added, now)).toEqual([
    expect.stringContaining('v99'),
    expect.stringContaining('9999_x.sql of 0.1.0 is gone'),
  ])
  expect(releaseFaults(now, { ...now, migrations: { ...now.migrations, [first]: 'changed' } })).toEqual([
    expect.stringContaining(`${first} of 0.1.0 was changed`),
  ])
  expect(releaseFaults(now, { ...now, migrations: { ...now.migrations, '0000_a.sql': 'h' } })).toEqual([
    expect.stringContaining(`comes before ${last}`),
  ])
  expect(releaseFaults(now, { ...now, d1: 'another' })).toEqual([
    expect.stringContaining('The name of the d1 was switchyard'),
  ])
})

test('the record of the last release is read where there is one', async () => {
  const root = checkout((toml) => toml)
  const kept = { ...(await currentRelease(root, '0.0.9')), r2: 'before' }
  writeFileSync(path.join(root, LAST_RELEASE), JSON.stringify(kept))
  expect((await offlineChecks(root)).faults).toEqual([expect.stringContaining('was before in 0.0.9')])
})
