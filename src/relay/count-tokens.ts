/**
 * Counts a prompt without serving it (Anthropic's count_tokens, OpenAI's input_tokens). It is the Worker's estimate: the prompt's bytes by the
 * ratio that the model's engines have shown. The engine's tokenizer would be exact. But it would need a lease, and wait
 * behind the engine's other work, for a number that clients ask for before every turn and use as a threshold. The answer
 * comes without an engine, and a header marks it as an estimate.
 */
import { estimatePromptTokens } from '../core/call/prompt-estimate.ts'
import { nearestFirst } from '../core/pool/regions.ts'
import { type ApiErrorFields, apiError, authenticationFailure } from '../platform/api-error.ts'
import { readBody } from './body.ts'
import type { RelayDeps } from './deps.ts'
import type { CountedDialect } from './dialects/dialect.ts'
import { promptBytes } from './prompt-bytes.ts'
import { mayUse, modelNotFound } from './restrictions.ts'

export const TOKEN_COUNT_HEADER = 'x-token-count'
const ESTIMATED = 'estimated'

type CountDeps = Pick<RelayDeps, 'authenticate' | 'catalogue' | 'pools' | 'store'>

export async function countTokens(request: Request, dialect: CountedDialect, deps: CountDeps): Promise<Response> {
  const refused = (status: number, error: ApiErrorFields, headers?: HeadersInit): Response =>
    apiError(status, error, headers, dialect.errors)
  const authentication = await deps.authenticate(request)
  if (authentication.status === 'refused') {
    const { http_status, error, headers } = authenticationFailure(authentication.reason)
    return refused(http_status, error, headers)
  }
  const read = await readBody(request)
  if (read.status === 'refused') return refused(read.http_status, read.error)
  const recalled = (await dialect.recall?.(read.body, deps.store(authentication.identity.tenant))) ?? null
  if (recalled?.status === 'refused') return refused(recalled.http_status, recalled.error, recalled.headers)
  const parsed = dialect.parsePrompt(read.body, request.headers, recalled)
  if (parsed.status === 'refused') return refused(400, parsed.error)
  const { models, regions } = await deps.catalogue()
  const model = models.get(parsed.model)
  if (model === undefined || !mayUse(authentication.identity.models, model.id)) {
    return refused(404, modelNotFound(parsed.model))
  }
  const near = nearestFirst(regions, null).map(({ id }) => id)
  const ratio = deps.pools.bytesPerToken(near, model.id) ?? model.bytes_per_token
  const input_tokens = estimatePromptTokens(promptBytes(parsed.body), ratio)
  const headers = new Headers({ 'content-type': 'application/json', 'cache-control': 'no-store' })
  headers.set(TOKEN_COUNT_HEADER, ESTIMATED)
  dialect.errors.addHeaders(headers, null)
  return new Response(JSON.stringify({ ...dialect.fields, input_tokens }), { headers })
}
