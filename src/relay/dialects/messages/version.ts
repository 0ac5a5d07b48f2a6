/** The versions of Anthropic's API that are served. A request that names none is served too. */
import type { ApiErrorFields } from '../../../platform/api-error.ts'

export const VERSION_HEADER = 'anthropic-version'
const VERSIONS: readonly string[] = ['2023-06-01', '2026-10-21']

export function versionFault(headers: Headers): ApiErrorFields | null {
  const version = headers.get(VERSION_HEADER)?.trim() ?? ''
  if (version === '' || VERSIONS.includes(version)) return null
  const message = `${VERSION_HEADER}: "${version.slice(0, 32)}" is not served. Send one of ${VERSIONS.join(', ')}.`
  return { message, param: VERSION_HEADER, code: 'unsupported_version' }
}
