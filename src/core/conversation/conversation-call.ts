/**
 * A call as the conversation table sees it: hashes of the beginnings of its conversation, each with the marks of the answer
 * that follows it. The last of a chain of hashes is the whole conversation. The Worker computes this, so that no text leaves
 * it.
 *
 * A call continues an earlier one mostly within its last few messages. Only so many beginnings are sent, so the size of an RPC
 * does not grow with the conversation.
 */
import { withoutVolatileHead } from '../call/prompt-head.ts'
import { type HashKey, KeyedHash } from '../wire/keyed-hash.ts'
import { type Beginning, type Beginnings, packBeginnings } from './beginnings.ts'
import { type AnswerMarks, type HashedMessage, MessageHash, ROLE_NUMBERS, toolsSum } from './message-hash.ts'

/** A longer conversation is a program of its own. */
export const MESSAGES_MAX = 100_000
/** Beginnings that end before an answer and are looked at: the last ones. */
const ANSWERS_MAX = 32
/** Last messages of a conversation after each of which a beginning is looked at, with anything after it. */
const TAIL_MESSAGES = 8

export interface ConversationCall {
  /** Of the text of the first message that is no system message: picks the shard. */
  opening: number
  /** Messages. */
  length: number
  /** The whole conversation is the last one. */
  beginnings: Beginnings
  /** Hash of restrictions and of fields that name a user or a cache; 0: it has none. Equal ones are preferred. */
  narrow: number
}

type Body = Readonly<Record<string, unknown>>

/**
 * Null: the body is no conversation, or one of too many messages. `restrictions`: what holds the call to regions. A program
 * of other restrictions is joined only if an answer proves that the call continues it.
 */
export function conversationCall(
  body: Body,
  key: HashKey,
  restrictions: string | null = null,
): ConversationCall | null {
  const { messages } = withoutVolatileHead(body)
  if (!Array.isArray(messages) || messages.length === 0 || messages.length > MESSAGES_MAX) return null
  const hash = new MessageHash(key)
  const hashed = messages.map((message: unknown) => hash.message(message))
  const first = hashed.find(({ role }) => role !== 'system') ?? hashed[0]
  if (first === undefined) return null
  const answers = lastAnswers(messages, hashed, hash)
  const tail = hashed.length - TAIL_MESSAGES
  const beginnings: Beginning[] = []
  const chain = new KeyedHash(key)
  for (const [at, { role, text, tools }] of hashed.entries()) {
    const length = at + 1
    chain.number(ROLE_NUMBERS[role]).number(text).number(tools)
    const answer = answers.get(length) ?? null
    if (answer !== null || length > tail) beginnings.push({ length, hash: chain.soFar(), answer })
  }
  const narrow = hash.texts([body.prompt_cache_key, body.user, body.safety_identifier, restrictions])
  return { opening: first.text, length: hashed.length, beginnings: packBeginnings(beginnings), narrow }
}

/** The last answers, each by the number of messages before it. */
function lastAnswers(messages: readonly unknown[], hashed: readonly HashedMessage[], hash: MessageHash) {
  const answers = new Map<number, AnswerMarks>()
  let answer: AnswerMarks | null = null
  for (let at = hashed.length - 1; at >= 0 && answers.size < ANSWERS_MAX; at -= 1) {
    const message = hashed[at]
    if (message?.role === 'assistant') {
      const marks = hash.answer(messages[at], message)
      answer = answer === null ? marks : joined(marks, answer)
    } else if (answer !== null) {
      answers.set(at + 1, answer)
      answer = null
    }
  }
  return answers
}

/** Some clients send the text and each tool call of one answer in messages of their own. */
function joined(first: AnswerMarks, next: AnswerMarks): AnswerMarks {
  const tools = first.tools === 0 || next.tools === 0 ? first.tools || next.tools : toolsSum(first.tools, next.tools)
  return {
    id: first.id || next.id,
    text: first.text || next.text,
    head: first.head || next.head,
    first_tool: first.first_tool || next.first_tool,
    tools,
    distinct: first.distinct || next.distinct,
  }
}
