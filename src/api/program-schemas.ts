/** What /v1/programs takes and gives: the process-table entry in seconds and in the words of the design, as OpenAPI schemas. */
import { z } from '@hono/zod-openapi'
import { BUDGET_FIELDS, type BudgetField, DEADLINE_S_MAX } from '../core/budget/budget.ts'
import { Handling, HandlingReason, Id, Outcome, ProgramSource, TOOLS_PER_CALL_MAX } from '../protocol/index.ts'
import { PAUSES_MAX } from '../protocol/measurement.ts'
import { PROGRAM_WEIGHT_MAX, PROGRAM_WEIGHT_MIN, ProgramWeight } from '../protocol/program-weight.ts'
import { PROGRAM_REGIONS_MAX } from '../relay/restrictions.ts'
import { MeasuredShape, Seconds, Tokens, WaitShape } from './measured-json.ts'

export const METADATA_KEYS_MAX = 16
export const METADATA_KEY_CHARS_MAX = 64
export const METADATA_VALUE_CHARS_MAX = 512
export const PAGE_LIMIT_DEFAULT = 20
export const PAGE_LIMIT_MAX = 100

const Timestamp = z.iso.datetime()

export const Metadata = z
  .record(z.string().min(1).max(METADATA_KEY_CHARS_MAX), z.string().max(METADATA_VALUE_CHARS_MAX))
  .refine((metadata) => Object.keys(metadata).length <= METADATA_KEYS_MAX, `at most ${METADATA_KEYS_MAX} keys`)

const stated = (field: BudgetField) => z.number().positive().max(BUDGET_FIELDS[field].max).optional()

/** X-Program-Budget has the same names. */
export const BudgetStart = z
  .strictObject({
    calls: stated('calls'),
    tokens: stated('tokens').openapi({ description: 'Of prompts, cached ones too, and of output' }),
    service_s: stated('service_s').openapi({ description: 'Modelled service' }),
    cost: stated('cost').openapi({ description: 'In the currency of the models’ prices' }),
    deadline_s: z.number().positive().max(DEADLINE_S_MAX).optional().openapi({
      description: 'From now. Calls that are open then are ended',
    }),
  })
  .openapi('BudgetStart')

export const ProgramStart = z
  .strictObject({
    id: Id.optional().openapi({ description: 'Chosen by the client, unique among its running programs' }),
    app: Id.optional().openapi({ description: 'Label of the application; programs of one app form a class' }),
    metadata: Metadata.optional(),
    regions: z.array(Id).min(1).max(PROGRAM_REGIONS_MAX).optional().openapi({
      description: 'Regions that may serve its calls; they never leave them. Left out: any',
    }),
    budget: BudgetStart.optional().openapi({ description: 'What the run may spend in all. Left out: no limit' }),
  })
  .openapi('ProgramStart')

export const WeightChange = z
  .strictObject({
    weight: ProgramWeight.openapi({
      description: `From ${PROGRAM_WEIGHT_MIN} to ${PROGRAM_WEIGHT_MAX}; 1 is usual. Among the tenant’s own programs, twice the weight halves the rank. It holds from a program’s next call on`,
    }),
  })
  .openapi('WeightChange')

const Source = ProgramSource.nullable().openapi({
  description: 'Why the call, or the first call of the program, belongs to the program; null: not known',
})

const EngineUsed = z.object({ engine: z.string(), region: z.string(), model: z.string(), epoch: z.string() })

const ThreadActive = z.object({
  thread: z.string(),
  call: z.string(),
  arrived_at: Timestamp,
  wait_s: Seconds,
  service_s: Seconds,
  engine: z.string().nullable(),
})

const ByteSeconds = z.number().nonnegative()

const KvHandled = z
  .object({
    handling: Handling.openapi({ description: 'Kept in the GPU (preserve), dropped (discard) or moved out (swap)' }),
    reason: HandlingReason.openapi({
      description:
        'least_waste: the least waste of those that the policy chooses from. only_choice: the policy has no other. not_foreseen: the tool was not forecast, so the context was kept at first',
    }),
    waste_byte_s: z
      .object({ preserve: ByteSeconds, discard: ByteSeconds, swap: ByteSeconds.nullable() })
      .openapi({ description: 'Memory times time that each would waste; swap null: the engine moves no KV' }),
  })
  .openapi({
    description: 'What the engine decided for its KV while tools run, when it ended. Null: it decides nothing',
  })

