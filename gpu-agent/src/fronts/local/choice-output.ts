/**
 * One choice of a call: the engine's tokens become text, the text is searched for stop strings, then for calls of tools,
 * and what may go out becomes chunks. The role chunk goes with the first of them (an engine that fails before can be
 * retried without the client noticing).
 */
import type { FinishReason, Measurement, Resume } from '../../../../src/protocol/index.ts'
import type { CallListener } from '../../../engine/driver.ts'
import type { EndReason, FailureCode, TokenLogprobs } from '../../../engine/types.ts'
import { AnswerLogprobs, type TokenReport } from '../../openai/answer-logprobs.ts'
import { type AnswerEvent, type AnswerParser, answerParser } from '../../openai/answer-parser.ts'
import type { ChunkBuilder } from '../../openai/chunks.ts'
import { Delivered } from '../../openai/delivered.ts'
import type { OutputFormat } from '../../openai/output-format.ts'
import { StopMatcher } from '../../openai/stop-matcher.ts'
import { assistantText, type ToolCall } from '../../openai/tool-text.ts'
import type { TokenDecoder } from './text-model.ts'

export interface Answer {
  /** As the client will send it back, in a message's text. */
  text: string
  tokens: readonly number[]
}

export interface ChoiceEnd {
  reason: EndReason
  failure: FailureCode | null
  /** Null unless the choice completed. */
  finish_reason: FinishReason | null
  /** The stop string that was met. */
  stop: string | null
  measurement: Measurement
  /** What was generated, when all of it became the answer. */
  answer: Answer | null
}

/** A prompt that its answer begins with. */
export interface Echo {
  text: string
  tokens: readonly number[]
  /** What each of the tokens reads as. */
  pieces: readonly string[]
  /** Only the prompt was asked for: the engine writes a token that is not shown. */
  alone: boolean
}

export interface ChoiceOutputOptions {
  index: number
  chunks: ChunkBuilder
  decoder: TokenDecoder
  stops: readonly string[]
  stop_tokens: ReadonlySet<number>
  format: OutputFormat
  /** Whether the client asked for log probabilities. */
  logprobs: boolean
  echo: Echo | null
  /** What another engine generated, and what the client has of it. Null: the answer begins here. */
  resume: Resume | null
  /** `tokens`: generated since the last chunk that named any. */
  send: (chunk: object, tokens: readonly number[]) => void
  /** The engine need not go on. */
  finish: () => void
  ended: (end: ChoiceEnd) => void
}

const UNFINISHED = { finish_reason: null, stop: null, answer: null } as const

export class ChoiceOutput implements CallListener {
  readonly #options: ChoiceOutputOptions
  readonly #stops: StopMatcher
  readonly #parser: AnswerParser
  readonly #tokens: number[] = []
  /** Those that no chunk has named yet. */
  readonly #unnamed: number[] = []
  readonly #delivered: Delivered | null
  #replaying = false
  readonly #calls: ToolCall[] = []
  /** Null: they were not asked for, or the answer is a tool's call, of whose tokens OpenAI tells none. */
  readonly #logprobs: AnswerLogprobs | null
  #text = ''
  #resumed = false
  #begun = false
  #echoed = false
  #stopped = false
  /** A stop token was met. It is no part of the text, and what came before it is: none of that is held back. */
  #stop_token = false
  /** The sink may cancel the call while it is given a chunk, and the end comes within that. */
  #over = false

  constructor(options: ChoiceOutputOptions) {
    this.#options = options
    this.#stops = new StopMatcher(options.stops)
    this.#parser = answerParser(options.format)
    this.#logprobs = options.logprobs && options.format.kind !== 'tool_call' ? new AnswerLogprobs() : null
    this.#delivered = options.resume === null ? null : new Delivered(options.resume)
  }

