/** The front of an emulated engine: runs in the agent's own process, since it computes nothing. */

import { EmulatedBackend, type EmulatedOptions } from '../../../engine/backends/emulated/emulated-backend.ts'
import { emulatedContentHash } from '../../../engine/backends/emulated/emulated-tokens.ts'
import { engineMemory } from '../../../engine/backends/emulated/engine-memory.ts'
import { type LatencyProfile, type ProfileName, profileOf } from '../../../engine/backends/emulated/profiles/index.ts'
import { EngineDriver } from '../../../engine/driver.ts'
import { memoryOf } from '../../../engine/memory/backend-memory.ts'
import type { ClassTables } from '../../../engine/order/policy.ts'
import type { EngineCall } from '../../../engine/types.ts'
import { type Capabilities, EMULATED } from '../../openai/capabilities.ts'
import { CHAT_OUTPUT_TOKENS_DEFAULT } from '../../openai/translate.ts'
import type { EngineFront, EngineFrontEvents } from '../engine-front.ts'
import type { FrontOptions } from '../front-options.ts'
import { EmulatedTextModel } from './emulated-text-model.ts'
import { LocalFront } from './local-front.ts'
import { monotonicUs, schedulerOf } from './scheduler-of.ts'
import type { TextModel } from './text-model.ts'

const PROFILE_DEFAULT = 'emulated-8b'
/** Length of an answer that has room for CHAT_OUTPUT_TOKENS_DEFAULT; with less room an answer fills it. */
export const ANSWER_TOKENS_MIN = 32
export const ANSWER_TOKENS_MAX = 287

export function startEmulatedFront(
  options: FrontOptions,
  events: EngineFrontEvents,
  report: (message: string, error: unknown) => void,
  classes: ClassTables | null = null,
): Promise<EngineFront> {
  const profile = sizedProfile(options, PROFILE_DEFAULT)
  return startLatencyFront(
    {
      options,
      profile,
      text: new EmulatedTextModel(profile.slot_tokens_max),
      capabilities: EMULATED,
      system_fingerprint: `switchyard-emulated-${profile.name}`,
      backend: { output_tokens: answerTokens },
      classes,
      report,
    },
    events,
  )
}

export interface LatencyFrontOptions {
  options: FrontOptions
  profile: LatencyProfile
  text: TextModel
  capabilities: Capabilities
  system_fingerprint: string
  /** What its calls say. */
  backend: EmulatedOptions
  classes: ClassTables | null
  report: (message: string, error: unknown) => void
}

/** Any engine whose steps last as long as a latency profile says. */
export function startLatencyFront(
  { options, profile, backend: says, classes, ...front }: LatencyFrontOptions,
  events: EngineFrontEvents,
): Promise<EngineFront> {
  const description = {
    id: options.id,
    kind: 'emulated' as const,
    model: options.model_id,
    seats: profile.seats,
    kv_capacity_tokens: profile.capacity_blocks * profile.block_tokens,
    context_tokens_max: profile.slot_tokens_max,
    prefill_tokens_per_s: profile.per_prefill_token_us > 0 ? 1e6 / profile.per_prefill_token_us : null,
    speed_factor: 1,
  }
  return LocalFront.start(
    {
      ...front,
      description,
      ordering: options.ordering ?? 'modelled',
      startEngine: async (epoch, hooks) => {
        const backend = new EmulatedBackend({ profile, clock: monotonicUs, ...says })
        // Images hold as much as the engine's memory: a host has more than its GPU.
        const moves = memoryOf(backend, description.prefill_tokens_per_s, description.kv_capacity_tokens)
        const memory = engineMemory(profile, moves.swap !== null)
        const scheduler = schedulerOf(epoch, profile, options, classes, { ...moves, memory })
        return new EngineDriver({ epoch, scheduler, backend, clock: monotonicUs, ...hooks })
      },
    },
    events,
  )
}

/** The profile with the sizes that flags gave. Throws RangeError for a profile that does not exist. */
export function sizedProfile(
  { profile, seats, slots, context_tokens }: FrontOptions,
  profile_default: ProfileName,
): LatencyProfile {
  const own = profileOf(profile ?? profile_default)
  return {
    ...own,
    seats: seats ?? own.seats,
    slots: slots ?? own.slots,
    slot_tokens_max: context_tokens ?? own.slot_tokens_max,
    max_step_tokens: Math.max(own.max_step_tokens, seats ?? own.seats),
  }
}

function answerTokens({ prompt, max_output_tokens, sampling: { min_tokens = 0, ignore_eos } }: EngineCall): number {
  if (max_output_tokens < CHAT_OUTPUT_TOKENS_DEFAULT || ignore_eos) return Number.POSITIVE_INFINITY
  const range = ANSWER_TOKENS_MAX - ANSWER_TOKENS_MIN + 1
  return Math.max(min_tokens, ANSWER_TOKENS_MIN + (emulatedContentHash(prompt, 0) % range))
}
