/** A latency profile from JSON, as `npm run calibrate` and the fits write it, held to what a scheduler can be started with. */
import { z } from 'zod'
import { SLOTS_MAX } from '../../../scheduler-config.ts'
import type { LatencyProfile } from './profile.ts'

/** A second for each unit: no machine is slower. */
const COST_MAX = 1e12
const TOKENS_MAX = 2 ** 30
const STEP_US_MAX = 60_000_000
const GPUS_MAX = 1024

const cost = z.number().min(0).max(COST_MAX)
const count = (max: number) => z.int().min(1).max(max)

const profileSchema = z
  .strictObject({
    name: z.string().regex(/^[\w.-]{1,64}$/, 'must be letters, digits, . _ or -'),
    provenance: z.string().min(1).max(8192),
    base_us: z.int().min(1).max(STEP_US_MAX),
    per_sequence_us: cost,
    per_kv_token_ns: cost,
    per_prefill_token_us: cost,
    per_prefill_pair_ps: cost.optional(),
    shadow_tokens: z.int().min(0).max(TOKENS_MAX).optional(),
    moves_overlap: z.boolean().optional(),
    kv_bytes_per_token: count(TOKENS_MAX).optional(),
    gpus: count(GPUS_MAX).optional(),
    swap_costs: z.strictObject({ save_us_per_token: cost, restore_us_per_token: cost, base_us: cost }),
    seats: count(SLOTS_MAX),
    slots: count(SLOTS_MAX),
    slot_tokens_max: count(TOKENS_MAX),
    block_tokens: count(65_536),
    capacity_blocks: count(TOKENS_MAX),
    max_step_tokens: count(TOKENS_MAX),
    prefill_chunk_tokens: count(TOKENS_MAX),
    fit: z.record(z.string(), z.unknown()).optional(),
  })
  .refine(({ seats, slots }) => seats <= slots, { path: ['seats'], error: 'must be at most slots' })
  .refine(({ seats, max_step_tokens }) => seats <= max_step_tokens, {
    path: ['max_step_tokens'],
    error: 'must be at least seats',
  })
  .refine((p) => p.capacity_blocks * p.block_tokens >= p.slot_tokens_max, {
    path: ['capacity_blocks'],
    error: 'times block_tokens must hold slot_tokens_max',
  })

/** `source`: what messages call it. Throws RangeError that names it and the field. */
export function parseProfile(text: string, source: string): LatencyProfile {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new RangeError(`${source} is not JSON: ${(error as SyntaxError).message}`)
  }
  const parsed = profileSchema.safeParse(value)
  if (!parsed.success) {
    const issue = parsed.error.issues[0]
    throw new RangeError(`${source}: ${issue?.path.join('.') || '(file)'}: ${issue?.message}`)
  }
  const {
    fit: _,
    per_prefill_pair_ps,
    shadow_tokens,
    moves_overlap,
    kv_bytes_per_token,
    gpus,
    ...profile
  } = parsed.data
  return {
    ...profile,
    ...(per_prefill_pair_ps === undefined ? {} : { per_prefill_pair_ps }),
    ...(shadow_tokens === undefined ? {} : { shadow_tokens }),
    ...(moves_overlap === undefined ? {} : { moves_overlap }),
    ...(kv_bytes_per_token === undefined ? {} : { kv_bytes_per_token }),
    ...(gpus === undefined ? {} : { gpus }),
  }
}
