/** Values of flags: read strictly; what does not fit is named with the flag and what would fit. */
import { statSync } from 'node:fs'
import { dirname } from 'node:path'

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

/** A file to be read. */
export function inputFile(flag: string, path: string): string {
  const found = statSync(path, { throwIfNoEntry: false })
  if (found === undefined) throw new FlagError(`${flag}: there is no file ${path}`)
  if (found.isDirectory()) throw new FlagError(`${flag}: ${path} is a folder, not a file`)
  return path
}

/** A file to be written once the work is done; looked at beforehand, so that no work is lost to a mistyped path. */
export function outputFile(flag: string, path: string | undefined): string | null {
  if (path === undefined) return null
  if (path === '') throw new FlagError(`${flag} names no file`)
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory())
    throw new FlagError(`${flag}: ${path} is a folder, not a file`)
  const folder = dirname(path)
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory())
    throw new FlagError(`${flag}: there is no folder ${folder}`)
  return path
}
