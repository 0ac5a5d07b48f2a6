/**
 * vLLM's own scheduler class with the plug-in, on the simulator's clock and with the simulator's latency profile: what differs
 * is who schedules. Programs, process table and tickets are those of the other sides.
 *
 * vLLM preempts by computing again what its prefix cache has lost, and never stalls text for a prompt: a step takes all prompt tokens
 * that fit its budget. The simulator is told so.
 */

import { stepDurationUs } from '../../gpu-agent/engine/backends/emulated/emulated-backend.ts'
import { type LatencyProfile, PROFILES } from '../../gpu-agent/engine/backends/emulated/profiles/index.ts'
import type { CallListener } from '../../gpu-agent/engine/driver.ts'
import type { EngineCall, Measurement } from '../../gpu-agent/engine/types.ts'
import { type PlayedEngine, play } from '../bench/play.ts'
import type { ProgramShape } from '../bench/workload.ts'
import { figuresOf } from './figures.ts'
import { type Setting, sized } from './setting.ts'
import { type EndedRecord, type ScheduledCall, StepServer } from './step-server.ts'
import { VirtualTime } from './virtual-time.ts'
import type { WatchedPlay } from './watched-play.ts'

const SEATS = 4
const SLOTS = 48
const SLOT_TOKENS = 512
/** vLLM's `max_num_batched_tokens` in the tests' harness. */
const STEP_TOKENS_MAX = 2048
/** Those that the harness's model knows and that are no end of a text. */
const VOCABULARY = [3, 1000] as const
const TOKEN = 7

export const SCHEDULER_PROFILE: LatencyProfile = {
  ...sized(PROFILES['a100-8b'], SEATS, SLOTS, SLOT_TOKENS),
  ...{ max_step_tokens: STEP_TOKENS_MAX, prefill_chunk_tokens: STEP_TOKENS_MAX },
}

type Work = Awaited<ReturnType<StepServer['schedule']>>

/** Steps vLLM's scheduler for as long as calls are open. */
class VllmSteps implements PlayedEngine {
  readonly #server: StepServer
  readonly #time: VirtualTime
  readonly #profile: LatencyProfile
  readonly #open = new Map<string, CallListener>()
  #coming: ScheduledCall[] = []
  #looping = false
  /** What broke it. */
  readonly broken: Promise<never>
  #break: (error: unknown) => void = () => undefined
  steps = 0
  preemptions = 0

  constructor(server: StepServer, time: VirtualTime, profile: LatencyProfile) {
    this.#server = server
    this.#time = time
    this.#profile = profile
    this.broken = new Promise((_, reject) => {
      this.#break = reject
    })
  }

  submit(call: EngineCall, listener: CallListener): { ok: true } {
    this.#coming.push(scheduled(call))
    this.#open.set(call.lease, listener)
    if (!this.#looping) {
      this.#looping = true
      this.#loop().catch(this.#break)
    }
    return { ok: true }
  }

  async #loop(): Promise<void> {
    const time = this.#time
    while (this.#open.size > 0) {
      const coming = this.#coming.splice(0)
      const work = await time.hold(this.#server.schedule(time.now_us(), coming))
      if (work.length === 0) throw new Error(`vLLM schedules nothing while ${this.#open.size} calls are open`)
      this.steps += 1
      await time.sleepStep(durationUs(this.#profile, work) / 1000)
      const ended = await time.hold(this.#server.update(time.now_us()))
      for (const [lease, , , samples] of work) if (samples) this.#open.get(lease)?.token(TOKEN)
      for (const record of ended) this.#ended(record)
    }
    this.#looping = false
  }

  #ended(record: EndedRecord): void {
    const { request_id, outcome } = record
    const listener = this.#open.get(request_id)
    if (listener === undefined || outcome !== 'length') throw new Error(`call ${request_id} ended as ${outcome}`)
    this.#open.delete(request_id)
    this.preemptions += record.preemptions
    listener.ended('length', measurementOf(record), null)
  }
}

function scheduled(call: EngineCall): ScheduledCall {
  const { tenant, tenant_weight, program, settled_service_us, open_elsewhere_us } = call
  return {
    name: call.lease,
    prompt: Array.from(call.prompt),
    output: call.max_output_tokens,
    salt: call.cache_salt,
    xargs: {
      ...{ switchyard_lease: call.lease, switchyard_tenant: tenant, switchyard_weight: tenant_weight },
      ...{ switchyard_program: `${tenant}/${program}`, switchyard_settled_service_us: settled_service_us },
      ...{ switchyard_open_elsewhere_us: open_elsewhere_us, switchyard_output_tokens: call.program_output_tokens },
      ...{ switchyard_path_us: call.critical_path_us, switchyard_wait_us: call.program_wait_us },
      ...(call.sequence === null
        ? {}
        : { switchyard_opened_at_ms: call.sequence[0], switchyard_tie: call.sequence[1] }),
    },
  }
}

function durationUs(profile: LatencyProfile, work: Work): number {
  const slot = 0
  return stepDurationUs(profile, {
    step: 0,
    work: work.map(([lease, from, to, samples]) => ({ lease, slot, from, to, samples })),
    operations: [],
  })
}

function measurementOf({ request_id: _, outcome: __, computed_tokens: ___, ...sums }: EndedRecord): Measurement {
  return { ...sums, resumed_tokens: 0, swapped_out_tokens: 0, swapped_in_tokens: 0, recomputed_tokens: 0, swap_us: 0 }
}

export async function playScheduler(
  python: string,
  { profile, policy, reading }: Setting,
  shapes: readonly ProgramShape[],
  onProgram: (ended: number) => void,
): Promise<WatchedPlay> {
  const { seats, block_tokens, capacity_blocks } = profile
  const server = await StepServer.start(python, {
    ...{ seats, block_tokens },
    // vLLM keeps one block for itself.
    blocks: capacity_blocks + 1,
    switchyard: { policy, ordering: reading },
  })
  try {
    const time = new VirtualTime()
    const steps = new VllmSteps(server, time, profile)
    const playing = play(steps, shapes, { reading, vocabulary: VOCABULARY, time, onProgram })
    const played = await time.run(Promise.race([playing, steps.broken]))
    return {
      ...{ figures: figuresOf(played), steps: steps.steps, preemptions: steps.preemptions, swapped_out_tokens: 0 },
      cached_prompt_share: played.cached_tokens / played.prompt_tokens,
      ...{ step_time_ratio: 1, kv_step_time_ratio: null, driver_us: 0 },
    }
  } finally {
    await server.stop()
  }
}
