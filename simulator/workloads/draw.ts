/**
 * Draws programs of a named workload from its shipped profile (profiles/*.json), from a variant of one, or as made.ts makes them. A program depends on workload,
 * seed and its number alone, so a longer draw starts with the shorter one.
 */
import { readFileSync } from 'node:fs'
import { seededRandom } from '../random.ts'
import { type ChainProfile, drawChain } from './chain-profile.ts'
import { drawReleased, isReleased, RELEASED_NAMES } from './infercept/draw-released.ts'
import { drawMade, MADE_NAMES, type MadeName } from './made.ts'
import type { WorkloadProgram } from './program.ts'
import { drawSearch, type SearchProfile } from './search-profile.ts'
import { shortTools } from './short-tools.ts'
import { bfclWhole, latsLong } from './variants.ts'

const PROFILE_NAMES = [
  'sharegpt',
  'bfcl',
  'lats',
  'infercept',
  'infercept-single',
  'toolbench',
  'lamps-toolbench',
] as const
const VARIANT_NAMES = ['bfcl-whole', 'lats-long'] as const
/** Measured nowhere. */
const SYNTHETIC_NAMES = ['short-tools'] as const
type ShippedName = (typeof PROFILE_NAMES)[number]
export type ProfileName = ShippedName | (typeof VARIANT_NAMES)[number] | (typeof SYNTHETIC_NAMES)[number]

export const WORKLOAD_NAMES = [
  ...PROFILE_NAMES,
  'mixed',
  ...VARIANT_NAMES,
  'mixed-whole',
  ...SYNTHETIC_NAMES,
  ...RELEASED_NAMES,
  ...MADE_NAMES,
] as const
export type WorkloadName = (typeof WORKLOAD_NAMES)[number]

/** Equal shares, as in Autellix's evaluation. */
const MIXTURES: Readonly<Record<'mixed' | 'mixed-whole', readonly ProfileName[]>> = {
  mixed: ['sharegpt', 'bfcl', 'lats'],
  'mixed-whole': ['sharegpt', 'bfcl-whole', 'lats-long'],
}
const MIXED_SEED = 0x6d697865
export const PROGRAMS_PER_DRAW_MAX = 1_000_000

const loaded = new Map<ProfileName, ChainProfile | SearchProfile>()

/** `programs`: how many. Ids are unique within a draw and name workload, seed and number. */
export function drawWorkload(name: WorkloadName, programs: number, seed: number): WorkloadProgram[] {
  if (!Number.isSafeInteger(programs) || programs < 1 || programs > PROGRAMS_PER_DRAW_MAX) {
    throw new RangeError(`programs must be a whole number from 1 to ${PROGRAMS_PER_DRAW_MAX}, not ${programs}`)
  }
  if (!Number.isSafeInteger(seed) || seed < 0) throw new RangeError(`seed must be a whole number from 0, not ${seed}`)
  if (isReleased(name)) {
    return Array.from({ length: programs }, (_, index) => {
      const id = `${name}-${seed}-${index}`
      return drawReleased(name, id, hash(id))
    })
  }
  const parts = name === 'mixed' || name === 'mixed-whole' ? mixedParts(MIXTURES[name], programs, seed) : null
  return Array.from({ length: programs }, (_, index) => {
    const part = parts === null ? (name as ProfileName | MadeName) : (parts[index] as ProfileName)
    const id = `${part}-${seed}-${index}`
    return isMade(part) ? drawMade(part, id, randomOf(id)) : drawProgram(profileNamed(part), id)
  })
}

export function drawProgram(profile: ChainProfile | SearchProfile, id: string): WorkloadProgram {
  const random = randomOf(id)
  return profile.shape === 'chains' ? drawChain(profile, id, random) : drawSearch(profile, id, random)
}

function isMade(name: string): name is MadeName {
  return (MADE_NAMES as readonly string[]).includes(name)
}

function randomOf(id: string): () => number {
  return seededRandom(hash(id))
}

/** Of every three programs one of each workload, in random order. */
function mixedParts(mixture: readonly ProfileName[], programs: number, seed: number): ProfileName[] {
  const random = seededRandom(seed ^ MIXED_SEED)
  const parts: ProfileName[] = []
  while (parts.length < programs) {
    const rest = [...mixture]
    while (rest.length > 0) parts.push(...rest.splice(Math.floor(random() * rest.length), 1))
  }
  return parts
}

function profileNamed(name: ProfileName): ChainProfile | SearchProfile {
  const known = loaded.get(name)
  if (known !== undefined) return known
  const profile = loadProfile(name)
  loaded.set(name, profile)
  return profile
}

function loadProfile(name: ProfileName): ChainProfile | SearchProfile {
  if (name === 'bfcl-whole') return bfclWhole(shipped('bfcl') as ChainProfile)
  if (name === 'lats-long') return latsLong(shipped('lats') as SearchProfile)
  if (name === 'short-tools') return shortTools()
  return shipped(name)
}

function shipped(name: ShippedName): ChainProfile | SearchProfile {
  const file = new URL(`profiles/${name}.json`, import.meta.url)
  return JSON.parse(readFileSync(file, 'utf8')) as ChainProfile | SearchProfile
}

/** FNV-1a, finished as in murmur3: neighbouring ids give unlike seeds. */
function hash(text: string): number {
  let h = 0x811c9dc5
  for (let i = 0; i < text.length; i += 1) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193)
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) >>> 0
}
