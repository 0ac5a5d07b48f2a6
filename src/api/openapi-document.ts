/**
 * /openapi.json: the routes' own schemas, and what the edge in front of them (boundary.ts) can answer for any route. That
 * follows from a route's security, parameters and body, so no route has to say it and none can forget it.
 */

import { OPENAI_ERRORS } from '../platform/api-error.ts'
import { errorFormatOf } from './error-format.ts'

interface Operation {
  security?: readonly Readonly<Record<string, readonly string[]>>[] | undefined
  parameters?: readonly unknown[] | undefined
  requestBody?: unknown
  responses?: object | undefined
}

/** An operation is documented in the form that a plain request gets. */
const NO_HEADERS = new Headers()
const METHODS = ['get', 'post', 'put', 'patch', 'delete'] as const
const OF_ANY = { 431: 'The headers are too large' }
const OF_INPUT = { 400: 'A parameter, a header or the body is not valid; `param` names it' }
const OF_BODY = {
  408: 'The body did not come in time',
  413: 'The body is too large',
  415: 'The body is not JSON, or has a Content-Encoding other than gzip and deflate',
}
const OF_STORE = { 503: 'The database does not answer; see Retry-After' }
const OF_SECURITY: Readonly<Record<string, Readonly<Record<number, string>>>> = {
  apiKey: {
    400: 'The request has several different API keys',
    401: 'The API key is missing or not valid',
    403: 'The tenant is disabled',
    ...OF_STORE,
  },
  agentToken: { 401: 'The agent token is missing or not valid', ...OF_STORE },
  adminKey: { 401: 'The admin key is missing or not valid', ...OF_STORE },
}

/** Adds to every operation of `document` the answers that it lacks. */
export function withEdgeAnswers<D extends { paths?: object | undefined }>(document: D): D {
  for (const [path, item] of Object.entries(document.paths ?? {})) {
    for (const method of METHODS) {
      const operation = (item as Partial<Record<string, Operation>>)[method]
      if (operation !== undefined) operation.responses = { ...edgeAnswers(path, operation), ...operation.responses }
    }
  }
  return document
}

function edgeAnswers(path: string, { security = [], parameters = [], requestBody }: Operation): object {
  const schemes = security.flatMap((one) => Object.keys(one))
  const described: Record<number, string> = {
    ...OF_ANY,
    ...(parameters.length > 0 || requestBody !== undefined ? OF_INPUT : {}),
    ...(requestBody === undefined ? {} : OF_BODY),
  }
  for (const scheme of schemes) Object.assign(described, { ...OF_SECURITY[scheme], ...described })
  const $ref = `#/components/schemas/${errorFormatOf(path, NO_HEADERS) === OPENAI_ERRORS ? 'Error' : 'AnthropicError'}`
  const content = { 'application/json': { schema: { $ref } } }
  return Object.fromEntries(
    Object.entries(described).map(([status, description]) => [status, { description, content }]),
  )
}
