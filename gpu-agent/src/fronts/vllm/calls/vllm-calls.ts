/**
 * The calls that are open on one vLLM, those that a former agent left there, and the accounts of both: charges and records
 * of the engine find their lease here, and their growth goes to the ledger before anything is said that rests on it.
 */
import { readerOf } from '../../../../../src/core/wire/native/reader-of.ts'
import {
  type Measurement,
  NATIVE_PATHS,
  type QueuePosition,
  type Resume,
  type StreamError,
  type TicketClaims,
} from '../../../../../src/protocol/index.ts'
import { ChunkFrame } from '../../../openai/chunk-frame.ts'
import { EmbeddingFrame } from '../../../openai/embeddings.ts'
import { badRequest, budgetExceeded, cannotResume } from '../../../openai/errors.ts'
import { resumedTokens } from '../../../openai/resume-fault.ts'
import type { LostCall } from '../../../outbox/lost-calls.ts'
import type { LedgerSums } from '../../../outbox/record.ts'
import { continuedRequest } from '../../attached/continuing/continued-request.ts'
import { messagesBody } from '../../attached/native/messages-request.ts'
import { NativeAnswer } from '../../attached/native/native-answer.ts'
import { nativeRequest } from '../../attached/native/native-request.ts'
import { TranslatedAnswer } from '../../attached/native/translated-answer.ts'
import { ReportedLoad } from '../../attached/reported-load.ts'
import type { ServerQueue } from '../../attached/server-queue.ts'
import { cappedOutput, promptTokensAtMost, thinkingTokens } from '../../budget-cap.ts'
import {
  type CallSink,
  type Dialect,
  type DispatchedCall,
  type EngineFrontEvents,
  isNativeApi,
} from '../../engine-front.ts'
import { BytesPerToken } from '../../local/bytes-per-token.ts'
import type { Charges, EngineRecord } from '../channel/channel-messages.ts'
import { RecordRouter } from '../channel/record-router.ts'
import type { VllmAddress } from '../process/vllm-server.ts'
import type { VllmTimes } from '../vllm-times.ts'
import { AnswerStream, type AnswerStreamOptions } from './answer-stream.ts'
import { textEnd } from './call-end-frame.ts'
import { EmbeddingAnswer, embeddingEnd, embeddingRequest } from './embedding-call.ts'
import type { LeaseMeter } from './lease-meter.ts'
import { LostLeases } from './lost-leases.ts'
import { type RequestResult, type VllmRequestBody, vllmRequest } from './request-body.ts'
import { resumedRequest } from './resumed-request.ts'
import { type Leg, StoppedLegs } from './stopped-legs.ts'
import { ticketFields } from './ticket-fields.ts'
import { VllmCall, type VllmCallOptions } from './vllm-call.ts'
import type { Refusal } from './vllm-errors.ts'
import { VllmHttp } from './vllm-request.ts'

/** Until the first prompt was counted. */
const BYTES_PER_TOKEN = 4

const PATHS = {
  ...({ chat: '/v1/chat/completions', completions: '/v1/completions', embeddings: '/v1/embeddings' } as const),
  ...NATIVE_PATHS,
}
const PROMPT_PARAMS = {
  ...({ chat: 'messages', completions: 'prompt', embeddings: 'input' } as const),
  ...({ messages: 'messages', responses: 'input' } as const),
}

export interface VllmCallsOptions {
  model_id: string
  ordering: 'wall' | 'modelled'
  lost: readonly LostCall[]
  times: VllmTimes
  clock: () => number
  wall_ms: () => number
  events: EngineFrontEvents
  /** The agent's queue, before a server that does not order programs by itself. */
  queue: ServerQueue | null
  /** The engine may forget the record. */
  settle: (epoch: string, number: number) => void
  /** Output came: the engine lives. */
  progressed: () => void
  faulty: (refusal: Refusal) => void
  /** The last open call has ended. */
  idle: () => void
}

export class VllmCalls {
  readonly load = new ReportedLoad()
  readonly bytes = new BytesPerToken()
  readonly lost: LostLeases
  /** False: a plug-in that failed sends no records of calls that begin. */
  measured = true
  /** Of a plug-in that goes on with answers. Null: there is none. */
  vocabulary_tokens: number | null = null
  readonly #options: VllmCallsOptions
  readonly #http_request = new VllmHttp()
  readonly #calls = new Map<string, VllmCall>()
  readonly #desk: RecordRouter
  #step: number
  #waiting: (() => void)[] = []

