/**
 * Usage that an engine states, as far as it can be true. Every event is checked before its client sees it. The record is
 * bounded in any case (core/call/lease-terms.ts).
 *
 * Counts that cannot be are left out with the rest of the usage. The extension `switchyard` is left out alone.
 */
import { z } from 'zod'
import { DURATION_US_MAX, type TokenBounds } from '../core/call/lease-terms.ts'
import { Count, UsageExtension } from '../protocol/index.ts'
import type { AnswerFormat, Json, ResponseBuilder } from './dialects/dialect.ts'

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
  // Of Messages and Responses.
  input_tokens: Count.nullish(),
  output_tokens: Count.nullish(),
  cache_read_input_tokens: Count.nullish(),
  cache_creation_input_tokens: Count.nullish(),
  input_tokens_details: Details,
  output_tokens_details: Details,
  switchyard: z.unknown().optional(),
})

const CACHE_COUNTS = ['cache_read_input_tokens', 'cache_creation_input_tokens'] as const
const PROMPT_COUNTS = ['prompt_tokens', 'input_tokens', ...CACHE_COUNTS] as const
const OUTPUT_COUNTS = ['completion_tokens', 'output_tokens'] as const
const PROMPT_DETAILS = ['prompt_tokens_details', 'input_tokens_details'] as const
const OUTPUT_DETAILS = ['completion_tokens_details', 'output_tokens_details'] as const

/** The data of one event, with sound usage only. */
export type SoundData = (data: string) => string

/** `onNonsense` is called for each event that had other. */
export function soundDataOf(bounds: TokenBounds, onNonsense: () => void): SoundData {
  return (data) => soundData(data, bounds, onNonsense)
}

/** The same format, whose builders and translators see what `sound` leaves. */
export function withSoundUsage(format: AnswerFormat, sound: SoundData): AnswerFormat {
  return {
    whole: (facts) => {
      const builder = format.whole(facts)
      return { add: (data) => builder.add(sound(data)), finish: () => builder.finish(), ...keeper(builder) }
    },
    stream: (facts) => {
      const stream = format.stream(facts)
      const { translator } = stream
      if (translator === null) return stream
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

/** Whether any usage may be in it. Almost every event has none, or `null` once, and no escapes, which is found without a pattern. */
function mayHaveUsage(data: string): boolean {
  const at = data.indexOf('usage')
  const has_none = at === -1 || (data.startsWith('usage":null', at) && data.indexOf('usage', at + 1) === -1)
  return !(has_none && !data.includes('\\u00')) && MAY_HAVE_USAGE.test(data)
}

/** What is no JSON object is left to the builder, which says what is wrong. */
function soundData(data: string, bounds: TokenBounds, onNonsense: () => void): string {
  if (!mayHaveUsage(data)) return data
  let chunk: unknown
  try {
    chunk = JSON.parse(data)
  } catch (error) {
    if (error instanceof SyntaxError) return data
    throw error
  }
  if (!isObject(chunk)) return data
  // Events of Messages and Responses have it in the message or the response that they carry.
  const changed = [chunk, chunk.message, chunk.response].filter((place) => isObject(place) && makeSound(place, bounds))
  if (changed.length === 0) return data
  onNonsense()
  return JSON.stringify(chunk)
}

/** Whether the usage was changed. */
function makeSound(place: Json, bounds: TokenBounds): boolean {
  const { usage } = place
  if (usage === undefined || usage === null) return false
  const sound = soundUsage(usage, bounds)
  if (sound === usage) return false
  if (sound === null) delete place.usage
  else place.usage = sound
  return true
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The same object if all of it can be true. Null: its counts cannot. */
export function soundUsage(usage: unknown, bounds: TokenBounds): Json | null {
  const read = Usage.safeParse(usage)
  if (!read.success) return null
  const { total_tokens, ...counts_of } = read.data
  const { prompt_tokens_max, output_tokens_max } = bounds
  const within =
    PROMPT_COUNTS.every((field) => (counts_of[field] ?? 0) <= prompt_tokens_max) &&
    OUTPUT_COUNTS.every((field) => (counts_of[field] ?? 0) <= output_tokens_max) &&
    (total_tokens ?? 0) <= prompt_tokens_max + output_tokens_max &&
    PROMPT_DETAILS.every((field) => countsWithin(counts_of[field], prompt_tokens_max)) &&
    OUTPUT_DETAILS.every((field) => countsWithin(counts_of[field], output_tokens_max))
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
