/** Files of this repository that a testbed runs, and how their flags are written. */
import path from 'node:path'

export const ROOT = path.resolve(import.meta.dirname, '..', '..')
export const CONTROL_PLANE = path.join(ROOT, 'ops/control-plane.ts')
export const AGENT = path.join(ROOT, 'gpu-agent/src/main.ts')

/** What tools that check types keep from run to run. */
export const CHECK_CACHE = path.join(ROOT, 'node_modules/.cache/switchyard')

export type Flags = Readonly<Record<string, string | number>>

export function flagList(flags: Flags): string[] {
  return Object.entries(flags).flatMap(([name, value]) => [`--${name}`, String(value)])
}
