/** What a command is: its words, its arguments and flags, what it asks of the API and how its answer is shown. */
import type { Column } from '../../cli/table.ts'
import { PROGRAM_WEIGHT_MAX, PROGRAM_WEIGHT_MIN } from '../../src/protocol/program-weight.ts'
import { type AdminClient, CommandFailure, type Row, type TenantClient } from './client.ts'

export interface Flag {
  type: 'string' | 'boolean'
  /** One letter, as `-f`. */
  short?: string
  /** Names the value in the help. */
  value?: string
  help: string
}

export type Answer =
  | { kind: 'list'; rows: Row[]; columns: readonly Column<Row>[]; empty: string }
  /** `secret`: names the field that is shown this once, above the rest. `tables`: fields that are lists of rows. */
  | { kind: 'one'; row: Row; secret?: string; tables?: Readonly<Record<string, readonly Column<Row>[]>> }
  /** People read the text, and scripts the row. */
  | { kind: 'told'; row: Row; text: string }
  /** The command has written what it was asked for. */
  | { kind: 'done' }

interface AskedOf<C> {
  client: C
  /** Positional arguments, as many as the command names. */
  args: readonly string[]
  text(flag: string): string | undefined
  /** Whether a flag without a value was given. */
  flag(name: string): boolean
  limit: number
  /** JSON is wanted. Only a command that writes by itself asks. */
  json: boolean
}

export type Asked = AskedOf<AdminClient>
export type TenantAsked = AskedOf<TenantClient>
export type LocalAsked = Omit<AskedOf<null>, 'client'>

interface CommandBase {
  /** `tenants list`, `ps` */
  words: readonly [string, string] | readonly [string]
  /** Names of positional arguments. */
  args: readonly string[]
  flags: Readonly<Record<string, Flag>>
  /** Flags without which the command is refused. */
  required?: readonly string[]
  /** It shows rows: `--limit` says how many. */
  lists?: true
  purpose: string
}

/** A command with the operator's key. */
export interface OperatorCommand extends CommandBase {
  as?: never
  run(asked: Asked): Promise<Answer>
}

/** A command with a tenant's key. */
export interface TenantCommand extends CommandBase {
  as: 'tenant'
  run(asked: TenantAsked): Promise<Answer>
}

/** A command that asks no control plane, or finds its way to one by itself. */
export interface LocalCommand extends CommandBase {
  as: 'local'
  run(asked: LocalAsked): Promise<Answer>
}

/** A script that reads its flags by itself and ends with an exit code of its own. */
export interface ScriptCommand extends CommandBase {
  as: 'script'
  load(): Promise<unknown>
}

export type Command = OperatorCommand | TenantCommand | LocalCommand | ScriptCommand

/** A column of a field; nested values are written as JSON, nothing as `-`. */
export function field(name: string, title = name.replaceAll('_', ' '), align: 'left' | 'right' = 'left'): Column<Row> {
  return { title, align, cell: (row) => shown(row[name]) }
}

export const figure = (name: string, title?: string): Column<Row> => field(name, title, 'right')

export function shown(value: unknown): string {
  if (value === null || value === undefined) return '-'
  if (Array.isArray(value)) return value.map(shown).join(' ')
  if (typeof value === 'number' && !Number.isInteger(value)) return value.toFixed(3)
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/** A number, or `none` for null where `nullable`. Left out: undefined, which changes nothing. */
export function number(
  asked: Asked,
  flag: string,
  nullable: 'nullable' | 'not null' = 'not null',
): number | null | undefined {
  const text = asked.text(flag)
  if (text === undefined) return undefined
  if (nullable === 'nullable' && text === 'none') return null
  const value = Number(text)
  if (text.trim() !== '' && Number.isFinite(value)) return value
  const wanted = nullable === 'nullable' ? 'a number or "none"' : 'a number'
  throw new CommandFailure('usage', `--${flag} takes ${wanted}, not "${text}"`)
}

/** Of a program or class within its tenant. The API says what it may be. */
export function weightOf(text: string): number {
  const weight = Number(text)
  if (text.trim() !== '' && weight >= PROGRAM_WEIGHT_MIN && weight <= PROGRAM_WEIGHT_MAX) return weight
  const bounds = `from ${PROGRAM_WEIGHT_MIN} to ${PROGRAM_WEIGHT_MAX}`
  throw new CommandFailure('usage', `WEIGHT is a number ${bounds}, not "${text}"`)
}

/** `on` or `off`. Left out: undefined, which changes nothing. */
export function switchOf(asked: Asked, flag: string): boolean | undefined {
  const text = asked.text(flag)
  if (text === undefined || text === 'on' || text === 'off') return text === undefined ? undefined : text === 'on'
  throw new CommandFailure('usage', `--${flag} takes on or off, not "${text}"`)
}

/** Ids with commas between them. */
export function ids(asked: Asked, flag: string): string[] | undefined {
  return asked
    .text(flag)
    ?.split(',')
    .map((id) => id.trim())
    .filter((id) => id !== '')
}

/** Without the fields that were left out. */
export function bodyOf(fields: Row): Row {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}
