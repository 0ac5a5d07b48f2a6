/** What all of /admin/v1 answers alike: who is absent, who exists, and times as people read them. */
import { apiError } from '../../platform/api-error.ts'

export const SECURITY = [{ adminKey: [] }]

export const iso = (ms: number): string => new Date(ms).toISOString()
export const isoOrNull = (ms: number | null): string | null => (ms === null ? null : iso(ms))

type Kind = 'tenant' | 'key' | 'model' | 'region' | 'agent' | 'program' | 'pool' | 'class' | 'application'

export function absent(kind: Kind, id: string, param = 'id'): Response {
  return apiError(404, { message: `There is no ${kind} "${id}".`, param, code: `${kind}_not_found` })
}

export function exists(kind: Kind, id: string): Response {
  return apiError(409, { message: `There is a ${kind} "${id}".`, param: 'id', code: `${kind}_exists` })
}

export function catalogueFull(kind: Kind, max: number): Response {
  const message = `The catalogue is full: it may hold ${max} ${kind}s.`
  return apiError(409, { message, param: 'id', code: 'catalogue_full' })
}
