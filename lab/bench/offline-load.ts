/**
 * `npm run bench:offline`: what offline work costs online calls. The same online calls are played on one real engine twice, alone and beside an
 * application that always has calls ready, and their response times are compared.
 */
import { writeFileSync } from 'node:fs'
import { availableParallelism, cpus, loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { fail, flagsOrExit } from '../../cli/flags.ts'
import { type Column, textTable } from '../../cli/table.ts'
import { findOrFetchModel } from '../../ops/model/find-or-fetch.ts'
import { seededRandom } from '../../simulator/random.ts'
import { mean, quantile } from '../../simulator/statistics.ts'
import { startTestbed, type Testbed } from '../testbed/testbed.ts'

const HELP = `Plays online calls on one embedded engine, alone and beside an application with more work than there is room for, and
compares their response times.

  npm run bench:offline -- [flags]

  --seconds 90     of online calls in each part
  --rate 0.8       online calls a second, in the mean
  --tokens 16      of an online answer
  --offline-tokens 48
  --rounds 1       of both parts, one after the other
  --seats 4
  --threads 1      of the engine
  --model PATH     a GGUF (default: the shipped small model)
  --seed 1
  --json FILE
  --help

Nothing else may use the machine meanwhile.`

const MODEL = 'shared'
const WARM_CALLS = 4
const LINES_MAX = 4000
const POLL_MS = 250
/** Of p99, with offline work to without. */
const GOAL = 1.1

const TEXT = { type: 'string' } as const
const values = flagsOrExit('bench:offline', HELP, {
  ...{ seconds: { ...TEXT, default: '90' }, rate: { ...TEXT, default: '0.8' }, tokens: { ...TEXT, default: '16' } },
  'offline-tokens': { ...TEXT, default: '48' },
  ...{ rounds: { ...TEXT, default: '1' }, seats: { ...TEXT, default: '4' }, threads: { ...TEXT, default: '1' } },
  ...{ seed: { ...TEXT, default: '1' }, model: TEXT, json: TEXT },
})
const settings = {
  ...{ seconds: number('seconds', 3600), rate: number('rate', 1000), tokens: number('tokens', 256) },
  ...{ offline_tokens: number('offline-tokens', 256), rounds: number('rounds', 20), seats: number('seats', 64) },
  ...{ threads: number('threads', 256), seed: number('seed', 2 ** 31 - 1) },
}

interface Part {
  load: 'alone' | 'beside offline work'
  round: number
  calls: number
  mean_s: number
  p50_s: number
  p95_s: number
  p99_s: number
  /** Calls of the application that ended meanwhile. */
  offline_calls: number
}

const Application = z.object({ id: z.string(), request_counts: z.object({ completed: z.number() }) })

/** Response times of all calls, in seconds. Calls come as they would whatever becomes of those before. */
async function playOnline(bed: Testbed, seed: number): Promise<number[]> {
  const random = seededRandom(seed)
  const started_ms = performance.now()
  const calls: Promise<number>[] = []
  for (let at_s = 0; ; ) {
    at_s += -Math.log(1 - random()) / settings.rate
    if (at_s > settings.seconds) break
    await sleep(Math.max(0, at_s * 1000 - (performance.now() - started_ms)))
    calls.push(online(bed, calls.length))
  }
  return Promise.all(calls)
}

async function online(bed: Testbed, number: number): Promise<number> {
  const messages = [{ role: 'user', content: `Call ${number}: describe a harbour at night and the people in it.` }]
  const started_ms = performance.now()
  const body = JSON.stringify({ model: MODEL, messages, max_tokens: settings.tokens, temperature: 0 })
  const response = await bed.fetch('/v1/chat/completions', { method: 'POST', body })
  const text = await response.text()
  if (!response.ok) throw new Error(`an online call: ${response.status} ${text}`)
  return (performance.now() - started_ms) / 1000
}

async function startOffline(bed: Testbed): Promise<string> {
  const lines = Array.from({ length: LINES_MAX }, (_, at) => ({ n: at }))
  const content = 'Line {{n}}: write a long and careful description of a mountain village in every season.'
  const body = {
    messages: [{ role: 'user', content }],
    ...{ max_tokens: settings.offline_tokens, temperature: 0 },
  }
  const nodes = [{ id: 'offline', model: MODEL, requests: 'lines', body }]
  const sent = JSON.stringify({ name: 'offline load', nodes, input: { lines } })
  const response = await bed.fetch('/v1/applications', { method: 'POST', body: sent })
  if (!response.ok) throw new Error(`the application: ${response.status} ${await response.text()}`)
  const { id } = Application.parse(await response.json())
  while ((await completed(bed, id)) < settings.seats) await sleep(POLL_MS)
  return id
}

async function completed(bed: Testbed, id: string): Promise<number> {
  const response = await bed.fetch(`/v1/applications/${id}`)
  return Application.parse(await response.json()).request_counts.completed
}

async function part(bed: Testbed, load: Part['load'], round: number): Promise<Part> {
  process.stderr.write(`${load}, round ${round}\n`)
  const application = load === 'alone' ? null : await startOffline(bed)
  const before = application === null ? 0 : await completed(bed, application)
  const times_s = await playOnline(bed, settings.seed + round)
  const offline_calls = application === null ? 0 : (await completed(bed, application)) - before
  if (application !== null) await bed.fetch(`/v1/applications/${application}/cancel`, { method: 'POST' })
  const at = (share: number) => Number(quantile(times_s, share).toFixed(3))
  return {
    ...{ load, round, calls: times_s.length, mean_s: Number(mean(times_s).toFixed(3)) },
    ...{ p50_s: at(0.5), p95_s: at(0.95), p99_s: at(0.99), offline_calls },
  }
}

async function main(): Promise<void> {
  const found = await findOrFetchModel(values.model === undefined ? {} : { model: values.model })
  const { seats, threads } = settings
  const bed = await startTestbed({ name: 'bench-offline', regions: ['us-east'], model: MODEL })
  const load_at_start = loadavg()[0] ?? 0
  const parts: Part[] = []
  try {
    bed.agent({
      ...{ id: 'us-east-1', region: 'us-east' },
      flags: { engine: 'embedded', 'model-path': found.path, 'context-tokens': 512, seats, slots: 2 * seats, threads },
    })
    await bed.startWhatIsDown()
    for (let call = 0; call < WARM_CALLS; call += 1) await online(bed, -call)
    for (let round = 1; round <= settings.rounds; round += 1) {
      parts.push(await part(bed, 'alone', round))
      parts.push(await part(bed, 'beside offline work', round))
    }
  } finally {
    await bed.remove()
  }
  console.log(textTable(columns(), parts))
  const of = (load: Part['load']) => mean(parts.filter((one) => one.load === load).map(({ p99_s }) => p99_s))
  const ratio = of('beside offline work') / of('alone')
  console.log(`p99 beside offline work ÷ alone: ${ratio.toFixed(2)}; the goal is at most ${GOAL}.`)
  if (values.json === undefined) return
  const machine = { cores: availableParallelism(), cpu: cpus()[0]?.model.trim() ?? '', load_at_start }
  const figures = { date: new Date().toISOString().slice(0, 10), machine, settings, parts, p99_ratio: ratio }
  writeFileSync(values.json, `${JSON.stringify(figures, null, 1)}\n`)
}

function columns(): Column<Part>[] {
  const right = (title: string, cell: (one: Part) => string): Column<Part> => ({ title, cell, align: 'right' })
  return [
    { title: 'online calls', cell: ({ load }) => load },
    right('calls', ({ calls }) => String(calls)),
    ...(['mean_s', 'p50_s', 'p95_s', 'p99_s'] as const).map((name) =>
      right(name.replace('_s', ' s'), (one) => one[name].toFixed(2)),
    ),
    right('offline calls', ({ offline_calls }) => String(offline_calls)),
  ]
}

function number(
  flag: 'seconds' | 'rate' | 'tokens' | 'offline-tokens' | 'rounds' | 'seats' | 'threads' | 'seed',
  max: number,
): number {
  const value = Number(values[flag])
  if (values[flag].trim() === '' || !(value > 0) || value > max)
    fail(`--${flag} must be above 0 and at most ${max}, not ${JSON.stringify(values[flag])}`)
  return value
}

await main()
