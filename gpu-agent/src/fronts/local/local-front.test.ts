import { beforeEach, describe, expect, test } from 'vitest'
import { EngineDriver } from '../../../engine/driver.ts'
import type { Backend, EngineCall, LedgerRow, StepOutcome, StepPlan } from '../../../engine/types.ts'
import { EMBEDDED } from '../../openai/capabilities.ts'
import { CHOICES_MAX } from '../../openai/schemas.ts'
import type { EngineFrontEvents } from '../engine-front.ts'
import { dispatched, user } from '../testing/dispatched.ts'
import { RecordingSink } from '../testing/recording-sink.ts'
import { LocalFront } from './local-front.ts'
import { monotonicUs, schedulerOf } from './scheduler-of.ts'
import type { ChatMessage, Encoding, Recall, TextModel } from './text-model.ts'

const CONTEXT_TOKENS = 64
const END = 0

/** One token per character, so that tests can say exactly what an engine writes. */
class CharacterModel implements TextModel {
  readonly context_tokens_max: number
  readonly vocabulary_tokens = 0x110000
  static reads = true

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
    return CharacterModel.reads
  }
  tokenBytes(token: number): number[] {
    return [...Buffer.from(String.fromCodePoint(token))]
  }
  decoder() {
    return { push: (token: number) => String.fromCodePoint(token), end: () => '' }
  }
}

const characters = (text: string): number[] => Array.from(text, (character) => character.codePointAt(0) ?? 0)

/** Writes `answer` for every call; breaks when told. */
class ScriptedBackend implements Backend {
  readonly slots = 4
  readonly slot_tokens_max: number
  readonly copies_prefixes = false
  static answer = 'Hello'
  static breaks = false
  static prompts: number[][] = []
  static forecasts: EngineCall['forecast'][] = []
  readonly #calls = new Map<string, EngineCall>()

  constructor(context_tokens: number) {
    this.slot_tokens_max = context_tokens
  }

