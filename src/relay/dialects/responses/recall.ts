/**
 * What a request refers to: the response that it continues, its conversation, items by their ids. One RPC per shard that
 * holds any of it, and none for a request that refers to nothing. What is not this tenant's is absent.
 */
import type { HistoryReply } from '../../../actors/responses-rpc.ts'
import type { StoredIdentity } from '../../../core/call/identity.ts'
import { conversationId, keyOfItem, responseId, shardOf } from '../../../core/call/response-ids.ts'
import { RETRY_AFTER_S } from '../../../platform/api-error.ts'
import type { ResponseStore } from '../../response-store.ts'
import { askActor } from '../../rpc.ts'
import type { Json, Recall, Recalled } from '../dialect.ts'
import { isReference } from './request.ts'
import { turnItems } from './stored-items.ts'

/** Distinct responses to whose items one request may refer. */
export const REFERENCED_MAX = 1_000

type Refused = Exclude<Recall, Recalled>

/** What is asked of one shard. */
interface Question {
  previous: string | null
  conversation: string | null
  entries: Set<string>
}

export const NOTHING_RECALLED: Recalled = {
  ...{ status: 'recalled', history: [], referenced: new Map(), identity: null },
  ...{ shard: null, previous: null, conversation: null },
}

export async function recall(body: Readonly<Json>, store: ResponseStore): Promise<Recall> {
  const previous_id = stringOf(body.previous_response_id)
  const conversation_id = stringOf(body.conversation) ?? stringOf((body.conversation as Json | null | undefined)?.id)
  const references = (Array.isArray(body.input) ? (body.input as unknown[]) : []).filter(isReference)
  if (previous_id === null && conversation_id === null && references.length === 0) return NOTHING_RECALLED
  const questions = new Map<number, Question>()
  const previous = previous_id === null ? null : keyOf(previous_id, 'resp_')
  const conversation = conversation_id === null ? null : keyOf(conversation_id, 'conv_')
  if (previous_id !== null && previous === null) return noResponse(previous_id)
  if (conversation_id !== null && conversation === null) return noConversation(conversation_id)
  if (previous !== null) ask(questions, previous).previous = previous
  if (conversation !== null) ask(questions, conversation).conversation = conversation
  for (const { id } of references) {
    const key = keyOfItem(id)
    if (key === null) return noItem(id)
    ask(questions, key).entries.add(key)
  }
  const refused = tooManyReferences(questions)
  if (refused !== null) return refused
  const replies = await Promise.all([...questions].map(([shard, question]) => answered(shard, question, store)))
  return together(replies, references, { previous, conversation })
}

function stringOf(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}

/** Null: the id is not one of ours. */
function keyOf(id: string, prefix: 'resp_' | 'conv_'): string | null {
  return id.startsWith(prefix) && shardOf(id) !== null ? id.slice(prefix.length) : null
}

function ask(questions: Map<number, Question>, key: string): Question {
  const shard = shardOf(responseId(key)) ?? 0
  let question = questions.get(shard)
  if (question === undefined) {
    question = { previous: null, conversation: null, entries: new Set() }
    questions.set(shard, question)
  }
  return question
}

function tooManyReferences(questions: ReadonlyMap<number, Question>): Refused | null {
  let entries = 0
  for (const question of questions.values()) entries += question.entries.size
  if (entries <= REFERENCED_MAX) return null
  const message = `The input refers to items of ${entries} responses, more than ${REFERENCED_MAX}.`
  return { status: 'refused', http_status: 400, error: { message, param: 'input', code: 'invalid_value' } }
}

interface Answered {
  shard: number
  /** Null: the shard did not answer. */
  reply: HistoryReply | null
}

async function answered(shard: number, question: Question, store: ResponseStore): Promise<Answered> {
  const asked = { ...question, entries: [...question.entries] }
  const reply = await askActor(() => store.responses(shard).history(asked), store.timeout_ms)
  if (reply.status === 'answered') return { shard, reply: reply.value }
  if (reply.status === 'failed') store.report('recall_failed', reply.error)
  return { shard, reply: null }
}

function together(
  replies: readonly Answered[],
  references: readonly (Json & { id: string })[],
  { previous, conversation }: Pick<Recalled, 'previous' | 'conversation'>,
): Recall {
  const main = previous ?? conversation ?? keyOfItem(references.at(-1)?.id ?? '') ?? ''
  const main_shard = shardOf(responseId(main))
  const field = previous !== null ? 'previous_response_id' : conversation !== null ? 'conversation' : 'input'
  const history: Json[] = []
  const items = new Map<string, Json>()
  let identity: StoredIdentity | null = null
  for (const { shard, reply } of replies) {
    if (reply === null) return unavailable()
    if (reply.status === 'too_long') return tooLong(field)
    if (reply.status === 'missing') {
      return reply.what === 'response' ? noResponse(responseId(reply.key)) : noConversation(conversationId(reply.key))
    }
    for (const turn of reply.turns) history.push(...turnItems(turn))
    for (const turn of reply.referenced) for (const item of turnItems(turn)) items.set(String(item.id), item)
    if (shard === main_shard) identity = identityOf(reply.last, field, conversation)
  }
  const missing = references.find(({ id }) => !items.has(id))
  if (missing !== undefined) return noItem(missing.id)
  return { status: 'recalled', history, referenced: items, identity, shard: main_shard, previous, conversation }
}

/** A chain whose first call named no program is known by the id of its first response, or of its conversation. */
function identityOf(
  last: (HistoryReply & { status: 'found' })['last'],
  field: string,
  conversation: string | null,
): StoredIdentity | null {
  const own = conversation === null ? null : conversationId(conversation)
  if (last === null) return own === null ? null : { field, program: own, thread: null, parent: null }
  return { field, program: last.program ?? own ?? responseId(last.root), thread: last.thread, parent: last.call }
}

function noResponse(id: string): Refused {
  const message = `Previous response with id '${id}' not found.`
  const error = { message, param: 'previous_response_id', code: 'previous_response_not_found' }
  return { status: 'refused', http_status: 404, error }
}

function noConversation(id: string): Refused {
  const message = `Conversation with id '${id}' not found.`
  return {
    status: 'refused',
    http_status: 404,
    error: { message, param: 'conversation', code: 'conversation_not_found' },
  }
}

function noItem(id: string): Refused {
  const message = `Item with id '${id.slice(0, 96)}' not found.`
  return { status: 'refused', http_status: 404, error: { message, param: 'input', code: 'item_not_found' } }
}

function tooLong(param: string): Refused {
  const message = 'What is stored of this conversation is longer than a call may be. Start another one.'
  const error = { message, param, code: 'context_length_exceeded' }
  return { status: 'refused', http_status: 400, error }
}

function unavailable(): Refused {
  const message = 'What is stored of this conversation could not be read at the moment. Send the call again.'
  const error = { message, code: 'responses_unavailable' }
  return { status: 'refused', http_status: 503, error, headers: { 'retry-after': String(RETRY_AFTER_S) } }
}
