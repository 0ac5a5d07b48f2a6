/**
 * Plays recorded calls through the code that serves: a dialect's parser, core/call/identity.ts and the conversation tables of
 * a tenant, by the clock of the recording. Stored responses are the answers of the
 * recording, since no actor runs here.
 */
import { identify, type StoredIdentity } from '../../src/core/call/identity.ts'
import { conversationCall } from '../../src/core/conversation/conversation-call.ts'
import {
  CONVERSATION_BYTES_MAX,
  CONVERSATIONS_MAX,
  ConversationTable,
  conversationShard,
} from '../../src/core/conversation/conversation-table.ts'
import { MessageHash } from '../../src/core/conversation/message-hash.ts'
import { STALE_AFTER_MS } from '../../src/core/program/staleness.ts'
import type { ProgramSource } from '../../src/protocol/index.ts'
import { DIALECTS } from '../../src/relay/dialects/index.ts'
import { answerMessage } from './answers.ts'
import type { RecordedCall, RecordedRun } from './recording.ts'

export const KEY = [0x5eed, 0x1dea] as const

export interface PlayedCall {
  run: string
  program: string
  source: ProgramSource
}

/** A run that begins at `start_ms`. */
export interface StartedRun extends RecordedRun {
  start_ms: number
}

/** Every call's program, in order of arrival. Throws if a call's route is not served. */
export function playRuns(runs: readonly StartedRun[]): PlayedCall[] {
  const tenant = new Tenant()
  const played: PlayedCall[] = []
  const events = runs.flatMap(({ run, calls, start_ms }) =>
    calls.flatMap((call, index) => {
      const id = `${run}/${index}`
      const arrival = { at_ms: start_ms + call.arrived_ms, order: 1 }
      const answer = { at_ms: start_ms + call.answered_ms, order: 0 }
      return [
        { ...arrival, play: () => void played.push({ run, ...tenant.call(id, call, arrival.at_ms) }) },
        { ...answer, play: () => tenant.answered(id, call, answer.at_ms) },
      ]
    }),
  )
  events.sort((a, b) => a.at_ms - b.at_ms || a.order - b.order)
  for (const { play } of events) play()
  return played
}

class Tenant {
  readonly #tables = new Map<number, ConversationTable>()
  /** By call: the table that has it. */
  readonly #tableOf = new Map<string, ConversationTable>()
  readonly #programOf = new Map<string, string>()
  readonly #stored = new Map<string, StoredIdentity>()

  call(id: string, { headers, body, route }: RecordedCall, now_ms: number): Omit<PlayedCall, 'run'> {
    const { canonical, metadata } = parsed({ route, body, headers })
    const stored = this.#stored.get(String(body.previous_response_id ?? body.conversation)) ?? null
    const identity = identify({ header: (name) => headers[name] ?? null, metadata, body, stored })
    if (!identity.ok) throw new Error(identity.message)
    const { program, source, trace } = identity
    if (program !== null) return this.#known(id, { program, source })
    const conversation = conversationCall(canonical, KEY)
    if (conversation === null)
      return this.#known(id, { program: trace ?? id, source: trace === null ? 'none' : 'trace' })
    const arrival = { ...conversation, call: id, trace }
    const table = this.#table(conversationShard(arrival))
    this.#tableOf.set(id, table)
    return this.#known(id, table.place(arrival, now_ms))
  }

  answered(id: string, { answer }: RecordedCall, now_ms: number): void {
    this.#tableOf.get(id)?.answered(id, new MessageHash(KEY).answer({ ...answerMessage(answer) }), now_ms)
    const program = this.#programOf.get(id)
    if (program === undefined || typeof answer.id !== 'string') return
    this.#stored.set(answer.id, { field: 'previous_response_id', program, thread: null, parent: id })
  }

  #known(id: string, { program, source }: Omit<PlayedCall, 'run'>): Omit<PlayedCall, 'run'> {
    this.#programOf.set(id, program)
    return { program, source }
  }

  #table(shard: number): ConversationTable {
    let table = this.#tables.get(shard)
    if (table === undefined) {
      const limits = { entries_max: CONVERSATIONS_MAX, bytes_max: CONVERSATION_BYTES_MAX, age_ms_max: STALE_AFTER_MS }
      table = new ConversationTable(limits)
      this.#tables.set(shard, table)
    }
    return table
  }
}

/** Items of the Responses API that name stored ones: those are read before a body is parsed. */
function withoutIds(input: unknown): unknown {
  if (!Array.isArray(input)) return input
  const items = input.filter((item: { type?: unknown }) => item.type !== 'item_reference')
  return items.map(({ id: _, ...item }: Record<string, unknown>) => item)
}

/** A recording has the names of tools alone, which no parser takes and inference does not read. */
export function parsed({ route, body, headers }: Pick<RecordedCall, 'route' | 'body' | 'headers'>) {
  const dialect = Object.values(DIALECTS).find(({ path }) => path === route)
  if (dialect === undefined) throw new Error(`${route} is not served`)
  const { tools: _t, tool_choice: _c, previous_response_id: _p, conversation: _v, ...rest } = body
  const output = route === '/v1/messages' ? { max_tokens: 1 } : {}
  const input = rest.input === undefined ? {} : { input: withoutIds(rest.input) }
  const parse = dialect.parse({ ...output, ...rest, ...input }, new Headers(headers))
  if (parse.status === 'refused') throw new Error(`${route}: ${parse.error.message}`)
  return { canonical: parse.call.body, metadata: parse.call.metadata }
}
