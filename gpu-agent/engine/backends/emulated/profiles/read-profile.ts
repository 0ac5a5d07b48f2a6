/** A latency profile from a JSON file. */
import { readFileSync, statSync } from 'node:fs'
import { parseProfile } from './parse-profile.ts'
import type { LatencyProfile } from './profile.ts'

export const PROFILE_FILE_BYTES_MAX = 65_536

/** Throws RangeError that names the file and the field. */
export function readProfile(path: string): LatencyProfile {
  if (statSync(path).size > PROFILE_FILE_BYTES_MAX) {
    throw new RangeError(`${path} has more than ${PROFILE_FILE_BYTES_MAX} bytes`)
  }
  return parseProfile(readFileSync(path, 'utf8'), path)
}
