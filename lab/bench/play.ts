/**
 * Plays a workload on one engine: issues each call when its parents have ended, with the settled service that the process
 * table holds at that moment, as the control plane's ticket would carry it. Time is real, unless another is given.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { EngineDriver } from '../../gpu-agent/engine/driver.ts'
import type { EndReason, Measurement } from '../../gpu-agent/engine/types.ts'
import { seededRandom } from '../../simulator/random.ts'
import type { ServiceReading } from '../../src/core/call/service.ts'
import { ProcessTable } from '../../src/core/program/process-table.ts'
import { type CallRecord, RECORD_VERSION } from '../../src/protocol/index.ts'
import { tpotUs } from '../../src/protocol/measurement.ts'
import { outputTokens, type ProgramShape } from './workload.ts'

export interface PlayedProgram {
  id: string
  kind: ProgramShape['kind']
  response_s: number
  output_tokens: number
}

/** How many programs were live at a moment: arrived, not ended. */
export interface Liveness {
  at_s: number
  live: number
}

export interface Played {
  programs: PlayedProgram[]
  /** After each arrival and each end. */
  liveness: Liveness[]
  makespan_s: number
  /** Summed wall service of all calls: seats × time, as used. */
  seat_s: number
  preemptions: number
  swapped_out_tokens: number
  cached_tokens: number
  prompt_tokens: number
  /** Of the calls. */
  ttft_ms: number[]
  /** Of the calls with a second token. */
  tpot_ms: number[]
}

export interface PlayOptions {
  reading: ServiceReading
  /** Token ids that prompts are drawn from: [first, end). */
  vocabulary: readonly [number, number]
  time?: PlayTime
  /** Of a program. Default: all have one. */
  classOf?: (program: ProgramShape) => string
  /** Programs that arrive wait outside until fewer than so many are live. Default: none waits. */
  live_max?: number
  onProgram?: (ended: number) => void
  /** `call`: its index among the program's calls. */
  onCall?: (program: ProgramShape, call: number, measurement: Measurement) => void
}

/** One monotonic clock, the driver's. */
export interface PlayTime {
  now_ms: () => number
  sleep: (duration_ms: number) => Promise<unknown>
}

const REAL_TIME: PlayTime = { now_ms: () => performance.now(), sleep: (duration_ms) => sleep(duration_ms) }

const TENANT = 'bench'
const MODEL = 'bench'
const PLACE = { agent: 'bench', engine: 'bench', region: 'bench' } as const

type Totals = Omit<Played, 'programs' | 'liveness' | 'makespan_s'>

/** What of a driver a play uses. */
export type PlayedEngine = Pick<EngineDriver, 'submit'>

/** What the calls of one run share. */
interface Run {
  driver: PlayedEngine
  table: ProcessTable
  totals: Totals
  time: PlayTime
  vocabulary: PlayOptions['vocabulary']
  classOf: NonNullable<PlayOptions['classOf']>
  onCall: NonNullable<PlayOptions['onCall']>
}

export async function play(
  driver: PlayedEngine,
  workload: readonly ProgramShape[],
  options: PlayOptions,
): Promise<Played> {
  const { reading, vocabulary, time = REAL_TIME, live_max = Number.POSITIVE_INFINITY } = options
  const { onProgram, onCall = () => undefined, classOf = () => 'tenant' } = options
  let runs = 0
  const table = new ProcessTable({ reading, newRun: () => `run-${runs++}` })
  const totals: Totals = {
    ...{ seat_s: 0, preemptions: 0, swapped_out_tokens: 0, cached_tokens: 0, prompt_tokens: 0 },
    ...{ ttft_ms: [], tpot_ms: [] },
  }
  const started_ms = time.now_ms()
  const liveness: Liveness[] = []
  const outside: (() => void)[] = []
  let live = 0
  let ended = 0
  const count = (change: 1 | -1) => {
    live += change
    liveness.push({ at_s: (time.now_ms() - started_ms) / 1000, live })
  }
  const programs = await Promise.all(
    workload.map(async (program) => {
      await time.sleep(Math.max(0, program.arrival_s * 1000 - (time.now_ms() - started_ms)))
      if (live >= live_max) await new Promise<void>((enter) => outside.push(enter))
      const arrived_ms = time.now_ms()
      count(1)
      const output_tokens = await playProgram({ driver, table, totals, time, vocabulary, classOf, onCall }, program)
      count(-1)
      outside.shift()?.()
      ended += 1
      onProgram?.(ended)
      return { id: program.id, kind: program.kind, response_s: (time.now_ms() - arrived_ms) / 1000, output_tokens }
    }),
  )
  return { programs, liveness, makespan_s: (time.now_ms() - started_ms) / 1000, ...totals }
}

