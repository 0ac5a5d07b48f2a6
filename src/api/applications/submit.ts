/**
 * A new application, or one that is sent again: its graph is checked, lines in the body become a file, and its actor begins or
 * goes on. The same id with other content is refused, so that results of two applications never mix.
 */
import { applicationActor } from '../../actors/stubs.ts'
import type { ApplicationReport, Definition, NewApplication } from '../../core/application/application-state.ts'
import { canonicalJson } from '../../core/application/canonical-json.ts'
import { checkedGraph } from '../../core/application/graph.ts'
import { utf8Bytes } from '../../core/application/template.ts'
import { completionSeconds } from '../../core/batch/completion-window.ts'
import type { Env } from '../../env.ts'
import { apiError } from '../../platform/api-error.ts'
import { mayUse } from '../../relay/restrictions.ts'
import { APPLICATIONS_OPEN_MAX, applicationById, openApplications } from '../../store/applications.ts'
import { catalogue } from '../../store/catalogue.ts'
import { fromStore } from '../../store/database.ts'
import { md5Of, PartWriter } from '../../store/file-contents.ts'
import { fileById, hasRoomFor, publishFile } from '../../store/files.ts'
import type { TenantIdentity } from '../../store/keys.ts'
import { newFileId } from '../files/file-schemas.ts'
import { noRoom } from '../files/files.ts'
import { type ApplicationStart, GRAPH_BYTES_MAX, INLINE_BYTES_MAX } from './application-json.ts'

const RETRY_OPEN_S = 60
/** Of files whose lines may be inputs. */
const PURPOSES = ['batch', 'user_data']

/** A file with more bytes is the same input only if it is the same file: telling contents apart reads them. */
const DIGEST_BYTES_MAX = 64 * 1024 * 1024

type Input = NewApplication['input']
type Submitted =
  | { status: 'started'; report: ApplicationReport; definition: Definition }
  | { status: 'refused'; response: Response }

export async function submit(
  env: Env,
  identity: TenantIdentity,
  asked: ApplicationStart,
  now_ms: number,
): Promise<Submitted> {
  const { tenant } = identity
  const fault = (await graphFault(env, identity, asked)) ?? linesFault(asked)
  if (fault !== null) return { status: 'refused', response: fault }
  const id = asked.id ?? newFileId('app_')
  const found = await inputOf(env, tenant, asked, now_ms)
  if (found instanceof Response) return { status: 'refused', response: found }
  const { nodes } = asked
  const digest = await sha256(canonicalJson({ nodes, input: found.digest }))
  const before = asked.id === undefined ? null : await fromStore(() => applicationById(env.DB, tenant, id))
  if (before !== null && before.report.state.digest !== digest) {
    const message = `There is an application "${id}" with other nodes or another input. Choose another id.`
    return { status: 'refused', response: apiError(409, { message, param: 'id', code: 'application_exists' }) }
  }
  if (before?.report.state.status === 'completed') return { status: 'started', ...before }
  const is_open = before !== null && before.report.state.ended_at_ms === null
  if (!is_open && (await fromStore(() => openApplications(env.DB, tenant))) >= APPLICATIONS_OPEN_MAX) {
    return { status: 'refused', response: tooManyOpen() }
  }
  const input = await storedInput(env, tenant, id, found, before?.report.state.input ?? null, now_ms)
  if (input instanceof Response) return { status: 'refused', response: input }
  const { name, completion_window, limits, start, metadata } = asked
  const given: NewApplication = {
    ...{
      id,
      tenant,
      key: identity.key,
      regions: identity.regions && [...identity.regions],
      name,
      digest,
      input,
      start,
      limits,
      completion_window,
    },
    ...{ metadata: metadata ?? null, created_at_ms: before?.report.state.created_at_ms ?? now_ms },
    expires_at_ms: now_ms + (completionSeconds(completion_window) ?? 0) * 1000,
  }
  const files = nodes.map(() => newFileId('file-'))
  const report = await fromStore(() => applicationActor(env, tenant, id).start(given, { nodes }, files))
  return { status: 'started', report, definition: { nodes } }
}

