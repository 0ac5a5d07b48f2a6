/**
 * A real vLLM with the plug-in, on the CPU, reached through the whole control plane; and the profile that it is simulated with, calibrated
 * first from times of tokens as a client sees them, and then scaled to a play of other programs.
 *
 * What a call takes beside its steps (the way to the engine and back, and vLLM's own front end) is measured as the time to a first
 * token of a short prompt, less a step. The simulator has no such time: it is added to the pause before a call, and once to a program.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { LatencyProfile } from '../../gpu-agent/engine/backends/emulated/profiles/index.ts'
import type { PolicyName } from '../../gpu-agent/engine/order/policies/index.ts'
import { quantile } from '../../simulator/statistics.ts'
import { playPrograms } from '../bench/vllm/play-programs.ts'
import { pluginStatus, switchTo } from '../bench/vllm/plugin-channel.ts'
import { ControlPlane } from '../bench/vllm/serving.ts'
import type { ProgramShape } from '../bench/workload.ts'
import { driveEndpoint, type StreamCall } from '../calibrate/drive-endpoint.ts'
import { openaiStream } from '../calibrate/openai-stream.ts'
import { type CalibrationFit, fitSpans } from '../calibrate/span.ts'
import { BLOCK_TOKENS, CONTEXT_TOKENS, CPU_SIZE, SEATS, VllmServer } from '../testbed/vllm-server.ts'
import { figuresOf, type PlayFigures } from './figures.ts'
import { factorFor, scaled } from './scale-profile.ts'
import { playedBy, type Setting, simulateShapes } from './setting.ts'
import type { WatchedPlay } from './watched-play.ts'

export interface ServerCalibration {
  profile: LatencyProfile
  fit: CalibrationFit
  /** What a call takes beside its steps. */
  call_us: number
  /** By which steps are longer under programs than under the calls that calibrated them. */
  factor: number
}

const CALIBRATION = {
  ...{ concurrent: [1, 2, 4, 8], prompt_tokens: [16, 64, 160, 320], output_tokens: 32 },
  ...{ chunk_tokens: 2048, rounds: 2 },
}
const SHORT_PROMPT_TOKENS = 16
const SHORT_CALLS = 9
const SLOTS = 128
/** vLLM computes again what it has lost; nothing is moved. */
const NO_SWAP = { save_us_per_token: 1e6, restore_us_per_token: 1e6, base_us: 1e6 }

export class RealServer {
  readonly #plane: ControlPlane
  readonly #server: VllmServer
  readonly #folder: string
  #plays = 0

  private constructor(plane: ControlPlane, server: VllmServer, folder: string) {
    this.#plane = plane
    this.#server = server
    this.#folder = folder
  }

  static async start(python: string, model: { id: string; path: string }): Promise<RealServer> {
    const folder = mkdtempSync(path.join(tmpdir(), 'switchyard-fidelity-'))
    const setting = { python, model: model.path, served_model: model.id, folder }
    const server = await VllmServer.create('switchyard', setting)
    await server.start().catch((error: unknown) => {
      rmSync(folder, { recursive: true, force: true })
      throw error
    })
    try {
      return new RealServer(await ControlPlane.start(model.id, CPU_SIZE), server, folder)
    } catch (error) {
      await server.stop()
      throw error
    }
  }

  /** `programs`: other ones than those of the comparison, all at once. */
  async calibrate(programs: readonly ProgramShape[]): Promise<ServerCalibration> {
    const driven = await this.#drive()
    const { figures } = await this.play('fcfs', programs, () => undefined)
    const factor = factorFor(figures.mean_ms, (tried) => {
      const setting = { profile: scaled(driven.profile, tried), policy: 'fcfs', reading: 'modelled' } as const
      return simulatedCalls(setting, programs, driven.call_us).mean_ms
    })
    return { ...driven, profile: scaled(driven.profile, factor), factor }
  }

