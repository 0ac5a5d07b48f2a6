/** The dialects that clients may speak, by name. */
import { chat } from './chat.ts'
import { completions } from './completions.ts'
import type { Dialect } from './dialect.ts'

export const DIALECTS = { chat, completions } satisfies Record<string, Dialect>

export type DialectName = keyof typeof DIALECTS
