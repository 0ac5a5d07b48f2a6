/**
 * The loans and the epochs of stages, as they are stored. Each write is one value, so a restart finds a loan as it was before or after a change. A
 * restarted object counts every loan as asked for at that moment, since the question that would have kept it may have met no object.
 */
import { z } from 'zod'
import { Loan, loanEndsMs } from '../../core/hosts/loan.ts'

/** Loans that have hosts, or wait for them. */
export const LOANS_MAX = 256
/** Plans that nothing runs yet. Past either, the oldest plan (of the tenant, of all) is forgotten. */
export const PLANS_MAX = 256
export const PLANS_PER_TENANT_MAX = 16
const EPOCH_KEY = 'epoch'
const LOAN_PREFIX = 'loan:'

export class LoanBook {
  readonly #storage: DurableObjectStorage
  readonly #loans = new Map<string, Loan>()
  #epoch = 0

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage
  }

  async restore(now_ms: number): Promise<void> {
    this.#epoch = z
      .number()
      .catch(0)
      .parse(await this.#storage.get(EPOCH_KEY))
    const rows = await this.#storage.list({ prefix: LOAN_PREFIX, limit: LOANS_MAX + PLANS_MAX })
    for (const [key, value] of rows) {
      const loan = Loan.safeParse(value)
      if (loan.success) this.#loans.set(key, { ...loan.data, asked_ms: now_ms })
    }
  }

  get all(): Loan[] {
    return [...this.#loans.values()]
  }

  of({ tenant, application }: { tenant: string; application: string }): Loan | undefined {
    return this.#loans.get(keyOf(tenant, application))
  }

  /** Of the host that is lent, and only then. */
  lentTo(agent: string): Loan | undefined {
    return this.all.find(({ state, hosts }) => state === 'lent' && hosts.some((host) => host.agent === agent))
  }

  /** Loans that were not asked for in time. */
  ended(now_ms: number): Loan[] {
    return this.all.filter((loan) => loanEndsMs(loan) <= now_ms)
  }

  /** When the first loan ends by itself. Null: there is none. */
  get ends_ms(): number | null {
    return this.#loans.size === 0 ? null : Math.min(...this.all.map(loanEndsMs))
  }

  async put(loan: Loan): Promise<void> {
    const key = keyOf(loan.tenant, loan.application)
    this.#loans.set(key, loan)
    const plans = this.all.filter(({ state }) => state === 'planned').sort((a, b) => a.since_ms - b.since_ms)
    const of_tenant = plans.filter(({ tenant }) => tenant === loan.tenant)
    const surplus = [...of_tenant.slice(0, -PLANS_PER_TENANT_MAX), ...plans.slice(0, -PLANS_MAX)]
    for (const oldest of surplus) await this.delete(oldest)
    await this.#storage.put(key, loan)
  }

  /** Loans that have hosts, or wait for them. */
  get running(): number {
    return this.all.filter(({ state }) => state !== 'planned').length
  }

  async delete({ tenant, application }: Loan): Promise<void> {
    const key = keyOf(tenant, application)
    this.#loans.delete(key)
    await this.#storage.delete(key)
  }

  /** No stage has had it. */
  async nextEpoch(): Promise<number> {
    this.#epoch += 1
    const epoch = this.#epoch
    await this.#storage.put(EPOCH_KEY, epoch)
    return epoch
  }

  get epoch(): number {
    return this.#epoch
  }
}

function keyOf(tenant: string, application: string): string {
  return `${LOAN_PREFIX}${JSON.stringify([tenant, application])}`
}
