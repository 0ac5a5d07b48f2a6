/** Opens the engines of a simulation: engines that order calls themselves, or those behind the config's front (fronts.ts). */
import { engineMemory } from '../../gpu-agent/engine/backends/emulated/engine-memory.ts'
import type { Policy } from '../../gpu-agent/engine/order/policy.ts'
import type { EndedCall } from '../../gpu-agent/engine/scheduler.ts'
import { type SchedulerConfig, SLOTS_MAX, schedulerConfig } from '../../gpu-agent/engine/scheduler-config.ts'
import type { ServiceRates, ServiceReading } from '../../src/core/call/service.ts'
import { TenantShares } from '../../src/core/pool/tenant-shares.ts'
import { ENGINES_PER_AGENT_MAX } from '../../src/protocol/link.ts'
import { createPolicy, isClairvoyant } from '../policies/index.ts'
import type { Clairvoyance } from '../policies/srpt.ts'
import type { SimulationConfig } from '../simulation-types.ts'
import type { ClassKnowledge } from './class-knowledge.ts'
import { SimEngine, type SimEngineOptions } from './sim-engine.ts'
import type { Timeline } from './timeline.ts'
import { EPOCH, type QueuePlace, WAITING_CALLS_MAX, type WorldEngine } from './world-engine.ts'

/** Idle prefixes beside the running calls. */
const SLOTS_PER_SEAT = 4

export interface WorldEnginesOptions {
  config: SimulationConfig
  timeline: Timeline
  rates: ServiceRates
  classes: ClassKnowledge
  clairvoyance: Clairvoyance
}

type OnEnded = (ended: EndedCall, engine: WorldEngine, now_us: number) => void

export class WorldEngines {
  /** A front may have none behind it. */
  readonly computing: SimEngine[] = []
  readonly all: WorldEngine[] = []
  readonly #options: WorldEnginesOptions

  constructor(options: WorldEnginesOptions) {
    this.#options = options
  }

  /** `at`: position among the region's `count` engines. The engines of one agent are in one shard. */
  open(region: string, at: number, count: number, onEnded: OnEnded): WorldEngine {
    const per_shard = Math.ceil(count / (this.#options.config.shards ?? 1))
    const shard = Math.floor(at / per_shard)
    const agents_per_shard = Math.ceil(per_shard / ENGINES_PER_AGENT_MAX)
    const agent = `${region}-a${shard * agents_per_shard + Math.floor((at % per_shard) / ENGINES_PER_AGENT_MAX)}`
    const place = { id: `${agent}-e${at}`, agent, region, index: this.all.length }
    const opened = this.#open(place, onEnded)
    this.all.push(opened)
    return opened
  }

  #open(place: Pick<WorldEngine, 'id' | 'agent' | 'region' | 'index'>, onEnded: OnEnded): WorldEngine {
    const { config, timeline } = this.#options
    const { front } = config
    if (front === undefined) {
      const engine: SimEngine = this.#newEngine({
        ...{ ...place, scheduler: this.#schedulerConfig(this.#policy()) },
        onEnded: (ended, now_us) => onEnded(ended, engine, now_us),
      })
      return engine
    }
    const queue: QueuePlace = {
      ...{ ...place, epoch: EPOCH, timeline, policy: this.#policy(), ordering: this.#ordering },
      onEnded: (ended, now_us) => onEnded(ended, opened, now_us),
    }
    const opened: WorldEngine = front.open(queue, config.profile, (heard) => {
      const scheduler = this.#schedulerConfig(this.#policy('fcfs'))
      // Every step is an event, since the queue needs every token.
      return this.#newEngine({ ...place, scheduler, jump: false, ...heard })
    })
    return opened
  }

  #newEngine(
    own: Pick<SimEngineOptions, 'id' | 'agent' | 'region' | 'index' | 'scheduler' | 'onEnded'> &
      Partial<SimEngineOptions>,
  ): SimEngine {
    const { config, timeline } = this.#options
    const { profile, engine: sizes, jump, onStepped, decision_watch } = config
    const engine = new SimEngine({
      ...{ profile, decision_us: sizes.decision_us, jump, timeline, ...own },
      ...(onStepped === undefined ? {} : { onStepped }),
      ...(decision_watch === undefined ? {} : { decision_watch }),
    })
    this.computing.push(engine)
    return engine
  }

  /** What a clairvoyant order has left is work; it is charged in work. */
  get #ordering(): ServiceReading {
    const { policy, reading } = this.#options.config
    return isClairvoyant(policy) ? 'modelled' : reading
  }

  #policy(policy = this.#options.config.policy): Policy {
    const { config, classes, clairvoyance } = this.#options
    const memory = engineMemory(config.profile, config.engine.swap_tokens !== null)
    return createPolicy(policy, { reading: this.#ordering, classes, memory }, config.tuning, clairvoyance)
  }

  #schedulerConfig(policy: Policy): SchedulerConfig {
    const { config, rates } = this.#options
    const { profile, engine } = config
    const { slot_tokens_max, block_tokens, capacity_blocks, swap_costs } = profile
    return schedulerConfig({
      epoch: EPOCH,
      policy,
      memory: engineMemory(profile, engine.swap_tokens !== null),
      shares: new TenantShares(),
      seats: engine.max_seqs,
      slots: Math.min(SLOTS_MAX, Math.max(profile.slots, engine.max_seqs * SLOTS_PER_SEAT)),
      slot_tokens_max: Math.min(slot_tokens_max, capacity_blocks * block_tokens),
      ...{ block_tokens, capacity_blocks, ordering: this.#ordering, rates },
      max_step_tokens: Math.max(profile.max_step_tokens, engine.max_seqs),
      prefill_chunk_tokens: profile.prefill_chunk_tokens,
      chunked_prefill: engine.chunked_prefill,
      waiting_calls_max: WAITING_CALLS_MAX,
      waiting_calls_per_tenant_max: WAITING_CALLS_MAX,
      steps_per_decision: engine.steps_per_decision,
      standby: engine.standby ?? 'in_order',
      copies_prefixes: engine.prefix_cache,
      // Without the cache, no call finds what another left.
      hold_kv: engine.prefix_cache && (engine.hold_kv ?? true),
      swap:
        engine.swap_tokens === null
          ? null
          : {
              costs: swap_costs,
              recompute_us_per_token: profile.per_prefill_token_us,
              image_tokens_max: engine.swap_tokens,
            },
    })
  }
}
