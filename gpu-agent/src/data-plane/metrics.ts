/**
 * GET /metrics. Every label comes from a fixed set or from this agent's own engines and pools, so the number of series is
 * bounded for any input of clients; nothing names a tenant or a program.
 */

import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { LengthVerdict } from '../../../src/core/tools/length-learner.ts'
import { type CallRecord, type EngineStatus, tpotUs } from '../../../src/protocol/index.ts'
import type { ToolCounts } from '../../engine/memory/handling/handling-counts.ts'
import { HANDLINGS } from '../../engine/memory/handling/waste.ts'
import type { ContextCounts, FrontCount, KvSwapCosts } from '../fronts/engine-front.ts'

export interface MetricSources {
  open_calls: () => number
  outbox_depth: () => number
  /** `ends`: ended programs of which they tell. */
  classes: () => { known: number; ends: number }
  /** 1 for each pool whose link is up. */
  links: () => readonly { model: string; linked: boolean }[]
  engines: () => readonly EngineLoad[]
  spans_dropped: () => number
}

type EngineLoad = Omit<EngineStatus, 'epoch' | 'leases_seen' | 'bytes_per_token'> & {
  kv_capacity_tokens: number
  seats: number
}

const TOOL_EVENTS = ['relieved', 'revised', 'prefetched', 'displaced', 'expired'] as const
const HOLD_ENDS = ['returned', 'given_up', 'expired'] as const
/** A token of a small model to the longest call. */
const CALL_BUCKETS_S = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]
/** One decode step of a small model to a preempted call's pause. */
const TOKEN_BUCKETS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 1, 2.5, 10]

