/** `npm run down`: stops a running system and all that it started; also what a killed one left behind. */
import { rm } from 'node:fs/promises'
import path from 'node:path'
import { withProgress } from '../cli/progress.ts'
import { readDataDirFlags } from './system/data-dir-flags.ts'
import { exitExplained } from './system/explain-error.ts'
import { endOrphans } from './system/guard.ts'
import { endLeftVllms } from './system/left-vllms.ts'
import { lockHolder } from './system/lock.ts'
import { endProcess } from './system/processes.ts'

/** Longer than the supervisor gives to its children. */
const GRACE_MS = 60_000
const ORPHAN_GRACE_MS = 3000

const switches = { json: 'what was stopped, as JSON' }
const { place, on } = readDataDirFlags('down', 'Stops Switchyard and everything that it started.', switches)
exitExplained(place)
const holder = await lockHolder(place.lock)
if (holder !== null) await withProgress(`Stopping Switchyard (pid ${holder.pid})`, () => endProcess(holder, GRACE_MS))
const orphans = [
  ...(await endOrphans(place.run, ORPHAN_GRACE_MS)),
  ...(await endOrphans(path.join(place.run, 'control-plane'), 0)),
]
await endLeftVllms(place)
await rm(place.devJson, { force: true })
if (on.json) console.log(JSON.stringify({ stopped: holder !== null, left_over: orphans }, null, 2))
else if (holder === null && orphans.length === 0) console.log(`Nothing runs on ${place.root}.`)
else console.log(`Stopped.${orphans.length === 0 ? '' : ` Also ended, left over: ${orphans.join(', ')}.`}`)
