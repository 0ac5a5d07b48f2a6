/**
 * Plays a recorded run whose calls name its session through the code that serves: a dialect's parser, core/call/identity.ts
 * and the program's entry, by the order of the recording.
 */
import { identify } from '../../src/core/call/identity.ts'
import { conversationTurn } from '../../src/core/conversation/conversation-turn.ts'
import { ProgramEntry } from '../../src/core/program/program-entry.ts'
import { KEY, parsed } from './play-runs.ts'
import type { RecordedCall, RecordedRun } from './recording.ts'

const RUN = { run: 'run', tenant: 'tenant', app: null, class: 'tenant', metadata: null, reading: 'modelled' } as const
const CALLS_MAX = 200

interface PlacedCall {
  /** Its place among the calls of the run, by arrival. */
  index: number
  thread: string
  parents: number[]
}

/** Where each call was placed, by arrival. Throws if the calls name no program, or several. */
export function playThreads({ calls }: Pick<RecordedRun, 'calls'>): PlacedCall[] {
  const programs = new Set(calls.map((call) => identityOf(call).program))
  const [program] = programs
  if (programs.size !== 1 || program == null) throw new Error('the calls name no program, or several')
  const entry = ProgramEntry.open({ ...RUN, program, now_ms: 0 })
  const events = calls.flatMap((call, index) => [
    { at_ms: call.arrived_ms, order: 1, play: () => void entry.admit({ ...arrivalOf(call), call: String(index) }) },
    { at_ms: call.answered_ms, order: 0, play: () => end(entry, index, call.answered_ms) },
  ])
  for (const { play } of events.sort((a, b) => a.at_ms - b.at_ms || a.order - b.order)) play()
  return entry.callsPage({ after: null, limit: CALLS_MAX }).calls.map(({ call, thread, parents }) => {
    return { index: Number(call), thread, parents: parents.map(Number) }
  })
}

function end(entry: ProgramEntry, index: number, now_ms: number): void {
  entry.callEnded({ run: RUN.run, call: String(index), outcome: 'completed', error_code: null, now_ms })
}

function identityOf({ headers, body, ...call }: RecordedCall) {
  const { metadata } = parsed({ ...call, headers, body })
  const identity = identify({ header: (name) => headers[name] ?? null, metadata, body })
  if (!identity.ok) throw new Error(identity.message)
  return identity
}

function arrivalOf(call: RecordedCall) {
  const { thread, main_thread, parents, by_session } = identityOf(call)
  const turn = by_session ? conversationTurn(parsed(call).canonical, KEY) : null
  return { thread, main_thread, parents, turn, model: 'model', now_ms: call.arrived_ms }
}
