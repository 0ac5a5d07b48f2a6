/**
 * Measures an endpoint by what its clients see. One call at a time over prompts of several lengths: the wait for the first token is the steps of
 * its prefill. Several calls at a time: between the last first token and the first end all of them decode, so that each of them gets a token a
 * step. Token counts are the endpoint's own (`usage`).
 *
 * A prefill is taken to go in steps of `chunk_tokens`, and the way there and back is part of the base.
 */
import type { Span } from './span.ts'

export interface StreamedCall {
  started_us: number
  /** When each piece of text came. */
  pieces_us: readonly number[]
  prompt_tokens: number
  output_tokens: number
}

/** One streamed call with a prompt of about so many tokens that resembles no other; its answer ends by length. */
export type StreamCall = (prompt_tokens: number, output_tokens: number) => Promise<StreamedCall>

export interface EndpointPlan {
  concurrent: readonly number[]
  prompt_tokens: readonly number[]
  output_tokens: number
  chunk_tokens: number
  rounds: number
}

/** `onRound`: rounds done and rounds in all. */
export async function driveEndpoint(
  stream: StreamCall,
  plan: EndpointPlan,
  onRound: (done: number, of: number) => void = () => undefined,
): Promise<Span[]> {
  const points = plan.concurrent.flatMap((concurrent) => plan.prompt_tokens.map((prompt) => ({ concurrent, prompt })))
  const spans: Span[] = []
  // What the first call meets (connections, caches) belongs to no step.
  await stream(Math.min(...plan.prompt_tokens), 2)
  let done = 0
  for (let round = 0; round < plan.rounds; round += 1) {
    for (const { concurrent, prompt } of points) {
      const calls = await Promise.all(Array.from({ length: concurrent }, () => stream(prompt, plan.output_tokens)))
      if (concurrent === 1) spans.push(prefillSpan(calls[0] as StreamedCall, plan.chunk_tokens))
      const decode = decodeSpan(calls)
      if (decode !== null) spans.push(decode)
      done += 1
      onRound(done, plan.rounds * points.length)
    }
  }
  return spans
}

export function prefillSpan({ started_us, pieces_us, prompt_tokens }: StreamedCall, chunk_tokens: number): Span {
  const steps = Math.ceil(prompt_tokens / chunk_tokens)
  let kv_tokens = 0
  for (let step = 1; step <= steps; step += 1) kv_tokens += Math.min(prompt_tokens, step * chunk_tokens)
  return {
    steps,
    calls: steps,
    decodes: 0,
    kv_tokens,
    prefill_tokens: prompt_tokens,
    prefill_pairs: prompt_tokens ** 2 / 2,
    duration_us: (pieces_us[0] ?? started_us) - started_us,
  }
}

/** Null: the calls never decoded all at once. */
export function decodeSpan(calls: readonly StreamedCall[]): Span | null {
  const from = Math.max(...calls.map(({ pieces_us }) => pieces_us[0] ?? Number.POSITIVE_INFINITY))
  const to = Math.min(...calls.map(({ pieces_us }) => pieces_us.at(-1) ?? Number.NEGATIVE_INFINITY))
  if (!(to > from)) return null
  let tokens = 0
  let kv_tokens = 0
  for (const { pieces_us, prompt_tokens, output_tokens } of calls) {
    // A piece may be several tokens, or a token of no text no piece.
    const tokens_per_piece = output_tokens / pieces_us.length
    const before = pieces_us.filter((at) => at <= from).length * tokens_per_piece
    const within = pieces_us.filter((at) => at > from && at <= to).length * tokens_per_piece
    tokens += within
    kv_tokens += within * (prompt_tokens + before + within / 2)
  }
  const steps = tokens / calls.length
  return steps < 2
    ? null
    : { steps, calls: tokens, decodes: tokens, kv_tokens, prefill_tokens: 0, prefill_pairs: 0, duration_us: to - from }
}
