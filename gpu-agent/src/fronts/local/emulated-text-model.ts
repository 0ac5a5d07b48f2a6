/**
 * Text for an engine without a model: four bytes of text make one token, and every generated token reads as one English
 * word. Deterministic, and prefixes of text are prefixes of tokens (each message is cut by itself), so that prefix reuse
 * behaves as with a real tokenizer. A front that serves with it says that it is emulated.
 */
import type { ChatMessage, Encoding, Recall, TextModel, TokenDecoder } from './text-model.ts'

export const BYTES_PER_TOKEN = 4
const VOCABULARY_TOKENS = 2 ** 32

const WORDS = (
  'the a one this that each some signal switch yard track train wagon engine driver line point lever rail tunnel bridge ' +
  'platform station depot freight carriage timetable junction waits moves turns stops passes holds couples arrives departs ' +
  'slowly quickly early late north south east west and then while because before after under over beside toward'
).split(' ')

/** The text that tokens of `groups` came from. */
export function ungrouped(tokens: readonly number[]): string {
  const bytes = Buffer.alloc(tokens.length * BYTES_PER_TOKEN)
  for (const [index, token] of tokens.entries()) bytes.writeUInt32BE(token, index * BYTES_PER_TOKEN)
  return bytes.toString().replace(/\0+$/, '')
}

/** Token ids of a message's frame. Their top byte is 0xFF, which UTF-8 never has, so no text can imitate them. */
export const FRAME = {
  system: VOCABULARY_TOKENS - 5,
  user: VOCABULARY_TOKENS - 4,
  assistant: VOCABULARY_TOKENS - 3,
  tool: VOCABULARY_TOKENS - 2,
  end: VOCABULARY_TOKENS - 1,
} as const

export class EmulatedTextModel implements TextModel {
  readonly context_tokens_max: number
  readonly vocabulary_tokens = VOCABULARY_TOKENS

  constructor(context_tokens_max: number) {
    this.context_tokens_max = context_tokens_max
  }

  encodeChat(messages: readonly ChatMessage[], recall: Recall): Encoding {
    const tokens_min = messages.reduce((sum, { content }) => sum + 2 + tokenCount(content), 1)
    if (tokens_min > this.context_tokens_max) return { ok: false, reason: 'too_long', tokens_min }
    const tokens: number[] = []
    for (const { role, content } of messages) {
      const recalled = role === 'assistant' ? recall(content) : undefined
      tokens.push(FRAME[role])
      for (const token of recalled ?? groups(content)) tokens.push(token)
      tokens.push(FRAME.end)
    }
    tokens.push(FRAME.assistant)
    return { ok: true, tokens }
  }

  encodeText(text: string): Encoding {
    const tokens_min = tokenCount(text)
    if (tokens_min > this.context_tokens_max) return { ok: false, reason: 'too_long', tokens_min }
    return { ok: true, tokens: groups(text) }
  }

  wordTokens(word: string): readonly number[][] {
    return [groups(word)]
  }

  readsGrammar(): boolean {
    return false
  }

  tokenBytes(token: number): number[] {
    return [...Buffer.from(` ${wordOf(token)}`)]
  }

  decoder(): TokenDecoder {
    let first = true
    return {
      push(token) {
        const word = wordOf(token)
        const piece = first ? word : ` ${word}`
        first = false
        return piece
      },
      end: () => '',
    }
  }
}

function wordOf(token: number): string {
  return WORDS[token % WORDS.length] ?? ''
}

function tokenCount(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN)
}

/** The tokens of a text: its bytes by fours, the last filled up with zeros. */
export function groups(text: string): number[] {
  const bytes = Buffer.from(text)
  const tokens: number[] = []
  for (let start = 0; start < bytes.length; start += BYTES_PER_TOKEN) {
    let token = 0
    for (let offset = 0; offset < BYTES_PER_TOKEN; offset++) token = token * 256 + (bytes[start + offset] ?? 0)
    tokens.push(token)
  }
  return tokens
}
