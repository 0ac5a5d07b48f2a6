/**
 * Lets us know workerd's pid: Miniflare starts it, restarts it and does not tell. It takes the binary's path from
 * MINIFLARE_WORKERD_PATH, so it is given a script that leaves a pid file and then becomes workerd (exec keeps pid and
 * start time; the start time is written as ops/processes.ts reads it).
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'
import { PID_SUFFIX } from '../system/guard.ts'

export const WORKERD_NAME = 'workerd'
/** In the environment of each workerd of several: what its name has behind WORKERD_NAME. */
export const SUFFIX_VARIABLE = 'SWITCHYARD_WORKERD_SUFFIX'

/** Of one of several. The first has the name of one alone. */
export function workerdSuffix(process_index: number): string {
  return process_index === 0 ? '' : `-${process_index}`
}

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

/** Writes the script into `folder` and returns its path. The pid file of each workerd will lie in `folder` too. */
export async function writeWorkerdLauncher(folder: string): Promise<string> {
  await mkdir(folder, { recursive: true })
  const launcher = path.join(folder, 'launch-workerd')
  const script = `#!/bin/sh
if [ -r /proc/$$/stat ]; then started=$(sed 's/.*) //' /proc/$$/stat | cut -d' ' -f20)
else started=$(ps -o lstart= -p $$ | sed 's/^ *//; s/ *$//')
fi
echo "$$ $started" > ${quoted(path.join(folder, WORKERD_NAME))}"$${SUFFIX_VARIABLE}"${PID_SUFFIX}
exec ${quoted(workerdPath())} "$@"
`
  await writeFile(launcher, script, { mode: 0o755 })
  return launcher
}

/** Another program in its place, such as a cluster of workerds: lab/cluster. */
const VARIABLE = 'SWITCHYARD_WORKERD'

/** The workerd that belongs to the installed Miniflare, unless another is named. */
export function workerdPath(): string {
  const named = process.env[VARIABLE]
  if (named !== undefined && named !== '') return named
  const fromMiniflare = createRequire(createRequire(import.meta.url).resolve('miniflare'))
  const workerd: unknown = fromMiniflare('workerd').default
  if (typeof workerd !== 'string') throw new Error('the workerd package names no binary')
  return workerd
}
