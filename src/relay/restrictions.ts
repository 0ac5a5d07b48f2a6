/**
 * What a call may use: the models and regions of its key, and the regions to which its program is held (residency). A
 * program is held by `POST /v1/programs`, or by the first call that names regions (`X-Program-Regions`, else
 * `metadata.program_regions`). A later call may narrow that for itself but never widen it. A call never leaves its regions:
 * if none of them can serve it, the answer is 503.
 *
 * A model that a key may not call is answered like one that does not exist, as OpenAI does.
 */
import type { ApiErrorFields } from '../platform/api-error.ts'
import { Id } from '../protocol/index.ts'
import type { Region } from '../store/catalogue.ts'
import type { RequestHeaders } from './request-headers.ts'

/** Regions that a program or a call may name. */
export const PROGRAM_REGIONS_MAX = 32
const HEADER = 'X-Program-Regions'
const METADATA_KEY = 'program_regions'

export function mayUse(granted: readonly string[] | null, id: string): boolean {
  return granted === null || granted.includes(id)
}

export function modelNotFound(model: string): ApiErrorFields {
  const message = `The model '${model}' does not exist or you do not have access to it.`
  return { message, param: 'model', code: 'model_not_found' }
}

export type WantedRegions =
  | { status: 'read'; regions: readonly string[] | null }
  | { status: 'refused'; error: ApiErrorFields }

export function wantedRegions(
  headers: RequestHeaders,
  metadata: Readonly<Record<string, string>> | null,
): WantedRegions {
  const fromHeader = headers.get(HEADER)?.trim() ?? ''
  const param = fromHeader === '' ? `metadata.${METADATA_KEY}` : HEADER
  const text = fromHeader === '' ? (metadata?.[METADATA_KEY] ?? '') : fromHeader
  if (text.trim() === '') return { status: 'read', regions: null }
  const regions = [...new Set(text.split(',').map((id) => id.trim()))].filter((id) => id !== '')
  if (regions.length === 0 || regions.length > PROGRAM_REGIONS_MAX) {
    const message = `${param} names 1 to ${PROGRAM_REGIONS_MAX} regions, with commas between them.`
    return { status: 'refused', error: { message, param, code: 'invalid_value' } }
  }
  const bad = regions.find((id) => !Id.safeParse(id).success)
  if (bad === undefined) return { status: 'read', regions }
  const message = `${param} has an invalid region id. An id has at most 128 printable ASCII characters.`
  return { status: 'refused', error: { message, param, code: 'invalid_id' } }
}

export type AllowedRegions =
  | { status: 'allowed'; regions: readonly Region[] }
  | { status: 'refused'; http_status: 400 | 403; error: ApiErrorFields }

/** The regions of the catalogue that key and call allow. Naming an unknown region is an error. */
export function allowedRegions(
  regions: readonly Region[],
  granted: readonly string[] | null,
  wanted: readonly string[] | null,
): AllowedRegions {
  const unknown = wanted?.find((id) => !regions.some((region) => region.id === id))
  if (unknown !== undefined) {
    const message = `There is no region "${unknown}". Known are: ${regions.map(({ id }) => id).join(', ')}.`
    return { status: 'refused', http_status: 400, error: { message, param: HEADER, code: 'region_not_found' } }
  }
  const allowed = regions.filter(({ id }) => mayUse(granted, id) && mayUse(wanted, id))
  if (allowed.length > 0 || wanted === null || granted === null) return { status: 'allowed', regions: allowed }
  return { status: 'refused', http_status: 403, error: regionsNotGranted(wanted) }
}

/** 403: the regions of the key and those of the program have none in common. */
export function regionsNotGranted(program: readonly string[]): ApiErrorFields {
  const message = `This API key may not use ${program.join(', ')}, the only regions that the program may use.`
  return { message, param: HEADER, code: 'region_not_allowed' }
}

/** 403: of the regions that the program may use, the call names none, or its key may use none. */
export function programNotReached(named: readonly string[] | null, program: readonly string[]): ApiErrorFields {
  if (named === null || named.some((id) => program.includes(id))) return regionsNotGranted(program)
  const message = `The call names ${named.join(', ')}, but its program may only use ${program.join(', ')}. Leave ${HEADER} out, or name one of these.`
  return { message, param: HEADER, code: 'region_not_allowed' }
}

/** 503: no other engine may serve the call. */
export function noEngine(model: string, regions: readonly Region[], held: boolean): ApiErrorFields {
  if (!held) return { message: `No engine is ready to serve ${model}.`, code: 'no_engine' }
  const where = regions.length === 0 ? 'any region that it may use' : regions.map(({ id }) => id).join(', ')
  const message = `No engine is ready to serve ${model} in ${where}. The call may not leave these regions. Send it again later.`
  return { message, code: 'no_engine_in_regions' }
}
