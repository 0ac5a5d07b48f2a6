import type { Continuing } from './continuing/continuing.ts'

/** How a server behaves, as calls to it have shown. Null: that could not be seen. */
export interface Behaviour {
  /** Usage comes at the end of streams. */
  usage_in_streams: boolean | null
  /** A repeated prompt is found cached. */
  cached_tokens: boolean | null
  tools: boolean | null
  schemas: boolean | null
  logprobs: boolean | null
  choices: boolean | null
  stops_when_left: boolean | null
  /** A stream has as many chunks of text as it has tokens. */
  token_chunks: boolean | null
  /** How it goes on with a text exactly. */
  continues: Continuing | null
  /** What it took to find out. */
  calls: number
  tokens: number
}
