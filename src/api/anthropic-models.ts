/** Models as Anthropic's API lists them: the newest first, in pages. */
import { z } from '@hono/zod-openapi'
import type { ApiErrorFields } from '../platform/api-error.ts'
import type { Model } from '../store/catalogue.ts'

export const MODEL_PAGE_MAX = 1000
const MODEL_PAGE_DEFAULT = 20
const MODEL_ID_CHARS_MAX = 128

export const AnthropicModelQuery = z.object({
  limit: z.coerce.number().int().min(1).max(MODEL_PAGE_MAX).default(MODEL_PAGE_DEFAULT),
  after_id: z.string().max(MODEL_ID_CHARS_MAX).optional().openapi({ description: 'Models behind this one' }),
  before_id: z.string().max(MODEL_ID_CHARS_MAX).optional().openapi({ description: 'Models just before this one' }),
})

/** What is not known of a model is null, as Anthropic has it. */
export const AnthropicModel = z
  .object({
    type: z.literal('model'),
    id: z.string(),
    display_name: z.string(),
    created_at: z.iso.datetime(),
    lifecycle: z.literal('active'),
    line: z.null(),
    deprecated_at: z.null(),
    retires_at: z.null(),
    max_input_tokens: z.number().int(),
    max_tokens: z.number().int(),
    capabilities: z.null(),
  })
  .openapi('AnthropicModel')

export const AnthropicModelPage = z
  .object({
    data: z.array(AnthropicModel),
    has_more: z.boolean(),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
  })
  .openapi('AnthropicModelPage')

export function anthropicModel({ id, created_at_ms, context_tokens_max }: Model): z.infer<typeof AnthropicModel> {
  return {
    ...{ type: 'model', id, display_name: id, created_at: new Date(created_at_ms).toISOString() },
    ...{ lifecycle: 'active', line: null, deprecated_at: null, retires_at: null },
    // Prompt and output share the context.
    ...{ max_input_tokens: context_tokens_max, max_tokens: context_tokens_max, capabilities: null },
  }
}

type PageResult =
  | { status: 'page'; page: z.infer<typeof AnthropicModelPage> }
  | { status: 'refused'; error: ApiErrorFields }

export function modelPage(
  models: readonly Model[],
  { limit, after_id, before_id }: z.infer<typeof AnthropicModelQuery>,
): PageResult {
  if (after_id !== undefined && before_id !== undefined) return refused('before_id', 'it does not go with after_id')
  const listed = [...models].sort((a, b) => b.created_at_ms - a.created_at_ms || compare(a.id, b.id))
  const at = listed.findIndex(({ id }) => id === (after_id ?? before_id))
  if (at === -1 && after_id !== undefined) return refused('after_id', 'there is no such model')
  if (at === -1 && before_id !== undefined) return refused('before_id', 'there is no such model')
  const from = before_id === undefined ? at + 1 : Math.max(0, at - limit)
  const to = before_id === undefined ? from + limit : at
  const data = listed.slice(from, to).map(anthropicModel)
  const has_more = before_id === undefined ? to < listed.length : from > 0
  return { status: 'page', page: { data, has_more, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null } }
}

function compare(a: string, b: string): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}

function refused(param: string, reason: string): PageResult {
  return {
    status: 'refused',
    error: { message: `Invalid value for '${param}': ${reason}.`, param, code: 'invalid_value' },
  }
}
