/**
 * What a file of `switchyard apply` may say: the fields of the admin API, by the API's own schemas. A field that is left out
 * stays as it is. Keys and tokens have no place in it.
 */
import { z } from 'zod'
import {
  AgentCreate,
  KeyUpdate,
  ModelUpdate,
  RegionCreate,
  RegionUpdate,
  TenantUpdate,
} from '../../../src/api/admin/schemas.ts'
import { CLASS_WEIGHTS_MAX, Id, ProgramWeight } from '../../../src/protocol/index.ts'

const Region = z.strictObject({ id: RegionCreate.shape.id, ...RegionUpdate.shape })
const Model = z.strictObject({ id: Id, ...ModelUpdate.shape })
const Agent = z.strictObject({ ...AgentCreate.shape, draining: z.boolean().optional() })
const Key = z.strictObject({ ...KeyUpdate.shape, name: z.string().min(1).max(128), revoked: z.boolean().optional() })
const ClassWeights = z
  .record(Id, ProgramWeight)
  .refine((weights) => Object.keys(weights).length <= CLASS_WEIGHTS_MAX, `at most ${CLASS_WEIGHTS_MAX} classes`)
const Tenant = z.strictObject({
  id: Id,
  ...TenantUpdate.shape,
  class_weights: ClassWeights.optional(),
  keys: z.array(Key).optional(),
})

export const Desired = z.strictObject({
  regions: z.array(Region).optional(),
  models: z.array(Model).optional(),
  agents: z.array(Agent).optional(),
  tenants: z.array(Tenant).optional(),
})
export type Desired = z.infer<typeof Desired>
export type DesiredTenant = z.infer<typeof Tenant>
