/** core's rows of a program as they lie in storage, as schemas: what comes back from a disk is checked before core gets it. */
import { z } from 'zod'
import type { Amounts, Budget, BudgetState } from '../core/budget/budget.ts'
import type { Charge } from '../core/budget/charge.ts'
import type { Reservation } from '../core/budget/reservation.ts'
import type { LeaseCharge, SpendPlace } from '../core/budget/run-spend.ts'
import type { CallRow, Checkpoint, LeaseRow, ProgramRow } from '../core/program/program-state.ts'
import {
  Count,
  HandlingDecision,
  Id,
  MeasuredSums,
  Microseconds,
  Outcome,
  ProgramSource,
  ProgramWeight,
  StoredMeasurement,
  ToolName,
  ToolResult,
  ToolTime,
} from '../protocol/index.ts'

export const PinJson = z.object({ region: Id, model: Id, engine: Id, epoch: Id })
export const EngineJson = z.object({ engine: Id, region: Id, model: Id, epoch: Id })
export const MetadataJson = z.record(z.string(), z.string())
export const RegionsJson = z.array(Id).nullable()
export const OverruledJson = z.array(z.string())
const WarningsJson = z.object({ ignored: z.array(z.string()), not_applied: z.array(z.string()), more: Count })
export const AnsweredJson = z.object({
  outcome: Outcome,
  error_code: z.string().nullable(),
  warnings: WarningsJson.optional(),
})

export const AskedToolsJson = z.object({
  names: z.array(ToolName),
  expected_us: Microseconds.nullable(),
  // Rows of versions without it have none.
  handled: HandlingDecision.nullable().default(null),
})
const came = { results: z.array(ToolResult), times: z.array(ToolTime) }
export const ToolReturnJson = z.object({ at_ms: Count, ...came })
export const BringsJson = z.object({ of: Id, ...came })

const AmountsJson: z.ZodType<Amounts> = z.object({ calls: Count, tokens: Count, service_us: Count, cost_nanos: Count })
const limit = Count.nullable()
export const BudgetJson: z.ZodType<Budget> = z.object({
  ...{ calls: limit, tokens: limit, service_us: limit, cost_nanos: limit },
  ends_at_ms: limit,
})
export const BudgetStateJson: z.ZodType<BudgetState> = z.object({
  limits: BudgetJson,
  used: AmountsJson,
  reserved: AmountsJson,
})
const picos = z.number().nonnegative()
const ReservationJson: z.ZodType<Reservation> = z.object({
  amounts: z.object({ calls: Count, tokens: Count, service_us: Count, cost_nanos: Count }).partial(),
  prices: z.object({ prompt_picos: picos, cached_prompt_picos: picos, output_picos: picos }).nullable(),
  expired: z.boolean(),
})

export const LeaseChargeJson: z.ZodType<LeaseCharge> = z.object({
  key: Id.nullable(),
  granted_at_ms: Count,
  cost_nanos: Count,
})
const ChargeJson: z.ZodType<Charge> = z.object({
  ...{ calls: Count, prompt_tokens: Count, cached_tokens: Count, output_tokens: Count },
  ...{ service_us: Count, cost_nanos: Count },
})
const SpendPlaceJson: z.ZodType<SpendPlace> = z.object({
  ...{ day: z.string(), key: Id.nullable(), model: Id, charge: ChargeJson },
})

export const ProgramRowJson: z.ZodType<ProgramRow> = z.object({
  tenant: Id,
  program: Id,
  run: Id,
  app: z.string().nullable(),
  class: z.string(),
  metadata: MetadataJson,
  // Rows of versions without these fields have none.
  source: ProgramSource.nullable().default(null),
  regions: RegionsJson.default(null),
  budget: BudgetJson.nullable().default(null),
  weight: ProgramWeight.default(1),
  reading: z.enum(['wall', 'modelled']),
  started_at_ms: Count,
  ended_at_ms: Count.nullable(),
  end_reason: z.enum(['explicit', 'stale']).nullable(),
  pins: z.array(PinJson),
  last_arrival_ms: Count.nullable(),
  last_completion_ms: Count.nullable(),
})

export const CallRowJson: z.ZodType<CallRow> = z.object({
  call: Id,
  thread: Id,
  parents: z.array(Id),
  source: ProgramSource.nullable().default(null),
  overruled: OverruledJson.default([]),
  model: Id,
  opened_at_ms: Count,
  ended_at_ms: Count.nullable(),
  state: z.enum(['open', 'ended']),
  outcome: Outcome.nullable(),
  finish_reason: z.string().nullable(),
  error_code: z.string().nullable(),
  position: Count,
  inherited_us: Microseconds,
  parents_known: z.boolean(),
  answered: AnsweredJson.nullable(),
  warnings: WarningsJson.optional(),
  reserved: ReservationJson.nullable().default(null),
  gathers: z.literal(true).optional(),
  tools: AskedToolsJson.nullable().default(null),
  returned: ToolReturnJson.nullable().default(null),
  brings: BringsJson.nullable().default(null),
})

export const CheckpointJson: z.ZodType<Checkpoint> = z.object({
  calls: Count,
  totals: MeasuredSums.extend({ service_us: Count }),
  spent: AmountsJson.optional(),
  gathered: z.object({ leases: Count, places: z.array(SpendPlaceJson) }).optional(),
  critical_path_us: Count,
  threads: z.object({
    tails: z.array(z.object({ thread: Id, last_call: Id, last_ended: Id.nullable() })),
    more: z.boolean(),
    last_ended: Id.nullable(),
    number: Count,
  }),
  engines: z.array(EngineJson),
  live: z.array(z.object({ position: Count, start_us: Count, leases: z.array(Id), followed: z.boolean().optional() })),
})

export const LeaseReasonJson = z.enum([
  'least_used',
  'pin_created',
  'pinned',
  'pin_gone',
  'pin_overloaded',
  'spilled',
  'replaced',
  'snapshot',
])

export const LeaseRowJson: z.ZodType<LeaseRow> = z.object({
  lease: Id,
  call: Id,
  agent: Id,
  engine: Id,
  epoch: Id,
  region: Id,
  model: Id,
  reason: LeaseReasonJson.nullable(),
  speed_factor: z.number().positive(),
  opened_at_ms: Count,
  state: z.enum(['open', 'lost', 'settled']),
  outcome: Outcome.nullable(),
  error_code: z.string().nullable(),
  ...StoredMeasurement.shape,
  position: Count,
  finish_reason: z.string().nullable(),
  expected: z.literal(true).optional(),
  charged: LeaseChargeJson.optional(),
})
