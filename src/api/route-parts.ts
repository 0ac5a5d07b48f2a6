/** Pieces that the OpenAPI routes of all routers are made of. */
import { z } from '@hono/zod-openapi'
import { decodeCursor, encodeCursor } from '../actors/cursor.ts'
import { apiError } from '../platform/api-error.ts'
import { ErrorResponse } from './error-response.ts'

export const json = <T extends z.ZodType>(schema: T, description: string) => ({
  description,
  content: { 'application/json': { schema } },
})

export const failure = (description: string) => json(ErrorResponse, description)

/** Of an answer that says when to come back. */
export const RetryAfter = z.object({
  'Retry-After': z
    .string()
    .openapi({ description: 'Seconds after which the request may be sent again', example: '10' }),
})

export const tooMany = (description: string) => ({ ...failure(description), headers: RetryAfter })

export const jsonBody = <T extends z.ZodType>(schema: T) => ({
  body: { content: { 'application/json': { schema } }, required: true },
})

export function listJson<T>(data: T[], next_cursor: string | null) {
  return { object: 'list' as const, data, has_more: next_cursor !== null, next_cursor }
}

export function invalidCursor(): Response {
  return apiError(400, {
    message: 'The cursor is not valid. Use one from a page of this list.',
    param: 'cursor',
    code: 'invalid_cursor',
  })
}

/** Where a page begins; `unreadable`: the cursor is not valid. */
export type PageStart<T> = { status: 'from'; position: T | null } | { status: 'unreadable' }

export function pageStart<T>(cursor: string | undefined, position: z.ZodType<T>): PageStart<T> {
  if (cursor === undefined) return { status: 'from', position: null }
  const found = decodeCursor(cursor, position)
  return found === null ? { status: 'unreadable' } : { status: 'from', position: found }
}

/** `rows`: one more than `limit` was asked for, so that it is known whether there are more. */
export function pageOf<Row, Item>(
  rows: readonly Row[],
  limit: number,
  item: (row: Row) => Item,
  position: (row: Row) => readonly (string | number)[],
) {
  const page = rows.slice(0, limit)
  const last = page.at(-1)
  const next = rows.length > limit && last !== undefined ? encodeCursor(position(last)) : null
  return listJson(page.map(item), next)
}
