/** A front on a real scheduler and driver, whose model has one token per character and whose backend writes what a test says. */
import type { Resume, TicketClaims } from '../../../../../src/protocol/index.ts'
import { EngineDriver } from '../../../../engine/driver.ts'
import type { Backend, EngineCall, LedgerRow, SampledToken, StepOutcome, StepPlan } from '../../../../engine/types.ts'
import { EMBEDDED } from '../../../openai/capabilities.ts'
import type { EngineFrontEvents } from '../../engine-front.ts'
import { dispatched } from '../../testing/dispatched.ts'
import { RecordingSink } from '../../testing/recording-sink.ts'
import type { PromptLengths } from '../lengths/prompt-lengths.ts'
import { LocalFront } from '../local-front.ts'
import { monotonicUs, schedulerOf } from '../scheduler-of.ts'
import type { ChatMessage, Encoding, Recall, TextModel } from '../text-model.ts'

export const CONTEXT_TOKENS = 64
const END = 0

/** What models and backends do next. */
interface Script {
  /** Of every call. */
  answer: string
  breaks: boolean
  failing_starts: number
  reads_grammar: boolean
  /** Of a prompt. */
  embedding: (prompt: ArrayLike<number>) => Float32Array
}

/** What they were asked, and what the front told. */
interface Seen {
  starts: number
  prompts: number[][]
  forecasts: EngineCall['forecast'][]
  ledger: LedgerRow[]
  epochs: string[]
}

const newScript = (): Script => ({
  ...{ answer: 'Hello', breaks: false, failing_starts: 0, reads_grammar: true },
  embedding: (prompt) => Float32Array.of(prompt.length, 1),
})
const newSeen = (): Seen => ({ starts: 0, prompts: [], forecasts: [], ledger: [], epochs: [] })
export const script = newScript()
export const seen = newSeen()

/** Before every test. */
export function resetScript(): void {
  Object.assign(script, newScript())
  Object.assign(seen, newSeen())
}

export const characters = (text: string): number[] => Array.from(text, (character) => character.codePointAt(0) ?? 0)

class CharacterModel implements TextModel {
  readonly context_tokens_max: number
  readonly vocabulary_tokens = 0x110000

  constructor(context_tokens: number) {
    this.context_tokens_max = context_tokens
  }

  encodeChat(messages: readonly ChatMessage[], recall: Recall): Encoding {
    const tokens = messages.flatMap(({ content, role }) => {
      const recalled = role === 'assistant' ? recall(content) : undefined
      return [1, ...(recalled ?? characters(content))]
    })
    return { ok: true, tokens: [...tokens, 2] }
  }
  encodeText(text: string): Encoding {
    return { ok: true, tokens: characters(text) }
  }
  wordTokens(word: string): readonly number[][] {
    return [characters(word)]
  }
  readsGrammar(): boolean {
    return script.reads_grammar
  }
  tokenBytes(token: number): number[] {
    return [...Buffer.from(String.fromCodePoint(token))]
  }
  decoder() {
    return { push: (token: number) => String.fromCodePoint(token), end: () => '' }
  }
}

class ScriptedBackend implements Backend {
  readonly slots = 4
  readonly slot_tokens_max: number
  readonly copies_prefixes = false
  readonly #calls = new Map<string, EngineCall>()

  constructor(context_tokens: number) {
    this.slot_tokens_max = context_tokens
  }

  swapCosts(): null {
    return null
  }
  admit(call: EngineCall): void {
    this.#calls.set(call.lease, call)
    seen.prompts.push(Array.from(call.prompt))
    seen.forecasts.push(call.forecast)
  }
  async execute(plan: StepPlan): Promise<StepOutcome> {
    if (script.breaks) throw new Error('broken')
    const sampled = new Map<string, SampledToken>()
    for (const { lease, to, samples } of plan.work) {
      if (!samples) continue
      const call = this.#calls.get(lease)
      if (call?.embeds) {
        sampled.set(lease, { token: END, end: true, embedding: script.embedding(call.prompt) })
        continue
      }
      const { prompt, resumed_tokens = 0 } = call ?? { prompt: [] }
      const position = to - (prompt.length - resumed_tokens)
      const token = script.answer.codePointAt(position)
      const logprobs = call?.sampling.logprobs === undefined ? {} : { logprobs: { logprob: -1, top: [] } }
      sampled.set(lease, token === undefined ? { token: END, end: true } : { token, end: false, ...logprobs })
    }
    return { sampled }
  }
  release(lease: string): void {
    this.#calls.delete(lease)
  }
  evaluatedTokens(): number {
    return 0
  }
  dispose(): Promise<void> {
    return Promise.resolve()
  }
}

export async function startFront(
  context_tokens = CONTEXT_TOKENS,
  lengths: PromptLengths | null = null,
): Promise<LocalFront> {
  let front: LocalFront | null = null
  const events: EngineFrontEvents = {
    ledger: (rows) => seen.ledger.push(...rows),
    status: () => undefined,
    epoch: () => seen.epochs.push(front?.describe().epoch ?? ''),
  }
  front = await LocalFront.start(
    {
      description: {
        id: 'e0',
        kind: 'emulated',
        model: 'm',
        seats: 4,
        kv_capacity_tokens: 256,
        context_tokens_max: context_tokens,
        prefill_tokens_per_s: null,
        speed_factor: 1,
      },
      text: new CharacterModel(context_tokens),
      capabilities: EMBEDDED,
      system_fingerprint: 'fingerprint',
      ordering: 'wall',
      lengths,
      report: () => undefined,
      restart_pause: { min_ms: 1, max_ms: 2 },
      startEngine: async (epoch, hooks) => {
        seen.starts += 1
        if (script.failing_starts > 0) {
          script.failing_starts -= 1
          throw new Error('no engine')
        }
        const sizes = {
          seats: 4,
          slots: 4,
          slot_tokens_max: context_tokens,
          block_tokens: 4,
          capacity_blocks: context_tokens,
        }
        const scheduler = schedulerOf(
          epoch,
          { ...sizes, max_step_tokens: 64, prefill_chunk_tokens: 64 },
          { engine: 'emulated', id: 'e0', model_id: 'm', policy: 'fcfs' },
          null,
        )
        return new EngineDriver({
          epoch,
          scheduler,
          backend: new ScriptedBackend(context_tokens),
          clock: monotonicUs,
          ...hooks,
        })
      },
    },
    events,
  )
  return front
}

/** One call on a front of its own, to its end. */
export async function run(
  body: Record<string, unknown>,
  dialect: 'chat' | 'completions' = 'chat',
  claims: Partial<TicketClaims> = {},
  resume: Resume | null = null,
  context_tokens = CONTEXT_TOKENS,
): Promise<RecordingSink> {
  const front = await startFront(context_tokens)
  const sink = new RecordingSink()
  const call = dispatched(front.describe().epoch, body, { ...claims, dialect })
  front.serve(resume === null ? call : { ...call, resume }, sink)
  await sink.over
  await front.stop()
  return sink
}