  constructor(options: VllmCallsOptions) {
    this.#options = options
    const { lost: calls, times, settle, events } = options
    // A row's step must be one that its lease has not had; rows on disk are of a former process.
    this.#step = Math.max(0, ...calls.map(({ last_step }) => last_step))
    const charge = (meter: LeaseMeter, sums: LedgerSums): void => this.#charge([[meter, sums]])
    this.#desk = new RecordRouter({
      deliver: (lease, record) => this.#calls.get(lease)?.record(record) ?? this.lost.record(lease, record),
      settle,
      counted: (what) => events.counted?.(what),
    })
    this.lost = new LostLeases({ calls, times, charge, recorded: (lease) => this.#desk.recorded(lease) })
  }

  get size(): number {
    return this.#calls.size
  }

  has(lease: string): boolean {
    return this.#calls.has(lease)
  }

  /** Sends the call to vLLM, unless its body cannot be. */
  open(dispatched: DispatchedCall, sink: CallSink, address: VllmAddress): StreamError | null {
    const { dialect, body } = dispatched
    const result = requestFor(dialect, body, address)
    if (!result.ok) return result.error
    const { lease } = dispatched.claims
    const capped = underBudget(result.request, dispatched.claims)
    if (!capped.ok) return capped.error
    let { request } = capped
    let resumed: Resumed | null = null
    if (dispatched.resume !== undefined) {
      const found = this.#resumed(dispatched.resume, dialect, request, address)
      if (!found.ok) return found.error
      resumed = found.resumed
      request = found.request
    }
    const prompt_tokens = this.#promptTokens(request) + (resumed?.as === 'prompt' ? resumed.tokens : 0)
    this.load.opened(lease, request.choices, prompt_tokens)
    const call = this.#call(dispatched, capped.request, request, resumed, prompt_tokens, sink, address)
    this.#calls.set(lease, call)
    return call.begin()
  }

  /** In the agent's own queue. */
  positions(leases: readonly string[]): QueuePosition[] {
    return leases.flatMap((lease) => {
      const position = this.#calls.get(lease)?.position ?? null
      return position === null ? [] : [{ lease, ...position }]
    })
  }

  cancel(lease: string, error: StreamError | null): void {
    this.#calls.get(lease)?.cancel(error)
  }

  cancelAll(error: StreamError): void {
    for (const call of [...this.#calls.values()]) call.cancel(error)
  }

  record(record: EngineRecord, epoch: string): void {
    this.#desk.take(record, epoch)
  }

  /** The lease's own record is on disk. */
  recorded(lease: string): void {
    this.#desk.recorded(lease)
  }

  charges({ leases }: Charges): void {
    this.#charge(
      leases.flatMap(([lease, wall_us, modelled_us, computed_tokens, sampled_tokens]) => {
        const meter = this.#calls.get(lease)?.meter ?? this.lost.meterOf(lease)
        const sums = { wall_us, modelled_us, computed_tokens, sampled_tokens }
        return meter === undefined ? [] : [[meter, sums] as const]
      }),
    )
  }

  /** The engine is gone: all end with what is known of them. */
  engineLost(): void {
    for (const call of [...this.#calls.values()]) call.lost()
    this.lost.giveUp()
    this.load.clear()
  }

  /** Resolves when no call is open. */
  async whenIdle(): Promise<void> {
    if (this.#calls.size === 0) return
    await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }

  close(): void {
    this.lost.close()
    this.#http_request.close()
  }

  #call(
    dispatched: DispatchedCall,
    asked: VllmRequestBody,
    request: VllmRequestBody,
    resumed: Resumed | null,
    prompt_tokens: number,
    sink: CallSink,
    address: VllmAddress,
  ): VllmCall {
    const { ordering, times, clock, progressed, faulty, queue } = this.#options
    const { claims, dialect } = dispatched
    const { lease } = claims
    const { choices, prompts } = request
    const isText = dialect !== 'embeddings'
    const { frame, ...leg } = this.#leg(dispatched, request, resumed, address)
    return new VllmCall({
      ...{ claims, sink, choices, prompts, prompt_tokens, ordering, clock, progressed, faulty, frame, ...leg },
      resumed_tokens: resumed?.tokens ?? 0,
      resumed_as: resumed?.as ?? 'output',
      legs: this.#legs(dispatched, asked, prompt_tokens, address),
      prompt_param: PROMPT_PARAMS[dialect],
      streams: isText,
      queue: address.queued === null ? null : queue,
      output_tokens_max: request.output_tokens_max,
      server_name: address.profile.name,
      records: isText && this.measured && address.order === 'plugin' && address.socket !== null,
      record_wait_ms: times.record_wait_ms,
      charge: (meter, sums) => this.#charge([[meter, sums]]),
      waits: (here) => this.load.waits(lease, here),
      over: (measurement, missing) => this.#over(lease, request, measurement, missing),
    })
  }

  /** Null: the call is not stopped in its output. */
  #legs(
    dispatched: DispatchedCall,
    asked: VllmRequestBody,
    prompt_tokens: number,
    address: VllmAddress,
  ): StoppedLegs | null {
    const { dialect, resume = null } = dispatched
    if (address.queued?.stops !== true || (dialect !== 'chat' && dialect !== 'completions')) return null
    const goOn = (so_far: Resume): Leg | null => {
      const found = this.#resumed(so_far, dialect, asked, address)
      return found.ok ? this.#leg(dispatched, found.request, found.resumed, address) : null
    }
    return new StoppedLegs({ goOn, resume, prompt_tokens })
  }

  /** How the call is sent, and its answer read. */
  #leg(
    { claims, dialect, forecast }: DispatchedCall,
    request: VllmRequestBody,
    resumed: Resumed | null,
    address: VllmAddress,
  ): Leg & Pick<VllmCallOptions, 'frame'> {
    const { model_id, wall_ms } = this.#options
    const { choices } = request
    const isText = dialect !== 'embeddings'
    const native = isNativeApi(dialect)
    const resume = resumed?.resume ?? null
    const created_s = resume?.created_s ?? Math.floor(wall_ms() / 1000)
    const system_fingerprint = resume?.system_fingerprint ?? `switchyard-${address.profile.kind}-${model_id}`
    // The plug-in's fields are of text only.
    const order = isText || address.order !== 'plugin' ? address.order : 'fcfs'
    const translated = address.profile.dialect === 'messages' && !native
    const renames = order === 'provider' && dialect === 'chat'
    const fields = translated ? messagesBody(request.fields) : renames ? renamed(request.fields) : request.fields
    const path = translated ? NATIVE_PATHS.messages : PATHS[dialect]
    const target = {
      ...{ url: address.url, api_key: address.api_key },
      ...{ api_version: address.api_version ?? null, key_header: address.key_header ?? null },
      api: path === NATIVE_PATHS.messages ? ('messages' as const) : ('openai' as const),
      speaks_chat: address.profile.dialect !== 'messages',
    }
    const counts = choices === 1 && address.token_chunks === true
    const reads = { resume, compares: resumed?.as === 'prompt', counts }
    const made = answerOf(claims, dialect, request, { created_s, system_fingerprint }, reads)
    const named = resumed?.as === 'output' ? resumed.resume.tokens : undefined
    const ticket = ticketFields(claims, order, forecast, request.prompt_cache_key, named)
    // Another engine can go on from tokens that it is told.
    const is_vllm = address.profile.dialect === 'vllm'
    const tells = isText && !native && choices === 1 && is_vllm && fields.echo !== true
    const body = JSON.stringify({ ...fields, ...(tells ? { return_token_ids: true } : {}), ...ticket })
    const form = isText ? 'stream' : 'whole'
    return {
      frame: made.frame,
      answer: translated ? new TranslatedAnswer(made.answer, readerOf('messages')) : made.answer,
      post: (listener) => this.#http_request.post(target, path, claims.lease, body, listener, form),
    }
  }

  /** How this server goes on with an answer. */
  #resumed(
    resume: Resume,
    dialect: Dialect,
    request: VllmRequestBody,
    { profile, continues = null }: VllmAddress,
  ): { ok: true; resumed: Resumed; request: VllmRequestBody } | { ok: false; error: StreamError } {
    if (this.measured && this.vocabulary_tokens !== null) {
      const found = resumedRequest(resume, request, this.vocabulary_tokens)
      if (!found.ok) return found
      const { tokens } = found.resume
      return { ok: true, resumed: { resume: found.resume, as: 'output', tokens: tokens.length }, request }
    }
    if (continues === null) return { ok: false, error: cannotResume('it cannot be told what was generated') }
    const found = continuedRequest(resume, dialect, request, continues, profile.dialect === 'vllm')
    if (!found.ok) return found
    const tokens = resumedTokens(resume)
    return { ok: true, resumed: { resume: found.resume, as: 'prompt', tokens }, request: found.request }
  }

  /** Until vLLM has counted them. */
  #promptTokens({ prompt_bytes, prompt_tokens }: VllmRequestBody): number {
    return prompt_tokens ?? Math.ceil((prompt_bytes ?? 0) / (this.bytes.ratio() ?? BYTES_PER_TOKEN))
  }

  #over(lease: string, { prompt_bytes }: VllmRequestBody, measured: Measurement | null, missing: boolean): void {
    this.#calls.delete(lease)
    this.load.ended(lease)
    if (missing) this.#desk.missing(lease)
    if (measured !== null && measured.output_tokens > 0 && prompt_bytes !== null) {
      this.bytes.addBytes(prompt_bytes, measured.prompt_tokens)
    }
    this.#options.events.status()
    if (this.#calls.size > 0) return
    for (const resolve of this.#waiting.splice(0)) resolve()
    this.#options.idle()
  }

  #charge(sums: readonly (readonly [LeaseMeter, LedgerSums])[]): void {
    this.#step += 1
    const rows = sums.flatMap(([meter, of_lease]) => meter.upTo(of_lease, this.#step) ?? [])
    if (rows.length > 0) this.#options.events.ledger(rows)
  }
}

/** An answer that another engine began. `tokens`: of what the client has, which the server counts as `as`. */
interface Resumed {
  resume: Resume
  as: 'prompt' | 'output'
  tokens: number
}

function onlyChat(): StreamError {
  const message = 'The provider of this model serves conversations alone: use chat completions, Responses or Messages.'
  return badRequest('unsupported_api', message, null)
}

/** OpenAI's reasoning models take the later name alone. */
function renamed({ max_tokens, ...fields }: VllmRequestBody['fields']): VllmRequestBody['fields'] {
  return { ...fields, max_completion_tokens: max_tokens }
}

function answerOf(
  { call, model }: TicketClaims,
  dialect: Dialect,
  { include_usage, choices }: VllmRequestBody,
  made: { created_s: number; system_fingerprint: string },
  reads: AnswerStreamOptions,
): Pick<VllmCallOptions, 'frame' | 'answer'> {
  if (dialect === 'embeddings') {
    const frame = new EmbeddingFrame(model)
    return { frame: embeddingEnd(frame), answer: new EmbeddingAnswer(frame, choices) }
  }
  if (isNativeApi(dialect)) {
    const answer = new NativeAnswer(dialect, readerOf(dialect))
    return { frame: answer, answer }
  }
  const frame = new ChunkFrame({ dialect, call, model, ...made, include_usage })
  return { frame: textEnd(frame), answer: new AnswerStream(frame, choices, reads) }
}

function requestFor(dialect: Dialect, body: unknown, { served_model, profile }: VllmAddress): RequestResult {
  if (isNativeApi(dialect)) return nativeRequest(dialect, body, served_model)
  if (dialect !== 'chat' && profile.dialect === 'messages') return { ok: false, error: onlyChat() }
  if (dialect === 'embeddings') return embeddingRequest(body, served_model)
  return vllmRequest(dialect, body, served_model, profile)
}

/**
 * The server counts the prompt after it was sent. So a budget counts as many tokens as the prompt can have, unless the client
 * sent token ids.
 */
function underBudget(
  request: VllmRequestBody,
  claims: TicketClaims,
): { ok: true; request: VllmRequestBody } | { ok: false; error: StreamError } {
  if (claims.budget === undefined) return { ok: true, request }
  const { messages, system, prompt, input, instructions, tools } = request.fields
  const most = request.prompt_tokens ?? promptTokensAtMost([messages, system, prompt, input, instructions, tools])
  const asked = request.output_tokens_max
  const capped = cappedOutput(claims, most, request.choices, asked)
  if (!capped.ok) return capped
  const { output_tokens_max } = capped
  if (output_tokens_max === asked) return { ok: true, request }
  if (output_tokens_max <= thinkingTokens(request.fields)) return { ok: false, error: budgetExceeded() }
  // Its name in Responses is another.
  const limit = 'max_output_tokens' in request.fields ? 'max_output_tokens' : 'max_tokens'
  return {
    ok: true,
    request: { ...request, output_tokens_max, fields: { ...request.fields, [limit]: output_tokens_max } },
  }
}
