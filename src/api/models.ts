/**
 * The models that a key may call, in OpenAI's form, and in Anthropic's for a request that has `anthropic-version`. The paths
 * are the same in both APIs.
 */
import { createRoute, OpenAPIHono, z } from '@hono/zod-openapi'
import type { Context } from 'hono'
import type { Env } from '../env.ts'
import { apiError, unauthorised } from '../platform/api-error.ts'
import { VERSION_HEADER, versionFault } from '../relay/dialects/messages/version.ts'
import { faultOf } from '../relay/dialects/openai-schemas.ts'
import { mayUse, modelNotFound } from '../relay/restrictions.ts'
import { catalogue, type Model } from '../store/catalogue.ts'
import { authenticate } from '../store/keys.ts'
import {
  AnthropicModel,
  AnthropicModelPage,
  AnthropicModelQuery,
  anthropicModel,
  modelPage,
} from './anthropic-models.ts'
import { errorFormatOf } from './error-format.ts'
import { failure, json } from './route-parts.ts'

type Request = Context<{ Bindings: Env }>

const TAG = 'Models'
const SECURITY = [{ apiKey: [] }]

const ModelEntry = z
  .object({
    id: z.string(),
    object: z.literal('model'),
    created: z.number().int().openapi({ description: 'Seconds since 1970' }),
    owned_by: z.string(),
    context_tokens_max: z.number().int(),
    max_model_len: z.number().int().openapi({ description: 'The same, as vLLM names it' }),
  })
  .openapi('Model')

const ModelList = z.object({ object: z.literal('list'), data: z.array(ModelEntry) }).openapi('ModelList')

const headers = z.object({
  [VERSION_HEADER]: z.string().optional().openapi({ description: 'Asks for the form of Anthropic’s API' }),
})

const listModels = createRoute({
  method: 'get',
  path: '/v1/models',
  tags: [TAG],
  summary: 'List models',
  security: SECURITY,
  request: { headers, query: AnthropicModelQuery },
  responses: {
    200: json(z.union([ModelList, AnthropicModelPage]), 'Every model that the key may call'),
    400: failure('The version or the page is not valid'),
    401: failure('The API key is missing or not valid'),
  },
})

const getModel = createRoute({
  method: 'get',
  path: '/v1/models/{id}',
  tags: [TAG],
  summary: 'One model',
  security: SECURITY,
  request: { headers, params: z.object({ id: z.string() }) },
  responses: {
    200: json(z.union([ModelEntry, AnthropicModel]), 'The model'),
    400: failure('The version is not valid'),
    401: failure('The API key is missing or not valid'),
    404: failure('No such model'),
  },
})

function modelEntry(model: Model): z.infer<typeof ModelEntry> {
  const { id, created_at_ms, context_tokens_max } = model
  const created = Math.floor(created_at_ms / 1000)
  const context = { context_tokens_max, max_model_len: context_tokens_max }
  return { id, object: 'model', created, owned_by: 'switchyard', ...context }
}

type Usable = { status: 'usable'; models: readonly Model[] } | { status: 'refused'; response: Response }

/** What the key of a request may call. */
async function usableModels(c: Request): Promise<Usable> {
  const format = errorFormatOf(c.req.path, c.req.raw.headers)
  const authentication = await authenticate(c.req.raw, c.env)
  if (authentication.status === 'refused') {
    return { status: 'refused', response: unauthorised(authentication.reason, format) }
  }
  const fault = versionFault(c.req.raw.headers)
  if (fault !== null) return { status: 'refused', response: apiError(400, fault, {}, format) }
  const { identity } = authentication
  const { models } = await catalogue(c.env)
  return { status: 'usable', models: [...models.values()].filter(({ id }) => mayUse(identity.models, id)) }
}

function isAnthropic(c: Request): boolean {
  return c.req.raw.headers.has(VERSION_HEADER)
}

/** As Anthropic's API answers, which names the request. */
function anthropicAnswer(c: Request, body: object): Response {
  const response = c.json(body)
  errorFormatOf(c.req.path, c.req.raw.headers).addHeaders(response.headers, null)
  return response
}

export const modelRoutes = new OpenAPIHono<{ Bindings: Env }>()

modelRoutes.openAPIRegistry.registerPath(listModels)
modelRoutes.get('/v1/models', async (c) => {
  const usable = await usableModels(c)
  if (usable.status === 'refused') return usable.response
  if (!isAnthropic(c)) return c.json({ object: 'list' as const, data: usable.models.map(modelEntry) })
  const format = errorFormatOf(c.req.path, c.req.raw.headers)
  const query = AnthropicModelQuery.safeParse(c.req.query())
  if (!query.success) return apiError(400, { ...faultOf(query.error), code: 'invalid_value' }, {}, format)
  const page = modelPage(usable.models, query.data)
  return page.status === 'page' ? anthropicAnswer(c, page.page) : apiError(400, page.error, {}, format)
})

modelRoutes.openAPIRegistry.registerPath(getModel)
// A model id may hold slashes (`org/model`), so the rest of the path is the id.
modelRoutes.get('/v1/models/:id{.+}', async (c) => {
  const usable = await usableModels(c)
  if (usable.status === 'refused') return usable.response
  const id = c.req.param('id')
  const model = usable.models.find((one) => one.id === id)
  if (model === undefined) return apiError(404, modelNotFound(id), {}, errorFormatOf(c.req.path, c.req.raw.headers))
  return isAnthropic(c) ? anthropicAnswer(c, anthropicModel(model)) : c.json(modelEntry(model))
})
