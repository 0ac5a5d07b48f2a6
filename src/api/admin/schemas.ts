/** What /admin/v1 takes and gives, as OpenAPI schemas, with the bounds of each field. */
import { z } from '@hono/zod-openapi'
import { StatedPeriods } from '../../core/budget/period-limits.ts'
import { TENANT_SHARDS_MAX } from '../../core/program/tenant-shards.ts'
import { Id } from '../../protocol/index.ts'
import { Objective } from '../../protocol/objective.ts'

export const WEIGHT_MAX = 1000
export const CALLS_PER_MINUTE_MAX = 1_000_000
export const LIVE_PROGRAMS_MAX = 100_000
/**
 * Of a tenant that the operator creates without a limit of its own. A program that its client does not end is live for half
 * an hour, so this allows five new ones a second for ever. 10,000 take 350 MB of disk on one machine.
 */
export const LIVE_PROGRAMS_DEFAULT = 10_000
export const BORROW_GPUS_MAX = 4096
/** Models or regions that a key may be held to. */
export const KEY_GRANTS_MAX = 64

const Name = z.string().min(1).max(128)
const Weight = z.number().positive().max(WEIGHT_MAX)
const Timestamp = z.iso.datetime()
const Grants = z.array(Id).min(1).max(KEY_GRANTS_MAX).nullable()
const Strict = z.boolean().openapi({ description: 'Whether fields of a body that have no effect are refused' })
const CallsPerMinute = z.number().int().min(1).max(CALLS_PER_MINUTE_MAX).nullable()
const Budget = StatedPeriods.nullable()
const BUDGET_SHOWN = 'What its calls may use in a UTC day and month: calls, tokens, service_s, cost. Null: no limit'
const BorrowGpus = z.number().int().min(0).max(BORROW_GPUS_MAX)
const Shards = z.number().int().min(1).max(TENANT_SHARDS_MAX)
const LivePrograms = z.number().int().min(1).max(LIVE_PROGRAMS_MAX).nullable()

export const IdParams = z.object({ id: Id.openapi({ param: { name: 'id', in: 'path' } }) })

/** A PATCH names at least one field. */
const someField = [(change: object) => Object.keys(change).length > 0, 'name at least one field'] as const

export const TenantCreate = z
  .strictObject({
    id: Id.optional(),
    name: Name,
    weight: Weight.default(1),
    calls_per_minute_max: CallsPerMinute.default(null),
    live_programs_max: LivePrograms.default(LIVE_PROGRAMS_DEFAULT),
    shards: Shards.default(1),
    inference: z.boolean().default(true),
    objective: Objective.nullable().default(null),
    borrow_gpus_max: BorrowGpus.default(0),
    budget: Budget.default(null),
  })
  .openapi('TenantCreate')

export const TenantUpdate = z
  .strictObject({
    name: Name.optional(),
    weight: Weight.optional(),
    calls_per_minute_max: CallsPerMinute.optional(),
    live_programs_max: LivePrograms.optional(),
    shards: Shards.optional(),
    inference: z.boolean().optional(),
    objective: Objective.nullable().optional(),
    borrow_gpus_max: BorrowGpus.optional(),
    budget: Budget.optional(),
    disabled: z.boolean().optional(),
  })
  .refine(...someField)
  .openapi('TenantUpdate')

export const TenantJson = z
  .object({
    id: z.string(),
    name: z.string(),
    weight: z.number().openapi({ description: 'Share of seats relative to other tenants' }),
    calls_per_minute_max: z.number().nullable().openapi({ description: 'Null: no limit' }),
    live_programs_max: z.number().nullable().openapi({ description: 'Null: no limit' }),
    shards: z.number().openapi({
      description: 'Objects over which new runs of its programs are spread. Raised where one gets more than it should',
    }),
    inference: z
      .boolean()
      .openapi({ description: 'Whether calls that name no program join one by their conversation' }),
    objective: Objective.nullable().openapi({
      description: 'What a learned order makes small for its programs. Null: as the model has it',
    }),
    borrow_gpus_max: z.number().openapi({
      description: 'GPUs of lending hosts that its offline applications may have at a time. 0: none',
    }),
    budget: Budget.openapi({ description: BUDGET_SHOWN }),
    class_weights: z.record(z.string(), z.number()).openapi({
      description: 'What classes of its programs weigh among one another, of those that weigh other than 1',
    }),
    created_at: Timestamp,
    disabled_at: Timestamp.nullable(),
  })
  .openapi('Tenant')

export const KeyCreate = z
  .strictObject({
    name: Name.default('default'),
    models: Grants.default(null),
    regions: Grants.default(null),
    strict: Strict.default(false),
    budget: Budget.default(null),
  })
  .openapi('KeyCreate')

export const KeyUpdate = z
  .strictObject({
    name: Name.optional(),
    models: Grants.optional(),
    regions: Grants.optional(),
    strict: Strict.optional(),
    budget: Budget.optional(),
  })
  .refine(...someField)
  .openapi('KeyUpdate')

export const KeyJson = z
  .object({
    id: z.string().openapi({ description: 'Names the key; opens nothing' }),
    tenant: z.string(),
    name: z.string(),
    models: z.array(z.string()).nullable().openapi({ description: 'Models that it may call; null: every one' }),
    regions: z.array(z.string()).nullable().openapi({ description: 'Regions that may serve it; null: every one' }),
    strict: Strict,
    budget: Budget.openapi({ description: BUDGET_SHOWN }),
    created_at: Timestamp,
    revoked_at: Timestamp.nullable(),
  })
  .openapi('Key')
