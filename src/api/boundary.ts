/**
 * What every router shares at its edge: who asks, how large a request may be, and how a value that fails its schema is
 * answered. Handlers behind it see authenticated, bounded, typed requests only.
 */
import { OpenAPIHono } from '@hono/zod-openapi'
import type { MiddlewareHandler } from 'hono'
import type { Env } from '../env.ts'
import { apiError, unauthorised } from '../platform/api-error.ts'
import { readBytes } from '../relay/body.ts'
import { type AgentIdentity, authenticateAgent } from '../store/agents.ts'
import { type Auditor, auditorOf } from '../store/audit.ts'
import { authenticate, type TenantIdentity } from '../store/keys.ts'
import { bearer, secretsEqual } from '../store/secrets.ts'
import { errorFormatOf } from './error-format.ts'

/** Names and values of all headers. The runtime in front may refuse less; past it the answer is 431. */
export const HEADERS_BYTES_MAX = 32 * 1024

export interface TenantScope {
  Bindings: Env
  Variables: { identity: TenantIdentity }
}

export interface AgentScope {
  Bindings: Env
  Variables: { agent: AgentIdentity }
}

export interface AdminScope {
  Bindings: Env
  Variables: { auditor: Auditor }
}

export function router<S extends TenantScope | AgentScope | AdminScope>(): OpenAPIHono<S> {
  return new OpenAPIHono<S>({
    defaultHook: refuseInvalid,
  })
}

type Checked =
  | { success: true }
  | { success: false; error: { issues: readonly { path: PropertyKey[]; message: string }[] } }

/** The hook of every router: what a value that fails its schema is answered with. */
export const refuseInvalid = (result: Checked): Response | undefined =>
  result.success ? undefined : invalid(result.error.issues)

/** 400 with the first field at fault as `param`. */
function invalid(issues: readonly { path: PropertyKey[]; message: string }[]): Response {
  const [issue] = issues
  const param = issue === undefined || issue.path.length === 0 ? null : issue.path.map(String).join('.')
  const code = param === 'id' ? 'invalid_id' : 'invalid_value'
  return apiError(400, { message: messageOf(issue?.message, param), param, code })
}

/** Zod tells of a field that is not there by its type alone. */
function messageOf(message: string | undefined, param: string | null): string {
  if (message === undefined) return 'The request is not valid.'
  const wanted = /^Invalid input: expected (.+), received undefined$/.exec(message)?.[1]
  return wanted === undefined || param === null ? message : `\`${param}\` is missing. It is of the type ${wanted}.`
}

/**
 * An answer that apiError built, where a route's declared responses are expected: zod-openapi knows only responses that
 * its own `c.json` typed.
 */
export const refusal = (response: Response): never => response as never

export const requireTenant: MiddlewareHandler<TenantScope> = async (c, next) => {
  const who = await authenticate(c.req.raw, c.env, Date.now(), (work) => c.executionCtx.waitUntil(work))
  if (who.status === 'refused') return unauthorised(who.reason)
  c.set('identity', who.identity)
  await next()
}

/** A link is asked for seldom, and a removed agent must not open one: D1 is asked. */
export const LINK_PATH = '/agents/v1/link'
export const HOST_LINK_PATH = '/agents/v1/host'

export const requireAgent: MiddlewareHandler<AgentScope> = async (c, next) => {
  const age = [LINK_PATH, HOST_LINK_PATH].includes(c.req.path) ? 'fresh' : 'cached'
  const who = await authenticateAgent(c.req.raw, c.env, Date.now(), age)
  if (who.status === 'refused') {
    return apiError(401, { message: 'The agent token is not valid.', code: 'invalid_agent_token' })
  }
  c.set('agent', who.identity)
  await next()
}

export async function isOperator(headers: Headers, env: Env): Promise<boolean> {
  const key = bearer(headers)
  return key !== null && env.ADMIN_KEY.length > 0 && (await secretsEqual(key, env.ADMIN_KEY))
}

export const requireAdmin: MiddlewareHandler<AdminScope> = async (c, next) => {
  if (!(await isOperator(c.req.raw.headers, c.env)))
    return apiError(401, { message: 'The admin key is not valid.', code: 'invalid_admin_key' })
  c.set('auditor', await auditorOf(c.env.KEY_PEPPER, c.env.ADMIN_KEY, Date.now()))
  await next()
}

/** Handlers behind it find the whole body in memory, of at most `bytes_max`. */
export const limitBody =
  (bytes_max: number): MiddlewareHandler =>
  async (c, next) => {
    const { raw } = c.req
    // A body of these means nothing (RFC 9110, 9.3.1), and a Request with it cannot be made again.
    const is_read = raw.method === 'GET' || raw.method === 'HEAD'
    if (raw.body !== null && !is_read) {
      const read = await readBytes(raw, bytes_max)
      if (read.status === 'refused') return apiError(read.http_status, read.error)
      const headers = new Headers(raw.headers)
      headers.delete('content-encoding')
      c.req.raw = new Request(raw, { body: read.bytes, headers })
    }
    await next()
  }

export const limitHeaders: MiddlewareHandler = async (c, next) => {
  let bytes = 0
  // Its iterator costs more, since it enters the platform for each header.
  c.req.raw.headers.forEach((value, name) => {
    bytes += name.length + value.length
  })
  if (bytes > HEADERS_BYTES_MAX) {
    const message = `Headers are over ${HEADERS_BYTES_MAX} bytes.`
    return apiError(431, { message, code: 'headers_too_large' }, {}, errorFormatOf(c.req.path, c.req.raw.headers))
  }
  await next()
}
