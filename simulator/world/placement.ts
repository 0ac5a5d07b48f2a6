/** Draws each program's tenant and region independently, by their shares. A program may name its tenant. */
import { seededRandom } from '../random.ts'
import type { SimulationConfig, TenantConfig } from '../simulation-types.ts'
import type { WorkloadProgram } from '../workloads/program.ts'

/** Placement has a random sequence of its own, apart from workload and arrivals. */
const PLACEMENT_SEED = 0x91ace

/** All, or the one that the program's client names. */
export function tenantsOf({ id, client }: WorkloadProgram, tenants: readonly TenantConfig[]): readonly TenantConfig[] {
  if (client?.tenant === undefined) return tenants
  const named = tenants.filter(({ name }) => name === client.tenant)
  if (named.length === 0) throw new RangeError(`program ${id}: there is no tenant ${client.tenant}`)
  return named
}

export class Placement {
  readonly #config: SimulationConfig
  readonly #random: () => number

  constructor(config: SimulationConfig) {
    this.#config = config
    this.#random = seededRandom(config.seed ^ PLACEMENT_SEED)
  }

  next(program: WorkloadProgram): { tenant: TenantConfig; region: string } {
    const { tenants, regions } = this.#config
    const tenant = this.#draw(tenantsOf(program, tenants), ({ share }) => share)
    return { tenant, region: this.#draw(regions, ({ engines, share = engines }) => share).name }
  }

  #draw<T>(of: readonly T[], shareOf: (one: T) => number): T {
    const random = this.#random()
    const total = of.reduce((sum, one) => sum + shareOf(one), 0)
    let left = random * total
    for (const one of of) {
      left -= shareOf(one)
      if (left < 0) return one
    }
    throw new RangeError('a share must be above 0')
  }
}