async function playProgram(run: Run, program: ProgramShape): Promise<number> {
  const [first_token, end_token] = run.vocabulary
  const random = seededRandom([...program.id].reduce((hash, char) => Math.imul(hash, 31) + char.charCodeAt(0), 7))
  const fresh = (tokens: number) =>
    Array.from({ length: tokens }, () => first_token + Math.floor(random() * (end_token - first_token)))
  // Drawn before anything runs, so that the tokens do not depend on the order in which calls end.
  const added = program.calls.map((call) => fresh(call.new_prompt_tokens))
  const texts: Promise<number[]>[] = []
  for (const [index, call] of program.calls.entries()) {
    texts.push(
      Promise.all(call.parents.map((parent) => texts[parent] as Promise<number[]>)).then(async (parents) => {
        if (call.gap_ms > 0) await run.time.sleep(call.gap_ms)
        const [first = [], ...others] = parents
        const outputs = others.flatMap((text, i) =>
          text.slice(-(program.calls[call.parents[i + 1] as number]?.output_tokens ?? 0)),
        )
        return playCall(run, program, index, [...first, ...outputs, ...(added[index] as number[])])
      }),
    )
  }
  await Promise.all(texts)
  run.table.end(TENANT, program.id, run.time.now_ms(), 'explicit')
  return outputTokens(program)
}

/** One call; resolves with its prompt and output. */
function playCall(
  { driver, table, totals, time, classOf, onCall }: Run,
  program: ProgramShape,
  index: number,
  prompt: readonly number[],
): Promise<number[]> {
  const shape = program.calls[index] as ProgramShape['calls'][number]
  const lease = `${program.id}/${index}`
  const parents = shape.parents.map((parent) => `${program.id}/${parent}`)
  const { admission, entry } = table.admit({
    ...{ tenant: TENANT, program: program.id, app: null, class: classOf(program), metadata: null },
    ...{ call: lease, thread: null, parents, model: MODEL, now_ms: time.now_ms() },
  })
  if (admission.status !== 'admitted') throw new Error(admission.message)
  const { run, thread, status: _, pin: __, regions: ___, open_leases: ____, reading: _____, ...keys } = admission
  entry.leaseOpened({
    ...{ run, call: lease, lease, ...PLACE, epoch: 'bench', model: MODEL, speed_factor: 1 },
    ...{ pin: false, reason: 'least_used', now_ms: time.now_ms() },
  })
  const output: number[] = []
  return new Promise((resolve, reject) => {
    const ended = (reason: EndReason, measurement: Measurement) => {
      if (reason !== 'length') return reject(new Error(`${lease} ended as ${reason} after ${output.length} tokens`))
      totals.seat_s += measurement.service_wall_us / 1e6
      totals.preemptions += measurement.preemptions
      totals.swapped_out_tokens += measurement.swapped_out_tokens
      totals.cached_tokens += measurement.cached_tokens
      totals.prompt_tokens += measurement.prompt_tokens
      if (measurement.first_token_us !== null) totals.ttft_ms.push(measurement.first_token_us / 1000)
      const tpot_us = tpotUs(measurement)
      if (tpot_us !== null) totals.tpot_ms.push(tpot_us / 1000)
      const settled = { lease, call: lease, program: program.id, run, thread, class: classOf(program) }
      table.settle(recordOf(settled, measurement), time.now_ms())
      onCall(program, index, measurement)
      resolve([...prompt, ...output])
    }
    const verdict = driver.submit(
      {
        ...{ lease, tenant: TENANT, tenant_weight: 1, program: program.id, thread },
        // There is one engine, which knows what its own open calls were charged.
        ...{ ...keys, open_elsewhere_us: 0, cache_salt: TENANT },
        ...{ prompt, max_output_tokens: shape.output_tokens, sampling: { temperature: 0, top_p: 1, seed: 1 } },
      },
      { token: (token) => output.push(token), ended },
    )
    if (!verdict.ok) reject(new Error(`${lease} was refused: ${verdict.message}`))
  })
}

type Settled = Pick<CallRecord, 'lease' | 'call' | 'program' | 'run' | 'thread' | 'class'>

function recordOf(settled: Settled, measured: Measurement): CallRecord {
  return {
    v: RECORD_VERSION,
    ...{ ...settled, tenant: TENANT, ...PLACE },
    ...{
      epoch: 'bench',
      model: MODEL,
      outcome: 'completed',
      finish_reason: 'length',
      error_code: null,
    },
    ...{ ...measured, ended_at_ms: Date.now() },
  }
}