const ToolRunning = z.object({
  name: z
    .string()
    .nullable()
    .openapi({ description: 'Null: the answer named none, or its record has not come. A person may be reading it' }),
  call: z.string().openapi({ description: 'The call whose answer asked for it' }),
  thread: z.string(),
  since: Timestamp,
  expected_s: Seconds.nullable().openapi({ description: 'As it was expected when the call ended. Null: not known' }),
  kv: KvHandled.nullable(),
})

const Limit = z
  .object({
    limit: z.number().nonnegative(),
    used: z.number().nonnegative().openapi({ description: 'By calls that are over' }),
    reserved: z.number().nonnegative().openapi({ description: 'For calls that are open' }),
  })
  .nullable()

const BudgetStanding = z
  .object({ calls: Limit, tokens: Limit, service_s: Limit, cost: Limit, deadline: Timestamp.nullable() })
  .openapi('Budget', { description: 'What the run may spend, and what it has. Null: no limit' })

export const Program = z
  .object({
    object: z.literal('program'),
    id: z.string(),
    run: z.string().openapi({ description: 'A call under an ended id opens a new run' }),
    state: z.enum(['running', 'ended']),
    app: z.string().nullable(),
    class: z.string(),
    metadata: z.record(z.string(), z.string()),
    source: Source,
    regions: z.array(z.string()).nullable().openapi({ description: 'Regions to which the program is held; null: any' }),
    budget: BudgetStanding.nullable(),
    weight: z.number().nullable().openapi({
      description:
        'Among the tenant’s own programs, times the weight of its class. Null: not kept of a program that has ended',
    }),
    started_at: Timestamp,
    ended_at: Timestamp.nullable(),
    end_reason: z.enum(['explicit', 'stale']).nullable(),
    service_s: Seconds.openapi({ description: 'Attained service in the reading that orders calls' }),
    critical_path_s: Seconds,
    engines: z.array(EngineUsed),
    threads: z.array(ThreadActive).openapi({ description: 'Active calls' }),
    activity: z.enum(['reasoning', 'acting']).nullable().openapi({
      description: 'Reasoning: a call is open. Acting: it is between calls. Null: it has ended, or has made no call',
    }),
    tools: z.array(ToolRunning).openapi({ description: 'What runs between its calls, the latest first' }),
    last_call_arrival: Timestamp.nullable(),
    last_call_completion: Timestamp.nullable(),
    calls: Tokens,
    open_calls: Tokens,
    ...MeasuredShape,
  })
  .openapi('Program')
export type Program = z.infer<typeof Program>

export const ProgramListItem = Program.pick({
  object: true,
  id: true,
  run: true,
  state: true,
  app: true,
  source: true,
  started_at: true,
  ended_at: true,
  last_call_arrival: true,
  calls: true,
  open_calls: true,
  service_s: true,
}).openapi('ProgramListItem')
export type ProgramListItem = z.infer<typeof ProgramListItem>

const Lease = z.object({
  id: z.string(),
  agent: z.string(),
  engine: z.string(),
  epoch: z.string(),
  region: z.string(),
  reason: z.string().nullable().openapi({ description: 'Why this engine was chosen' }),
  state: z.enum(['open', 'lost', 'settled']),
  outcome: Outcome.nullable(),
  error_code: z.string().nullable(),
  opened_at: Timestamp,
  service_s: Seconds,
  ...MeasuredShape,
  ...WaitShape,
  first_token_s: Seconds.nullable(),
  pauses: z
    .array(
      z.object({
        from_s: Seconds,
        to_s: Seconds,
        moved: z.boolean().openapi({ description: 'Its context was moved out of the cache meanwhile' }),
      }),
    )
    .max(PAUSES_MAX)
    .openapi({ description: 'When it was preempted, after its arrival on the engine: the first ones, where known' }),
})

