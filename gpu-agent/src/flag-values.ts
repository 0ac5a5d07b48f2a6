/** Readers of flags' values. A value that cannot be meant throws WrongFlag, whose message names the flag and what it takes. */
import { Id } from '../../src/protocol/index.ts'

/** Caught in parseCli alone. */
export class WrongFlag extends Error {}

export function required(flag: string, value: string | undefined): string {
  if (value === undefined || value === '') throw new WrongFlag(`${flag} is required`)
  return value
}

export function idOf(flag: string, value: string | undefined): string {
  const parsed = Id.safeParse(required(flag, value))
  if (!parsed.success) throw new WrongFlag(`${flag}: ${parsed.error.issues[0]?.message ?? 'not an id'}`)
  return parsed.data
}

export function choice<T extends string>(flag: string, value: string, choices: readonly T[]): T {
  const chosen = choices.find((candidate) => candidate === value)
  if (chosen === undefined) throw new WrongFlag(`${flag} is one of ${choices.join(', ')}, not ${value}`)
  return chosen
}

export function whole(flag: string, value: string, min: number, max: number): number {
  const number = Number(value)
  if (!/^\d+$/.test(value) || number < min || number > max) {
    throw new WrongFlag(`${flag} is a whole number from ${min} to ${max}, not ${value}`)
  }
  return number
}

export function number(flag: string, value: string, min: number, max: number): number {
  const found = Number(value)
  if (!/^\d+(\.\d+)?$/.test(value) || found < min || found > max) {
    throw new WrongFlag(`${flag} is a number from ${min} to ${max}, not ${value}`)
  }
  return found
}

export function baseUrl(flag: string, value: string): string {
  const url = URL.parse(value)
  if (url !== null && (url.username !== '' || url.password !== ''))
    throw new WrongFlag(`${flag} is a URL without user or password, which every user of this host could read`)
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new WrongFlag(`${flag} must be an http or https URL, not ${JSON.stringify(value)}`)
  if (url.search !== '' || url.hash !== '') {
    throw new WrongFlag(`${flag} is a base URL without query or fragment`)
  }
  return value.replace(/\/+$/, '')
}

export function address(value: string): { host: string; port: number } {
  const match = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(value)
  const port = Number(match?.[3])
  const host = match?.[1] ?? match?.[2]
  if (host === undefined || port > 65_535) throw new WrongFlag(`--listen is HOST:PORT, not ${value}`)
  return { host, port }
}
