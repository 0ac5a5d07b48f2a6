/**
 * GET /metrics. Every label comes from a fixed set or from this agent's own engines and pools, so the number of series is
 * bounded whatever clients send; nothing names a tenant or a program.
 */
import { Counter, Gauge, Registry } from 'prom-client'
import type { CallRecord } from '../../src/protocol/index.ts'

export interface MetricSources {
  open_calls: () => number
  outbox_depth: () => number
  /** 1 for each pool whose link is up. */
  links: () => readonly { model: string; linked: boolean }[]
}

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
  readonly #unknown_messages = this.#counter(
    'link_messages_ignored_total',
    'Messages of a pool that this agent does not know.',
    [],
  )
  readonly #batches = this.#counter('record_batches_total', 'Batches of records sent, by result.', ['result'])

  constructor(sources: MetricSources) {
    this.#gauge('open_calls', 'Calls under way.', (gauge) => gauge.set(sources.open_calls()))
    this.#gauge('outbox_records', 'Records that are not acknowledged.', (gauge) => gauge.set(sources.outbox_depth()))
    this.#gauge(
      'link_up',
      'Whether the link to the pool of this model is up.',
      (gauge) => {
        for (const { model, linked } of sources.links()) gauge.set({ model }, linked ? 1 : 0)
      },
      ['model'],
    )
  }

  settled(record: CallRecord): void {
    const { engine, outcome } = record
    this.#calls.inc({ engine, outcome })
    this.#service.inc({ engine, reading: 'wall' }, record.service_wall_us / 1e6)
    this.#service.inc({ engine, reading: 'modelled' }, record.service_modelled_us / 1e6)
    this.#wait.inc({ engine }, record.wait_us / 1e6)
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

  batchSent(result: 'acknowledged' | 'partial' | 'failed' | 'refused'): void {
    this.#batches.inc({ result })
  }

  #counter<L extends string>(name: string, help: string, labelNames: readonly L[]): Counter<L> {
    return new Counter({ name: `switchyard_agent_${name}`, help, labelNames, registers: [this.registry] })
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
