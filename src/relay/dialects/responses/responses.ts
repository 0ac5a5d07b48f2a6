/**
 * OpenAI's Responses API. Engines are sent a chat body, and their chat chunks become the response. A response that is
 * stored (the default) is kept before its client sees the end, so that the next call can continue it.
 */
import { noteFields } from '../../../core/call/request-fields.ts'
import { shardOf } from '../../../core/call/response-ids.ts'
import { type ErrorFormat, OPENAI_ERRORS } from '../../../platform/api-error.ts'
import type { ErrorBody } from '../../../protocol/index.ts'
import type { ResponseStore } from '../../response-store.ts'
import { askActor } from '../../rpc.ts'
import type {
  AnswerFacts,
  AnswerFormat,
  CountedDialect,
  Dialect,
  Json,
  NativeBody,
  Parsed,
  Recalled,
} from '../dialect.ts'
import { checked, RequestFault } from './fault.ts'
import { NOTHING_RECALLED, recall } from './recall.ts'
import { clientParam, inputItems, isReference, type TranslatedRequest, translateRequest } from './request.ts'
import { ResponseRequest } from './request-schema.ts'
import { ResponseWriter } from './response-writer.ts'
import { storedItems } from './stored-items.ts'

export const responses: Dialect = {
  name: 'responses',
  path: '/v1/responses',
  engine_path: '/v1/chat/completions',
  request: ResponseRequest,
  errors: OPENAI_ERRORS,
  recall,
  parse: (body, _headers, recalled) => parse(body, recalled ?? NOTHING_RECALLED),
}

/** `POST /v1/responses/input_tokens`: the prompt that a response with this body would have. */
export const inputTokens: CountedDialect = {
  errors: OPENAI_ERRORS,
  recall,
  fields: { object: 'response.input_tokens' },
  parsePrompt: (body, _headers, recalled) => {
    const parsed = parse(body, recalled ?? NOTHING_RECALLED)
    if (parsed.status === 'refused') return parsed
    return { status: 'parsed', model: parsed.call.model, body: parsed.call.body }
  },
}

function parse(body: Readonly<Json>, recalled: Recalled): Parsed {
  try {
    const request = checked(ResponseRequest, body)
    const translated = translateRequest(request, recalled)
    return {
      status: 'parsed',
      call: {
        dialect: responses,
        model: request.model,
        streaming: request.stream === true,
        body: translated.chat,
        metadata: request.metadata ?? null,
        answer: answerOf(request, translated, recalled),
        ...nativeOf(body, request),
        errors: errorsOf(translated),
        stored: recalled.identity,
        lowers_output_limit: false,
        warnings: { ignored: noteFields(translated.warnings), hints: translated.hints },
      },
    }
  } catch (error) {
    if (!(error instanceof RequestFault)) throw error
    const { message, param } = error
    return { status: 'refused', error: { message, param, code: 'invalid_value' } }
  }
}

/** Tools that their client runs. A provider would run the others, at the operator's cost. */
const CLIENT_TOOLS: ReadonlySet<string> = new Set(['function', 'custom', 'namespace', 'local_shell', 'apply_patch'])

/** A response that is stored, or continues a stored one, is the control plane's: a provider knows nothing of it. */
function nativeOf(body: Readonly<Json>, request: ResponseRequest): { native?: NativeBody } {
  const { store, previous_response_id, conversation, input, tools } = request
  const is_stored = store !== false || previous_response_id != null || conversation != null
  if (is_stored || inputItems(input).some(isReference)) return {}
  if ((tools ?? []).some(({ type }) => !CLIENT_TOOLS.has(type))) return {}
  return { native: { api: 'responses', body } }
}

/** Engines name fields of the chat body. */
function errorsOf({ origins }: TranslatedRequest): ErrorFormat {
  const own = (error: ErrorBody): ErrorBody => {
    if (error.param === null) return error
    const param = clientParam(error.param, origins)
    return { ...error, param, message: error.message.replaceAll(`'${error.param}'`, `'${param}'`) }
  }
  return { ...OPENAI_ERRORS, body: (status, error, headers) => OPENAI_ERRORS.body(status, own(error), headers) }
}

function answerOf(request: ResponseRequest, translated: TranslatedRequest, recalled: Recalled): AnswerFormat {
  const writerOf = ({ call, now }: AnswerFacts) => new ResponseWriter(translated, { call, now, shard: recalled.shard })
  const keeps = translated.echo.store || recalled.conversation !== null
  const keeper = (writer: ResponseWriter, facts: AnswerFacts) =>
    keeps ? { keep: (store: ResponseStore) => keep(request, recalled, writer, facts, store) } : {}
  return {
    whole: (facts) => {
      const writer = writerOf(facts)
      return {
        add: (data) => {
          writer.add(data)
        },
        finish: () => {
          writer.finish()
          return { ...writer.response }
        },
        ...keeper(writer, facts),
      }
    },
    stream: (facts) => {
      const writer = writerOf(facts)
      return {
        waiting: () => ': waiting\n\n',
        fail: (_status, error) => writer.fail(error),
        translator: {
          add: (data) => writer.add(data),
          finish: () => writer.finish(),
          ...keeper(writer, facts),
        },
      }
    },
  }
}

/** Waits for memory, not for a disk. A store that does not answer costs the client its stored response, not its answer. */
async function keep(
  request: ResponseRequest,
  { referenced, previous, conversation }: Recalled,
  { response, key }: ResponseWriter,
  { call, program, thread, now }: AnswerFacts,
  store: ResponseStore,
): Promise<void> {
  const own = inputItems(request.input).map((item) => (isReference(item) ? (referenced.get(item.id) ?? item) : item))
  const input = JSON.stringify(storedItems(own, key))
  const entry = { key, previous, conversation, input, response: JSON.stringify(response), program, thread, call }
  const shard = shardOf(response.id) ?? 0
  const put = () => store.responses(shard).put({ ...entry, created_at_ms: now() })
  const reply = await askActor(put, store.timeout_ms)
  if (reply.status === 'failed') store.report('response_not_kept', reply.error)
  else if (reply.status === 'late') store.report('response_not_kept', new Error('the store did not answer in time'))
  else if (reply.value === 'dropped') store.report('response_not_kept', new Error('the store has no room for it'))
}
