/**
 * `npm run test:large`: a file of a gigabyte through the uploads API, and a batch of a million lines of it, through a real system. What must hold: the
 * control plane's memory does not grow with the file, no slice of work keeps other requests waiting, and the cancelled batch delivers what has finished,
 * in order.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus, loadavg } from 'node:os'
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { fail, flagsOrExit, wholeNumber } from '../cli/flags.ts'
import { quantile } from '../simulator/statistics.ts'
import { SLICE_BYTES, SLICE_LINES } from '../src/core/batch/check-slice.ts'
import { startTestbed, type Testbed } from './testbed/testbed.ts'

const HELP = `Stores a large file through /v1/uploads and runs a batch of its lines, and watches memory and answer times of the control plane.

  npm run test:large -- [flags]

  --lines 1000000     of the file, each of --line-bytes
  --line-bytes 1000   so the file has a gigabyte
  --run-s 60          how long lines run before the batch is cancelled; all of them are checked before
  --memory-mib 512    by which the control plane may grow at most
  --json FILE
  --help`

const PART_BYTES = 64 * 1024 * 1024
const MODEL = 'emulated'
const LINE_ID = 'line-'
const SAMPLE_MS = 250
const POLL_MS = 500
const MIB = 1024 * 1024
/** Clock ticks of /proc/PID/stat, on every Linux that Node runs on. */
const TICKS_PER_S = 100

const TEXT = { type: 'string' } as const
const values = flagsOrExit('test:large', HELP, {
  lines: { ...TEXT, default: '1000000' },
  'line-bytes': { ...TEXT, default: '1000' },
  'run-s': { ...TEXT, default: '60' },
  'memory-mib': { ...TEXT, default: '512' },
  json: TEXT,
})
const lines = wholeNumber('--lines', values.lines, 1, 1_000_000)
const line_bytes = wholeNumber('--line-bytes', values['line-bytes'], 200, 100_000)
const run_s = wholeNumber('--run-s', values['run-s'], 1, 86_400)
const memory_mib_max = wholeNumber('--memory-mib', values['memory-mib'], 1, 65_536)

const Created = z.object({ id: z.string() })
const Completed = z.object({ file: z.object({ id: z.string(), bytes: z.number() }) })
const Batch = z.object({
  id: z.string(),
  status: z.string(),
  output_file_id: z.string().nullish(),
  errors: z.unknown(),
  request_counts: z.object({ total: z.number(), completed: z.number(), failed: z.number() }),
})

const Output = z.object({ custom_id: z.string() })

interface Stage {
  name: string
  seconds: number
  /** Of the control plane. */
  cpu_s: number
  rss_max_mib: number
  /** Of GET /healthz, asked all the time. */
  answer_ms_p50: number
  answer_ms_p99: number
  answer_ms_max: number
}

/** Memory, CPU and answer times of the control plane while something runs. */
async function watched<T>(bed: Testbed, name: string, work: () => Promise<T>): Promise<{ stage: Stage; value: T }> {
  const pid = await bed.runningWorkerd()
  if (pid === null) throw new Error('the control plane does not run')
  const [started_ms, cpu_before_s] = [performance.now(), cpuS(pid)]
  let rss_max_mib = rssMib(pid)
  const answers_ms: number[] = []
  let is_over = false
  const sample = (async () => {
    while (!is_over) {
      const asked_ms = performance.now()
      const response = await fetch(`${bed.url}/healthz`)
      await response.arrayBuffer()
      answers_ms.push(performance.now() - asked_ms)
      rss_max_mib = Math.max(rss_max_mib, rssMib(pid))
      await sleep(SAMPLE_MS)
    }
  })()
  const value = await work().finally(() => {
    is_over = true
  })
  await sample
  answers_ms.sort((a, b) => a - b)
  const at = (share: number) => Math.round(quantile(answers_ms, share))
  const stage: Stage = {
    ...{ name, seconds: round((performance.now() - started_ms) / 1000), cpu_s: round(cpuS(pid) - cpu_before_s) },
    ...{ rss_max_mib: Math.round(rss_max_mib), answer_ms_p50: at(0.5), answer_ms_p99: at(0.99), answer_ms_max: at(1) },
  }
  console.log(
    `${name}: ${stage.seconds} s, ${stage.cpu_s} s of CPU, at most ${stage.rss_max_mib} MiB, other requests answered in ` +
      `${stage.answer_ms_p50} ms (p99 ${stage.answer_ms_p99}, longest ${stage.answer_ms_max})`,
  )
  return { stage, value }
}

