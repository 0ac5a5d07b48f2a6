/**
 * `X-Program-Home`: where a program's actor is to live. Cloudflare creates an object near its first caller and never moves it, so
 * an agent that starts on one continent and goes on from another pays the distance for every call. The header is a hint for
 * where the object is created, best effort, and has no effect afterwards. It does not say which regions serve the program.
 */
import type { ApiErrorFields } from '../platform/api-error.ts'
import type { RequestHeaders } from './request-headers.ts'

export const HOME_HEADER = 'X-Program-Home'

/** Cloudflare's location hints (Durable Objects, "Data location"). Elsewhere, as here in workerd, they have no effect. */
export const HOMES = ['wnam', 'enam', 'sam', 'weur', 'eeur', 'apac', 'oc', 'afr', 'me'] as const
export type ProgramHome = (typeof HOMES)[number]

export const HOME_FAULT: ApiErrorFields = {
  message: `${HOME_HEADER} is one of ${HOMES.join(', ')}.`,
  param: HOME_HEADER,
  code: 'invalid_value',
}

/** Null: the call names none. False: it is invalid. */
export function programHome(headers: RequestHeaders): ProgramHome | null | false {
  const named = headers.get(HOME_HEADER)
  if (named === null) return null
  return HOMES.find((home) => home === named.toLowerCase()) ?? false
}
