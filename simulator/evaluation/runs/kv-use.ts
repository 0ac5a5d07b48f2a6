/** KV in use over time, pinned contexts of programs whose tools run included: one sample for each interval, of its last step. */
import type { LatencyProfile } from '../../../gpu-agent/engine/backends/emulated/profiles/index.ts'
import type { SimEngine } from '../../world/sim-engine.ts'

export interface KvSample {
  at_s: number
  /** Of the engine's KV: what running and preserved calls have. */
  used_share: number
}

const INTERVAL_US = 5_000_000
const SAMPLES_MAX = 400
const US_PER_S = 1e6

export class KvUse {
  readonly samples: KvSample[] = []
  readonly #capacity_tokens: number
  #next_us = 0

  constructor({ capacity_blocks, block_tokens }: Pick<LatencyProfile, 'capacity_blocks' | 'block_tokens'>) {
    this.#capacity_tokens = capacity_blocks * block_tokens
  }

  stepped({ scheduler, stepped_us }: SimEngine): void {
    if (stepped_us < this.#next_us || this.samples.length >= SAMPLES_MAX) return
    this.#next_us = stepped_us + INTERVAL_US
    const { kv_used_tokens } = scheduler.status()
    const used_share = (kv_used_tokens + scheduler.pinned_tokens) / this.#capacity_tokens
    this.samples.push({ at_s: stepped_us / US_PER_S, used_share })
  }
}
