/** `npm run release -- X.Y.Z`: gives every package the version, dates the changelog's section, commits and tags. Sends nothing anywhere. */
import { parseArgs } from 'node:util'
import { fail } from '../cli/flags.ts'
import { type Git, gitIn, prepareRelease, writeRelease } from './release/version.ts'
import { ROOT } from './testbed/repository.ts'

const HELP = `Gives every package a version, dates the changelog's section, commits and tags.

  npm run release -- X.Y.Z [flags]

  --dry-run    says what would be changed, and changes nothing
  --help

It needs a clean work tree on the branch main. It pushes and publishes nothing: it prints the commands for that.`

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { 'dry-run': { type: 'boolean', default: false }, help: { type: 'boolean', short: 'h' } },
})
const [version] = positionals
if (values.help) console.log(HELP)
else if (version === undefined || positionals.length > 1) fail(`Name one version: npm run release -- X.Y.Z [--dry-run]`)
else await release(version, values['dry-run'], gitIn(ROOT))

async function release(to: string, is_dry: boolean, git: Git): Promise<void> {
  const today = new Date().toISOString().slice(0, 10)
  const prepared = await prepareRelease(ROOT, to, today, git)
  if (!prepared.ok) fail(`Nothing was released: ${prepared.reason}`)
  for (const { file, changes } of prepared.edits) console.log(`${file}: ${changes}`)
  if (is_dry) return void console.log(`Would commit "Release ${to}" and tag it v${to}. Nothing was changed.`)
  await writeRelease(ROOT, prepared, git)
  console.log(`
Committed and tagged v${to}. Next:
  npm test && npm run test:long && npm run release-check
  git push origin main v${to}
  npm run pack`)
}
