/**
 * What an event of a provider's own API says in the words of chat, so that one reader counts, times and follows the answers of
 * every API. The event itself passes on unread where its client speaks the same API.
 */

type Json = Readonly<Record<string, unknown>>

/** A chunk of chat with one choice at most. */
export interface ChatPiece {
  choices: readonly {
    index: 0
    delta: Json
    finish_reason: string | null
    /** The stop string that was met. */
    stop_reason?: string | null
  }[]
  usage?: {
    prompt_tokens: number
    completion_tokens: number
    /** Null: the provider has not told. */
    prompt_tokens_details: { cached_tokens: number | null }
  }
}

/** `piece`: null: the event says nothing that chat has a word for. `broken`: no provider says that. */
export type EventReading = { ok: true; piece: ChatPiece | null } | { ok: false; broken: string }

export interface EventReader {
  /** The event that nothing follows has come. */
  readonly stopped: boolean
  read(event: unknown): EventReading
}

export const NOTHING: EventReading = { ok: true, piece: null }

export function says(delta: Json): EventReading {
  return { ok: true, piece: { choices: [{ index: 0, delta, finish_reason: null }] } }
}

/** Events of providers' APIs name their type. Chunks of chat do not. */
export function isNativeEvent(event: Json): event is Json & { type: string } {
  return typeof event.type === 'string'
}
