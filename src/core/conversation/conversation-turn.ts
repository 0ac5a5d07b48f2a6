/**
 * Where a call stands in its conversation, for calls whose session names the program: its program tells by this which of them
 * continue each other, and which are side calls (program/turn-table.ts).
 *
 * A conversation goes on behind the message with which the call before ended: an answer follows it, then new messages. So only
 * the last few messages that end such a turn are looked at, and of each only its two ends. The work does not grow with the
 * conversation.
 */
import { type HashKey, KeyedHash } from '../wire/keyed-hash.ts'
import { MessageHash } from './message-hash.ts'

/** Turns of a conversation that are looked at: the last ones. */
const TURNS_MAX = 4
/** Messages in which they are looked for: the last ones. */
const TURN_MESSAGES_MAX = 256
/** Messages in which the opening is looked for: the first ones. */
const OPENING_MESSAGES_MAX = 64

export interface ConversationTurn {
  /** Of the first message that is no system message. */
  opening: number
  /** Of the message with which the call ends, and of the one before it that is no answer. */
  end: number
  /** As `end`, of earlier turns: those behind which the conversation has an answer. The last one first. */
  answered: number[]
}

type Body = Readonly<Record<string, unknown>>

/** Null: the body is no conversation. */
export function conversationTurn({ messages }: Body, key: HashKey): ConversationTurn | null {
  if (!Array.isArray(messages) || messages.length === 0) return null
  const sample = new MessageHash(key)
  const pair = new KeyedHash(key)
  const endAt = (at: number): number => {
    const before = lastBefore(messages, at)
    return pair
      .number(sample.sample(messages[at]))
      .number(before === -1 ? 0 : sample.sample(messages[before]))
      .digest()
  }
  const opening = messages.slice(0, OPENING_MESSAGES_MAX).find((message) => !isSystem(message)) ?? messages[0]
  const last = messages.length - 1
  return { opening: sample.sample(opening), end: endAt(last), answered: answeredTurns(messages).map(endAt) }
}

/** Where turns end that have an answer behind them. The last one first. */
function answeredTurns(messages: readonly unknown[]): number[] {
  const ends: number[] = []
  const from = Math.max(0, messages.length - TURN_MESSAGES_MAX)
  for (let at = messages.length - 2; at >= from && ends.length < TURNS_MAX; at -= 1) {
    if (!isAnswer(messages[at]) && isAnswer(messages[at + 1])) ends.push(at)
  }
  return ends
}

/** The last message before `at` that is no answer; -1: there is none near. */
function lastBefore(messages: readonly unknown[], at: number): number {
  const from = Math.max(0, at - TURN_MESSAGES_MAX)
  for (let before = at - 1; before >= from; before -= 1) if (!isAnswer(messages[before])) return before
  return -1
}

function isAnswer(message: unknown): boolean {
  return roleOf(message) === 'assistant'
}

function isSystem(message: unknown): boolean {
  const role = roleOf(message)
  return role === 'system' || role === 'developer'
}

function roleOf(message: unknown): unknown {
  return typeof message === 'object' && message !== null && 'role' in message ? message.role : null
}
