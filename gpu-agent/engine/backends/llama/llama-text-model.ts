/**
 * Text of a GGUF model: its chat template, its tokenizer, its detokenizer. Clients' text is tokenised with control tokens
 * off, so `<|im_end|>` in a message is seven ordinary tokens.
 */
import type { LlamaModel, Token } from 'node-llama-cpp'
import { ChatTemplate } from './chat-template.ts'
import { isReadable } from './llama-grammar.ts'
import type {
  ChatMessage,
  Encoding,
  Recall,
  TemplateOptions,
  TextEmbedding,
  TextModel,
  TokenDecoder,
} from './text-model.ts'
import { tokenBytes, type Vocabulary } from './token-bytes.ts'
import { IncrementalTokenDecoder } from './token-decoder.ts'

export class LlamaTextModel implements TextModel {
  readonly context_tokens_max: number
  readonly vocabulary_tokens: number
  readonly #model: LlamaModel
  readonly #template: ChatTemplate
  readonly #longest_token_bytes: number
  readonly #vocabulary: Vocabulary
  readonly #system_prompt: string | null

  readonly embedding?: TextEmbedding

  /**
   * `system_prompt`: told to the model by conversations without a system message; null: what its template says then.
   * `dimensions`: of the embeddings that the engine makes; null: none.
   */
  constructor(
    model: LlamaModel,
    context_tokens_max: number,
    system_prompt: string | null = null,
    dimensions: number | null = null,
  ) {
    if (dimensions !== null) this.embedding = { dimensions, encode: (text) => this.#encodeInput(text) }
    const { tokenizer } = model.fileInfo.metadata
    this.#model = model
    this.#system_prompt = system_prompt
    this.context_tokens_max = context_tokens_max
    const { model: kind, tokens, token_type: types } = tokenizer.ggml
    this.#vocabulary = { model: kind, tokens, types }
    this.vocabulary_tokens = tokens.length
    this.#template = new ChatTemplate(tokenizer.chat_template, {
      bos: model.tokens.bosString,
      eos: model.tokens.eosString,
    })
    this.#longest_token_bytes = longestTokenBytes(model)
  }

  get template_options(): ReadonlySet<string> {
    return this.#template.options
  }

  encodeChat(own: readonly ChatMessage[], recall: Recall, options?: TemplateOptions): Encoding {
    const messages = this.#withSystem(own)
    let bytes = 0
    for (const { content } of messages) bytes += Buffer.byteLength(content)
    const overlong = this.#overlong(Math.max(messages.length, Math.ceil(bytes / this.#longest_token_bytes)))
    if (overlong !== null) return overlong
    const rendering = this.#template.render(messages, options)
    if (!rendering.ok) return { ok: false, reason: 'unrenderable', message: rendering.message }
    const tokens: number[] = []
    for (const piece of rendering.pieces) {
      const own = piece.kind === 'content' && messages[piece.message]?.role === 'assistant'
      const recalled = own ? recall(piece.text) : undefined
      append(tokens, recalled ?? this.#model.tokenize(piece.text, piece.kind === 'template'))
    }
    return { ok: true, tokens: this.#withBeginning(tokens) }
  }

  encodeText(text: string): Encoding {
    const overlong = this.#overlong(Math.ceil(Buffer.byteLength(text) / this.#longest_token_bytes))
    if (overlong !== null) return overlong
    return { ok: true, tokens: this.#withBeginning(this.#model.tokenize(text, false)) }
  }

  #encodeInput(text: string): Encoding {
    const encoding = this.encodeText(text)
    const { eos, shouldAppendEosToken } = this.#model.tokens
    if (!encoding.ok || !shouldAppendEosToken || eos === null || encoding.tokens.at(-1) === eos) return encoding
    return { ok: true, tokens: [...encoding.tokens, eos] }
  }

  wordTokens(word: string): readonly (readonly number[])[] {
    const bare = word.trimStart()
    const begun: readonly number[] = this.#model.tokenize(bare, false)
    const spaced: readonly number[] = this.#model.tokenize(` ${bare}`, false)
    // A space that is a token of its own stands before the word and is none of it.
    const distinct = spaced.length === begun.length && spaced[0] !== begun[0]
    return [begun, ...(distinct ? [spaced] : [])].filter((tokens) => tokens.length > 0)
  }

  readsGrammar(grammar: string): boolean {
    return isReadable(this.#model, grammar)
  }

  tokenBytes(token: number): number[] {
    return tokenBytes(this.#vocabulary, token)
  }

  decoder(): TokenDecoder {
    return new IncrementalTokenDecoder((tokens, preceding) =>
      this.#model.detokenize(tokens as readonly Token[], false, preceding as readonly Token[]),
    )
  }

  /** Tokenising is synchronous; a text that cannot fit however it is cut is refused without it. */
  #overlong(tokens_min: number): Encoding | null {
    return tokens_min > this.context_tokens_max ? { ok: false, reason: 'too_long', tokens_min } : null
  }

  #withSystem(messages: readonly ChatMessage[]): readonly ChatMessage[] {
    if (this.#system_prompt === null || messages[0]?.role === 'system') return messages
    return [{ role: 'system', content: this.#system_prompt }, ...messages]
  }

  #withBeginning(tokens: number[]): number[] {
    const { bos, shouldPrependBosToken } = this.#model.tokens
    return shouldPrependBosToken && bos !== null && tokens[0] !== bos ? [bos, ...tokens] : tokens
  }
}

/** `push(...many)` overflows the stack on long prompts. */
function append(tokens: number[], more: readonly number[]): void {
  for (const token of more) tokens.push(token)
}

function longestTokenBytes(model: LlamaModel): number {
  let longest = 1
  for (const token of model.iterateAllTokens()) {
    longest = Math.max(longest, Buffer.byteLength(model.detokenize([token], true)))
  }
  return longest
}
