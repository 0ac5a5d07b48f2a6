/** Values of flags: read strictly; what does not fit is named with the flag and what would fit. */

export class FlagError extends Error {
  override readonly name = 'FlagError'
}

export function list<T>(text: string, each: (item: string) => T): T[] {
  return text.split(',').map((item) => each(item.trim()))
}

export function oneOf<T extends string>(flag: string, text: string, names: readonly T[]): T {
  const known = names.find((name) => name === text)
  if (known === undefined)
    throw new FlagError(`${flag}: there is no ${text || 'empty name'}; there are ${names.join(', ')}`)
  return known
}

export function integer(flag: string, text: string, min: number, max: number): number {
  const value = text === '' ? Number.NaN : Number(text)
  if (!Number.isInteger(value) || value < min || value > max) {
    throw new FlagError(`${flag} must be an integer from ${min} to ${max}, not ${text}`)
  }
  return value
}

export function number(flag: string, text: string, { above, max }: { above: number; max: number }): number {
  const value = text === '' ? Number.NaN : Number(text)
  if (!(value > above && value <= max)) {
    throw new FlagError(`${flag} must be a number above ${above} and at most ${max}, not ${text}`)
  }
  return value
}
