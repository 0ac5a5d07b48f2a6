/**
 * Items as they are stored and listed: OpenAI's item resources, each with an id. Output items have theirs; input items get
 * one from the key of the entry that holds them.
 */
import { z } from '@hono/zod-openapi'
import type { StoredTurn } from '../../../actors/responses-rpc.ts'
import { ITEM_INDEX_MAX, itemId } from '../../../core/call/response-ids.ts'
import type { Json } from '../dialect.ts'

/** Input items are numbered from here on, output items from 0. */
const INPUT_INDEX_BASE = 0x8000

const PREFIXES: ReadonlyMap<string, string> = new Map([
  ['message', 'msg'],
  ['function_call', 'fc'],
  ['function_call_output', 'fco'],
  ['custom_tool_call', 'ctc'],
  ['custom_tool_call_output', 'ctco'],
  ['reasoning', 'rs'],
])

const Items = z.array(z.record(z.string(), z.unknown()))
const Answer = z.looseObject({ output: Items })

/** Items past the numbers that ids have are stored without one, and cannot be referred to. */
export function storedItems(items: readonly Json[], key: string): Json[] {
  return items.map((item, position) => storedItem(item, key, INPUT_INDEX_BASE + position))
}

function storedItem(item: Json, key: string, index: number): Json {
  const type = typeof item.type === 'string' ? item.type : 'message'
  const stored: Json = { ...item, type }
  const prefix = PREFIXES.get(type) ?? 'item'
  if (typeof item.id !== 'string' && index <= ITEM_INDEX_MAX) stored.id = itemId(prefix, key, index)
  if (type !== 'message') return type.endsWith('_call') || type.endsWith('_output') ? withStatus(stored) : stored
  if (typeof item.content === 'string') {
    const isOwn = item.role === 'assistant'
    const part = isOwn ? { type: 'output_text', annotations: [], logprobs: [] } : { type: 'input_text' }
    stored.content = [{ ...part, text: item.content }]
  }
  return withStatus(stored)
}

function withStatus(item: Json): Json {
  return { ...item, status: item.status ?? 'completed' }
}

/** The turn's items: its input, then what was answered. */
export function turnItems({ input, response }: StoredTurn): Json[] {
  const items: Json[] = Items.parse(JSON.parse(input))
  return response === null ? items : [...items, ...Answer.parse(JSON.parse(response)).output]
}
