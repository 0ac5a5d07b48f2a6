/** Requests of the page. The cookie is the identity, and every request has the header that only the page can send. */
import * as z from 'zod'

const PAGE_HEADER = 'x-switchyard-page'
const TIMEOUT_MS = 15_000

const ErrorBody = z.object({ error: z.object({ message: z.string() }) })

export class ApiFailure extends Error {
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

interface Asked {
  method?: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  body?: object
  accept?: string
  signal?: AbortSignal
}

/** The answer of a request that succeeded. Throws ApiFailure otherwise; status 0: there was no answer. */
export async function send(path: string, { method = 'GET', body, accept, signal }: Asked = {}): Promise<Response> {
  const headers: Record<string, string> = { [PAGE_HEADER]: '1', accept: accept ?? 'application/json' }
  if (body !== undefined) headers['content-type'] = 'application/json'
  const init: RequestInit = { method, headers, signal: signal ?? AbortSignal.timeout(TIMEOUT_MS) }
  if (body !== undefined) init.body = JSON.stringify(body)
  let response: Response
  try {
    response = await fetch(path, init)
  } catch {
    throw new ApiFailure(0, 'Switchyard does not answer. Check that it runs: npm run status')
  }
  if (response.ok) return response
  const told = ErrorBody.safeParse(await response.json().catch(() => null))
  throw new ApiFailure(response.status, told.success ? told.data.error.message : `The answer was ${response.status}.`)
}

export async function ask<T extends z.ZodType>(path: string, schema: T, asked?: Asked): Promise<z.infer<T>> {
  const response = await send(path, asked)
  return schema.parse(await response.json())
}

export const segment = (text: string): string => encodeURIComponent(text)
