/**
 * The seam between text and tokens. A front speaks text with clients and tokens with the engine; a text model translates,
 * and knows nothing of calls, programs or KV. Two exist: the GGUF's own, and the emulated one.
 */

/** Of a chat template; values cannot spell control tokens. */
export type TemplateOptions = Readonly<Record<string, string | number | boolean | null>>

export interface ChatMessage {
  role: 'system' | 'user' | 'assistant' | 'tool'
  content: string
}

/** Tokens that the engine generated for exactly this assistant text, if they are remembered. */
export type Recall = (text: string) => readonly number[] | undefined

export type Encoding =
  | { ok: true; tokens: number[] }
  /** Cannot fit the context; `tokens_min` is a lower bound of its length. */
  | { ok: false; reason: 'too_long'; tokens_min: number }
  /** The chat template refuses this history; `message` says why. */
  | { ok: false; reason: 'unrenderable'; message: string }

/** Turns one call's generated tokens into text, never emitting half a character. */
export interface TokenDecoder {
  /** The text that this token completes; empty while a character is incomplete. */
  push(token: number): string
  /** What is left when generation ended. */
  end(): string
}

export interface TextEmbedding {
  dimensions: number
  /** As the model wants a text that is to be embedded. */
  encode(text: string): Encoding
}

export interface TextModel {
  /** Prompt and output together. */
  readonly context_tokens_max: number
  /** Token ids in a client's prompt must be below this. */
  readonly vocabulary_tokens: number
  /** The prompt up to where the assistant speaks. A later turn's encoding begins with this one's tokens and its output's. */
  encodeChat(messages: readonly ChatMessage[], recall: Recall, options?: TemplateOptions): Encoding
  /** Options that the chat template reads; left out: none. */
  readonly template_options?: ReadonlySet<string>
  encodeText(text: string): Encoding
  /** Every way in which `word` is cut into tokens within a text: at its beginning, and after a space. */
  wordTokens(word: string): readonly (readonly number[])[]
  /** Left out: the engine makes no embeddings. */
  readonly embedding?: TextEmbedding
  /** Whether the engine can hold output to this grammar (its backend's form). */
  readsGrammar(grammar: string): boolean
  decoder(): TokenDecoder
  /** Of a token by itself: may be half a character. */
  tokenBytes(token: number): number[]
}