const ToolUsed = z.object({
  name: z.string(),
  returned: z.boolean().openapi({ description: 'Whether the next call brought its answer' }),
  duration_s: Seconds.nullable().openapi({
    description: 'Null: it did not return, or several ran at once and the client did not measure them (X-Tool-Time)',
  }),
  answer_tokens: Tokens.nullable().openapi({ description: 'Estimated from the bytes of its answer' }),
})

const PositionJson = z
  .object({
    waits: z.boolean().openapi({ description: 'It has no seat now' }),
    waited_s: Seconds.openapi({ description: 'Time on its engine without a seat, so far' }),
    before: z
      .number()
      .int()
      .nonnegative()
      .openapi({ description: 'Open calls of its tenant on the engine that run before it' }),
    order: z.string().openapi({ description: 'By what the policy there orders it at this moment, in words' }),
  })
  .openapi('QueuePosition')

export const Call = z
  .object({
    object: z.literal('program.call'),
    id: z.string(),
    class: z.string().openapi({ description: 'Of its program' }),
    rank: z.number().nullable().openapi({
      description:
        'On its last engine when it came there: a lower rank runs first. Under plas and atlas it is the level: 0 is Q1. Null: the policy there tells none',
    }),
    expected_remaining_tokens: z.number().nonnegative().nullable().openapi({
      description: 'Output that its program was expected to have from there on. Null: the policy there does not learn',
    }),
    position: PositionJson.nullable().openapi({
      description: 'Of an open call, if `positions` was asked for. Null: it is not open, or its engine does not tell',
    }),
    thread: z.string(),
    parents: z.array(z.string()),
    source: Source,
    overruled: z.array(z.string()).openapi({ description: 'Headers and fields of the call that name another program' }),
    model: z.string(),
    state: z.enum(['open', 'ended']),
    outcome: Outcome.nullable(),
    finish_reason: z.string().nullable(),
    error_code: z.string().nullable(),
    warnings: z
      .object({
        ignored: z.array(z.string()).openapi({ description: 'Fields of the body that had no effect' }),
        not_applied: z.array(z.string()).openapi({ description: 'Hints that the engine did not apply' }),
        more: z.number().int().nonnegative().openapi({ description: 'Further fields that are not listed' }),
      })
      .nullable()
      .openapi({ description: 'Known when the client has been answered' }),
    opened_at: Timestamp,
    ended_at: Timestamp.nullable(),
    tools: z.array(ToolUsed).max(TOOLS_PER_CALL_MAX).openapi({ description: 'What its answer asked for, in order' }),
    tool_s: Seconds.nullable().openapi({
      description: 'From its end to the next call of its thread. Null: there is none. Several tools count as one',
    }),
    expected_tool_s: Seconds.nullable().openapi({ description: 'The same as it was expected. Null: not known' }),
    kv: KvHandled.nullable(),
    service_s: Seconds.openapi({ description: 'This and all other measured values are summed over the leases' }),
    ...MeasuredShape,
    ...WaitShape,
    leases: z.array(Lease),
  })
  .openapi('Call')
export type Call = z.infer<typeof Call>

export const listOf = <T extends z.ZodType>(item: T) =>
  z.object({
    object: z.literal('list'),
    data: z.array(item),
    has_more: z.boolean(),
    next_cursor: z.string().nullable(),
  })

export const PageQuery = z.object({
  limit: z.coerce.number().int().min(1).max(PAGE_LIMIT_MAX).default(PAGE_LIMIT_DEFAULT),
  cursor: z.string().min(1).max(1024).optional(),
})

export const CallsQuery = PageQuery.extend({
  order: z
    .enum(['asc', 'desc'])
    .default('asc')
    .openapi({ description: 'In order of arrival, or the latest first. The same for every page' }),
  positions: z
    .enum(['true', 'false'])
    .default('false')
    .openapi({ description: 'true: asks the engines where open calls are in their orders. For people who look' }),
})

export const ListQuery = PageQuery.extend({ state: z.enum(['running', 'ended']).default('running') })

export const ClassParams = z.object({ class: Id.openapi({ param: { name: 'class', in: 'path' } }) })
export const ClassWeight = z
  .object({ object: z.literal('class'), tenant: z.string(), class: z.string(), weight: z.number() })
  .openapi('ClassWeight')

export const ProgramParams = z.object({ id: Id.openapi({ param: { name: 'id', in: 'path' } }) })
