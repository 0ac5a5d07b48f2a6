/** The engine profiles that the page can plan with, beside a file of one's own. */

import a100_8b from '../../gpu-agent/engine/backends/emulated/profiles/a100-8b.json'
import a100_70b from '../../gpu-agent/engine/backends/emulated/profiles/a100-70b-tp4.json'
import a100_180b from '../../gpu-agent/engine/backends/emulated/profiles/a100-180b-tp8.json'
import { EMULATED_8B } from '../../gpu-agent/engine/backends/emulated/profiles/emulated-8b.ts'
import { parseProfile } from '../../gpu-agent/engine/backends/emulated/profiles/parse-profile.ts'
import type { LatencyProfile } from '../../gpu-agent/engine/backends/emulated/profiles/profile.ts'

const shipped = (json: object, name: string): LatencyProfile => parseProfile(JSON.stringify(json), name)

/** Throws RangeError for a text that is no profile. */
export function planProfile(of: { name: string } | { file: string; text: string }): LatencyProfile {
  if ('text' in of) return parseProfile(of.text, of.file)
  switch (of.name) {
    case 'a100-8b':
      return shipped(a100_8b, of.name)
    case 'a100-70b-tp4':
      return shipped(a100_70b, of.name)
    case 'a100-180b-tp8':
      return shipped(a100_180b, of.name)
    case EMULATED_8B.name:
      return EMULATED_8B
    default:
      throw new RangeError(`there is no profile ${of.name}`)
  }
}
