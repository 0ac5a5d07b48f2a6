/**
 * A server's chunks of one call → ours: same frame, ids and fields as other fronts' chunks, without what else vLLM put into them.
 * Text that comes with a finish reason goes out at once and the reason is kept, since it may reach the client only after
 * the record is on disk.
 */
import { z } from 'zod'
import type { FinishReason, Generated, Resume } from '../../../../../src/protocol/index.ts'
import { Choice as OpenAiChoice, Usage } from '../../../../../src/protocol/openai.ts'
import type { ChoiceFinish, Delta as ChunkDelta, ChunkFrame } from '../../../openai/chunk-frame.ts'
import { Delivered } from '../../../openai/delivered.ts'
import { TOOL_CALLS_MAX } from '../../../openai/schemas.ts'

/** Ollama leaves the index out of calls that it sends whole. */
const ToolPiece = z.object({
  index: z.number().int().min(0).max(TOOL_CALLS_MAX).optional(),
  id: z.string().nullish(),
  function: z.object({ name: z.string().nullish(), arguments: z.string().nullish() }).nullish(),
})

const Delta = z.object({
  role: z.string().nullish(),
  content: z.string().nullish(),
  reasoning: z.string().nullish(),
  /** Its name with llama.cpp, SGLang and others. */
  reasoning_content: z.string().nullish(),
  tool_calls: z.array(ToolPiece).max(TOOL_CALLS_MAX).nullish(),
})

const Choice = OpenAiChoice.extend({
  delta: Delta.nullish(),
  /** Of an answer in one piece. */
  message: Delta.nullish(),
  text: z.string().nullish(),
  logprobs: z.record(z.string(), z.unknown()).nullish(),
  finish_reason: OpenAiChoice.shape.finish_reason.optional(),
  /** A stop string, or a token's id. */
  stop_reason: z.union([z.string(), z.number()]).nullish(),
  /** What the chunk is of, where vLLM was asked. */
  token_ids: z.array(z.number()).nullish(),
})
type Choice = z.infer<typeof Choice>

const { prompt_tokens, completion_tokens, prompt_tokens_details } = Usage.shape
/** vLLM leaves out what it has not counted. */
const VllmUsage = z.object({
  prompt_tokens,
  completion_tokens: completion_tokens.nullish(),
  prompt_tokens_details: z.object({ cached_tokens: prompt_tokens_details.shape.cached_tokens.nullish() }).nullish(),
})
const Chunk = z.object({ choices: z.array(Choice), usage: VllmUsage.nullish() })

export interface CountedUsage {
  prompt_tokens: number
  output_tokens: number
  /** Null: vLLM does not tell. */
  cached_tokens: number | null
}

/** `broken`: vLLM said what no OpenAI stream says, or gave a call up. */
export type AnswerReading =
  /** `tokens`: what was generated for them, where that is known. */
  { ok: true; chunks: readonly object[]; tokens?: Generated } | { ok: false; broken: string }

/** What a call reads of vLLM's answer. */
export interface CallAnswer {
  /** Null: vLLM has not told. */
  readonly usage: CountedUsage | null
  readonly pieces: number
  /** Of the answer so far, in UTF-8. */
  readonly text_bytes: number
  readonly finishes: readonly ChoiceFinish[]
  readonly whole: boolean
  /** `data`: of the event, as it came. */
  read(value: unknown, data: string): AnswerReading
}

export interface AnswerStreamOptions {
  /** What the client has of an answer that another engine began, and this one says again. Null: the answer begins here. */
  resume?: Resume | null
  /** What it says again is compared, since it is generated again. Left out: it goes by the same tokens. */
  compares?: boolean
  /** The server writes a chunk for each token and does not name it. */
  counts?: boolean
}

