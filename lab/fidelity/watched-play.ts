/** One play of the workload on a live engine, with what its steps took beside what the profile says of the very same steps. */

import { stepDurationUs } from '../../gpu-agent/engine/backends/emulated/emulated-backend.ts'
import type { LatencyProfile } from '../../gpu-agent/engine/backends/emulated/profiles/index.ts'
import type { EngineDriver } from '../../gpu-agent/engine/driver.ts'
import type { Backend } from '../../gpu-agent/engine/types.ts'
import type { ServiceReading } from '../../src/core/call/service.ts'
import { play } from '../bench/play.ts'
import type { ProgramShape } from '../bench/workload.ts'
import { movesKv } from '../calibrate/drive-engine.ts'
import { type Span, spanOfStep } from '../calibrate/span.ts'
import { watched } from '../calibrate/watch-backend.ts'
import { figuresOf, type PlayFigures } from './figures.ts'

export interface WatchedPlay {
  figures: PlayFigures
  steps: number
  preemptions: number
  swapped_out_tokens: number
  cached_prompt_share: number
  /** Summed duration of steps over what the profile says of the same steps. Above 1: the engine was slower than its profile. */
  step_time_ratio: number
  /** The same for steps that move KV; null: there were none. */
  kv_step_time_ratio: number | null
  /** What the driver took from one step to the next: mean. */
  driver_us: number
}

interface Sums {
  measured_us: number
  profile_us: number
}

const clock = () => performance.now() * 1000

export class StepWatch {
  /** Steps that moved no KV. */
  readonly spans: Span[] = []
  readonly #profile: LatencyProfile
  readonly #all: Sums = { measured_us: 0, profile_us: 0 }
  readonly #kv: Sums = { measured_us: 0, profile_us: 0 }
  #steps = 0
  #pauses = 0
  #pauses_us = 0

  constructor(profile: LatencyProfile) {
    this.#profile = profile
  }

  readonly observe = (backend: Backend): Backend =>
    watched(backend, clock, {
      onStep: (plan, duration_us) => {
        const profile_us = stepDurationUs(this.#profile, plan)
        const moves = movesKv(plan)
        for (const sums of moves ? [this.#all, this.#kv] : [this.#all]) {
          sums.measured_us += duration_us
          sums.profile_us += profile_us
        }
        this.#steps += 1
        if (!moves) this.spans.push(spanOfStep(plan, duration_us))
      },
      onPause: (duration_us) => {
        this.#pauses += 1
        this.#pauses_us += duration_us
      },
    })

  get driver_us(): number {
    return this.#pauses === 0 ? 0 : this.#pauses_us / this.#pauses
  }

  seen(): Pick<WatchedPlay, 'steps' | 'step_time_ratio' | 'kv_step_time_ratio' | 'driver_us'> {
    const kv_step_time_ratio = this.#kv.profile_us === 0 ? null : this.#kv.measured_us / this.#kv.profile_us
    const step_time_ratio = this.#all.measured_us / this.#all.profile_us
    return { steps: this.#steps, step_time_ratio, kv_step_time_ratio, driver_us: this.driver_us }
  }
}

export interface PlayOn {
  driver: EngineDriver
  watch: StepWatch
  reading: ServiceReading
  /** Lowest token and one past the highest. */
  vocabulary: readonly [number, number]
  onProgram?: (ended: number) => void
}

/** Plays and stops the engine. */
export async function playOn(on: PlayOn, shapes: readonly ProgramShape[]): Promise<WatchedPlay> {
  const { driver, watch, reading, vocabulary, onProgram } = on
  try {
    const options = { reading, vocabulary, ...(onProgram === undefined ? {} : { onProgram }) }
    const played = await play(driver, shapes, options)
    const { preemptions, swapped_out_tokens, cached_tokens, prompt_tokens } = played
    const cached_prompt_share = cached_tokens / prompt_tokens
    return { figures: figuresOf(played), preemptions, swapped_out_tokens, cached_prompt_share, ...watch.seen() }
  } finally {
    await driver.stop()
  }
}
