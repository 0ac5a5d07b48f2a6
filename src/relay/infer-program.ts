/**
 * The program of a call that names none, from its conversation (core/conversation). One RPC, before the call is admitted. If
 * the ConversationActor does not answer in time, the call proceeds alone, or as its trace says. What the call answered is
 * reported after its end, so that the next call of its conversation can be told apart from others that began alike.
 */
import type { ConversationCall } from '../core/conversation/conversation-call.ts'
import { conversationShard } from '../core/conversation/conversation-table.ts'
import type { Ending } from './answer.ts'
import { AnswerObserver } from './answer-observer.ts'
import type { RelayDeps } from './deps.ts'
import type { IdentifiedCall } from './identify.ts'
import { askActor, askTwice } from './rpc.ts'
import type { StageTimes } from './timing.ts'

export interface Inferred {
  call: IdentifiedCall
  /** Sees the answer. Null: no conversation is followed. */
  observer: AnswerObserver | null
}

export async function inferProgram(call: IdentifiedCall, deps: RelayDeps, times: StageTimes): Promise<Inferred> {
  const { conversation } = call
  if (conversation === null) return { call, observer: null }
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
  if (asked.status !== 'answered') return { call: alone(call), observer: null }
  const { program, source, parents } = asked.value
  const observer = new AnswerObserver()
  // A program without a given name counts against no limit of programs that run at once.
  const live_programs_max = source === 'trace' ? call.live_programs_max : null
  return { call: { ...call, program, source, parents: call.parents ?? parents, live_programs_max }, observer }
}

function alone(call: IdentifiedCall): IdentifiedCall {
  return call.trace === null ? call : { ...call, program: call.trace, source: 'trace' }
}

/** Tells the ConversationActor what the client was answered. Off the call path. */
export function reportAnswer(
  { call, observer }: Inferred,
  ended: Promise<Pick<Ending, 'outcome'>>,
  deps: RelayDeps,
): void {
  const { tenant, id, conversation, trace } = call
  if (conversation === null || observer === null) return
  const shard = conversationShard({ ...conversation, trace })
  const told = ended.then(async ({ outcome }) => {
    const key = await deps.conversationKey(tenant)
    const answer = outcome === 'completed' ? observer.marks(key) : null
    const reply = await askTwice(() => deps.conversation(tenant, shard).answered({ call: id, answer }))
    if (reply.status === 'failed') deps.report('answer_not_told', reply.error)
  })
  deps.waitUntil(told)
}
