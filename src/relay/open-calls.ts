/**
 * Open calls of each tenant in this isolate. Each holds sockets and files of the runtime, which all tenants share: on one
 * machine 500 streams of one tenant took 3,576 files of workerd, and at its limit it ends. So no tenant holds more than its
 * part, at any number of calls a minute.
 */

/** About 7,000 files in workerd. */
export const OPEN_CALLS_PER_TENANT_MAX = 1000

export class OpenCalls {
  readonly #max: number
  readonly #open = new Map<string, number>()

  constructor(max: number = OPEN_CALLS_PER_TENANT_MAX) {
    this.#max = max
  }

  /** False: the tenant holds as many as it may. */
  enter(tenant: string): boolean {
    const open = this.#open.get(tenant) ?? 0
    if (open >= this.#max) return false
    this.#open.set(tenant, open + 1)
    return true
  }

  /** Once for each call that entered. */
  leave(tenant: string): void {
    const open = this.#open.get(tenant) ?? 0
    if (open > 1) this.#open.set(tenant, open - 1)
    else this.#open.delete(tenant)
  }
}
