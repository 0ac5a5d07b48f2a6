/** Values that have broken parsers, stores and counters elsewhere, and changes of a valid JSON value by one of them. */
import type { Random } from '../../chaos/random.ts'

const TEXTS: readonly string[] = [
  ...['', ' ', '.', '..', '../../etc/passwd', '%2e%2e%2f', '%00', '%', '/', '//', '\\', '~', '*', '?', '#', ';', ','],
  ...['null', 'undefined', 'NaN', 'true', '[]', '{}', '__proto__', 'constructor', 'toString', 'hasOwnProperty'],
  ...["' OR 1=1 --", '"; DROP TABLE tenants; --', '{{7*7}}', '<script>alert(1)</script>', '$(id)', '`id`'],
  ...['\u0000', '\u0007', '\n', '\r\nX-Injected: 1', '\ud800', '\udfff', '\ufeff', '\u202e', 'e\u0301', '💥', 'ß', 'İ'],
  ...['0', '-1', '1e400', '9007199254740993', '0x10', '١', 'A'.repeat(127), 'A'.repeat(128), 'A'.repeat(129)],
  ...['a b', 'a,b', 'a:b', 'a=b', 'a;b', 'bearer', 'latest', 'undefined/undefined', '2026-11-22', '-0'],
]
const NUMBERS: readonly number[] = [
  ...[0, -0, -1, 1, 2, 0.1, -0.5, 1e-320, 1e21, 1e308, 2 ** 31 - 1, 2 ** 31, 2 ** 32, 2 ** 53 - 1, 2 ** 53, 2 ** 63],
]
const LONG_CHARS_MAX = 20_000
const NESTED_MAX = 2_000

export function hostileText(random: Random): string {
  if (random.chance(0.02)) return random.pick(TEXTS).repeat(random.between(1, LONG_CHARS_MAX / 20))
  if (random.chance(0.2)) return random.pick(TEXTS) + random.pick(TEXTS)
  return random.pick(TEXTS)
}

/** Node's client sends these in a header and refuses others. */
export function hostileHeader(random: Random): string {
  return hostileText(random).replaceAll(/[^\t\x20-\x7e\x80-\xff]/g, '')
}

export function hostileJson(random: Random, depth = 0): unknown {
  const kind = random.between(0, depth > 3 ? 4 : 7)
  if (kind === 0) return null
  if (kind === 1) return random.chance(0.5)
  if (kind === 2) return random.pick(NUMBERS)
  if (kind <= 4) return hostileText(random)
  if (kind === 5) return Array.from({ length: random.between(0, 4) }, () => hostileJson(random, depth + 1))
  if (kind === 6)
    return Object.fromEntries(
      Array.from({ length: random.between(0, 4) }, () => [hostileText(random), hostileJson(random, depth + 1)]),
    )
  return random.chance(0.1) ? nested(random.between(10, NESTED_MAX)) : []
}

function nested(levels: number): unknown {
  let value: unknown = []
  for (let level = 0; level < levels; level += 1) value = level % 2 === 0 ? [value] : { a: value }
  return value
}

/** A copy of `value` in which a place or two is another value, missing, or there twice. */
export function mutated(value: unknown, random: Random): unknown {
  const copy: unknown = structuredClone(value)
  for (let times = random.between(1, 3); times > 0; times -= 1) mutate(copy, random)
  return copy
}

function mutate(value: unknown, random: Random): void {
  let at: unknown = value
  for (;;) {
    if (typeof at !== 'object' || at === null) return
    const holder = at as Record<string, unknown>
    const names = Object.keys(holder)
    if (names.length === 0 || random.chance(0.1)) {
      if (!Array.isArray(at)) holder[hostileText(random)] = hostileJson(random)
      return
    }
    const name = random.pick(names)
    const inner = holder[name]
    if (typeof inner === 'object' && inner !== null && random.chance(0.7)) {
      at = inner
      continue
    }
    if (random.chance(0.2) && !Array.isArray(at)) delete holder[name]
    else holder[name] = hostileJson(random)
    return
  }
}
