/**
 * A lease's spans on the agent: a server span under the Worker's `dispatch`, and below it the queue, the prefill and the decode, from
 * what the engine measured. Attributes follow OpenTelemetry's conventions for generative AI; they are ids, counts and durations.
 *
 * An engine measures durations, and wait as one sum: a call that was preempted waited in its decode too. So `queue` ends at
 * the first token at the latest, and `switchyard.wait_s` has the whole. Starts are the agent's wall clock at the end minus the
 * duration; another machine's spans of the same trace are off by the difference of the clocks.
 */
import { isAlone } from '../../../src/core/program/tenant-shards.ts'
import { type Attributes, SPAN_KIND, type Span } from '../../../src/core/wire/spans.ts'
import type { TraceContext } from '../../../src/core/wire/trace-context.ts'
import type { CallRecord } from '../../../src/protocol/index.ts'
import type { Dialect } from '../fronts/engine-front.ts'

const PROVIDER = 'switchyard'
const OPERATIONS: Readonly<Record<Dialect, string>> = {
  chat: 'chat',
  completions: 'text_completion',
  embeddings: 'embeddings',
  messages: 'chat',
  responses: 'chat',
}
/** A pull of this many bytes of randomness per span id. */
export type RandomHex = (bytes: number) => string

export function callSpans(record: CallRecord, dialect: Dialect, from: TraceContext, random: RandomHex): Span[] {
  const operation = OPERATIONS[dialect]
  const end_ms = record.ended_at_ms
  const start_ms = end_ms - record.duration_us / 1000
  const serve = random(8)
  const first_ms = record.first_token_us === null ? null : start_ms + record.first_token_us / 1000
  const queued_ms = Math.min(start_ms + record.wait_us / 1000, first_ms ?? end_ms)
  const child = (name: string, from_ms: number, to_ms: number): Span => ({
    ...{ trace: from.trace, span: random(8), parent: serve, name, kind: SPAN_KIND.internal },
    ...{ start_ms: from_ms, end_ms: to_ms, attributes: {}, error: null },
  })
  const spans = [child('queue', start_ms, queued_ms)]
  if (first_ms === null) spans.push(child('prefill', queued_ms, end_ms))
  else spans.push(child('prefill', queued_ms, first_ms), child('decode', first_ms, end_ms))
  return [
    {
      ...{ trace: from.trace, span: serve, parent: from.span, name: `${operation} ${record.model}` },
      ...{ kind: SPAN_KIND.server, start_ms, end_ms },
      attributes: attributesOf(record, operation),
      error: record.error_code,
    },
    ...spans,
  ]
}

function attributesOf(record: CallRecord, operation: string): Attributes {
  return {
    'gen_ai.operation.name': operation,
    'gen_ai.provider.name': PROVIDER,
    'gen_ai.request.model': record.model,
    'gen_ai.response.model': record.model,
    'gen_ai.conversation.id': isAlone(record) ? null : record.program,
    'gen_ai.response.finish_reasons': record.finish_reason === null ? null : [record.finish_reason],
    'gen_ai.response.time_to_first_chunk': record.first_token_us === null ? null : record.first_token_us / 1e6,
    'gen_ai.usage.input_tokens': record.prompt_tokens,
    'gen_ai.usage.output_tokens': record.output_tokens,
    'gen_ai.usage.cache_read.input_tokens': record.cached_tokens,
    'switchyard.tenant': record.tenant,
    'switchyard.call': record.call,
    'switchyard.lease': record.lease,
    'switchyard.agent': record.agent,
    'switchyard.engine': record.engine,
    'switchyard.region': record.region,
    'switchyard.outcome': record.outcome,
    'switchyard.service_wall_s': record.service_wall_us / 1e6,
    'switchyard.service_modelled_s': record.service_modelled_us / 1e6,
    'switchyard.wait_s': record.wait_us / 1e6,
    'switchyard.preemptions': record.preemptions,
    'switchyard.resumed_tokens': record.resumed_tokens,
    'switchyard.swapped_out_tokens': record.swapped_out_tokens,
    'switchyard.swapped_in_tokens': record.swapped_in_tokens,
    'switchyard.recomputed_tokens': record.recomputed_tokens,
    'switchyard.swap_s': record.swap_us / 1e6,
  }
}
