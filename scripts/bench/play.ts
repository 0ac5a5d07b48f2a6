/**
 * Plays a workload on one engine, in real time: issues each call when its parents have ended, with the attained service
 * that the process table holds at that moment, as the control plane's ticket would carry it.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { EngineDriver } from '../../gpu-agent/engine/driver.ts'
import type { EndReason, Measurement } from '../../gpu-agent/engine/types.ts'
import { ProcessTable } from '../../src/core/process-table.ts'
import type { ServiceReading } from '../../src/core/service.ts'
import { type CallRecord, RECORD_VERSION } from '../../src/protocol/index.ts'
import { type ProgramShape, seededRandom } from './workload.ts'

export interface PlayedProgram {
  id: string
  kind: ProgramShape['kind']
  response_s: number
  output_tokens: number
}

export interface Played {
  programs: PlayedProgram[]
  makespan_s: number
  /** Summed wall service of all calls: seats × time, as used. */
  seat_s: number
  preemptions: number
  swapped_tokens: number
  cached_tokens: number
  prompt_tokens: number
}

export interface PlayOptions {
  reading: ServiceReading
  /** Token ids that prompts are drawn from: [first, end). */
  vocabulary: readonly [number, number]
  onProgram?: (ended: number) => void
}

const TENANT = 'bench'
const MODEL = 'bench'

interface Totals {
  seat_s: number
  preemptions: number
  swapped_tokens: number
  cached_tokens: number
  prompt_tokens: number
}

export async function play(
  driver: EngineDriver,
  workload: readonly ProgramShape[],
  options: PlayOptions,
): Promise<Played> {
  let runs = 0
  const table = new ProcessTable({ reading: options.reading, newRun: () => `run-${runs++}` })
  const totals: Totals = { seat_s: 0, preemptions: 0, swapped_tokens: 0, cached_tokens: 0, prompt_tokens: 0 }
  const started = performance.now()
  let ended = 0
  const programs = await Promise.all(
    workload.map(async (program) => {
      await sleep(Math.max(0, program.arrival_s * 1000 - (performance.now() - started)))
      const arrived = performance.now()
      const output_tokens = await playProgram(driver, program, table, totals, options)
      ended += 1
      options.onProgram?.(ended)
      return { id: program.id, kind: program.kind, response_s: (performance.now() - arrived) / 1000, output_tokens }
    }),
  )
  return { programs, makespan_s: (performance.now() - started) / 1000, ...totals }
}

async function playProgram(
  driver: EngineDriver,
  program: ProgramShape,
  table: ProcessTable,
  totals: Totals,
  { vocabulary }: PlayOptions,
): Promise<number> {
  const random = seededRandom([...program.id].reduce((hash, char) => Math.imul(hash, 31) + char.charCodeAt(0), 7))
  const fresh = (tokens: number) =>
    Array.from({ length: tokens }, () => vocabulary[0] + Math.floor(random() * (vocabulary[1] - vocabulary[0])))
  // Drawn before anything runs, so that the tokens do not depend on the order in which calls end.
  const added = program.calls.map((call) => fresh(call.new_prompt_tokens))
  const texts: Promise<number[]>[] = []
  for (const [index, call] of program.calls.entries()) {
    texts.push(
      Promise.all(call.parents.map((parent) => texts[parent] as Promise<number[]>)).then((parents) => {
        const [first = [], ...others] = parents
        const outputs = others.flatMap((text, i) =>
          text.slice(-(program.calls[call.parents[i + 1] as number]?.output_tokens ?? 0)),
        )
        const prompt = [...first, ...outputs, ...(added[index] as number[])]
        return playCall(driver, program, index, prompt, table, totals)
      }),
    )
  }
  const ends = await Promise.all(texts)
  table.end(TENANT, program.id, Math.round(performance.now()), 'explicit')
  return ends.length === 0 ? 0 : program.calls.reduce((sum, call) => sum + call.output_tokens, 0)
}

/** One call; resolves with its prompt and output. */
function playCall(
  driver: EngineDriver,
  program: ProgramShape,
  index: number,
  prompt: readonly number[],
  table: ProcessTable,
  totals: Totals,
): Promise<number[]> {
  const shape = program.calls[index] as ProgramShape['calls'][number]
  const lease = `${program.id}/${index}`
  const parents = shape.parents.map((parent) => `${program.id}/${parent}`)
  const now_ms = Math.round(performance.now())
  const { admission } = table.admit({
    ...{ tenant: TENANT, program: program.id, app: null, class: 'tenant', metadata: null },
    ...{ call: lease, thread: null, parents, model: MODEL, now_ms },
  })
  if (admission.status !== 'admitted') throw new Error(admission.message)
  const { attained_service_us, critical_path_us, wait_us, run, thread } = admission
  const output: number[] = []
  return new Promise((resolve, reject) => {
    const ended = (reason: EndReason, measurement: Measurement) => {
      if (reason !== 'length') return reject(new Error(`${lease} ended as ${reason} after ${output.length} tokens`))
      totals.seat_s += measurement.service_wall_us / 1e6
      totals.preemptions += measurement.preemptions
      totals.swapped_tokens += measurement.swapped_out_tokens
      totals.cached_tokens += measurement.cached_tokens
      totals.prompt_tokens += measurement.prompt_tokens
      table.settle(recordOf(lease, program.id, run, thread, measurement), Math.round(performance.now()))
      resolve([...prompt, ...output])
    }
    const verdict = driver.submit(
      {
        ...{ lease, tenant: TENANT, tenant_weight: 1, program: program.id, thread },
        ...{ attained_service_us, critical_path_us, program_wait_us: wait_us, cache_salt: TENANT },
        ...{ prompt, max_output_tokens: shape.output_tokens, sampling: { temperature: 0, top_p: 1, seed: 1 } },
      },
      { token: (token) => output.push(token), ended },
    )
    if (!verdict.ok) reject(new Error(`${lease} was refused: ${verdict.message}`))
  })
}

function recordOf(lease: string, program: string, run: string, thread: string, measured: Measurement): CallRecord {
  const { prompt_tokens, cached_tokens, output_tokens, service_wall_us, service_modelled_us } = measured
  const { wait_us, preemptions, first_token_us, duration_us } = measured
  return {
    v: RECORD_VERSION,
    ...{ lease, call: lease, tenant: TENANT, program, run, thread, class: 'tenant', agent: 'bench', engine: 'bench' },
    ...{
      epoch: 'bench',
      region: 'bench',
      model: MODEL,
      outcome: 'completed',
      finish_reason: 'length',
      error_code: null,
    },
    ...{ prompt_tokens, cached_tokens, output_tokens, service_wall_us, service_modelled_us },
    ...{ wait_us, preemptions, first_token_us, duration_us, ended_at_ms: Date.now() },
  }
}
