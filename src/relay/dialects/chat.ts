/** OpenAI's chat completions: what agents speak, so bodies and streams are the same on both sides. */
import { OPENAI_ERRORS } from '../../platform/api-error.ts'
import { CHAT_BODY_FIELDS } from '../../protocol/request-fields.ts'
import type { Dialect } from './dialect.ts'
import { openAiAnswer } from './openai-answer.ts'
import { parseOpenAi } from './openai-body.ts'
import { ChatRequest } from './openai-schemas.ts'

const answer = openAiAnswer('chat')

export const chat: Dialect = {
  name: 'chat',
  path: '/v1/chat/completions',
  engine_path: '/v1/chat/completions',
  prompt_field: 'messages',
  request: ChatRequest,
  errors: OPENAI_ERRORS,
  parse: (body) => parseOpenAi(chat, ChatRequest, CHAT_BODY_FIELDS, body, answer),
}