export class AnswerStream implements CallAnswer {
  readonly #frame: ChunkFrame
  readonly #choices: number
  readonly #finishes = new Map<number, ChoiceFinish>()
  readonly #called = new Set<number>()
  readonly #begun = new Set<number>()
  readonly #delivered: Delivered | null
  readonly #compares: boolean
  readonly #counts: boolean
  /** Chunks with output that the client has. */
  #said = 0
  /** Tokens of `resume` that the server has yet to name: it names them again, before what it generates. */
  #named_again: number
  usage: CountedUsage | null = null
  /** Chunks that carried output: vLLM puts at least one token into each. */
  pieces = 0
  text_bytes = 0

  constructor(
    frame: ChunkFrame,
    choices: number,
    { resume = null, compares = false, counts = false }: AnswerStreamOptions = {},
  ) {
    this.#frame = frame
    this.#choices = choices
    this.#delivered = resume === null ? null : new Delivered(resume)
    this.#named_again = resume === null || compares ? 0 : resume.tokens.length
    this.#compares = compares
    this.#counts = counts
    // A client has the role with the first thing that it has.
    if (resume !== null) this.#begun.add(0)
  }

  /** By choice. */
  get finishes(): readonly ChoiceFinish[] {
    const stopped: ChoiceFinish = { reason: 'stop', stop: null }
    return Array.from({ length: this.#choices }, (_, index) => this.#finishes.get(index) ?? stopped)
  }

  /** Whether every choice has said how it ended. */
  get whole(): boolean {
    return this.#finishes.size === this.#choices
  }

  read(value: unknown): AnswerReading {
    const parsed = Chunk.safeParse(value)
    if (!parsed.success) return { ok: false, broken: 'a chunk that is not one of OpenAI' }
    const { choices, usage } = parsed.data
    if (usage != null) {
      this.usage = {
        prompt_tokens: usage.prompt_tokens,
        output_tokens: usage.completion_tokens ?? 0,
        cached_tokens: usage.prompt_tokens_details?.cached_tokens ?? null,
      }
    }
    const said = this.#said
    const chunks: object[] = []
    const tokens: number[] = []
    for (const choice of choices) {
      const before = { said: this.#said, is_all_new: this.#delivered?.isOver ?? true }
      if (choice.index >= this.#choices) return { ok: false, broken: 'a choice that was not asked for' }
      if (this.#finishes.has(choice.index)) {
        // LiteLLM and OpenRouter send the usage with one that has ended and says nothing.
        if (saysNothing(choice)) continue
        return { ok: false, broken: 'a choice that had ended' }
      }
      chunks.push(...this.#choice(choice))
      // What ends the answer is generated again where the end does not reach the client: it may end in a stop string.
      if (choice.finish_reason == null) {
        const is_new = before.is_all_new || this.#said > before.said
        tokens.push(...this.#generated(choice.token_ids ?? [], is_new))
        continue
      }
      const reason = this.#finishReason(choice.index, choice.finish_reason)
      if (reason === null) return { ok: false, broken: `finish reason ${choice.finish_reason.slice(0, 32)}` }
      const { stop_reason } = choice
      this.#finishes.set(choice.index, { reason, stop: typeof stop_reason === 'string' ? stop_reason : null })
    }
    if (this.#compares && this.#delivered?.differs === true) return { ok: false, broken: 'another text than before' }
    return { ok: true, chunks, tokens: this.#counts ? this.#said - said : tokens }
  }

  /** Without what the client's events name already. `is_new`: the client lacks something of them. */
  #generated(tokens: readonly number[], is_new: boolean): readonly number[] {
    if (this.#compares) return is_new ? tokens : []
    const again = Math.min(this.#named_again, tokens.length)
    this.#named_again -= again
    return tokens.slice(again)
  }

  #choice(choice: Choice): object[] {
    const logprobs = choice.logprobs ?? null
    const said = this.#frame.dialect === 'chat' ? this.#delta(choice) : { content: choice.text ?? '' }
    if (saysSomething(said)) {
      this.pieces += 1
      this.text_bytes += bytesOf(said)
    }
    const delta = this.#delivered === null ? said : undelivered(said, this.#delivered)
    if (saysSomething(delta)) this.#said += 1
    if (!saysSomething(delta) && logprobs === null && delta.role === undefined) return []
    return [this.#frame.choice(choice.index, delta, null, logprobs)]
  }

  #delta({ index, delta: streamed, message }: Choice): ChunkDelta {
    const delta = streamed ?? message
    const tool_calls = (delta?.tool_calls ?? []).map((piece, nth) => {
      const at = piece.index ?? nth
      const { name, arguments: text } = piece.function ?? {}
      const begins = name != null && name !== ''
      if (begins) this.#called.add(index)
      const said = { ...(begins ? { name } : {}), arguments: text ?? '' }
      // vLLM's ids are random; ours are the same when another engine serves the call again.
      const head = begins ? { id: this.#frame.toolCallId(index, at), type: 'function' } : {}
      return { index: at, ...head, function: said }
    })
    const reasoning = delta?.reasoning ?? delta?.reasoning_content ?? ''
    // A call that was sent again after its answer had begun, and before it had text, begins once for its client.
    const begins = delta?.role != null && !this.#begun.has(index)
    if (begins) this.#begun.add(index)
    const begun = begins ? { role: 'assistant', refusal: null } : {}
    return {
      ...begun,
      ...(delta?.content == null ? {} : { content: delta.content }),
      ...(reasoning === '' ? {} : { reasoning }),
      ...(tool_calls.length === 0 ? {} : { tool_calls }),
    }
  }

  /** Null: vLLM gave the call up. */
  #finishReason(choice: number, reason: string): FinishReason | null {
    switch (reason) {
      case 'length':
        return 'length'
      case 'tool_calls':
        return 'tool_calls'
      case 'stop':
        // vLLM says `stop` of a tool that was asked for by its name.
        return this.#called.has(choice) ? 'tool_calls' : 'stop'
      case 'repetition':
      case 'content_filter':
      case 'eos_token':
      case 'stop_sequence':
      case 'function_call':
        return this.#called.has(choice) ? 'tool_calls' : 'stop'
      default:
        return null
    }
  }
}

function saysSomething({ content, tool_calls, reasoning }: ChunkDelta): boolean {
  return (content ?? '') !== '' || tool_calls !== undefined || reasoning !== undefined
}

function bytesOf({ content, reasoning, tool_calls = [] }: ChunkDelta): number {
  const called = (tool_calls as readonly CallPiece[]).map(({ function: { name = '', arguments: text } }) => name + text)
  return Buffer.byteLength([content ?? '', reasoning ?? '', ...called].join(''))
}

/** What the client lacks of it. */
function undelivered({ content, reasoning, tool_calls, ...delta }: ChunkDelta, delivered: Delivered): ChunkDelta {
  const thought = reasoning === undefined ? null : delivered.rest({ type: 'reasoning', text: reasoning })
  const text = content == null ? null : delivered.rest({ type: 'text', text: content })
  const calls = (tool_calls ?? []).flatMap((piece) => undeliveredCall(piece as CallPiece, delivered))
  return {
    ...delta,
    ...(text === null ? {} : { content: text.text }),
    ...(thought === null ? {} : { reasoning: thought.text }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  }
}

interface CallPiece {
  index: number
  id?: string
  function: { name?: string; arguments: string }
}

function undeliveredCall(piece: CallPiece, delivered: Delivered): object[] {
  const { name, arguments: text } = piece.function
  const is_new = name !== undefined && delivered.rest({ type: 'call', name }) !== null
  const rest = delivered.rest({ type: 'arguments', text })
  if (is_new) return [{ ...piece, function: { ...piece.function, arguments: rest?.text ?? '' } }]
  return rest === null || rest.text === '' ? [] : [{ index: piece.index, function: { arguments: rest.text } }]
}

function saysNothing({ delta, message, text, finish_reason }: Choice): boolean {
  const { content, reasoning, reasoning_content, tool_calls } = delta ?? message ?? {}
  const said = [text, content, reasoning, reasoning_content].some((part) => part != null && part !== '')
  return !said && (tool_calls?.length ?? 0) === 0 && finish_reason == null
}
