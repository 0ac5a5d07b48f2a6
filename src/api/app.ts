/** The routers together: bounds before everything, errors in one shape, and /openapi.json from the routes' own schemas. */
import { OpenAPIHono } from '@hono/zod-openapi'
import type { Hono } from 'hono'
import { HTTPException } from 'hono/http-exception'
import type { Env } from '../env.ts'
import { apiError, RETRY_AFTER_S } from '../platform/api-error.ts'
import { logFailure } from '../platform/log.ts'
import {
  ACTOR_UNAVAILABLE,
  isActorRestart,
  isStorageFailure,
  STORAGE_UNAVAILABLE,
} from '../platform/storage-failure.ts'
import { StoreUnavailable } from '../store/database.ts'
import { adminRoutes } from './admin/routes.ts'
import { agentRoutes } from './agents.ts'
import { anthropicRoutes } from './anthropic.ts'
import { applicationRoutes } from './applications/applications.ts'
import { batchRoutes } from './batches/batches.ts'
import { limitHeaders } from './boundary.ts'
import { conversationRoutes } from './conversations.ts'
import { cors } from './cors.ts'
import { errorFormatOf } from './error-format.ts'
import { fileRoutes } from './files/files.ts'
import { uploadRoutes } from './files/uploads.ts'
import { healthRoutes } from './health.ts'
import { methodNotAllowed } from './method-not-allowed.ts'
import { metricsRoutes } from './metrics.ts'
import { modelRoutes } from './models.ts'
import { openaiRoutes } from './openai.ts'
import { withEdgeAnswers } from './openapi-document.ts'
import { pageRoutes } from './page/page.ts'
import { pageIdentity } from './page/page-identity.ts'
import { programRoutes } from './programs.ts'
import { requestId } from './request-id.ts'
import { requestPath } from './request-path.ts'
import { responseRoutes } from './responses.ts'
import { spendRoutes } from './spend.ts'
import { traceRoutes } from './trace.ts'
import { trendRoutes } from './trends.ts'
import { usageRoutes } from './usage.ts'

export const app = new OpenAPIHono<{ Bindings: Env }>({ getPath: requestPath })

app.use(requestId)
app.use(cors)
app.use(limitHeaders)
app.use(pageIdentity)
app.route('/', healthRoutes)
app.route('/', pageRoutes)
app.route('/', metricsRoutes)
app.route('/', openaiRoutes)
app.route('/', modelRoutes)
app.route('/', anthropicRoutes)
app.route('/', responseRoutes)
app.route('/', conversationRoutes)
app.route('/', fileRoutes)
app.route('/', uploadRoutes)
app.route('/', batchRoutes)
app.route('/', applicationRoutes)
app.route('/', programRoutes)
app.route('/', traceRoutes)
app.route('/', trendRoutes)
app.route('/', usageRoutes)
app.route('/', spendRoutes)
app.route('/', agentRoutes)
app.route('/', adminRoutes)

const bearer = (description: string) => ({ type: 'http' as const, scheme: 'bearer', description })
app.openAPIRegistry.registerComponent('securitySchemes', 'apiKey', bearer('A tenant’s API key, sk-sy-…'))
app.openAPIRegistry.registerComponent('securitySchemes', 'agentToken', bearer('An agent’s token, sya-…'))
app.openAPIRegistry.registerComponent('securitySchemes', 'adminKey', bearer('The operator’s key, sy-admin-…'))

const DOCUMENT = {
  openapi: '3.1.0',
  info: {
    title: 'Switchyard',
    version: '1',
    description:
      'Serves agent programs: the OpenAI and Anthropic APIs, programs and their process-table entries, agents, administration.',
  },
}
app.get('/openapi.json', (c) => c.json(withEdgeAnswers(app.getOpenAPI31Document(DOCUMENT))))

app.notFound((c) => {
  const { method, path } = c.req
  const format = errorFormatOf(path, c.req.raw.headers)
  const wrongMethod = methodNotAllowed(app.router as Hono['router'], method, path, format)
  const message = `There is nothing at ${method} ${path}.`
  return wrongMethod ?? apiError(404, { message, code: 'not_found' }, {}, format)
})

app.onError((error, c) => {
  const format = errorFormatOf(c.req.path, c.req.raw.headers)
  // Hono's validators throw these for a body that is no JSON; the message is theirs and safe to show.
  if (error instanceof HTTPException) {
    const code = error.status === 400 ? 'invalid_json' : null
    return apiError(error.status, { message: error.message, code }, {}, format)
  }
  const retry = { 'retry-after': String(RETRY_AFTER_S) }
  if (error instanceof StoreUnavailable) {
    logFailure('store_unavailable', error)
    const message =
      'The database does not answer, so keys, models and ended programs are unavailable. Send the request again after Retry-After.'
    return apiError(503, { message, code: 'store_unavailable' }, retry, format)
  }
  if (isStorageFailure(error)) {
    logFailure('storage_failed', error)
    return apiError(503, STORAGE_UNAVAILABLE, retry, format)
  }
  if (isActorRestart(error)) {
    logFailure('actor_restarted', error)
    return apiError(503, ACTOR_UNAVAILABLE, retry, format)
  }
  logFailure('unhandled', error)
  return apiError(
    500,
    { message: 'The request failed because of an error in this service. Send it again.', code: 'internal_error' },
    retry,
    format,
  )
})
