/**
 * Usage that an engine states, as far as it can be true. It is checked where the relay reads the engine's events: for an
 * answer in one piece, for a stream in another dialect, and for one whose agent is doubted. Of a stream whose bytes flow
 * unread to its client, the last event is checked when the client has it, and its agent is doubted if it is nonsense
 * (doubted-agents.ts). The record is bounded in any case (core/call/lease-terms.ts).
 *
 * Counts that cannot be are left out with the rest of the usage. The extension `switchyard` is left out alone.
 */
import { z } from 'zod'
import { DURATION_US_MAX, type TokenBounds } from '../core/call/lease-terms.ts'
import { Count, DONE, UsageExtension } from '../protocol/index.ts'
import type { AnswerFormat, Json, ResponseBuilder, StreamTranslator } from './dialects/dialect.ts'

const DURATION_S_MAX = DURATION_US_MAX / 1_000_000
/** Almost every chunk has no usage, or `null`. An engine may escape any letter of the key. */
const MAY_HAVE_USAGE = /"usage"(?!\s*:\s*null\b)|\\u00(?:75|73|61|67|65)/i
const TIMES = ['service_s', 'service_wall_s', 'service_modelled_s', 'wait_s', 'ttft_s', 'tpot_s'] as const

const Details = z.record(z.string(), z.unknown()).nullish()
const Usage = z.looseObject({
  prompt_tokens: Count.nullish(),
  completion_tokens: Count.nullish(),
  total_tokens: Count.nullish(),
  prompt_tokens_details: Details,
  completion_tokens_details: Details,
  switchyard: z.unknown().optional(),
})

/** The data of one event, with sound usage only. */
export type SoundData = (data: string) => string

/** `onNonsense` is called for each event that had other. */
export function soundDataOf(bounds: TokenBounds, onNonsense: () => void): SoundData {
  return (data) => soundData(data, bounds, onNonsense)
}

/** The same format, whose builders see what `sound` leaves. */
export function withSoundUsage(format: AnswerFormat, sound: SoundData): AnswerFormat {
  return {
    whole: (facts) => {
      const builder = format.whole(facts)
      return { add: (data) => builder.add(sound(data)), finish: () => builder.finish(), ...keeper(builder) }
    },
    stream: (facts) => {
      const stream = format.stream(facts)
      const { translator } = stream
      if (translator === null) return { ...stream, reader: asItCame(sound) }
      return {
        ...stream,
        waiting: () => stream.waiting(),
        fail: (status, error) => stream.fail(status, error),
        translator: {
          add: (data) => translator.add(sound(data)),
          finish: () => translator.finish(),
          ...keeper(translator),
        },
      }
    },
  }
}

function keeper(builder: Pick<ResponseBuilder, 'keep'>): Pick<ResponseBuilder, 'keep'> {
  return builder.keep === undefined ? {} : { keep: builder.keep.bind(builder) }
}

/** The engine's own events, each as it came as far as its usage is sound. */
function asItCame(sound: SoundData): StreamTranslator {
  return { add: (data) => `data: ${sound(data)}\n\n`, finish: () => `data: ${DONE}\n\n` }
}

/** What is no JSON object is left to the builder, which says what is wrong. */
function soundData(data: string, bounds: TokenBounds, onNonsense: () => void): string {
  if (!MAY_HAVE_USAGE.test(data)) return data
  let chunk: unknown
  try {
    chunk = JSON.parse(data)
  } catch (error) {
    if (error instanceof SyntaxError) return data
    throw error
  }
  if (typeof chunk !== 'object' || chunk === null || !('usage' in chunk) || chunk.usage === null) return data
  const usage = soundUsage(chunk.usage, bounds)
  if (usage === chunk.usage) return data
  onNonsense()
  const { usage: _, ...rest } = chunk
  return JSON.stringify(usage === null ? rest : { ...rest, usage })
}

/** The same object if all of it can be true. Null: its counts cannot. */
export function soundUsage(usage: unknown, bounds: TokenBounds): Json | null {
  const read = Usage.safeParse(usage)
  if (!read.success) return null
  const { prompt_tokens, completion_tokens, total_tokens, prompt_tokens_details, completion_tokens_details } = read.data
  const { prompt_tokens_max, output_tokens_max } = bounds
  const within =
    (prompt_tokens ?? 0) <= prompt_tokens_max &&
    (completion_tokens ?? 0) <= output_tokens_max &&
    (total_tokens ?? 0) <= prompt_tokens_max + output_tokens_max &&
    countsWithin(prompt_tokens_details, prompt_tokens_max) &&
    countsWithin(completion_tokens_details, output_tokens_max)
  if (!within) return null
  const { switchyard, ...counts } = usage as Json
  return switchyard === undefined || isSound(switchyard) ? (usage as Json) : counts
}

function countsWithin(details: Readonly<Record<string, unknown>> | null | undefined, count_max: number): boolean {
  return Object.values(details ?? {}).every(
    (value) => typeof value !== 'number' || (Number.isInteger(value) && value >= 0 && value <= count_max),
  )
}

function isSound(extension: unknown): boolean {
  const read = UsageExtension.safeParse(extension)
  return read.success && TIMES.every((field) => (read.data[field] ?? 0) <= DURATION_S_MAX)
}
