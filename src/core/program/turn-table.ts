/**
 * Which thread of a session a call belongs to, by its conversation. An agent sends titles, summaries and the calls of its
 * sub-agents under its own session, often one after the other. What they say tells them apart: a call that goes on behind an
 * earlier one has that one's last message in its history, with an answer behind it.
 *
 * Only calls whose session names the program have a turn; other calls name thread or parents, or their conversation named the
 * program. Turns are held in memory. If they are lost, calls are placed as if they had none.
 */
import type { ConversationTurn } from '../conversation/conversation-turn.ts'

/** Turns of one program that are remembered, the latest ones. */
export const TURNS_MAX = 256

/** A call that was placed. */
interface Turn {
  call: string
  thread: string
  /** The thread that its session named; null: it names none. */
  session: string | null
  opening: number
  end: number
}

export type Continuation =
  /** It goes on behind the call's answer. */
  | { kind: 'answered'; call: string; thread: string }
  /**
   * It is of the thread's conversation: its history was edited, or it is the last call again. Which call it goes on behind is
   * unknown.
   */
  | { kind: 'same'; thread: string }
  /** A conversation that the session had no call of. */
  | { kind: 'other' }
  /** The session's calls are not known. */
  | { kind: 'unknown' }

export class TurnTable {
  /** In order of arrival. */
  readonly #turns: Turn[] = []

  remember(call: string, thread: string, session: string | null, { opening, end }: ConversationTurn): void {
    this.#turns.push({ call, thread, session, opening, end })
    if (this.#turns.length > TURNS_MAX) this.#turns.shift()
  }

  find(session: string | null, { opening, end, answered }: ConversationTurn): Continuation {
    const turns = this.#turns.filter((turn) => turn.session === session)
    if (turns.length === 0) return { kind: 'unknown' }
    const alike = turns.filter((turn) => turn.opening === opening)
    // A client that cuts old messages off has another opening with every call.
    for (const among of [alike, turns]) {
      for (const one of answered) {
        const turn = among.findLast((known) => known.end === one)
        if (turn !== undefined) return { kind: 'answered', call: turn.call, thread: turn.thread }
      }
    }
    const turn =
      answered.length > 0 ? alike.at(-1) : alike.findLast((known) => known.end === end && isLast(known, turns))
    return turn === undefined ? { kind: 'other' } : { kind: 'same', thread: turn.thread }
  }
}

function isLast({ call, thread }: Turn, turns: readonly Turn[]): boolean {
  return turns.findLast((turn) => turn.thread === thread)?.call === call
}
