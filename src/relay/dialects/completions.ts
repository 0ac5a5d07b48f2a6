/** OpenAI's completions: what agents speak, so bodies and streams are the same on both sides. */
import { OPENAI_ERRORS } from '../../platform/api-error.ts'
import { COMPLETION_BODY_FIELDS } from '../../protocol/request-fields.ts'
import type { Dialect } from './dialect.ts'
import { openAiAnswer } from './openai-answer.ts'
import { parseOpenAi } from './openai-body.ts'
import { CompletionRequest } from './openai-schemas.ts'

const answer = openAiAnswer('completions')

export const completions: Dialect = {
  name: 'completions',
  path: '/v1/completions',
  engine_path: '/v1/completions',
  prompt_field: 'prompt',
  request: CompletionRequest,
  errors: OPENAI_ERRORS,
  parse: (body) => parseOpenAi(completions, CompletionRequest, COMPLETION_BODY_FIELDS, body, answer),
}
