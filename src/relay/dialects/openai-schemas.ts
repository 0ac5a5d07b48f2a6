/**
 * Types of the fields that the relay or an operator needs, for both dialects. The schemas are loose: other
 * fields are sorted by protocol/request-fields.ts, and the engine's front decides which binding ones it can honour. `null` means absent, as with
 * OpenAI. These schemas also document the routes in /openapi.json.
 */
import { z } from '@hono/zod-openapi'
import {
  CALL_FIELDS,
  CHAT_FIELDS,
  Choices,
  ContentPart,
  EMBEDDING_FIELDS,
  Metadata,
  ROLES,
  STOPS_MAX,
  TokenId,
} from '../../protocol/openai.ts'
import {
  CHAT_BODY_FIELDS,
  COMPLETION_BODY_FIELDS,
  EMBEDDING_BODY_FIELDS,
  type FieldClass,
  type FieldTable,
  fieldsOf,
} from '../../protocol/request-fields.ts'

export const MODEL_CHARS_MAX = 128

const common = {
  model: z.string().min(1).max(MODEL_CHARS_MAX).openapi({ example: 'smollm2-135m-instruct' }),
  stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
  stop: z.union([z.string(), z.array(z.string()).max(STOPS_MAX)]).nullish(),
  n: Choices.nullish(),
  user: z.string().nullish(),
}

const Message = z.looseObject({
  // `function` is deprecated: an engine's front says so.
  role: z.enum([...ROLES, 'function']),
  content: z.union([z.string(), z.array(ContentPart)]).nullish(),
})

/** The classes of fields, for /openapi.json. */
function classesOf(table: FieldTable): string {
  const list = (of_class: FieldClass) => fieldsOf(table, of_class).join(', ')
  const ignored = `Ignored with a warning, as are unknown fields: ${list('ignored')}.`
  const hints = list('hint')
  return hints === '' ? ignored : `Hints, applied if the engine can: ${hints}. ${ignored}`
}

const metadata = Metadata.nullish().openapi({
  description:
    '`program_id` and `thread_id` have the meaning of X-Program-Id and X-Thread-Id. `expect_tool_s`: seconds that the tool after this call is expected to take',
})

export const ChatRequest = z
  .looseObject({ ...CHAT_FIELDS, ...common, metadata, messages: z.array(Message).min(1) })
  .openapi('ChatCompletionRequest', { description: classesOf(CHAT_BODY_FIELDS) })

export const CompletionRequest = z
  .looseObject({
    ...CALL_FIELDS,
    ...common,
    metadata,
    max_tokens: z.number().int().min(0).nullish(),
    prompt: z.union([
      z.string(),
      z.array(z.string()).min(1),
      z.array(TokenId).min(1),
      z.array(z.array(TokenId)).min(1),
    ]),
  })
  .openapi('CompletionRequest', { description: classesOf(COMPLETION_BODY_FIELDS) })

export const EmbeddingRequest = z
  .looseObject({ ...EMBEDDING_FIELDS, model: common.model, user: common.user, metadata })
  .openapi('EmbeddingRequest', { description: classesOf(EMBEDDING_BODY_FIELDS) })

export interface FieldFault {
  message: string
  /** `messages[1].content`, as OpenAI writes paths. */
  param: string | null
}

type Issue = z.core.$ZodIssue

/** The first fault, in one sentence with the field's path. `within`: where the checked value stands in the body. */
export function faultOf(error: z.ZodError, within = ''): FieldFault {
  const issue = deepest(error.issues[0])
  const param = issue === undefined ? '' : pathOf(issue.path, within)
  if (issue === undefined || param === '') return { message: 'The body is not valid.', param: null }
  return { message: `Invalid value for '${param}': ${issue.message}.`, param }
}

/** The branch of a union that got furthest into the body describes the fault best. */
function deepest(issue: Issue | undefined): Issue | undefined {
  if (issue?.code !== 'invalid_union') return issue
  let best: Issue | undefined
  for (const branch of issue.errors) {
    const found = deepest(branch[0])
    if (found !== undefined && found.path.length > (best?.path.length ?? 0)) best = found
  }
  return best === undefined ? issue : { ...best, path: [...issue.path, ...best.path] }
}

function pathOf(path: readonly PropertyKey[], within: string): string {
  let text = within
  for (const key of path) {
    if (typeof key === 'number') text += `[${key}]`
    else text += text === '' ? String(key) : `.${String(key)}`
  }
  return text
}
