/** What the control plane says when it does not open a link: the API's own reason, in place of a bare status. */
import type { IncomingMessage } from 'node:http'
import { z } from 'zod'

const BODY_BYTES_MAX = 4096
const BODY_TIMEOUT_MS = 2000

const ApiError = z.object({ error: z.object({ message: z.string(), code: z.string().nullish() }) })

export interface Refusal {
  reason: string
  /** Trying again soon is in vain. */
  refused: boolean
  /** Said by the control plane itself, and not by a proxy that has lost it. */
  by_control_plane: boolean
}

/** Reads no more of the answer than an error of the API is long. */
export async function refusalOf(response: IncomingMessage): Promise<Refusal> {
  const status = response.statusCode ?? 0
  const refused = status >= 400 && status < 500 && ![408, 425, 429].includes(status)
  const error = apiErrorOf(await bodyOf(response))
  if (error === null) return { reason: `status ${status}`, refused, by_control_plane: false }
  const { message, code } = error
  return { reason: `status ${status}${code ? ` ${code}` : ''}: ${message}`, refused, by_control_plane: true }
}

function apiErrorOf(text: string): z.infer<typeof ApiError>['error'] | null {
  try {
    return ApiError.parse(JSON.parse(text)).error
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof z.ZodError) return null
    throw error
  }
}

function bodyOf(response: IncomingMessage): Promise<string> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = []
    let bytes = 0
    const done = (): void => {
      clearTimeout(timer)
      resolve(Buffer.concat(chunks).toString('utf8'))
    }
    const timer = setTimeout(done, BODY_TIMEOUT_MS)
    response.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > BODY_BYTES_MAX) done()
      else chunks.push(chunk)
    })
    response.once('end', done)
    response.on('error', done)
  })
}
