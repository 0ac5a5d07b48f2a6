/** The named latency profiles of the emulated engine. */
import { EMULATED_8B } from './emulated-8b.ts'
import type { LatencyProfile } from './profile.ts'
import { TINY } from './tiny.ts'

export type { LatencyProfile }
export { TINY }

export const PROFILE_NAMES = ['emulated-8b', 'tiny'] as const
export type ProfileName = (typeof PROFILE_NAMES)[number]

export const PROFILES: Readonly<Record<ProfileName, LatencyProfile>> = { 'emulated-8b': EMULATED_8B, tiny: TINY }
