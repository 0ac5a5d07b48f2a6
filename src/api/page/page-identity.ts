/**
 * A request of the page becomes a request with its viewer's key, before anything else looks at it. So the routes authorise the
 * page exactly as they authorise any client, and there is one authorisation.
 *
 * Against requests that another site makes a browser send: the cookie is SameSite=Strict, the request must carry a header that
 * other origins cannot set without CORS (which never allows credentials here: src/api/cors.ts), and a browser that says from
 * where a request comes must say `same-origin`.
 */
import type { MiddlewareHandler } from 'hono'
import { getCookie } from 'hono/cookie'
import type { Env } from '../../env.ts'
import { apiError } from '../../platform/api-error.ts'
import { presentedKey } from '../../store/secrets.ts'
import { openSession, SESSION_COOKIE } from './session-cookie.ts'

/** The page sends it with every request. Its value means nothing. */
export const PAGE_HEADER = 'x-switchyard-page'
/** Where the cookie counts. Calls to models are no part of the page. */
const PREFIXES = ['/v1/programs', '/admin/v1/', '/page/']
/** The page only looks at these. Sending an application would be calls to models. */
const READ_PREFIXES = ['/v1/trace', '/v1/trends', '/v1/spend', '/v1/applications']

export const pageIdentity: MiddlewareHandler<{ Bindings: Env }> = async (c, next) => {
  const { raw, path } = c.req
  const hasCookie = raw.headers.get('cookie')?.includes(`${SESSION_COOKIE}=`) === true
  const prefixes = raw.method === 'GET' ? [...PREFIXES, ...READ_PREFIXES] : PREFIXES
  if (!hasCookie || !prefixes.some((prefix) => path.startsWith(prefix))) return next()
  if (presentedKey(raw.headers).status !== 'none') return next()
  const session = await openSession(c.env.KEY_PEPPER, getCookie(c, SESSION_COOKIE) ?? '', Date.now())
  if (session === null || path.startsWith('/page/assets/')) return next()
  const refused = fromElsewhere(raw.headers)
  if (refused !== null) return refused
  const headers = new Headers(raw.headers)
  headers.set('authorization', `Bearer ${session.key}`)
  headers.delete('cookie')
  c.req.raw = new Request(raw, { headers })
  await next()
}

/** Null: the page itself sent it. */
export function fromElsewhere(headers: Headers): Response | null {
  const site = headers.get('sec-fetch-site')
  if (headers.has(PAGE_HEADER) && (site === null || site === 'same-origin')) return null
  const message = `A sign-in cookie counts only for requests of the page itself, which have the header ${PAGE_HEADER}. Scripts send a key.`
  return apiError(403, { message, code: 'not_from_the_page' })
}