  async #drive(): Promise<Omit<ServerCalibration, 'factor'>> {
    const { kv_capacity_tokens } = await pluginStatus(this.#server)
    return await this.#plane.serving(this.#server, { scheduler: 'switchyard', policy: 'fcfs' }, async () => {
      const { url, api_key, model } = this.#plane
      const stream = openaiStream({ url: `${url}/v1`, api_key, model, clock: () => performance.now() * 1000 })
      const call_us = await measureCallUs(stream)
      const fit = fitSpans(await driveEndpoint(without(stream, call_us), CALIBRATION))
      return { profile: profileOf(fit, kv_capacity_tokens), fit, call_us }
    })
  }

  async play(
    policy: PolicyName,
    shapes: readonly ProgramShape[],
    onProgram: (ended: number) => void,
  ): Promise<WatchedPlay> {
    const server = this.#server
    const { model } = this.#plane
    this.#plays += 1
    const before = await switchTo(server, policy, model)
    const run = `play-${this.#plays}`
    const played = await this.#plane.serving(server, { scheduler: 'switchyard', policy }, () =>
      playPrograms(this.#plane, shapes, { run, onProgram }),
    )
    const after = await pluginStatus(server)
    return {
      ...{ figures: figuresOf(played), steps: after.steps - before.steps, swapped_out_tokens: 0 },
      preemptions: after.preemptions - before.preemptions,
      cached_prompt_share: played.cached_tokens / played.prompt_tokens,
      ...{ step_time_ratio: 1, kv_step_time_ratio: null, driver_us: 0 },
    }
  }

  async stop(): Promise<void> {
    await this.#plane.stop()
    await this.#server.stop()
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

async function measureCallUs(stream: StreamCall): Promise<number> {
  const beside_us: number[] = []
  for (let call = 0; call < SHORT_CALLS; call++) {
    const { started_us, pieces_us } = await stream(SHORT_PROMPT_TOKENS, CALIBRATION.output_tokens)
    const first_us = pieces_us[0] ?? started_us
    const steps_us = pieces_us.slice(1).map((at_us, index) => at_us - (pieces_us[index] as number))
    beside_us.push(first_us - started_us - quantile(steps_us, 0.5))
  }
  return Math.max(0, Math.round(quantile(beside_us, 0.5)))
}

/** As if a call were at the engine when it is issued. */
function without(stream: StreamCall, call_us: number): StreamCall {
  return async (...asked) => {
    const call = await stream(...asked)
    const first_us = call.pieces_us[0] ?? call.started_us
    return { ...call, started_us: Math.min(call.started_us + call_us, first_us - 1) }
  }
}

function profileOf({ costs }: CalibrationFit, kv_tokens: number): LatencyProfile {
  return {
    ...{ name: 'calibrated', provenance: 'Calibrated by this command.', ...costs, swap_costs: NO_SWAP },
    ...{ seats: SEATS, slots: SLOTS, slot_tokens_max: CONTEXT_TOKENS, block_tokens: BLOCK_TOKENS },
    ...{ capacity_blocks: Math.floor(kv_tokens / BLOCK_TOKENS), max_step_tokens: CALIBRATION.chunk_tokens },
    prefill_chunk_tokens: CALIBRATION.chunk_tokens,
  }
}

/** A simulated play of calls that take so much longer than their steps: in the pause before a call, and once for those that begin a program. */
export function simulatedCalls(setting: Setting, shapes: readonly ProgramShape[], call_us: number): PlayFigures {
  const longer = (call: ProgramShape['calls'][number]) =>
    call.parents.length === 0 ? call : { ...call, gap_ms: call.gap_ms + call_us / 1000 }
  const paused = shapes.map((shape) => ({ ...shape, calls: shape.calls.map(longer) }))
  const { programs, makespan_s } = playedBy(simulateShapes({ ...setting, recomputes: true }, paused, 0))
  const call_s = call_us / 1e6
  return figuresOf({ makespan_s, programs: programs.map((one) => ({ ...one, response_s: one.response_s + call_s })) })
}
