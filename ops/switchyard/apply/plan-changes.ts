/**
 * What is to be done so that a control plane is as a file says: pure. Nothing that the file does not name is changed or
 * removed, and a plan for what is so already is empty.
 */
import type { Row } from '../client.ts'
import type { Desired, DesiredTenant } from './desired.ts'

/** As the admin API tells them. */
export interface Present {
  regions: readonly Row[]
  models: readonly Row[]
  agents: readonly Row[]
  tenants: readonly Row[]
  /** By tenant: keys that are not revoked. */
  keys: ReadonlyMap<string, readonly Row[]>
}

export interface FieldChange {
  field: string
  /** Undefined: there is none. */
  before?: unknown
  after: unknown
}

export interface Change {
  action: 'create' | 'change' | 'revoke'
  /** `tenant acme`, `key acme/laptop` */
  object: string
  fields: readonly FieldChange[]
  request: { method: 'POST' | 'PATCH' | 'DELETE'; path: string; body?: Row }
  /** The field of the answer that is a secret, shown this once. */
  secret?: 'key' | 'token'
}

export type Plan = { status: 'planned'; changes: readonly Change[] } | { status: 'refused'; reason: string }

const at = encodeURIComponent

export function planChanges(desired: Desired, present: Present): Plan {
  const refused = refusalOf(desired, present)
  if (refused !== null) return { status: 'refused', reason: refused }
  const { regions = [], models = [], agents = [], tenants = [] } = desired
  return {
    status: 'planned',
    changes: [
      ...regions.flatMap((region) => objectChanges('region', '/regions', region, present.regions)),
      ...models.flatMap((model) => objectChanges('model', '/models', model, present.models)),
      ...agents.flatMap((agent) => agentChanges(agent, present.agents)),
      ...tenants.flatMap((tenant) => tenantChanges(tenant, present)),
    ],
  }
}

/** What the API could not do, before any of it is done. */
function refusalOf({ agents = [], tenants = [], models = [] }: Desired, present: Present): string | null {
  for (const { id, region } of agents) {
    const known = present.agents.find((agent) => agent.id === id)
    if (known?.state === 'removed') return `agent ${id} was removed, and its id is not used again`
    if (known !== undefined && known.region !== region) {
      return `agent ${id} is in region ${String(known.region)}, and an agent does not move: enrol another one`
    }
  }
  for (const { id, context_tokens_max } of models) {
    const is_new = !present.models.some((model) => model.id === id)
    if (is_new && context_tokens_max === undefined) return `model ${id} is new: it needs context_tokens_max`
  }
  for (const { id, keys = [] } of tenants) {
    for (const { name } of keys) {
      const alike = (present.keys.get(id) ?? []).filter((key) => key.name === name).length
      if (alike > 1) return `tenant ${id} has ${alike} keys of the name "${name}": rename or revoke all but one`
    }
  }
  return null
}

function objectChanges(
  kind: string,
  path: string,
  { id, ...fields }: Row & { id: string },
  present: readonly Row[],
): Change[] {
  const known = present.find((row) => row.id === id)
  if (known === undefined) return [created(`${kind} ${id}`, { method: 'POST', path, body: { id, ...fields } })]
  return changed(`${kind} ${id}`, `${path}/${at(id)}`, fields, known)
}

function agentChanges(
  { id, region, draining }: { id: string; region: string; draining?: boolean | undefined },
  present: readonly Row[],
): Change[] {
  const known = present.find((row) => row.id === id)
  const made = known === undefined ? [agentCreated(id, region)] : []
  const is_draining = known?.state === 'draining'
  if (draining === undefined || draining === is_draining) return made
  const fields = [{ field: 'draining', before: is_draining, after: draining }]
  const path = `/agents/${at(id)}/${draining ? 'drain' : 'undrain'}`
  return [...made, { action: 'change', object: `agent ${id}`, fields, request: { method: 'POST', path } }]
}

function agentCreated(id: string, region: string): Change {
  return { ...created(`agent ${id}`, { method: 'POST', path: '/agents', body: { id, region } }), secret: 'token' }
}

function tenantChanges({ id, keys = [], class_weights, ...fields }: DesiredTenant, present: Present): Change[] {
  const known = present.tenants.find((row) => row.id === id)
  const { disabled, name, ...others } = fields
  const changes: Change[] = []
  if (known === undefined) {
    const body = { id, name: name ?? id, ...others }
    changes.push(created(`tenant ${id}`, { method: 'POST', path: '/tenants', body }))
  }
  const shown = known === undefined ? { disabled: false } : { ...known, disabled: known.disabled_at !== null }
  // A tenant is made enabled.
  const asked = known === undefined ? { disabled } : fields
  changes.push(...changed(`tenant ${id}`, `/tenants/${at(id)}`, asked, shown))
  const weights = (known?.class_weights ?? {}) as Readonly<Record<string, number>>
  for (const [name_of_class, weight] of Object.entries(class_weights ?? {})) {
    const path = `/classes/${at(id)}/${at(name_of_class)}`
    changes.push(...changed(`class ${id}/${name_of_class}`, path, { weight }, { weight: weights[name_of_class] ?? 1 }))
  }
  return [...changes, ...keys.flatMap((key) => keyChanges(id, key, present.keys.get(id) ?? []))]
}

function keyChanges(
  tenant: string,
  { name, revoked = false, ...grants }: NonNullable<DesiredTenant['keys']>[number],
  present: readonly Row[],
): Change[] {
  const known = present.find((key) => key.name === name)
  const object = `key ${tenant}/${name}`
  const path = `/tenants/${at(tenant)}/keys`
  if (known === undefined) {
    const body = { name, ...grants }
    return revoked ? [] : [{ ...created(object, { method: 'POST', path, body }), secret: 'key' }]
  }
  const one = `${path}/${at(String(known.id))}`
  if (revoked) return [{ action: 'revoke', object, fields: [], request: { method: 'DELETE', path: one } }]
  return changed(object, one, grants, known)
}

function created(object: string, { method, path, body }: { method: 'POST'; path: string; body: Row }): Change {
  const given = Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined))
  const fields = Object.entries(given).map(([field, after]) => ({ field, after }))
  return { action: 'create', object, fields, request: { method, path, body: given } }
}

/** No change where every field that is named is as it is asked. */
function changed(object: string, path: string, asked: Row, known: Row): Change[] {
  const fields = Object.entries(asked)
    .filter(([field, after]) => after !== undefined && !isSame(known[field], after))
    .map(([field, after]) => ({ field, before: known[field] ?? null, after }))
  if (fields.length === 0) return []
  const body = Object.fromEntries(fields.map(({ field, after }) => [field, after]))
  return [{ action: 'change', object, fields, request: { method: 'PATCH', path, body } }]
}

/** Lists of models and regions have no order. */
function isSame(before: unknown, after: unknown): boolean {
  const plain = (value: unknown) => JSON.stringify(Array.isArray(value) ? value.toSorted() : (value ?? null))
  return plain(before) === plain(after)
}
