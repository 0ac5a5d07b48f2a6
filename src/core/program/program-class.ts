/**
 * The class of a program: which programs resemble it, so that statistics of ended programs can be applied to it.
 *
 * `app:<label>` if the client labels it. Otherwise `fp:<16 hex>` of its system prompt and the names of its tools, which an
 * agent sends unchanged with every call. Otherwise `tenant`. A class id is scoped by the tenant. Labels and prompts come
 * from the client, so a class may only order programs within a tenant.
 *
 * Only a prefix of the system prompt counts. It is enough to tell agents apart, and long prompts end in volatile text
 * (dates, file lists). The hash is not cryptographic. A collision merges two classes of one tenant.
 */
import { hash64Hex } from '../wire/hash.ts'

export const SYSTEM_PROMPT_CHARS_HASHED = 2048
/** Number of tool names that count, in alphabetical order. */
export const TOOLS_HASHED_MAX = 128
const TOOL_NAME_CHARS_HASHED = 128
const APP_CHARS_MAX = 100

export interface ClassSource {
  app: string | null
  /** Text of the first system or developer message, null if there is none. */
  system_prompt: string | null
  tool_names: readonly string[]
}

export function programClass(source: ClassSource): string {
  if (source.app !== null && source.app !== '') return `app:${appLabel(source.app)}`
  const prompt = source.system_prompt?.trim().slice(0, SYSTEM_PROMPT_CHARS_HASHED) ?? ''
  const names = source.tool_names.map((name) => name.slice(0, TOOL_NAME_CHARS_HASHED))
  const tools = [...new Set(names)].sort().slice(0, TOOLS_HASHED_MAX)
  if (prompt === '' && tools.length === 0) return 'tenant'
  return `fp:${hash64Hex(JSON.stringify([prompt, tools]))}`
}

/** If the label makes the class longer than an id may be, the class keeps the beginning of the label and a hash of the rest. */
function appLabel(app: string): string {
  return app.length <= APP_CHARS_MAX ? app : `${app.slice(0, APP_CHARS_MAX)}~${hash64Hex(app)}`
}

/**
 * What `programClass` needs, from the body of a chat or completions request. Tolerant: the body may be anything, and parts
 * that it does not understand do not count. A completions prompt has no system part.
 */
export function classSource(body: Readonly<Record<string, unknown>>, app: string | null): ClassSource {
  return { app, system_prompt: systemPrompt(body.messages), tool_names: toolNames(body.tools) }
}

function systemPrompt(messages: unknown): string | null {
  if (!Array.isArray(messages)) return null
  for (const value of messages) {
    const message = asRecord(value)
    // Its content is not read before: it may be long, and is only parsed when it is (core/call/scanned-message.ts).
    if (message.role !== 'system' && message.role !== 'developer') return null
    const text = contentText(message.content)
    if (text !== '') return text
  }
  return null
}

function contentText(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  let text = ''
  for (const part of content) {
    if (text.length >= SYSTEM_PROMPT_CHARS_HASHED) break
    const { text: own } = asRecord(part)
    if (typeof own === 'string') text += own
  }
  return text
}

function toolNames(tools: unknown): string[] {
  if (!Array.isArray(tools)) return []
  const names: string[] = []
  for (const tool of tools) {
    const { function: called, name } = asRecord(tool)
    const own = asRecord(called).name ?? name
    if (typeof own === 'string') names.push(own)
  }
  return names
}

function asRecord(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}
