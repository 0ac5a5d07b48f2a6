/** Every operation of /openapi.json, for tests that must not miss a route. */
import { json, request } from './fixtures.ts'

export type Scheme = 'apiKey' | 'agentToken' | 'adminKey' | 'none'

export interface Operation {
  method: string
  /** As in the document, `/v1/programs/{id}`. */
  path: string
  /** `METHOD path`. */
  name: string
  scheme: Scheme
  has_body: boolean
  parameters: { name: string; in: string; required?: boolean }[]
  statuses: number[]
}

interface Described {
  security?: Record<string, unknown>[]
  requestBody?: unknown
  parameters?: Operation['parameters']
  responses: Record<string, unknown>
}

export async function operations(): Promise<Operation[]> {
  const { paths } = await json<{ paths: Record<string, Record<string, Described>> }>(
    request('GET', '/openapi.json', null),
  )
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([verb, { security, requestBody, parameters = [], responses }]) => {
      const method = verb.toUpperCase()
      return {
        ...{ method, path, name: `${method} ${path}`, parameters, has_body: requestBody !== undefined },
        scheme: (Object.keys(security?.[0] ?? {})[0] ?? 'none') as Scheme,
        statuses: Object.keys(responses).map(Number),
      }
    }),
  )
}
