/** Calls to a fleet, and the question that every fault test ends with: has everything been settled, once? */
import { expect } from 'vitest'
import type { ClientCall } from '../../../scripts/chaos/client.ts'
import type { Fleet } from '../../../scripts/chaos/fleet.ts'
import { differences, readLedgers, readProgram, type Tenant, unsettled } from '../../../scripts/chaos/ledger.ts'
import { eventually } from './system.ts'

export const MODEL = 'emulated-8b'

export function localTenant(fleet: Fleet): Tenant {
  return { tenant: 'local', apiKey: fleet.secrets.apiKey }
}

export function callOf(
  fleet: Fleet,
  program: string | null,
  options: Partial<Pick<ClientCall, 'stream' | 'output_tokens' | 'prompt' | 'signal' | 'headers'>>,
): ClientCall {
  const { url, secrets } = fleet
  const defaults = { prompt: `The work of ${program}.`, output_tokens: 8, stream: false }
  return { url, api_key: secrets.apiKey, model: MODEL, program, ...defaults, ...options }
}

/** Every lease has its record, every record is acknowledged, no call is open, and table and ledgers agree. */
export async function reconciled(
  fleet: Fleet,
  tenants: readonly Tenant[],
  programs: readonly string[],
  timeout_ms = 30_000,
): Promise<void> {
  await eventually(
    'every lease is settled and acknowledged',
    () => {
      const { open_leases, unacknowledged } = unsettled(fleet)
      return open_leases + unacknowledged === 0 || undefined
    },
    timeout_ms,
  )
  const ledger = readLedgers(fleet)
  for (const tenant of tenants) {
    for (const program of programs) {
      const own = ledger.filter((lease) => lease.tenant === tenant.tenant && lease.program === program)
      const read = await eventually(
        `no call of ${program} is open`,
        async () => {
          const found = await readProgram(fleet, tenant, program)
          return found !== null && found.summary.open_calls === 0 ? found : undefined
        },
        timeout_ms,
      )
      expect(differences(program, own, read)).toEqual([])
      const open = read.calls.flatMap(({ leases }) => leases).filter(({ state }) => state === 'open')
      expect(open, `open leases of ${program}`).toEqual([])
    }
  }
}
