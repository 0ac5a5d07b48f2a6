/** Names of the tools that a body of chat, Messages or Responses offers to the model. Tolerant: what is no tool is passed over. */
import { toolName } from './tool-name.ts'

/** Of more it is not said which: a class knows far fewer by name. */
export const OFFERED_TOOLS_MAX = 512

/** Null: the body is none of them, or it has more than OFFERED_TOOLS_MAX. */
export function offeredTools(body: unknown): string[] | null {
  const { messages, input, tools, tool_choice } = asRecord(body)
  if (!Array.isArray(messages) && input === undefined) return null
  if (!Array.isArray(tools) || tool_choice === 'none') return []
  if (tools.length > OFFERED_TOOLS_MAX) return null
  return tools.flatMap((tool: unknown) => toolName(asRecord(asRecord(tool).function).name ?? asRecord(tool).name) ?? [])
}

function asRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}
