/**
 * The program of a call that names none, from its conversation (core/conversation). One RPC, before the call is admitted. If
 * the ConversationActor does not answer in time, the call proceeds alone, or as its trace says. What the call answered is
 * reported after its end, so that the next call of its conversation can be told apart from others that began alike.
 */
import { AnswerSoFar } from '../core/call/answer-so-far.ts'
import type { ConversationCall } from '../core/conversation/conversation-call.ts'
import { conversationShard } from '../core/conversation/conversation-table.ts'
import { type AnswerMarks, MessageHash } from '../core/conversation/message-hash.ts'
import type { HashKey } from '../core/wire/keyed-hash.ts'
import type { Ending } from './answer.ts'
import type { RelayDeps } from './deps.ts'
import type { IdentifiedCall } from './identify.ts'
import { askActor, askTwice } from './rpc.ts'
import type { StageTimes } from './timing.ts'

export interface Inferred {
  call: IdentifiedCall
  /** What its client has of the answer. Null: it is no text. */
  answer: AnswerSoFar | null
  /** Its conversation is told of the answer. */
  followed: boolean
}

export async function inferProgram(call: IdentifiedCall, deps: RelayDeps, times: StageTimes): Promise<Inferred> {
  const { conversation } = call
  if (conversation === null) return unfollowed(call)
  return times.measure('infer', () => ask(call, conversation, deps))
}

async function ask(call: IdentifiedCall, conversation: ConversationCall, deps: RelayDeps): Promise<Inferred> {
  const { tenant, id, trace } = call
  const arrival = { ...conversation, call: id, trace }
  const shard = conversationShard(arrival)
  const asked = await askActor(
    () => deps.conversation(tenant, shard).place(arrival),
    deps.times.conversation_timeout_ms,
  )
  if (asked.status === 'failed') deps.report('conversation_failed', asked.error)
  if (asked.status !== 'answered') return unfollowed(alone(call))
  const { program, source, parents } = asked.value
  // A program without a given name counts against no limit of programs that run at once.
  const live_programs_max = source === 'trace' ? call.live_programs_max : null
  const placed = { ...call, program, source, parents: call.parents ?? parents, live_programs_max }
  return { ...unfollowed(placed), followed: true }
}

function unfollowed(call: IdentifiedCall): Inferred {
  const is_text = call.dialect.engine_path !== '/v1/embeddings'
  return { call, answer: is_text ? new AnswerSoFar() : null, followed: false }
}

function alone(call: IdentifiedCall): IdentifiedCall {
  return call.trace === null ? call : { ...call, program: call.trace, source: 'trace' }
}

/** Tells the ConversationActor what the client was answered. Off the call path. */
export function reportAnswer(
  { call, answer, followed }: Inferred,
  ended: Promise<Pick<Ending, 'outcome'>>,
  deps: RelayDeps,
): void {
  const { tenant, id, conversation, trace } = call
  if (conversation === null || answer === null || !followed) return
  const shard = conversationShard({ ...conversation, trace })
  const told = ended.then(async ({ outcome }) => {
    const key = await deps.conversationKey(tenant)
    const marks = outcome === 'completed' ? marksOf(answer, key) : null
    const reply = await askTwice(() => deps.conversation(tenant, shard).answered({ call: id, answer: marks }))
    if (reply.status === 'failed') deps.report('answer_not_told', reply.error)
  })
  deps.waitUntil(told)
}

/** Text and calls of tools are what clients send again. */
function marksOf({ content, tools }: AnswerSoFar, key: HashKey): AnswerMarks {
  const tool_calls = tools.map(({ id, ...called }) => ({ id, function: called }))
  return new MessageHash(key).answer({ content, tool_calls })
}
