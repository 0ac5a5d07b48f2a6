/**
 * Anthropic's routes: messages and counting tokens. As with OpenAI's, the relay reads the body once, under its bound, and
 * checks it with the schema that documents the route.
 */
import { createRoute, OpenAPIHono, z } from '@hono/zod-openapi'
import type { Env } from '../env.ts'
import { UsageExtension } from '../protocol/index.ts'
import { countTokens, TOKEN_COUNT_HEADER } from '../relay/count-tokens.ts'
import { relayDeps } from '../relay/deps.ts'
import { DIALECTS } from '../relay/dialects/index.ts'
import { parsePrompt } from '../relay/dialects/messages/messages.ts'
import { CountTokensRequest } from '../relay/dialects/messages/schemas.ts'
import { OUTPUT_LIMIT_HEADER } from '../relay/output-limit.ts'
import { runCall } from '../relay/run-call.ts'
import { CallHeaders } from './call-headers.ts'
import { RetryAfter } from './route-parts.ts'

const TAG = 'Anthropic'
const SECURITY = [{ apiKey: [] }]
const { messages } = DIALECTS
const COUNT_PATH = `${messages.path}/count_tokens`

const AnthropicError = z
  .object({
    type: z.literal('error'),
    error: z.object({
      type: z.string(),
      message: z.string(),
      details: z.object({
        error_code: z.string().nullable(),
        param: z.string().nullable().openapi({ description: 'The field or header that is at fault' }),
      }),
    }),
    request_id: z.string().nullable(),
  })
  .openapi('AnthropicError')

const json = <T extends z.ZodType>(schema: T) => ({ 'application/json': { schema } })
const failure = (description: string) => ({ description, content: json(AnthropicError) })

const Count = z.number().int().nonnegative()

const Message = z
  .looseObject({
    id: z.string(),
    type: z.literal('message'),
    role: z.literal('assistant'),
    model: z.string(),
    content: z.array(z.looseObject({ type: z.enum(['text', 'tool_use', 'thinking']) })),
    stop_reason: z.enum(['end_turn', 'max_tokens', 'stop_sequence', 'tool_use', 'refusal']),
    stop_sequence: z.string().nullable(),
    usage: z.looseObject({
      input_tokens: Count.openapi({ description: 'Without those from the KV cache' }),
      cache_read_input_tokens: Count,
      output_tokens: Count,
      switchyard: z.looseObject(UsageExtension.shape),
    }),
  })
  .openapi('Message')

const AnthropicHeaders = CallHeaders.extend({
  'anthropic-version': z.string().optional().openapi({ description: '2023-06-01 or 2026-10-21' }),
})

const createMessage = createRoute({
  method: 'post',
  path: messages.path,
  tags: [TAG],
  summary: 'Message',
  security: SECURITY,
  request: { headers: AnthropicHeaders, body: { required: true, content: json(messages.request) } },
  responses: {
    200: {
      description: 'The message, or a stream of named events where `stream` is true',
      headers: z.object({
        [OUTPUT_LIMIT_HEADER]: z
          .string()
          .optional()
          .openapi({ description: 'The output limit of the call, where `max_tokens` does not fit into the context' }),
      }),
      content: { ...json(Message), 'text/event-stream': { schema: z.string() } },
    },
    400: failure('The body, a header or an id is not valid, or the engine cannot honour a field'),
    401: failure('The API key is missing or not valid'),
    403: failure('The tenant is disabled, or the key may not use the regions that the call is held to'),
    404: failure('No such model, or the key may not call it'),
    409: failure('The call of this Idempotency-Key is open, or its answer is not kept'),
    413: failure('The body is too large'),
    429: { ...failure('The program has too many calls, or a limit of the tenant is reached'), headers: RetryAfter },
    502: failure('The engines failed'),
    503: { ...failure('No engine can serve the call at this moment'), headers: RetryAfter },
  },
})

const count = createRoute({
  method: 'post',
  path: COUNT_PATH,
  tags: [TAG],
  summary: 'Count the tokens of a prompt',
  security: SECURITY,
  request: {
    headers: AnthropicHeaders.pick({ 'anthropic-version': true }),
    body: { required: true, content: json(CountTokensRequest) },
  },
  responses: {
    200: {
      description: 'An estimate from the bytes of the prompt',
      headers: z.object({ [TOKEN_COUNT_HEADER]: z.literal('estimated') }),
      content: json(z.object({ input_tokens: Count }).openapi('TokenCount')),
    },
    400: failure('The body or a header is not valid'),
    401: failure('The API key is missing or not valid'),
    404: failure('No such model, or the key may not call it'),
    413: failure('The body is too large'),
  },
})

export const anthropicRoutes = new OpenAPIHono<{ Bindings: Env }>()

anthropicRoutes.openAPIRegistry.registerPath(createMessage)
anthropicRoutes.post(messages.path, (c) => runCall(c.req.raw, 'messages', relayDeps(c.env, c.executionCtx)))
anthropicRoutes.openAPIRegistry.registerPath(count)
anthropicRoutes.post(COUNT_PATH, (c) =>
  countTokens(c.req.raw, { errors: messages.errors, parsePrompt }, relayDeps(c.env, c.executionCtx)),
)
