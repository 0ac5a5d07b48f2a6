/**
 * Lines of the logs that a self-hosted system keeps: the control plane's and the agents' JSON lines, what the supervisor
 * notes of its children (`--- time …`), its own log (`time …`), and plain text, which is what a crash leaves behind.
 */
import { z } from 'zod'

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

export interface LogLine {
  /** ISO time. A line without one has that of the line before it. */
  at: string
  /** The process: `control-plane`, an agent's id, `up`. */
  source: string
  level: LogLevel
  /** The event's name, or the line as it is. */
  text: string
  /** What else a JSON line says. */
  fields: Readonly<Record<string, unknown>>
}

export interface LogFilter {
  /** This level and worse. */
  level: LogLevel
  source: string | null
  tenant: string | null
  program: string | null
}

const JsonLine = z.looseObject({
  event: z.string(),
  at: z.iso.datetime().optional(),
  level: z.enum(LOG_LEVELS).optional(),
})
const NOTE = /^(?:--- )?(\d{4}-\d\d-\d\dT[\d:.]+Z) (.*)$/
/** An agent says under these names what an operator must look at. */
const WARNING_EVENTS = /(failed|refused|lost|flood|barred|error)/

/** `before`: the time of the line before it in the same file. Null: the line is empty. */
export function readLogLine(source: string, line: string, before: string): LogLine | null {
  const text = line.trimEnd()
  if (text === '') return null
  const json = text.startsWith('{') ? jsonOf(text) : null
  if (json !== null) {
    const { event, at = before, level, ...fields } = json
    return { at, source, level: level ?? (WARNING_EVENTS.test(event) ? 'warn' : 'info'), text: event, fields }
  }
  const [, at, noted] = NOTE.exec(text) ?? []
  if (at !== undefined && noted !== undefined) return { at, source, level: levelOfNote(noted), text: noted, fields: {} }
  // A process that prints plain text prints what it did not expect.
  return { at: before, source, level: 'warn', text, fields: {} }
}

function jsonOf(text: string): z.infer<typeof JsonLine> | null {
  try {
    return JsonLine.safeParse(JSON.parse(text)).data ?? null
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}

function levelOfNote(text: string): LogLevel {
  return /was ended by|exited with [^0]|starts again in|not started again/.test(text) ? 'warn' : 'info'
}

export function fits({ source, level, fields }: LogLine, filter: LogFilter): boolean {
  const is = (name: 'tenant' | 'program', wanted: string | null) => wanted === null || fields[name] === wanted
  if (filter.source !== null && source !== filter.source) return false
  if (LOG_LEVELS.indexOf(level) < LOG_LEVELS.indexOf(filter.level)) return false
  return is('tenant', filter.tenant) && is('program', filter.program)
}

export function shownLine({ at, source, level, text, fields }: LogLine): string {
  const said = Object.entries(fields).map(([name, value]) => `${name}=${shownValue(value)}`)
  return [at, level.padEnd(5), source, text, ...said].join(' ')
}

function shownValue(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return /^[\w.:/@+-]*$/.test(text) && text !== '' ? text : JSON.stringify(value)
}
