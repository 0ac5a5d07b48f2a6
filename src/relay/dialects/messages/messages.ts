/**
 * Anthropic's Messages API. Versions 2023-06-01 and 2026-10-21 of it are alike in what is served here. The later one
 * forbids `temperature`, `top_p` and `top_k`, which models other than Anthropic's need, so they are taken in both. A client
 * that names no version gets an answer too. `anthropic-beta` is not read.
 */
import { sortFields } from '../../../core/call/request-fields.ts'
import type { ApiErrorFields } from '../../../platform/api-error.ts'
import type { Dialect, Json, Parsed } from '../dialect.ts'
import { sentAs } from '../openai-aliases.ts'
import { faultOf } from '../openai-schemas.ts'
import { MessageBuilder } from './answer.ts'
import { chatBody, promptBody } from './body.ts'
import { ANTHROPIC_ERRORS } from './errors.ts'
import { MessageEvents } from './events.ts'
import { MESSAGES_FIELDS } from './fields.ts'
import { CountTokensRequest, MessagesRequest, type Prompt } from './schemas.ts'
import { versionFault } from './version.ts'

export const messages: Dialect = {
  name: 'messages',
  path: '/v1/messages',
  engine_path: '/v1/chat/completions',
  request: MessagesRequest,
  errors: ANTHROPIC_ERRORS,
  parse,
}

function parse(input: Readonly<Json>, headers: Headers): Parsed {
  const version = versionFault(headers)
  if (version !== null) return { status: 'refused', error: version }
  const checked = MessagesRequest.safeParse(input)
  if (!checked.success) return { status: 'refused', error: { ...faultOf(checked.error), code: 'invalid_value' } }
  const body = checked.data
  const translated = chatBody(body)
  if (!translated.ok) return { status: 'refused', error: translated.error }
  const shows_thinking = showsThinking(body)
  const { ignored, hints } = sortFields(input, MESSAGES_FIELDS)
  return {
    status: 'parsed',
    call: {
      ...{ dialect: messages, model: body.model, streaming: body.stream === true, body: translated.value },
      native: { api: 'messages', body: input },
      metadata: metadataOf(body),
      answer: {
        whole: (facts) => new MessageBuilder(facts, shows_thinking),
        stream: (facts) => new MessageEvents(facts, shows_thinking),
      },
      lowers_output_limit: true,
      warnings: { ignored, hints: sentAs(hints) },
    },
  }
}

export type ParsedPrompt =
  | { status: 'parsed'; model: string; body: Readonly<Json> }
  | { status: 'refused'; error: ApiErrorFields }

/** The body of a request to count tokens. `body`: the prompt as an engine would get it. */
export function parsePrompt(input: Readonly<Json>, headers: Headers): ParsedPrompt {
  const version = versionFault(headers)
  if (version !== null) return { status: 'refused', error: version }
  const checked = CountTokensRequest.safeParse(input)
  if (!checked.success) return { status: 'refused', error: { ...faultOf(checked.error), code: 'invalid_value' } }
  const translated = promptBody(checked.data)
  if (!translated.ok) return { status: 'refused', error: translated.error }
  return { status: 'parsed', model: checked.data.model, body: translated.value }
}

function showsThinking({ thinking }: Prompt): boolean {
  return thinking != null && thinking.type !== 'disabled' && thinking.display !== 'omitted'
}

function metadataOf({ metadata }: MessagesRequest): Record<string, string> | null {
  if (metadata == null) return null
  const texts = Object.entries(metadata).filter((entry): entry is [string, string] => typeof entry[1] === 'string')
  return texts.length === 0 ? null : Object.fromEntries(texts)
}