/** What did not hold, once the system is removed. Null: all did. */
async function main(): Promise<string | null> {
  const bed = await startTestbed({ name: 'large', regions: ['us-east'], model: MODEL })
  try {
    bed.agent({
      ...{ id: 'us-east-1', region: 'us-east' },
      flags: { engine: 'emulated', profile: 'fast', seats: 64, slots: 64 },
    })
    await bed.startWhatIsDown()
    const idle = await watched(bed, 'idle', () => sleep(3000))
    const upload = await watched(bed, `upload of ${Math.round((lines * line_bytes) / MIB)} MiB`, () => store(bed))
    const created = await post(bed, '/v1/batches', {
      ...{ input_file_id: upload.value, endpoint: '/v1/chat/completions', completion_window: '24h' },
    })
    const { id } = Created.parse(created)
    const check = await watched(bed, `check of ${lines} lines`, () =>
      until(bed, id, (status) => status !== 'validating'),
    )
    if (check.value.status === 'failed') return `the batch failed: ${JSON.stringify(check.value.errors)}`
    if (check.value.request_counts.total !== lines) return `${check.value.request_counts.total} lines were counted`
    const slices = Math.ceil(lines / Math.min(SLICE_LINES, Math.ceil(SLICE_BYTES / line_bytes)))
    const check_slice_cpu_ms = round((check.stage.cpu_s * 1000) / slices)
    console.log(`${slices} slices of checking, ${check_slice_cpu_ms} ms of CPU each`)
    const run = await watched(bed, `${run_s} s of the batch`, async () => {
      const ends_ms = performance.now() + run_s * 1000
      return until(bed, id, (status) => status === 'completed' || performance.now() > ends_ms)
    })
    const { completed, failed } = run.value.request_counts
    console.log(
      `${completed} lines were answered, ${Math.round(completed / run.stage.seconds)} a second; ${failed} failed`,
    )
    const line_cpu_ms = round((run.stage.cpu_s * 1000) / Math.max(1, completed))
    console.log(`${line_cpu_ms} ms of CPU for each line that ran`)
    if (run.value.status !== 'completed') await bed.fetch(`/v1/batches/${id}/cancel`, { method: 'POST' })
    const end = await watched(bed, 'end', () => until(bed, id, (status) => ['completed', 'cancelled'].includes(status)))
    await checkOutput(bed, end.value)
    const stages = [idle.stage, upload.stage, check.stage, run.stage, end.stage]
    const grown_mib = Math.max(...stages.map(({ rss_max_mib }) => rss_max_mib)) - idle.stage.rss_max_mib
    console.log(`The control plane grew by ${grown_mib} MiB at most.`)
    if (values.json !== undefined) {
      const machine = { cores: availableParallelism(), cpu: cpus()[0]?.model.trim() ?? '', load: loadavg()[0] }
      const figures = {
        ...{ lines, line_bytes, run_s, machine, stages, slices, check_slice_cpu_ms, line_cpu_ms, grown_mib },
        ...{ completed: end.value.request_counts.completed, failed },
      }
      writeFileSync(values.json, `${JSON.stringify(figures, null, 1)}\n`)
    }
    if (failed > 0) return `${failed} lines failed`
    return grown_mib > memory_mib_max ? `it grew by more than ${memory_mib_max} MiB` : null
  } finally {
    await bed.remove()
  }
}

/** The id of the file. */
async function store(bed: Testbed): Promise<string> {
  const bytes = lines * line_bytes
  const made = await post(bed, '/v1/uploads', {
    ...{ filename: 'large.jsonl', purpose: 'batch', bytes, mime_type: 'application/jsonl' },
  })
  const { id } = Created.parse(made)
  const part_ids: string[] = []
  const per_part = Math.floor(PART_BYTES / line_bytes)
  for (let from = 0; from < lines; from += per_part) {
    const form = new FormData()
    form.append('data', new Blob([part(from, Math.min(lines, from + per_part))]))
    const headers = { authorization: `Bearer ${bed.secrets.apiKey}` }
    const response = await fetch(`${bed.url}/v1/uploads/${id}/parts`, { method: 'POST', headers, body: form })
    if (!response.ok) throw new Error(`a part: ${response.status} ${await response.text()}`)
    part_ids.push(Created.parse(await response.json()).id)
  }
  const { file } = Completed.parse(await post(bed, `/v1/uploads/${id}/complete`, { part_ids }))
  if (file.bytes !== bytes) throw new Error(`the file has ${file.bytes} bytes of ${bytes}`)
  return file.id
}

/** The output has every line that was answered once, in the order of the input. */
async function checkOutput(bed: Testbed, { output_file_id, request_counts }: z.infer<typeof Batch>): Promise<void> {
  const response = await bed.fetch(`/v1/files/${output_file_id}/content`)
  if (!response.ok || response.body === null) throw new Error(`the output: ${response.status} ${await response.text()}`)
  let [last, found] = [-1, 0]
  for await (const line of createInterface({ input: Readable.fromWeb(response.body as ReadableStream) })) {
    const at = Number(Output.parse(JSON.parse(line)).custom_id.slice(LINE_ID.length))
    if (!(at > last)) throw new Error(`line ${at} comes after line ${last} in the output`)
    last = at
    found += 1
  }
  if (found !== request_counts.completed)
    throw new Error(`the output has ${found} lines of ${request_counts.completed}`)
  console.log(`The output has ${found} lines, in order.`)
}

/** Lines of exactly `line_bytes`. */
function part(from: number, to: number): string {
  const made: string[] = []
  for (let line = from; line < to; line += 1) {
    const at = (content: string) =>
      JSON.stringify({
        ...{ custom_id: `${LINE_ID}${line}`, method: 'POST', url: '/v1/chat/completions' },
        body: { model: MODEL, messages: [{ role: 'user', content }], max_tokens: 1 },
      })
    made.push(at('x'.repeat(Math.max(1, line_bytes - 1 - at('').length))))
  }
  return `${made.join('\n')}\n`
}

async function until(bed: Testbed, id: string, is: (status: string) => boolean): Promise<z.infer<typeof Batch>> {
  for (;;) {
    const response = await bed.fetch(`/v1/batches/${id}`)
    const batch = Batch.parse(await response.json())
    if (is(batch.status)) return batch
    await sleep(POLL_MS)
  }
}

async function post(bed: Testbed, route: string, body: object): Promise<unknown> {
  const response = await bed.fetch(route, { method: 'POST', body: JSON.stringify(body) })
  if (!response.ok) throw new Error(`${route}: ${response.status} ${await response.text()}`)
  return response.json()
}

function rssMib(pid: number): number {
  const found = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))
  return Number(found?.[1] ?? 0) / 1024
}

function cpuS(pid: number): number {
  // The name may have spaces, and ends with the last bracket. User and system time are fields 14 and 15.
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_S
}

function round(value: number): number {
  return Math.round(value * 10) / 10
}

const fault = await main()
if (fault !== null) fail(fault)
