/**
 * OpenAI's routes of calls. They are documented in /openapi.json and served
 * by plain handlers: the relay reads the body once, under its bound, and checks it with the schema that documents it.
 */
import { createRoute, OpenAPIHono, z } from '@hono/zod-openapi'
import type { Env } from '../env.ts'
import { UsageExtension } from '../protocol/index.ts'
import { Choice as OpenAiChoice, Usage as OpenAiUsage } from '../protocol/openai.ts'
import { countTokens, TOKEN_COUNT_HEADER } from '../relay/count-tokens.ts'
import { relayDeps } from '../relay/deps.ts'
import type { Dialect } from '../relay/dialects/dialect.ts'
import { DIALECTS, type DialectName } from '../relay/dialects/index.ts'
import { inputTokens } from '../relay/dialects/responses/responses.ts'
import { runCall } from '../relay/run-call.ts'
import { CallHeaders } from './call-headers.ts'
import { ErrorResponse } from './error-response.ts'
import { StoredResponse } from './responses.ts'
import { RetryAfter } from './route-parts.ts'

const TAG = 'OpenAI'
const SECURITY = [{ apiKey: [] }]

const json = <T extends z.ZodType>(schema: T) => ({ 'application/json': { schema } })
const failure = (description: string) => ({ description, content: json(ErrorResponse) })

const Usage = z.looseObject({ ...OpenAiUsage.shape, switchyard: z.looseObject(UsageExtension.shape) }).openapi('Usage')

const Choice = z.looseObject(OpenAiChoice.shape)

const ChatCompletion = z
  .looseObject({
    id: z.string(),
    object: z.literal('chat.completion'),
    created: z.number().int(),
    model: z.string(),
    choices: z.array(Choice.extend({ message: z.looseObject({ role: z.string(), content: z.string().nullable() }) })),
    usage: Usage,
  })
  .openapi('ChatCompletion')

const Completion = z
  .looseObject({
    id: z.string(),
    object: z.literal('text_completion'),
    created: z.number().int(),
    model: z.string(),
    choices: z.array(Choice.extend({ text: z.string() })),
    usage: Usage,
  })
  .openapi('Completion')

const EmbeddingList = z
  .looseObject({
    object: z.literal('list'),
    data: z.array(
      z.looseObject({
        object: z.literal('embedding'),
        index: z.number().int(),
        embedding: z.union([z.array(z.number()), z.string()]).openapi({ description: 'Text: base64 of float32' }),
      }),
    ),
    model: z.string(),
    usage: z.looseObject({
      prompt_tokens: z.number().int(),
      total_tokens: z.number().int(),
      switchyard: z.looseObject(UsageExtension.shape),
    }),
  })
  .openapi('EmbeddingList')

function callRoute<A extends z.ZodType>({ path, request }: Dialect, summary: string, answer: A) {
  return createRoute({
    method: 'post',
    path,
    tags: [TAG],
    summary,
    security: SECURITY,
    request: { headers: CallHeaders, body: { required: true, content: json(request) } },
    responses: {
      200: {
        description: 'The answer, or a stream of chunks where `stream` is true',
        content: { ...json(answer), 'text/event-stream': { schema: z.string() } },
      },
      400: failure('The body or an id is not valid, or the engine cannot honour a field; `param` names it'),
      401: failure('The API key is missing or not valid'),
      403: failure('The tenant is disabled, or the key may not use the regions that the call is held to'),
      404: failure('No such model, or the key may not call it'),
      408: failure('The body did not come in time'),
      409: failure('The call of this Idempotency-Key is open, or its answer is not kept'),
      413: failure('The body is too large'),
      415: failure('The body has a Content-Encoding other than gzip and deflate'),
      422: failure('The Idempotency-Key was used with another body'),
      429: { ...failure('The program has too many calls, or a limit of the tenant is reached'), headers: RetryAfter },
      502: failure('The engines failed'),
      503: { ...failure('No engine can serve the call at this moment'), headers: RetryAfter },
    },
  })
}

const INPUT_TOKENS_PATH = `${DIALECTS.responses.path}/input_tokens`

const countInput = createRoute({
  method: 'post',
  path: INPUT_TOKENS_PATH,
  tags: [TAG],
  summary: 'Count the input tokens of a response',
  security: SECURITY,
  request: { body: { required: true, content: json(DIALECTS.responses.request) } },
  responses: {
    200: {
      description: 'An estimate from the bytes of the prompt, stored turns included',
      headers: z.object({ [TOKEN_COUNT_HEADER]: z.literal('estimated') }),
      content: json(
        z
          .object({ object: z.literal('response.input_tokens'), input_tokens: z.number().int() })
          .openapi('ResponseInputTokens'),
      ),
    },
    400: failure('The body is not valid; `param` names the field'),
    401: failure('The API key is missing or not valid'),
    404: failure('No such model, or no such stored response, conversation or item'),
    413: failure('The body is too large'),
    503: failure('What is stored could not be read at the moment; see Retry-After'),
  },
})

export const openaiRoutes = makeRoutes()

function makeRoutes(): OpenAPIHono<{ Bindings: Env }> {
  const app = new OpenAPIHono<{ Bindings: Env }>()
  const serveCalls = (name: DialectName, summary: string, answer: z.ZodType): void => {
    const dialect = DIALECTS[name]
    app.openAPIRegistry.registerPath(callRoute(dialect, summary, answer))
    app.post(dialect.path, (c) => runCall(c.req.raw, name, relayDeps(c.env, c.executionCtx)))
  }
  serveCalls('chat', 'Chat completion', ChatCompletion)
  serveCalls('completions', 'Completion', Completion)
  serveCalls('embeddings', 'Embeddings', EmbeddingList)
  serveCalls('responses', 'Response', StoredResponse)
  app.openAPIRegistry.registerPath(countInput)
  app.post(INPUT_TOKENS_PATH, (c) => countTokens(c.req.raw, inputTokens, relayDeps(c.env, c.executionCtx)))
  return app
}