  swapCosts(): null {
    return null
  }
  admit(call: EngineCall): void {
    this.#calls.set(call.lease, call)
    ScriptedBackend.prompts.push(Array.from(call.prompt))
    ScriptedBackend.forecasts.push(call.forecast)
  }
  async execute(plan: StepPlan): Promise<StepOutcome> {
    if (ScriptedBackend.breaks) throw new Error('broken')
    const sampled = new Map<string, { token: number; end: boolean }>()
    for (const { lease, to, samples } of plan.work) {
      if (!samples) continue
      const position = to - (this.#calls.get(lease)?.prompt.length ?? 0)
      const token = ScriptedBackend.answer.codePointAt(position)
      sampled.set(lease, token === undefined ? { token: END, end: true } : { token, end: false })
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

let starts = 0
let failing_starts = 0
const ledger: LedgerRow[] = []
const epochs: string[] = []
let states: string[] = []

async function start(context_tokens = CONTEXT_TOKENS): Promise<LocalFront> {
  const events: EngineFrontEvents = {
    ledger: (rows) => ledger.push(...rows),
    status: () => states.push(front?.status().state ?? 'starting'),
    epoch: () => epochs.push(front?.describe().epoch ?? ''),
  }
  let front: LocalFront | null = null
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
      report: () => undefined,
      restart_pause: { min_ms: 1, max_ms: 2 },
      startEngine: async (epoch, hooks) => {
        starts += 1
        if (failing_starts > 0) {
          failing_starts -= 1
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

beforeEach(() => {
  ScriptedBackend.answer = 'Hello'
  ScriptedBackend.breaks = false
  ScriptedBackend.prompts = []
  ScriptedBackend.forecasts = []
  starts = 0
  failing_starts = 0
  ledger.length = 0
  epochs.length = 0
  states = []
})

describe('LocalFront', () => {
  async function run(body: Record<string, unknown>, dialect: 'chat' | 'completions' = 'chat'): Promise<RecordingSink> {
    const front = await start()
    const sink = new RecordingSink()
    front.serve(dispatched(front.describe().epoch, body, { dialect }), sink)
    await sink.over
    await front.stop()
    return sink
  }

  test('what is expected of a call reaches its engine, for every choice', async () => {
    const front = await start()
    const sink = new RecordingSink()
    const forecast = { output_tokens: 9, ends: 0.5, tool: null, confidence: 0.1 }
    front.serve({ ...dispatched(front.describe().epoch, { messages: user('Hi'), n: 2 }), forecast }, sink)
    await sink.over
    await front.stop()
    expect(ScriptedBackend.forecasts).toEqual([forecast, forecast])
    await run({ messages: user('Hi') })
    expect(ScriptedBackend.forecasts.at(-1)).toBeUndefined()
  })

  test('a call: accepted, role, content, finish, usage', async () => {
    const sink = await run({ messages: user('Hi'), stream_options: { include_usage: true } })
    expect(sink.prompt_tokens).toBe(4)
    expect(sink.chunks[0]?.choices[0]?.delta).toMatchObject({ role: 'assistant', content: '' })
    expect(sink.text).toBe('Hello')
    expect(sink.chunks.every(({ choices }) => choices[0]?.finish_reason === null)).toBe(true)
    expect(sink.end).toMatchObject({ outcome: 'completed', finish_reason: 'stop', error: null })
    const [finish, usage] = sink.end?.last_chunks ?? []
    expect(finish).toMatchObject({ choices: [{ finish_reason: 'stop' }] })
    const service_wall_us = ledger.reduce((sum, row) => sum + row.wall_us, 0)
    expect(sink.end?.measurement.service_wall_us).toBe(service_wall_us)
    expect(usage).toMatchObject({
      choices: [],
      usage: {
        prompt_tokens: 4,
        completion_tokens: 5,
        total_tokens: 9,
        prompt_tokens_details: { cached_tokens: 0 },
        switchyard: { service_s: service_wall_us / 1e6, engine: 'agent-e0', region: 'us-east', emulated: true },
      },
    })
  })

  test('max_tokens ends a call as length, without usage unless it was asked for', async () => {
    const sink = await run({ messages: user('Hi'), max_tokens: 3 })
    expect(sink.text).toBe('Hel')
    expect(sink.end).toMatchObject({ outcome: 'completed', finish_reason: 'length' })
    expect(sink.end?.last_chunks).toHaveLength(1)
  })

  test('an answer without a token has its role chunk all the same', async () => {
    ScriptedBackend.answer = ''
    const sink = await run({ messages: user('Hi') })
    expect(sink.chunks).toHaveLength(1)
    expect(sink.end).toMatchObject({ finish_reason: 'stop' })
  })

  test('a stop string ends the call, and nothing of it is seen', async () => {
    ScriptedBackend.answer = 'one END two'
    const sink = await run({ messages: user('Hi'), stop: [' END'] })
    expect(sink.text).toBe('one')
    expect(sink.end).toMatchObject({ outcome: 'completed', finish_reason: 'stop' })
    expect(sink.end?.measurement.output_tokens).toBeLessThanOrEqual(8)
  })

  test('a stop string that the limit cuts off was text', async () => {
    ScriptedBackend.answer = 'one END'
    const sink = await run({ messages: user('Hi'), stop: [' END'], max_tokens: 5 })
    expect(sink.text).toBe('one E')
    expect(sink.end).toMatchObject({ finish_reason: 'length' })
  })

  test('completions have text and a default limit of 16', async () => {
    ScriptedBackend.answer = 'x'.repeat(30)
    const sink = await run({ prompt: 'Hi' }, 'completions')
    expect(sink.text).toBe('x'.repeat(16))
    expect(sink.chunks[0]).toMatchObject({ object: 'text_completion' })
  })

  test('prompt and output fill the context and not one token more', async () => {
    const fits = await run({ messages: user('x'.repeat(30)), max_tokens: 32 })
    expect(fits.end).toMatchObject({ outcome: 'completed' })
    const over = await run({ messages: user('x'.repeat(30)), max_tokens: 33 })
    expect(over.error).toMatchObject({ status: 400, error: { code: 'context_length_exceeded', param: 'messages' } })
    expect(over.error?.error.message).toContain('65 tokens (32 in the messages, 33 in the completion)')
    const full = await run({ prompt: 'x'.repeat(64) }, 'completions')
    expect(full.error).toMatchObject({ error: { code: 'context_length_exceeded', param: 'prompt' } })
  })

  test('a default limit is what the context leaves', async () => {
    ScriptedBackend.answer = 'x'.repeat(100)
    const sink = await run({ messages: user('x'.repeat(30)) })
    expect(sink.text).toBe('x'.repeat(32))
    expect(sink.end).toMatchObject({ finish_reason: 'length' })
  })

  test('prompts of no tokens or of foreign tokens are refused', async () => {
    const empty = await run({ prompt: '' }, 'completions')
    expect(empty.error).toMatchObject({ error: { code: 'invalid_value', param: 'prompt' } })
    const foreign = await run({ prompt: [65, 0x110000] }, 'completions')
    expect(foreign.error).toMatchObject({ error: { code: 'invalid_value', param: 'prompt[1]' } })
    expect((await run({ prompt: [65, 0x10ffff] }, 'completions')).end).toMatchObject({ outcome: 'completed' })
  })

  test('an answer comes back as the tokens that were generated, to its own tenant alone', async () => {
    const front = await start()
    const { epoch } = front.describe()
    const history = [...user('Hi'), { role: 'assistant', content: 'Hello' }]
    const serve = async (body: Record<string, unknown>, cache_salt: string) => {
      const sink = new RecordingSink()
      front.serve(dispatched(epoch, body, { cache_salt }), sink)
      return sink.over
    }
    await serve({ messages: user('Hi') }, 'a')
    await serve({ messages: history }, 'a')
    await serve({ messages: history }, 'b')
    expect(ScriptedBackend.prompts[1]).toEqual([1, ...characters('Hi'), 1, ...characters('Hello'), 2])
    expect(ScriptedBackend.prompts[2]).toEqual(ScriptedBackend.prompts[1])
    await front.stop()
  })

  test('n choices are calls of the engine, and one lease: rows, measurement, finish reasons, usage', async () => {
    const sink = await run({ messages: user('Hi'), n: 3, stream_options: { include_usage: true } })
    for (const index of [0, 1, 2]) {
      const own = sink.chunks.filter(({ choices }) => choices[0]?.index === index)
      expect(own[0]?.choices[0]?.delta).toMatchObject({ role: 'assistant' })
      expect(own.map(({ choices }) => choices[0]?.delta?.content ?? '').join('')).toBe('Hello')
    }
    const { measurement, last_chunks } = sink.end ?? expect.fail('no end')
    expect(last_chunks.slice(0, 3)).toMatchObject([0, 1, 2].map((index) => ({ choices: [{ index }] })))
    expect(last_chunks[3]).toMatchObject({ usage: { prompt_tokens: 4, completion_tokens: 15, total_tokens: 19 } })
    expect(measurement).toMatchObject({ prompt_tokens: 4, output_tokens: 15 })
    expect(new Set(ledger.map(({ lease }) => lease)).size).toBe(1)
    expect(new Set(ledger.map(({ step }) => step)).size).toBe(ledger.length)
    const sum = (field: 'wall_us' | 'modelled_us' | 'sampled_tokens') =>
      ledger.reduce((total, row) => total + row[field], 0)
    expect(sum('wall_us')).toBe(measurement.service_wall_us)
    expect(sum('modelled_us')).toBe(measurement.service_modelled_us)
    expect(sum('sampled_tokens')).toBe(15)
  })

  test('several prompts are answered by one choice each, as they would be alone', async () => {
    const prompts = ['Hi', 'Hello', 'Hi']
    const sink = await run({ prompt: prompts, echo: true, stream_options: { include_usage: true } }, 'completions')
    const texts = prompts.map((_, index) =>
      sink.chunks
        .filter(({ choices }) => choices[0]?.index === index)
        .map(({ choices }) => choices[0]?.text ?? '')
        .join(''),
    )
    expect(texts).toEqual(['HiHello', 'HelloHello', 'HiHello'])
    expect(ScriptedBackend.prompts).toEqual(['Hi', 'Hello', 'Hi'].map(characters))
    expect(sink.prompt_tokens).toBe(2 + 5 + 2)
    expect(sink.end?.measurement).toMatchObject({ prompt_tokens: 9, output_tokens: 15 })
    expect(sink.end?.last_chunks.at(-1)).toMatchObject({ usage: { prompt_tokens: 9, completion_tokens: 15 } })
    expect(new Set(ledger.map(({ lease }) => lease)).size).toBe(1)
    expect(ledger.reduce((total, row) => total + row.wall_us, 0)).toBe(sink.end?.measurement.service_wall_us)
  })

  test('a prompt of several that cannot be served is named', async () => {
    const foreign = await run({ prompt: [[65], [66, 0x110000]] }, 'completions')
    expect(foreign.error).toMatchObject({ error: { code: 'invalid_value', param: 'prompt[1][1]' } })
    const long = await run({ prompt: ['x', 'x'.repeat(CONTEXT_TOKENS)] }, 'completions')
    expect(long.error).toMatchObject({ error: { code: 'context_length_exceeded', param: 'prompt[1]' } })
  })

  test('a stop token ends the call, and is not part of its text', async () => {
    ScriptedBackend.answer = 'one.two'
    const stop_token_ids = characters('.')
    const sink = await run({ messages: user('Hi'), stop_token_ids })
    expect(sink.text).toBe('one')
    expect(sink.end).toMatchObject({ outcome: 'completed', finish_reason: 'stop' })
    expect(sink.end?.measurement.output_tokens).toBe(4)
    // What was held back, since a stop string might have begun, is text.
    const held = await run({ messages: user('Hi'), stop_token_ids, stop: ['e.two'] })
    expect(held.text).toBe('one')
    const foreign = await run({ messages: user('Hi'), stop_token_ids: [0x110000] })
    expect(foreign.error).toMatchObject({ error: { code: 'invalid_value', param: 'stop_token_ids' } })
  })

  test('a cancelled lease ends all its choices, and CHOICES_MAX choices are the most', async () => {
    ScriptedBackend.answer = 'x'.repeat(60)
    const front = await start()
    const { epoch } = front.describe()
    const sink = new RecordingSink()
    const call = dispatched(epoch, { messages: user('Hi'), n: CHOICES_MAX })
    sink.onChunk = () => front.cancel(call.claims.lease, null)
    front.serve(call, sink)
    await sink.over
    expect(sink.end).toMatchObject({ outcome: 'cancelled', last_chunks: [] })
    expect(front.status()).toMatchObject({ waiting: 0, running: 0 })
    const over = new RecordingSink()
    front.serve(dispatched(epoch, { messages: user('Hi'), n: CHOICES_MAX + 1 }), over)
    expect(over.error).toMatchObject({ status: 400, error: { param: 'n' } })
    await front.stop()
  })

  test('a call that the model writes is a tool call, and its history repeats the tokens that were generated', async () => {
    ScriptedBackend.answer = '<tool_call>{"name":"f","arguments":{"a":1}}</tool_call>'
    const tools = [{ type: 'function', function: { name: 'f' } }]
    const front = await start(512)
    const { epoch } = front.describe()
    const first = new RecordingSink()
    front.serve(dispatched(epoch, { messages: user('Hi'), tools }), first)
    await first.over
    const deltas = first.chunks.map(({ choices }) => choices[0]?.delta)
    expect(deltas[0]).toEqual({ role: 'assistant', content: null, refusal: null })
    expect(deltas[1]).toMatchObject({ tool_calls: [{ index: 0, function: { name: 'f', arguments: '' } }] })
    expect(deltas[2]).toMatchObject({ tool_calls: [{ index: 0, function: { arguments: '{"a":1}' } }] })
    expect(first.end).toMatchObject({ finish_reason: 'tool_calls' })
    const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }
    const history = [
      ...user('Hi'),
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', content: '42', tool_call_id: 'c' },
    ]
    const second = new RecordingSink()
    front.serve(dispatched(epoch, { messages: history, tools }), second)
    await second.over
    const [before = [], after = []] = ScriptedBackend.prompts
    // The prompt ends where the assistant speaks; in the history its message stands there, as it was generated.
    const spoken = before.slice(0, -1)
    expect(after.slice(0, spoken.length)).toEqual(spoken)
    const generated = characters(ScriptedBackend.answer)
    expect(after.slice(spoken.length + 1, spoken.length + 1 + generated.length)).toEqual(generated)
    await front.stop()
  })

  test('an enforced format that does not come to its end fails the call and not the engine', async () => {
    ScriptedBackend.answer = '{"a": '
    const sink = await run({ messages: user('Hi'), response_format: { type: 'json_object' } })
    expect(sink.end).toMatchObject({
      outcome: 'failed',
      error: { retryable: false, error: { code: 'output_incomplete' } },
    })
    CharacterModel.reads = false
    const unreadable = await run({ messages: user('Hi'), response_format: { type: 'json_object' } })
    CharacterModel.reads = true
    expect(unreadable.error).toMatchObject({ status: 400, error: { param: 'response_format' } })
  })

  test('cancel ends a call as cancelled, with the reason, and others go on', async () => {
    ScriptedBackend.answer = 'x'.repeat(60)
    const front = await start()
    const { epoch } = front.describe()
    const [first, second] = [new RecordingSink(), new RecordingSink()]
    const call = dispatched(epoch, { messages: user('Hi') })
    const reason = {
      error: { message: 'left', type: 't', param: null, code: 'client_gone' },
      status: 499,
      retryable: false,
    }
    first.onChunk = () => front.cancel(call.claims.lease, reason)
    front.serve(call, first)
    front.serve(dispatched(epoch, { messages: user('Hi') }), second)
    front.cancel('unknown', null)
    await Promise.all([first.over, second.over])
    expect(first.end).toMatchObject({ outcome: 'cancelled', finish_reason: null, error: reason, last_chunks: [] })
    expect(second.end).toMatchObject({ outcome: 'completed' })
    await front.stop()
  })

  test('a backend that breaks fails open calls and is replaced under another epoch', async () => {
    const front = await start()
    const { epoch } = front.describe()
    ScriptedBackend.breaks = true
    failing_starts = 2
    const sinks = [new RecordingSink(), new RecordingSink()]
    for (const sink of sinks) front.serve(dispatched(epoch, { messages: user('Hi') }), sink)
    await Promise.all(sinks.map((sink) => sink.over))
    for (const { end } of sinks) {
      expect(end).toMatchObject({ outcome: 'failed', error: { retryable: true, error: { code: 'engine_failed' } } })
    }
    await expect.poll(() => front.status().state).toBe('down')
    const down = new RecordingSink()
    front.serve(dispatched(epoch, { messages: user('Hi') }), down)
    expect(down.error).toMatchObject({ status: 503, retryable: true, error: { code: 'engine_down' } })

    ScriptedBackend.breaks = false
    await expect.poll(() => epochs.length).toBe(1)
    expect(starts).toBe(4)
    expect(front.describe().epoch).toBe(epochs[0])
    expect(epochs[0]).not.toBe(epoch)
    expect(front.status().state).toBe('ready')
    const stale = new RecordingSink()
    front.serve(dispatched(epoch, { messages: user('Hi') }), stale)
    expect(stale.error).toMatchObject({ retryable: true, error: { code: 'epoch_gone' } })
    const again = new RecordingSink()
    front.serve(dispatched(front.describe().epoch, { messages: user('Hi') }), again)
    await again.over
    expect(again.text).toBe('Hello')
    await front.stop()
  })

  test('drain refuses further calls and waits for those under way', async () => {
    const front = await start()
    const { epoch } = front.describe()
    const open = new RecordingSink()
    front.serve(dispatched(epoch, { messages: user('Hi') }), open)
    const drained = front.drain()
    const late = new RecordingSink()
    front.serve(dispatched(epoch, { messages: user('Hi') }), late)
    expect(late.error).toMatchObject({ status: 503, retryable: true, error: { code: 'draining' } })
    await drained
    expect(open.end).toMatchObject({ outcome: 'completed' })
    expect(front.status().state).toBe('draining')
    await front.stop()
  })

  test('a first engine that cannot be started rejects', async () => {
    failing_starts = 1
    await expect(start()).rejects.toThrow('no engine')
  })
})
