/** Whose data a view of the operator shows. */
interface Choice {
  tenants: readonly string[]
  tenant: string
  choose: (tenant: string) => void
}

export function TenantChoice({ tenants, tenant, choose }: Choice) {
  return (
    <label>
      Tenant
      <select value={tenant} onChange={(e) => choose((e.target as HTMLSelectElement).value)}>
        {tenants.map((id) => (
          <option key={id} value={id}>
            {id}
          </option>
        ))}
      </select>
    </label>
  )
}