export class AgentMetrics {
  readonly registry = new Registry()
  readonly #calls = this.#counter('calls_total', 'Calls that ended, by outcome.', ['engine', 'outcome'])
  readonly #refused = this.#counter('calls_refused_total', 'Calls refused before they reached an engine.', ['code'])
  readonly #service = this.#counter('service_seconds_total', 'Service of ended calls, in both readings.', [
    'engine',
    'reading',
  ])
  readonly #wait = this.#counter('wait_seconds_total', 'Time that ended calls waited on the engine.', ['engine'])
  readonly #tokens = this.#counter('tokens_total', 'Tokens of ended calls; cached ones are part of prompt.', [
    'engine',
    'kind',
  ])
  readonly #ttft = this.#histogram('ttft_seconds', 'TTFT: from arrival on the engine to the first token.')
  readonly #tpot = this.#histogram(
    'tpot_seconds',
    'TPOT: time per output token after the first, one value for each call.',
    TOKEN_BUCKETS_S,
  )
  readonly #itl = this.#histogram(
    'itl_seconds',
    'ITL: gap between consecutive token events of a stream.',
    TOKEN_BUCKETS_S,
  )
  readonly #duration = this.#histogram('call_duration_seconds', 'From arrival on the engine to the end of the call.')
  readonly #preemptions = this.#counter('preemptions_total', 'Times that ended calls were preempted.', ['engine'])
  // Without names: clients choose them.
  readonly #tools = this.#counter('tools_asked_total', 'Tools that answers asked for.', ['engine'])
  readonly #kv_tokens = this.#counter(
    'kv_tokens_total',
    'KV tokens of ended calls that preemptions moved out of the cache (swapped_out), that came back (swapped_in), or that were computed again (recomputed).',
    ['engine', 'kind'],
  )
  readonly #swap = this.#counter('swap_seconds_total', 'Time for which steps waited for the KV of ended calls.', [
    'engine',
  ])
  readonly #swap_costs = new Gauge({
    name: 'switchyard_agent_swap_cost_seconds',
    help: "What the choice between swap and recompute goes by: a transfer's own time, and a token's out, back, or computed again.",
    labelNames: ['engine', 'of'] as const,
    registers: [this.registry],
  })
  readonly #holds = this.#counter(
    'holds_total',
    'Contexts of programs whose tools ran that were held, by how that ended: the program found its context (returned), others took something of it (given_up), or it took too long (expired).',
    ['engine', 'end'],
  )
  readonly #held_back = this.#counter('held_back_total', 'Decisions in which a call waited for what was held.', [
    'engine',
  ])
  readonly #held = new Gauge({
    name: 'switchyard_agent_held_contexts',
    help: 'Contexts of programs whose tools run that are held.',
    labelNames: ['engine'] as const,
    registers: [this.registry],
  })
  readonly #tool_contexts = this.#counter(
    'tool_contexts_total',
    'Contexts of programs whose tools ran, by what was decided for them.',
    ['engine', 'handling'],
  )
  readonly #tool_return_tokens = this.#counter(
    'tool_return_tokens_total',
    'Tokens of contexts that calls went on from which came back from tools, by what was decided, and whether their KV was at hand (cached) or not (computed).',
    ['engine', 'handling', 'kv'],
  )
  readonly #tool_events = this.#counter(
    'tool_context_events_total',
    'What became of contexts later: a pin gave way (relieved), a tool took longer than expected (revised), an image was brought back (prefetched) or dropped for others (displaced), a program did not come back (expired).',
    ['engine', 'event'],
  )
  /** By engine: what it had counted when it told last. */
  readonly #counted = new Map<string, ContextCounts>()
  readonly #length_shares = new Gauge({
    name: 'switchyard_agent_length_accuracy_ratio',
    help: 'Of answers held out, those whose length was foreseen within 5 or 15 tokens, by what foresaw it: the classifier of prompts, or the quantiles of classes.',
    labelNames: ['engine', 'predictor', 'within'] as const,
    registers: [this.registry],
  })
  readonly #length_errors = new Gauge({
    name: 'switchyard_agent_length_error_tokens',
    help: 'The mean error of that.',
    labelNames: ['engine', 'predictor'] as const,
    registers: [this.registry],
  })
  readonly #length_in_use = new Gauge({
    name: 'switchyard_agent_length_classifier_in_use',
    help: 'Whether calls are told what the classifier of prompts says: 1 while it is better than the quantiles.',
    labelNames: ['engine'] as const,
    registers: [this.registry],
  })
  readonly #unknown_messages = this.#counter(
    'link_messages_ignored_total',
    'Messages of a pool that this agent does not know.',
    [],
  )
  readonly #engine_records = this.#counter(
    'engine_records_total',
    "Engines' own records of calls that never came (missing), came after the call's end, or are of calls not known here.",
    ['engine', 'result'],
  )
  readonly #engine_messages = this.#counter(
    'engine_messages_ignored_total',
    'Messages of engines that could not be used.',
    ['engine', 'kind'],
  )
  readonly #batches = this.#counter('record_batches_total', 'Batches of records sent, by result.', ['result'])

  constructor(sources: MetricSources) {
    this.#gauge('open_calls', 'Calls under way.', (gauge) => gauge.set(sources.open_calls()))
    this.#gauge('outbox_records', 'Records that are not acknowledged.', (gauge) => gauge.set(sources.outbox_depth()))
    this.#gauge('known_classes', 'Classes of programs of which this agent knows something.', (gauge) =>
      gauge.set(sources.classes().known),
    )
    this.#gauge('known_class_ends', 'Ended programs from which it knows that.', (gauge) =>
      gauge.set(sources.classes().ends),
    )
    this.#gauge('spans_dropped', 'Spans of calls that no receiver took.', (gauge) => gauge.set(sources.spans_dropped()))
    this.#engineGauges(sources.engines)
    this.#gauge(
      'link_up',
      'Whether the link to the pool of this model is up.',
      (gauge) => {
        for (const { model, linked } of sources.links()) gauge.set({ model }, linked ? 1 : 0)
      },
      ['model'],
    )
  }

  #engineGauges(engines: () => readonly EngineLoad[]): void {
    const of = (name: string, help: string, figure: (engine: EngineLoad) => number): void =>
      this.#gauge(
        name,
        help,
        (gauge) => {
          for (const engine of engines()) gauge.set({ engine: engine.id }, figure(engine))
        },
        ['engine'],
      )
    of('engine_up', 'Whether the engine takes calls.', ({ state }) => (state === 'ready' ? 1 : 0))
    of('engine_waiting_calls', 'Calls that wait for a seat.', ({ waiting }) => waiting)
    of('engine_running_calls', 'Calls that are in a step.', ({ running }) => running)
    of(
      'engine_seats',
      'Calls that the engine runs at once; a server that is not ours: that it is given.',
      ({ seats }) => seats,
    )
    of('engine_queued_tokens', 'Prompt tokens that are still to be prefilled.', ({ queued_tokens }) => queued_tokens)
    of('engine_kv_used_tokens', 'Tokens whose KV is resident.', ({ kv_used_tokens }) => kv_used_tokens)
    of('engine_kv_capacity_tokens', 'Tokens whose KV can be resident.', (engine) => engine.kv_capacity_tokens)
  }

  /** Between two token events of a stream. */
  tokenGap(engine: string, gap_us: number): void {
    this.#itl.observe({ engine }, gap_us / 1e6)
  }

  /** `choices`: those that had tokens. */
  settled(record: CallRecord, choices: number): void {
    const { engine, outcome } = record
    this.#calls.inc({ engine, outcome })
    this.#service.inc({ engine, reading: 'wall' }, record.service_wall_us / 1e6)
    this.#service.inc({ engine, reading: 'modelled' }, record.service_modelled_us / 1e6)
    this.#wait.inc({ engine }, record.wait_us / 1e6)
    this.#preemptions.inc({ engine }, record.preemptions)
    this.#tools.inc({ engine }, record.tools?.length ?? 0)
    this.#kv_tokens.inc({ engine, kind: 'swapped_out' }, record.swapped_out_tokens)
    this.#kv_tokens.inc({ engine, kind: 'swapped_in' }, record.swapped_in_tokens)
    this.#kv_tokens.inc({ engine, kind: 'recomputed' }, record.recomputed_tokens)
    this.#swap.inc({ engine }, record.swap_us / 1e6)
    this.#duration.observe({ engine }, record.duration_us / 1e6)
    if (record.first_token_us !== null) this.#ttft.observe({ engine }, record.first_token_us / 1e6)
    const tpot_us = tpotUs(record, Math.max(1, choices))
    if (tpot_us !== null) this.#tpot.observe({ engine }, tpot_us / 1e6)
    this.#tokens.inc({ engine, kind: 'prompt' }, record.prompt_tokens)
    this.#tokens.inc({ engine, kind: 'cached' }, record.cached_tokens)
    this.#tokens.inc({ engine, kind: 'output' }, record.output_tokens)
  }

  /** `code` is one of REFUSALS. */
  refused(code: string): void {
    this.#refused.inc({ code })
  }

  messageIgnored(): void {
    this.#unknown_messages.inc()
  }

  frontCounted(engine: string, what: FrontCount): void {
    const [subject, kind = ''] = what.split('_', 2)
    if (subject === 'record') this.#engine_records.inc({ engine, result: kind })
    else this.#engine_messages.inc({ engine, kind })
  }

  swapCosts(engine: string, costs: KvSwapCosts): void {
    this.#swap_costs.set({ engine, of: 'transfer' }, costs.base_us / 1e6)
    this.#swap_costs.set({ engine, of: 'token_out' }, costs.save_us_per_token / 1e6)
    this.#swap_costs.set({ engine, of: 'token_back' }, costs.restore_us_per_token / 1e6)
    this.#swap_costs.set({ engine, of: 'token_computed' }, costs.recompute_us_per_token / 1e6)
  }

  lengths(engine: string, verdict: LengthVerdict): void {
    for (const predictor of ['classifier', 'quantiles'] as const) {
      const { acc5, acc15, mae_tokens } = verdict[predictor]
      this.#length_shares.set({ engine, predictor, within: '5' }, acc5)
      this.#length_shares.set({ engine, predictor, within: '15' }, acc15)
      this.#length_errors.set({ engine, predictor }, mae_tokens)
    }
    this.#length_in_use.set({ engine }, Number(verdict.in_use))
  }

  contexts(engine: string, counts: ContextCounts): void {
    const { holds } = counts
    const last = this.#counted.get(engine)
    this.#counted.set(engine, counts)
    // An engine that has started anew counts from 0.
    const known = last !== undefined && last.holds.begun <= holds.begun ? last.holds : null
    const known_tools = last?.tools !== undefined && isLater(counts.tools, last.tools) ? last.tools : null
    for (const end of HOLD_ENDS) this.#holds.inc({ engine, end }, Math.max(0, holds[end] - (known?.[end] ?? 0)))
    this.#held_back.inc({ engine }, Math.max(0, holds.held_back - (known?.held_back ?? 0)))
    this.#held.set({ engine }, holds.contexts)
    if (counts.tools !== undefined) this.#handled(engine, counts.tools, known_tools)
  }

  #handled(engine: string, tools: ToolCounts, known: ToolCounts | null): void {
    for (const handling of HANDLINGS) {
      const [of, before] = [tools[handling], known?.[handling] ?? null]
      const cached_tokens = of.cached_tokens - (before?.cached_tokens ?? 0)
      const context_tokens = of.context_tokens - (before?.context_tokens ?? 0)
      this.#tool_contexts.inc({ engine, handling }, of.decided - (before?.decided ?? 0))
      this.#tool_return_tokens.inc({ engine, handling, kv: 'cached' }, cached_tokens)
      this.#tool_return_tokens.inc({ engine, handling, kv: 'computed' }, Math.max(0, context_tokens - cached_tokens))
    }
    for (const event of TOOL_EVENTS) this.#tool_events.inc({ engine, event }, tools[event] - (known?.[event] ?? 0))
  }

  batchSent(result: 'acknowledged' | 'partial' | 'failed' | 'refused'): void {
    this.#batches.inc({ result })
  }

  #counter<L extends string>(name: string, help: string, labelNames: readonly L[]): Counter<L> {
    return new Counter({ name: `switchyard_agent_${name}`, help, labelNames, registers: [this.registry] })
  }

  #histogram(name: string, help: string, buckets = CALL_BUCKETS_S): Histogram<'engine'> {
    const all = { help, labelNames: ['engine'] as const, buckets, registers: [this.registry] }
    return new Histogram({ name: `switchyard_agent_${name}`, ...all })
  }

  #gauge<L extends string>(
    name: string,
    help: string,
    collect: (gauge: Gauge<L>) => void,
    labelNames: readonly L[] = [],
  ): void {
    new Gauge<L>({
      name: `switchyard_agent_${name}`,
      help,
      labelNames,
      registers: [this.registry],
      collect() {
        collect(this)
      },
    })
  }
}

/** Whether counts are those of the same engine: none of them shrank. */
function isLater(tools: ToolCounts | undefined, before: ToolCounts): boolean {
  return (
    tools !== undefined &&
    TOOL_EVENTS.every((event) => tools[event] >= before[event]) &&
    HANDLINGS.every((handling) => {
      const [of, then] = [tools[handling], before[handling]]
      return (
        of.decided >= then.decided && of.context_tokens >= then.context_tokens && of.cached_tokens >= then.cached_tokens
      )
    })
  )
}
