/** What to do about a refusal of the API, by its code: the command or flag that helps. */

type Role = 'operator' | 'tenant'
type Steps = Readonly<Partial<Record<Role, string>>>

const SHOWN_HERE = '`switchyard status --show-key` shows that of a system here'

const STEPS: Readonly<Record<string, Steps>> = {
  missing_api_key: { tenant: `Give one with --api-key or SWITCHYARD_API_KEY; ${SHOWN_HERE}` },
  invalid_api_key: {
    tenant: `Give another with --api-key or SWITCHYARD_API_KEY; ${SHOWN_HERE}, and an operator makes one with \`switchyard keys create TENANT\``,
  },
  invalid_admin_key: { operator: `Give another with --admin-key or SWITCHYARD_ADMIN_KEY; ${SHOWN_HERE}` },
  tenant_disabled: { tenant: 'An operator enables it with `switchyard tenants enable TENANT`' },
  program_not_found: {
    tenant: '`switchyard ps --all` lists the tenant’s programs',
    operator: '`switchyard programs list TENANT` lists a tenant’s programs',
  },
  file_not_found: { tenant: '`switchyard files list` lists the tenant’s files' },
  batch_not_found: { tenant: '`switchyard batches list` lists the tenant’s batches' },
  application_not_found: { tenant: '`switchyard apps list` lists the tenant’s applications' },
  tenant_not_found: { operator: '`switchyard tenants list` lists tenants' },
  key_not_found: { operator: '`switchyard keys list TENANT` lists a tenant’s keys by id' },
  agent_not_found: { operator: '`switchyard agents list` lists agents' },
  model_not_found: { operator: '`switchyard models list` lists models' },
  region_not_found: { operator: '`switchyard regions list` lists regions' },
}

/** Null: the message says it all. */
export function nextStep(code: string | null, role: Role): string | null {
  return (code === null ? undefined : STEPS[code]?.[role]) ?? null
}