export const KeyCreated = KeyJson.extend({ key: z.string().openapi({ description: 'Shown only once' }) }).openapi(
  'KeyCreated',
)

/** Of a million tokens. */
const PRICE_MAX = 1_000_000
const Context = z.number().int().min(1).max(100_000_000)
const BytesPerToken = z.number().positive().max(64)
const Reading = z.enum(['modelled', 'wall'])
/** Of a million tokens, in the operator's currency. With it, a price of a token is a whole number of trillionths. */
const Price = z.number().min(0).max(PRICE_MAX).nullable()

export const ModelCreate = z
  .strictObject({
    id: Id,
    context_tokens_max: Context,
    ordering_service: Reading.default('modelled'),
    objective: Objective.default('token_latency'),
    bytes_per_token: BytesPerToken.default(4),
    prompt_price: Price.default(null),
    cached_prompt_price: Price.default(null),
    output_price: Price.default(null),
  })
  .openapi('ModelCreate')

export const ModelUpdate = z
  .strictObject({
    context_tokens_max: Context.optional(),
    ordering_service: Reading.optional(),
    objective: Objective.optional(),
    bytes_per_token: BytesPerToken.optional(),
    prompt_price: Price.optional(),
    cached_prompt_price: Price.optional(),
    output_price: Price.optional(),
  })
  .refine(...someField)
  .openapi('ModelUpdate')

export const ModelJson = z
  .object({
    id: z.string(),
    ordering_service: Reading.openapi({ description: 'Which reading of service orders programs' }),
    objective: Objective.openapi({ description: 'What a learned order makes small, where the tenant does not say' }),
    context_tokens_max: z.number(),
    bytes_per_token: z.number().openapi({ description: 'First estimate, until engines have measured it' }),
    prompt_price: Price.openapi({ description: 'Of a million tokens, in your currency. Null: it has no price' }),
    cached_prompt_price: Price.openapi({ description: 'Of those that were cached. Null: as the others' }),
    output_price: Price,
    created_at: Timestamp,
  })
  .openapi('CatalogueModel')

/** https://developers.cloudflare.com/durable-objects/reference/data-location/#supported-locations-1 */
const LocationHint = z.enum(['wnam', 'enam', 'sam', 'weur', 'eeur', 'apac', 'oc', 'afr', 'me']).nullable()
const Latitude = z.number().min(-90).max(90).nullable()
const Longitude = z.number().min(-180).max(180).nullable()
const Position = z.number().int().min(0).max(1_000_000)

/** Lists of regions, in headers and on command lines, are written with commas. */
const RegionId = Id.refine((id) => !id.includes(','), 'an id of a region has no comma')

export const RegionCreate = z
  .strictObject({
    id: RegionId,
    position: Position.default(0),
    location_hint: LocationHint.default(null),
    latitude: Latitude.default(null),
    longitude: Longitude.default(null),
  })
  .openapi('RegionCreate')

export const RegionUpdate = z
  .strictObject({
    position: Position.optional(),
    location_hint: LocationHint.optional(),
    latitude: Latitude.optional(),
    longitude: Longitude.optional(),
  })
  .refine(...someField)
  .openapi('RegionUpdate')

export const RegionJson = z
  .object({
    id: z.string(),
    position: z.number().openapi({ description: 'Order of preference where a client’s place is unknown' }),
    location_hint: z.string().nullable().openapi({ description: 'Where new pools are created; pools never move' }),
    latitude: z.number().nullable(),
    longitude: z.number().nullable(),
  })
  .openapi('Region')

export const AgentCreate = z.strictObject({ id: Id, region: Id }).openapi('AgentCreate')

export const AgentJson = z
  .object({
    id: z.string(),
    region: z.string(),
    state: z.enum(['active', 'draining', 'removed']),
    created_at: Timestamp,
    removed_at: Timestamp.nullable(),
  })
  .openapi('Agent')
export const AgentCreated = AgentJson.extend({
  token: z
    .string()
    .openapi({ description: 'Shown only once; the agent takes it as SWITCHYARD_AGENT_TOKEN or --token-file' }),
}).openapi('AgentCreated')
export const AgentLive = AgentJson.extend({
  engines: z
    .array(z.object({ engine: z.string(), model: z.string(), state: z.string() }))
    .nullable()
    .openapi({ description: 'Engines that its pools know; null: a pool did not answer' }),
}).openapi('AgentLive')

const Change = z.record(z.string(), z.unknown()).nullable()

export const AuditJson = z
  .object({
    id: z.string(),
    at: Timestamp,
    actor: z.string().openapi({ description: 'Fingerprint of the key that was used' }),
    action: z.string(),
    object: z.string(),
    before: Change,
    after: Change,
  })
  .openapi('AuditEntry')

export const DeadLetterJson = z
  .object({
    id: z.string(),
    at: Timestamp,
    kind: z.enum(['record', 'run']).openapi({
      description: '`run`: rows of a run that do not load. `record`: an agent’s record of such a run, acknowledged',
    }),
    tenant: z.string(),
    program: z.string(),
    run: z.string(),
    agent: z.string().nullable(),
    reason: z.string(),
    content: z.string().openapi({ description: 'JSON as it was, cut at 256 Ki characters' }),
  })
  .openapi('DeadLetter')