/** A fault of the graph, or a model that the key may not call. Null: none. */
async function graphFault(env: Env, identity: TenantIdentity, { nodes }: ApplicationStart): Promise<Response | null> {
  if (utf8Bytes(JSON.stringify(nodes)) > GRAPH_BYTES_MAX) {
    return invalid('nodes', `The nodes have more than ${GRAPH_BYTES_MAX} bytes. Put long texts into the input.`)
  }
  const checked = checkedGraph(nodes)
  if (!checked.ok) return invalid(checked.param, checked.message)
  const { models } = await catalogue(env)
  const at = nodes.findIndex(({ model }) => !models.has(model) || !mayUse(identity.models, model))
  const node = nodes[at]
  if (node === undefined) return null
  const message = `Node ${node.id}: the model ${JSON.stringify(node.model)} does not exist or you do not have access to it. GET /v1/models lists those that you may call.`
  return apiError(404, { message, param: `nodes.${at}.model`, code: 'model_not_found' })
}

function linesFault({ input }: ApplicationStart): Response | null {
  if (!('lines' in input) || utf8Bytes(jsonl(input.lines)) <= INLINE_BYTES_MAX) return null
  const message = `The lines have more than ${INLINE_BYTES_MAX} bytes. Store them as a file and name it in input.file.`
  return invalid('input.lines', message)
}

/** What was given as input. `digest` says what it has, as far as that is cheap. */
type GivenInput = { digest: string } & ({ stored: Input } | { stored: null; bytes: Uint8Array })

async function inputOf(
  env: Env,
  tenant: string,
  { input }: ApplicationStart,
  now_ms: number,
): Promise<GivenInput | Response> {
  if (!('file' in input)) {
    const bytes = new TextEncoder().encode(jsonl(input.lines))
    return { stored: null, bytes, digest: hex(await crypto.subtle.digest('MD5', bytes)) }
  }
  const file = await fromStore(() => fileById(env.DB, tenant, input.file, now_ms))
  const gone = () => {
    const message = `There is no file "${input.file}".`
    return apiError(404, { message, param: 'input.file', code: 'file_not_found' })
  }
  if (file === null) return gone()
  if (!PURPOSES.includes(file.purpose)) {
    const message = `The file "${file.id}" has the purpose ${file.purpose}. Store it again with the purpose user_data.`
    return apiError(400, { message, param: 'input.file', code: 'invalid_purpose' })
  }
  const { id, parts, bytes } = file
  const digest = bytes > DIGEST_BYTES_MAX ? id : await md5Of(env.BUCKET, tenant, parts)
  return digest === null ? gone() : { stored: { file: id, parts }, digest }
}

/** The file that it had before, the one that is given, or one that is made of the lines. */
async function storedInput(
  env: Env,
  tenant: string,
  id: string,
  given: GivenInput,
  before: Input | null,
  now_ms: number,
): Promise<Input | Response> {
  if (given.stored !== null) return given.stored
  if (before !== null && (await fromStore(() => fileById(env.DB, tenant, before.file, now_ms))) !== null) return before
  const { bytes } = given
  if (!(await fromStore(() => hasRoomFor(env.DB, tenant, bytes.length)))) return noRoom()
  const file = newFileId('file-')
  const writer = new PartWriter(env.BUCKET, tenant, file)
  await writer.write(bytes)
  const parts = await writer.finish()
  const made = { filename: `${id}_input.jsonl`, purpose: 'user_data', created_at_ms: now_ms, expires_at_ms: null }
  await fromStore(() => publishFile(env.DB, tenant, { ...made, id: file, parts }))
  return { file, parts }
}

async function sha256(text: string): Promise<string> {
  return hex(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)))
}

function hex(bytes: ArrayBuffer): string {
  return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

function jsonl(lines: readonly object[]): string {
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('')
}

function tooManyOpen(): Response {
  const message = `This tenant has ${APPLICATIONS_OPEN_MAX} open applications. Send it again when one has ended.`
  return apiError(429, { message, code: 'too_many_applications' }, { 'retry-after': String(RETRY_OPEN_S) })
}

function invalid(param: string, message: string): Response {
  return apiError(400, { message, param, code: 'invalid_value' })
}
