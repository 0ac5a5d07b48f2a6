/**
 * The control plane's log: one JSON line per event, with its time, its level and the ids that belong to it. Workers' logs collect
 * them. A line never holds a key, a prompt or an answer: fields are ids, codes and counts, and of an error only what it
 * says before its parameters (Drizzle's name the values of a failed statement), up to MESSAGE_CHARS_MAX.
 *
 * LOG_LEVEL says what is written: `debug`, `info` (a line per call), `warn` (the default), `error`, `off`.
 */

const LEVELS = { debug: 10, info: 20, warn: 30, error: 40, off: 50 } as const
export type LogLevel = keyof typeof LEVELS
const LEVEL_DEFAULT: LogLevel = 'warn'
export const MESSAGE_CHARS_MAX = 500

type Fields = Readonly<Record<string, string | number | null>>

let least: number = LEVELS[LEVEL_DEFAULT]
let leastSetBy: string | undefined

/** By the environment's word; an unknown one counts as the default. Cheap enough to be called for every request. */
export function setLogLevel(level: string | undefined): void {
  if (level === leastSetBy) return
  leastSetBy = level
  least = LEVELS[isLevel(level) ? level : LEVEL_DEFAULT]
}

export function isLogged(level: Exclude<LogLevel, 'off'>): boolean {
  return LEVELS[level] >= least
}

export function log(level: Exclude<LogLevel, 'off'>, event: string, fields: Fields): void {
  if (!isLogged(level)) return
  const line = JSON.stringify({ at: new Date().toISOString(), level, event, ...fields })
  if (level === 'error') console.error(line)
  else if (level === 'warn') console.warn(line)
  else console.log(line)
}

/** A failure that the caller survives. */
export function logFailure(event: string, error: unknown, fields: Fields = {}): void {
  log('error', event, { error: messageOf(error), ...fields })
}

function messageOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  return (message.split(/\n\s*params:/, 1)[0] ?? '').slice(0, MESSAGE_CHARS_MAX)
}

function isLevel(level: string | undefined): level is LogLevel {
  return level !== undefined && Object.hasOwn(LEVELS, level)
}
