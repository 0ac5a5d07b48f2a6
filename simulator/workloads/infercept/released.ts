/** The released InferCept programs, as derive.ts writes them. */
import { readFileSync } from 'node:fs'

export type ReleasedCall = readonly [
  prompt_tokens: number,
  shared_prefix_tokens: number,
  output_tokens: number,
  /** -1: no tool follows. */
  tool_us: number,
  /** What the tool returns. */
  answer_tokens: number,
]
export type ReleasedProgram = readonly [augmentation: string, calls: readonly ReleasedCall[]]

export interface ReleasedFile {
  provenance: string
  programs: readonly ReleasedProgram[]
}

export const RELEASED = {
  multi: new URL('released-multi.json', import.meta.url),
  single: new URL('released-single.json', import.meta.url),
} as const

const loaded = new Map<keyof typeof RELEASED, readonly ReleasedProgram[]>()

export function releasedPrograms(name: keyof typeof RELEASED): readonly ReleasedProgram[] {
  const known = loaded.get(name)
  if (known !== undefined) return known
  const { programs } = JSON.parse(readFileSync(RELEASED[name], 'utf8')) as ReleasedFile
  loaded.set(name, programs)
  return programs
}
