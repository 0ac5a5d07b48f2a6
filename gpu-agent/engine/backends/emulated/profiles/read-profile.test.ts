import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { PROFILES, profileOf, TINY } from './index.ts'
import { parseProfile } from './parse-profile.ts'
import { PROFILE_FILE_BYTES_MAX } from './read-profile.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'profile-'))
afterAll(() => rmSync(folder, { recursive: true }))

const OWN = { ...TINY, name: 'own', per_prefill_token_us: 0.5, shadow_tokens: 4, per_prefill_pair_ps: 7 }

function file(name: string, text: string): string {
  const place = path.join(folder, name)
  writeFileSync(place, text)
  return place
}

test('a profile comes by name or from a file, and its fit is not part of it', () => {
  expect(profileOf('a100-8b')).toBe(PROFILES['a100-8b'])
  expect(profileOf(file('own.json', JSON.stringify({ ...OWN, fit: { rows: 3 } })))).toEqual(OWN)
})

test.each([
  ['an unknown name', () => profileOf('huge'), 'no profile huge'],
  ['what is not JSON', () => profileOf(file('a.json', '{')), 'a.json is not JSON'],
  ['a field too many', () => own({ speed: 1 }), 'x: (file): Unrecognized key: "speed"'],
  ['a step of no length', () => own({ base_us: 0 }), 'x: base_us: '],
  ['a negative cost', () => own({ per_kv_token_ns: -1 }), 'x: per_kv_token_ns: '],
  ['a nested field', () => own({ swap_costs: { ...OWN.swap_costs, base_us: -1 } }), 'x: swap_costs.base_us: '],
  ['more slots than a scheduler takes', () => own({ slots: 1025 }), 'x: slots: '],
  ['more seats than slots', () => own({ seats: 9 }), 'x: seats: must be at most slots'],
  ['a step smaller than its seats', () => own({ max_step_tokens: 3 }), 'x: max_step_tokens: must be at least seats'],
  [
    'a slot larger than memory',
    () => own({ capacity_blocks: 255 }),
    'x: capacity_blocks: times block_tokens must hold',
  ],
  [
    'a file too large',
    () => profileOf(file('b.json', ' '.repeat(PROFILE_FILE_BYTES_MAX + 1))),
    'has more than 65536 bytes',
  ],
])('%s is refused', (_, read, message) => {
  expect(read).toThrow(RangeError)
  expect(read).toThrow(message)
})

test('the bounds themselves are taken', () => {
  expect(() => own({ slots: 1024 })).not.toThrow()
  expect(() => own({ seats: 8 })).not.toThrow()
  expect(() => own({ capacity_blocks: 256 })).not.toThrow()
  const padded = `${JSON.stringify(OWN)}${' '.repeat(PROFILE_FILE_BYTES_MAX - JSON.stringify(OWN).length)}`
  expect(profileOf(file('c.json', padded))).toEqual(OWN)
})

function own(change: object) {
  return parseProfile(JSON.stringify({ ...OWN, ...change }), 'x')
}
