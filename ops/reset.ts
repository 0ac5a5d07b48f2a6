/** `npm run reset`: wipes the state of a system that does not run. Models in the user's cache stay. */
import { existsSync } from 'node:fs'
import { readdir, rm } from 'node:fs/promises'
import path from 'node:path'
import { createInterface } from 'node:readline/promises'
import { fail } from '../cli/flags.ts'
import { readDataDirFlags } from './system/data-dir-flags.ts'
import { exitExplained } from './system/explain-error.ts'
import { endOrphans } from './system/guard.ts'
import { endLeftVllms } from './system/left-vllms.ts'
import { lockHolder } from './system/lock.ts'

/** All that a system writes into its data directory; other files there are not ours to remove. */
const OURS = [
  'state',
  'backups',
  'agents',
  'logs',
  'run',
  'tmp',
  'secrets.json',
  'dev.json',
  'production.json',
  'up.lock',
]

const { place, on } = readDataDirFlags('reset', 'Wipes programs, keys, records and logs.', {
  yes: 'does not ask',
  json: 'what was wiped, as JSON',
})
exitExplained(place)
const holder = await lockHolder(place.lock)
if (holder !== null) fail(`Switchyard is running on ${place.root} (pid ${holder.pid}). Stop it first: npm run down`)
const names = existsSync(place.root) ? await readdir(place.root) : []
// What a restore has moved aside.
const present = names.filter((name) => OURS.includes(name) || name.startsWith('replaced-')).sort()
if (present.length === 0) {
  console.log(on.json ? wiped([]) : `There is no state in ${place.root}.`)
  process.exit(0)
}
if (!on.yes) {
  if (!process.stdin.isTTY) fail('This wipes all state. Without a terminal to ask on, say --yes')
  const prompt = createInterface({ input: process.stdin, output: process.stdout })
  const answer = await prompt.question(`Wipe ${present.join(', ')} in ${place.root}? [y/N] `)
  prompt.close()
  if (!/^y(es)?$/i.test(answer.trim())) fail('Nothing was wiped.')
}
await endOrphans(place.run, 3000)
await endOrphans(path.join(place.run, 'control-plane'), 0)
await endLeftVllms(place)
for (const name of present) await rm(path.join(place.root, name), { recursive: true, force: true })
if ((await readdir(place.root)).length === 0) await rm(place.root, { recursive: true })
console.log(on.json ? wiped(present) : `Wiped ${place.root}.`)

function wiped(parts: readonly string[]): string {
  return JSON.stringify({ data_dir: place.root, wiped: parts }, null, 2)
}