  prompt(logprobs: readonly TokenLogprobs[]): void {
    const { echo } = this.#options
    if (echo === null || this.#logprobs === null) return
    for (const [index, token] of echo.tokens.entries()) {
      this.#logprobs.add(token, logprobs[index - 1] ?? null, echo.pieces[index] ?? '')
    }
  }

  token(token: number, logprobs?: TokenLogprobs): void {
    this.#sendEcho()
    this.#replay()
    this.#take(token, logprobs)
  }

  #take(token: number, logprobs?: TokenLogprobs): void {
    if (this.#isOver() || this.#options.echo?.alone === true) return
    if (this.#options.stop_tokens.has(token)) {
      this.#stop_token = true
      if (!this.#over) this.#options.finish()
      return
    }
    this.#tokens.push(token)
    if (!this.#replaying) this.#unnamed.push(token)
    const { kind } = this.#options.format
    if (kind === 'text' || kind === 'json' || kind === 'enforced') this.#begin('')
    const piece = this.#options.decoder.push(token)
    if (this.#replaying) this.#logprobs?.replayed(piece)
    else if (logprobs !== undefined) this.#logprobs?.add(token, logprobs, piece)
    this.#write(piece)
    if (this.#isOver() && !this.#over) this.#options.finish()
  }

  #isOver(): boolean {
    return this.#stopped || this.#stop_token || this.#parser.done
  }

  ended(reason: EndReason, measurement: Measurement, failure: FailureCode | null = null): void {
    if (reason === 'failed' || reason === 'cancelled') {
      this.#over = true
      this.#options.ended({ reason, failure, ...UNFINISHED, measurement })
      return
    }
    this.#sendEcho()
    this.#replay()
    this.#write(this.#options.decoder.end())
    if (!this.#stopped) this.#emit(this.#parser.push(this.#stops.end()))
    this.#emit(this.#parser.end())
    if (reason === 'stop' && !this.#isWhole()) {
      this.#over = true
      this.#options.ended({ reason: 'failed', failure: 'output_incomplete', ...UNFINISHED, measurement })
      return
    }
    this.#begin('')
    if (!this.#stopped) this.#restOfLogprobs()
    const answer =
      this.#stopped || this.#stop_token || this.#options.echo !== null
        ? null
        : { text: assistantText(this.#text, this.#calls), tokens: this.#tokens }
    const finish_reason = this.#finishReason(reason)
    this.#options.ended({
      reason,
      failure: null,
      finish_reason,
      stop: this.#stops.met,
      measurement,
      answer,
    })
  }

  /** Once, before anything else of the answer. */
  #sendEcho(): void {
    const { echo, chunks, index, send } = this.#options
    if (echo === null || this.#echoed || this.#over) return
    this.#echoed = true
    const reports = this.#logprobs?.sent(echo.text) ?? null
    const fresh = this.#fresh({ type: 'text', text: echo.text })
    if (fresh?.type === 'text') send(chunks.content(index, fresh.text, reports), [])
  }

  /** Goes through what another engine generated, once, before anything that this one does. */
  #replay(): void {
    const { resume } = this.#options
    if (resume === null || this.#resumed || this.#over) return
    this.#resumed = true
    this.#replaying = true
    for (const token of resume.tokens) this.#take(token)
    this.#replaying = false
  }

  #fresh(event: AnswerEvent): AnswerEvent | null {
    return this.#delivered === null ? event : this.#delivered.rest(event)
  }

  #finishReason(reason: EndReason): FinishReason {
    if (this.#stopped) return 'stop'
    if (reason === 'length' || this.#options.echo?.alone === true) return 'length'
    return this.#calls.length > 0 ? 'tool_calls' : 'stop'
  }

  /** Whether JSON that was asked for is JSON: an engine that enforces no grammar, or ends at a stop token, may break it off. */
  #isWhole(): boolean {
    if (this.#stopped || this.#stop_token) return true
    const { kind } = this.#options.format
    if (kind === 'json') return isJson(this.#text)
    return kind !== 'tool_call' || isJson(this.#calls[0]?.arguments ?? '')
  }

  #write(piece: string): void {
    if (this.#stopped) return
    const { text, stopped } = this.#stops.push(piece)
    this.#stopped = stopped
    this.#emit(this.#parser.push(text))
  }

  #emit(events: readonly AnswerEvent[]): void {
    for (const event of events) {
      if (this.#over) return
      this.#begin(event.type === 'text' ? '' : null)
      const reports = this.#noted(event)
      const fresh = this.#fresh(event)
      if (fresh !== null) this.#options.send(this.#chunk(fresh, reports), this.#named(reports))
    }
  }

  /** Keeps what the answer consists of. Returns the log probabilities that go out with the event. */
  #noted(event: AnswerEvent): TokenReport[] | null {
    if (event.type === 'text') {
      this.#text += event.text
      return this.#logprobs?.sent(event.text) ?? null
    }
    if (event.type === 'call') {
      this.#logprobs?.skip()
      this.#calls.push({ name: event.name, arguments: '' })
      return null
    }
    const call = this.#calls.at(-1)
    if (call === undefined) throw new Error('arguments belong to a call')
    call.arguments += event.text
    return null
  }

  #chunk(event: AnswerEvent, reports: readonly TokenReport[] | null): object {
    const { chunks, index } = this.#options
    if (event.type === 'text') return chunks.content(index, event.text, reports)
    const call = this.#calls.length - 1
    return event.type === 'call' ? chunks.toolCall(index, call, event.name) : chunks.arguments(index, call, event.text)
  }

  /** Of a token whose log probabilities have not gone out, another engine would have none to tell: it is to generate it again. */
  #named(reports: readonly TokenReport[] | null): number[] {
    return this.#unnamed.splice(0, reports?.length ?? this.#unnamed.length)
  }

  /** Tokens at the end that became no text of their own. */
  #restOfLogprobs(): void {
    const reports: TokenReport[] = this.#calls.length > 0 ? [] : (this.#logprobs?.rest() ?? [])
    if (reports.length > 0) this.#options.send(this.#options.chunks.content(this.#options.index, '', reports), [])
  }

  #begin(content: '' | null): void {
    if (this.#begun || this.#over) return
    this.#begun = true
    // A client has the role with the first thing that it has.
    if (this.#delivered !== null) return
    const role = this.#options.chunks.role(this.#options.index, content)
    if (role !== null) this.#options.send(role, [])
  }
}

/** Whether these tokens end an answer, by a stop string or by a call that is whole. */
export function endsAnswer(
  tokens: readonly number[],
  { decoder, stops, format }: Pick<ChoiceOutputOptions, 'decoder' | 'stops' | 'format'>,
): boolean {
  const matcher = new StopMatcher(stops)
  const parser = answerParser(format)
  for (const token of tokens) {
    const { text, stopped } = matcher.push(decoder.push(token))
    parser.push(text)
    if (stopped || parser.done) return true
  }
  return false
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    // Not JSON is an answer here and no failure.
    return false
  }
}
