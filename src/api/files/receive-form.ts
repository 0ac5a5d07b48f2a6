/**
 * Receives multipart/form-data with one file, part by part into R2, so that a file of any size costs one part of memory.
 * The file may come before or after the fields. Of a request that is refused, some of the rest is read and dropped: most
 * clients write their whole body before they read the answer.
 */
import type { FilePart } from '../../core/batch/file-part.ts'
import { boundaryOf, type MultipartEvent, MultipartReader } from '../../core/wire/multipart.ts'
import type { ApiErrorFields } from '../../platform/api-error.ts'
import { startPauseProofTimer } from '../../platform/pause-proof-timer.ts'
import { DROPPED_BYTES_MAX } from '../../relay/body.ts'
import { bytesOf, PartWriter } from '../../store/file-contents.ts'

/** For a whole body: 90 MB over a line of 150 KB/s. */
const RECEIVE_MS = 10 * 60_000
/** Boundaries, headers and fields. */
const FORM_SLACK_BYTES = 256 * 1024
const FILENAME_CHARS_MAX = 512

interface FormFile {
  /** Name of the form's field that has the file. */
  field: string
  bytes_max: number
  /** What to do with a larger file. */
  too_large_hint: string
}

export interface ReceivedForm {
  status: 'received'
  fields: ReadonlyMap<string, string>
  filename: string
  bytes: number
  parts: FilePart[]
}

type FormRead = ReceivedForm | { status: 'refused'; http_status: number; error: ApiErrorFields }
type Refused = FormRead & { status: 'refused' }

/** `object`: under which the parts are written. What a refused request has written must be deleted by that name. */
export async function receiveForm(
  request: Request,
  file: FormFile,
  { bucket, tenant, object }: { bucket: R2Bucket; tenant: string; object: string },
  receive_ms: number = RECEIVE_MS,
): Promise<FormRead> {
  const boundary = boundaryOf(request.headers.get('content-type'))
  const fault = formFault(request)
  if (fault !== null) return fault
  if (boundary === null || request.body === null) return malformed('it is empty')
  const stated_bytes = Number(request.headers.get('content-length') ?? 0)
  if (stated_bytes > file.bytes_max + FORM_SLACK_BYTES + DROPPED_BYTES_MAX) return tooLarge(file)
  const form = new FormReceiver(boundary, file, new PartWriter(bucket, tenant, object))
  const reader = request.body.getReader()
  const { promise: late, resolve } = Promise.withResolvers<'late'>()
  const disarm = startPauseProofTimer(receive_ms, () => resolve('late'))
  try {
    for (;;) {
      const read = await Promise.race([reader.read(), late])
      if (read === 'late') {
        await reader.cancel()
        return refused(408, 'request_timeout', `The body did not arrive within ${receive_ms / 1000} s.`)
      }
      if (read.done) return await form.end()
      const fault = await form.push(read.value)
      if (fault === null) continue
      await drop(reader, late)
      return fault
    }
  } catch (error) {
    if (form.isWriting) throw error
    return malformed('it ended before it was whole')
  } finally {
    disarm()
  }
}

/** Found out before anything is looked up. Null: it may be a form. */
export function formFault({ headers }: Request): Refused | null {
  if (boundaryOf(headers.get('content-type')) === null) return malformed('its Content-Type has no boundary')
  if (!headers.has('content-encoding')) return null
  return refused(415, 'unsupported_content_encoding', 'A form with a file is sent without a Content-Encoding.')
}

class FormReceiver {
  readonly #reader: MultipartReader
  readonly #file: FormFile
  readonly #writer: PartWriter
  readonly #fields = new Map<string, string>()
  #filename: string | null = null
  /** The file that comes is the one that is asked for. */
  #is_kept = false
  #bytes = 0
  /** R2 is asked. An error then is not the client's. */
  isWriting = false

  constructor(boundary: string, file: FormFile, writer: PartWriter) {
    this.#reader = new MultipartReader(boundary)
    this.#file = file
    this.#writer = writer
  }

  async push(bytes: Uint8Array): Promise<Refused | null> {
    const read = this.#reader.push(bytes)
    if (read.status === 'fault') return malformed(read.fault)
    for (const event of read.events) {
      const fault = await this.#take(event)
      if (fault !== null) return fault
    }
    return null
  }

  async end(): Promise<FormRead> {
    if (!this.#reader.isOver) return malformed('it ended before its last boundary')
    const filename = this.#filename
    if (filename === null) {
      const { field } = this.#file
      return refused(400, 'missing_required_parameter', `The form has no file named "${field}".`, field)
    }
    this.isWriting = true
    const parts = await this.#writer.finish()
    return { status: 'received', fields: this.#fields, filename, bytes: bytesOf(parts), parts }
  }

  async #take(event: MultipartEvent): Promise<Refused | null> {
    const { field, bytes_max } = this.#file
    if (event.kind === 'field') this.#fields.set(event.name, event.value)
    if (event.kind === 'file') {
      this.#is_kept = event.name === field && this.#filename === null
      if (this.#is_kept) this.#filename = event.filename.slice(0, FILENAME_CHARS_MAX)
    }
    if (event.kind !== 'bytes' || !this.#is_kept) return null
    this.#bytes += event.bytes.length
    if (this.#bytes > bytes_max) return tooLarge(this.#file)
    this.isWriting = true
    await this.#writer.write(event.bytes)
    this.isWriting = false
    return null
  }
}

async function drop(reader: ReadableStreamDefaultReader<Uint8Array>, late: Promise<'late'>): Promise<void> {
  for (let dropped = 0; dropped < DROPPED_BYTES_MAX; ) {
    const read = await Promise.race([reader.read(), late])
    if (read === 'late' || read.done) break
    dropped += read.value.length
  }
  await reader.cancel()
}

function tooLarge({ bytes_max, too_large_hint }: FormFile): Refused {
  return refused(413, 'file_too_large', `The file has more than ${bytes_max} bytes. ${too_large_hint}`)
}

function malformed(fault: string): Refused {
  return refused(400, 'invalid_form', `The body is not valid multipart/form-data: ${fault}.`)
}

function refused(http_status: number, code: string, message: string, param: string | null = null): Refused {
  return { status: 'refused', http_status, error: { message, code, param } }
}
