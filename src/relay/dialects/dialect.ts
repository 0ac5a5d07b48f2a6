/**
 * Translates an API dialect into the relay's internal call, and an engine's answer back into the dialect. Agents speak
 * OpenAI's chat and completions. A dialect names the one that serves it, translates its body into that one, and translates
 * the answer back. The rest of the relay does not know which API a client speaks: a dialect is one file here, one entry in
 * index.ts, and one route in src/api. Every dialect passes dialect.contract.ts.
 *
 * An answer may depend on the client's body (an API that repeats the request in its answer), so `parse` gives the call its
 * own writer of answers. Chunks of the two dialects that agents speak are never read: their bytes go to the client.
 */
import type { z } from '@hono/zod-openapi'
import type { FieldNotes } from '../../core/call/field-warnings.ts'
import type { StoredIdentity } from '../../core/call/identity.ts'
import type { PromptField } from '../../core/call/scanned-body.ts'
import type { ApiErrorFields, ErrorFormat } from '../../platform/api-error.ts'
import type { ErrorBody, NativeApi } from '../../protocol/index.ts'
import type { ResponseStore } from '../response-store.ts'

export type Json = Record<string, unknown>

/** What the relay knows of a request, in any dialect. */
export interface ParsedCall {
  dialect: Dialect
  model: string
  /** Whether the client wants a stream. Upstream always streams. */
  streaming: boolean
  /** In OpenAI's form for `dialect.engine_path`: for class, prompt estimate, program inference and the engine. */
  body: Readonly<Json>
  metadata: Readonly<Record<string, string>> | null
  answer: AnswerFormat
  /** The client's own body, for an engine whose server speaks this API. Left out: only `body` says all that the call needs. */
  native?: NativeBody
  /** Errors before the answer begins; left out: the dialect's. */
  errors?: ErrorFormat
  /** To which program a stored answer belongs that this call continues; null: it continues none. */
  stored?: StoredIdentity | null
  /**
   * Fields that `body` lacks because they have no effect, and hints that it has. The client is told of the former, and of
   * hints that the engine does not apply. A strict key refuses both.
   */
  warnings: FieldNotes
  /** Whether an output limit that does not fit into the context is lowered (output-limit.ts). Otherwise the engine refuses it. */
  lowers_output_limit: boolean
}

export interface NativeBody {
  api: NativeApi
  body: Readonly<Json>
}

export type Parsed = { status: 'parsed'; call: ParsedCall } | { status: 'refused'; error: ApiErrorFields }

/** What a body refers to by id. */
export interface Recalled {
  status: 'recalled'
  /** Items of earlier turns, oldest first. */
  history: readonly Json[]
  /** Items to which the input refers, by id. */
  referenced: ReadonlyMap<string, Json>
  identity: StoredIdentity | null
  /** Where the answer is to be stored; null: anywhere. */
  shard: number | null
  /** Keys of the response and of the conversation that the call continues. */
  previous: string | null
  conversation: string | null
}

export type Recall = Recalled | { status: 'refused'; http_status: number; error: ApiErrorFields; headers?: HeadersInit }

/** An API whose prompts can be counted without being served. */
export interface CountedDialect {
  errors: ErrorFormat
  /** What the prompt refers to by id. Left out: it refers to nothing. */
  recall?: (body: Readonly<Json>, store: ResponseStore) => Promise<Recall>
  /** Of the answer, beside `input_tokens`. */
  fields?: Readonly<Json>
  parsePrompt(
    body: Readonly<Json>,
    headers: Headers,
    recalled: Recalled | null,
  ): { status: 'parsed'; model: string; body: Readonly<Json> } | { status: 'refused'; error: ApiErrorFields }
}

/** What is known of a call when its answer begins. */
export interface AnswerFacts {
  call: string
  model: string
  now_ms: number
  /** Wall clock, milliseconds. */
  now(): number
  program: string | null
  thread: string
  /** The engine's count comes with its last chunk. */
  prompt_tokens_estimate: number
}

/** How the answer to one call is written for its client. */
export interface AnswerFormat {
  /** For a client that did not ask for a stream. */
  whole(facts: AnswerFacts): ResponseBuilder
  stream(facts: AnswerFacts): StreamFormat
}

/** Joins the chunks of an engine's stream into one object. */
export interface ResponseBuilder {
  /** Adds the data of one event. Throws AggregateFault if it is no chunk or too large, StatedFault if it is an error. */
  add(data: string): void
  /** Called once, after [DONE]. */
  finish(): Json
  /** Stores what was finished, before the client sees its end. Reports its own failures. */
  keep?(store: ResponseStore): Promise<void>
}

/** Server-sent events as text, with the blank line that ends each. Empty text: nothing is to be sent. */
export interface StreamFormat {
  /** Sent while the engine is silent: a comment, or an event without content. Shows whether the client is still there. */
  waiting(): string
  /** Ends a stream that has begun, with an error that the Worker or the engine states. `status`: what HTTP would have said. */
  fail(status: number, error: ErrorBody): string
  /** Null: the engine's frames are the client's. */
  translator: StreamTranslator | null
}

export interface StreamTranslator {
  /** The client's events for the data of one event. Throws as ResponseBuilder.add does. */
  add(data: string): string
  /** What follows the engine's [DONE]. Called once. */
  finish(): string
  /** As ResponseBuilder's. */
  keep?(store: ResponseStore): Promise<void>
}

export interface Dialect {
  readonly name: string
  /** The client's route. */
  readonly path: string
  /** The agent's route that serves it. */
  readonly engine_path: '/v1/chat/completions' | '/v1/completions' | '/v1/embeddings'
  /** Of a dialect that engines speak: the field whose bytes may go to an engine unparsed. Left out: bodies are parsed whole. */
  readonly prompt_field?: PromptField
  /** Checks and documents the body. */
  readonly request: z.ZodType
  /** Errors before the answer begins, and headers that every answer has. */
  readonly errors: ErrorFormat
  /** For an API that stores its answers: reads what the body refers to. Leaves malformed fields to `parse`. */
  recall?(body: Readonly<Json>, store: ResponseStore): Promise<Recall>
  /** `headers`: the client's. */
  parse(body: Readonly<Json>, headers: Headers, recalled?: Recalled | null): Parsed
}
