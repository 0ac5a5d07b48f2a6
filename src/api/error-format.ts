/** In which API's form a path answers with errors, for errors outside of a call: unknown routes, methods, headers, faults of ours. */
import { type ErrorFormat, OPENAI_ERRORS } from '../platform/api-error.ts'
import { DIALECTS } from '../relay/dialects/index.ts'
import { VERSION_HEADER } from '../relay/dialects/messages/version.ts'

/** A path of both APIs. */
const MODELS = '/v1/models'

export function errorFormatOf(path: string, request: Headers): ErrorFormat {
  const { path: messages, errors } = DIALECTS.messages
  if (path === messages || path.startsWith(`${messages}/`)) return errors
  const lists = path === MODELS || path.startsWith(`${MODELS}/`)
  return lists && request.has(VERSION_HEADER) ? errors : OPENAI_ERRORS
}
