/** The latency profiles of the emulated engine: named ones, and one's own from a file. */
import { readFileSync } from 'node:fs'
import { EMULATED_8B } from './emulated-8b.ts'
import { FAST } from './fast.ts'
import { parseProfile } from './parse-profile.ts'
import type { LatencyProfile } from './profile.ts'
import { readProfile } from './read-profile.ts'
import { TINY } from './tiny.ts'

export type { LatencyProfile }
export { TINY }

export const PROFILE_NAMES = [
  'emulated-8b',
  'a100-8b',
  'a100-70b-tp4',
  'a100-180b-tp8',
  'gpt-j-6b-40gb',
  'vicuna-13b-40gb',
  'fast',
  'tiny',
] as const
export type ProfileName = (typeof PROFILE_NAMES)[number]

export const PROFILES: Readonly<Record<ProfileName, LatencyProfile>> = {
  'emulated-8b': EMULATED_8B,
  'a100-8b': shipped('a100-8b'),
  'a100-70b-tp4': shipped('a100-70b-tp4'),
  'a100-180b-tp8': shipped('a100-180b-tp8'),
  'gpt-j-6b-40gb': shipped('gpt-j-6b-40gb'),
  'vicuna-13b-40gb': shipped('vicuna-13b-40gb'),
  fast: FAST,
  tiny: TINY,
}

/** A profile by its name, or from the JSON file of that path. Throws RangeError for what is neither. */
export function profileOf(name_or_file: string): LatencyProfile {
  const name = PROFILE_NAMES.find((known) => known === name_or_file)
  if (name !== undefined) return PROFILES[name]
  try {
    return readProfile(name_or_file)
  } catch (error) {
    if (!['ENOENT', 'EISDIR', 'ENOTDIR', 'EACCES'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
    throw new RangeError(
      `no profile ${name_or_file}: it is neither a file that can be read nor one of ${PROFILE_NAMES.join(', ')}`,
    )
  }
}

/** Read once, when the module is loaded. */
function shipped(name: string): LatencyProfile {
  const file = new URL(`${name}.json`, import.meta.url)
  return Object.freeze(parseProfile(readFileSync(file, 'utf8'), `${name}.json`))
}
