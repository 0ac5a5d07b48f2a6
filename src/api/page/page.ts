/** /page: sign-in, the live view, and the page's own files. Everything else that the page shows comes from /v1 and /admin/v1. */
import { createRoute, OpenAPIHono, z } from '@hono/zod-openapi'
import type { MiddlewareHandler } from 'hono'
import { deleteCookie, setCookie } from 'hono/cookie'
import type { Env } from '../../env.ts'
import { apiError, unauthorised } from '../../platform/api-error.ts'
import { LiveEvent } from '../../protocol/live.ts'
import { CREDENTIAL_CHARS_MAX } from '../../store/secrets.ts'
import { limitBody, refusal, refuseInvalid } from '../boundary.ts'
import { failure, json, jsonBody, tooMany } from '../route-parts.ts'
import { pageAsset } from './document.ts'
import { liveStream } from './live-stream.ts'
import { LiveView } from './live-view.ts'
import { fromElsewhere } from './page-identity.ts'
import { SESSION_COOKIE, SESSION_MAX_AGE_S, sealSession } from './session-cookie.ts'
import { type Viewer, viewerOf } from './viewer.ts'
import { VIEWERS_PER_TENANT_MAX, Viewers } from './viewers.ts'

export const SESSION_BODY_BYTES_MAX = 4 * 1024
const VIEWER_RETRY_AFTER_S = 30
/** A key goes on in a header, which takes no other characters. */
const HEADER_TEXT = /^[\x20-\x7e]*$/
/** Either key opens these. */
const security = [{ apiKey: [] }, { adminKey: [] }]

interface PageScope {
  Bindings: Env
  Variables: { viewer: Viewer }
}

const SessionJson = z
  .object({
    role: z.enum(['operator', 'tenant']),
    tenant: z.string().nullable().openapi({ description: 'Null: the operator' }),
  })
  .openapi('PageSession')

export const pageRoutes = new OpenAPIHono<PageScope>({ defaultHook: refuseInvalid })
const viewers = new Viewers()

const requireViewer: MiddlewareHandler<PageScope> = async (c, next) => {
  const who = await viewerOf(c.req.raw, c.env, Date.now(), (work) => c.executionCtx.waitUntil(work))
  if (who.status === 'refused') return unauthorised(who.reason)
  c.set('viewer', who.viewer)
  await next()
}

pageRoutes.use('/page/session', limitBody(SESSION_BODY_BYTES_MAX))

pageRoutes.openapi(
  createRoute({
    method: 'post',
    path: '/page/session',
    request: jsonBody(z.strictObject({ key: z.string().trim().min(1).max(CREDENTIAL_CHARS_MAX).regex(HEADER_TEXT) })),
    responses: {
      200: json(SessionJson, 'Signed in: the answer sets a cookie that only the page can use'),
      401: failure('The key is not valid'),
      403: failure('The request is not from the page, or the key’s tenant is disabled'),
    },
  }),
  async (c) => {
    const elsewhere = fromElsewhere(c.req.raw.headers)
    if (elsewhere !== null) return refusal(elsewhere)
    const { key } = c.req.valid('json')
    const now_ms = Date.now()
    const asked = new Request(c.req.url, { headers: { authorization: `Bearer ${key}` } })
    const who = await viewerOf(asked, c.env, now_ms, (work) => c.executionCtx.waitUntil(work))
    if (who.status === 'refused') {
      if (who.reason === 'disabled') return refusal(unauthorised('disabled'))
      const message =
        'This key is not valid. `npm run up` prints one, and an operator makes more: npm run cli -- keys create.'
      return refusal(apiError(401, { message, param: 'key', code: 'invalid_key' }))
    }
    const sealed = await sealSession(c.env.KEY_PEPPER, { key, expires_at_ms: now_ms + SESSION_MAX_AGE_S * 1000 })
    setCookie(c, SESSION_COOKIE, sealed, { ...COOKIE, secure: isSecure(c.req.raw), maxAge: SESSION_MAX_AGE_S })
    c.header('cache-control', 'no-store')
    return c.json(sessionJson(who.viewer), 200)
  },
)

pageRoutes.openapi(
  createRoute({
    method: 'delete',
    path: '/page/session',
    responses: { 204: { description: 'Signed out' } },
  }),
  (c) => {
    deleteCookie(c, SESSION_COOKIE, { path: COOKIE.path, secure: isSecure(c.req.raw) })
    return c.body(null, 204)
  },
)

pageRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/page/session',
    security,
    middleware: requireViewer,
    responses: { 200: json(SessionJson, 'Who is signed in') },
  }),
  (c) => {
    c.header('cache-control', 'no-store')
    return c.json(sessionJson(c.var.viewer), 200)
  },
)

pageRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/page/live',
    security,
    middleware: requireViewer,
    responses: {
      200: {
        description:
          'Running programs, engines and tenants: a tenant’s own programs, or all for the operator. With `Accept: text/event-stream` it goes on with what changes, once a second at most',
        content: {
          'application/json': { schema: LiveEvent.openapi('LiveEvent') },
          'text/event-stream': { schema: z.string().openapi({ description: 'Events whose data is a LiveEvent' }) },
        },
      },
      429: tooMany(`${VIEWERS_PER_TENANT_MAX} pages of this viewer are open, or too many in all`),
    },
  }),
  async (c) => {
    const { viewer } = c.var
    const view = new LiveView(c.env, viewer)
    if (c.req.header('accept')?.includes('text/event-stream') !== true) {
      c.header('cache-control', 'no-store')
      return c.json(await view.next(Date.now()), 200)
    }
    const owner = viewer.role === 'operator' ? 'operator' : `tenant:${viewer.tenant}`
    const id = viewers.open(owner, Date.now())
    if (id === null) {
      const message = `Too many pages are open. At most ${VIEWERS_PER_TENANT_MAX} of one viewer are served. Close one.`
      const retry = { 'retry-after': String(VIEWER_RETRY_AFTER_S) }
      return refusal(apiError(429, { message, code: 'too_many_viewers' }, retry))
    }
    const { raw } = c.req
    const background = (work: Promise<unknown>) => c.executionCtx.waitUntil(work)
    const stream = liveStream({
      next: (now_ms) => view.next(now_ms),
      isAllowed: async (now_ms) => (await viewerOf(raw, c.env, now_ms, background)).status === 'viewer',
      written: (now_ms) => viewers.written(id, now_ms),
      closed: () => viewers.close(id),
      signal: raw.signal,
    })
    return refusal(
      new Response(stream, { headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store' } }),
    )
  },
)

pageRoutes.get('/page/assets/:name', (c) => pageAsset(c.req.param('name')) ?? c.notFound())

const COOKIE = { path: '/', httpOnly: true, sameSite: 'Strict' } as const

/** Over plain HTTP, as on one's own machine, a browser would drop a cookie that is `Secure`. */
function isSecure(request: Request): boolean {
  return new URL(request.url).protocol === 'https:' || request.headers.get('x-forwarded-proto') === 'https'
}

function sessionJson(viewer: Viewer): z.infer<typeof SessionJson> {
  return { role: viewer.role, tenant: viewer.role === 'tenant' ? viewer.tenant : null }
}
