/**
 * What tenants hold open in this isolate. An open call and a program in memory hold files of the runtime: sockets and
 * databases. On one machine one process serves every tenant, and at its limit of open files workerd ends, with the calls of
 * all. So what is held together stays within that limit, and no tenant takes the last quarter. An isolate of Cloudflare has
 * no such limit; there each tenant has its bound of open calls alone.
 *
 * Measured in workerd: a stream takes 7 files. A program in memory takes 1 to 2, and workerd lets go of one that was left
 * alone for 10 s. So a flood of new ids is slowed to the pace at which old ones are let go. A program in use goes on.
 */

/** Of one tenant, with any number of files. */
export const OPEN_CALLS_PER_TENANT_MAX = 1000
/** workerd looks for objects that were left alone for 10 s every few seconds. */
export const PROGRAM_IN_MEMORY_MS = 15_000
const FILES_PER_CALL = 7
const FILES_PER_PROGRAM = 2
/** The runtime itself holds fewer than 100. Links, pools and tenants need some. */
const FILES_RESERVED = 512
const TENANT_SHARE = 0.75

interface Held {
  calls: number
  files: number
}

export class FileBudget {
  readonly #files_max: number
  readonly #tenants = new Map<string, Held>()
  #files = 0
  /** Programs used of late, with their tenants. The one used longest ago comes first. */
  readonly #programs = new Map<string, { tenant: string; at_ms: number }>()

  /** `open_files`: that the process may have. Null: there is no limit. */
  constructor(open_files: number | null) {
    this.#files_max = Math.max(0, (open_files ?? Number.POSITIVE_INFINITY) - FILES_RESERVED)
  }

  /** False: the tenant has as many open calls as it may, or there are too many in all. */
  enterCall(tenant: string): boolean {
    if ((this.#tenants.get(tenant)?.calls ?? 0) >= OPEN_CALLS_PER_TENANT_MAX) return false
    return this.#take(tenant, FILES_PER_CALL, 1)
  }

  /** Once for each call that entered. */
  leaveCall(tenant: string): void {
    this.#giveBack(tenant, FILES_PER_CALL, 1)
  }

  /** False: this program is not in memory, another one has no room, and the request must not reach it. */
  useProgram(tenant: string, program: string, now_ms: number): boolean {
    if (this.#files_max === Number.POSITIVE_INFINITY) return true
    this.#forgetOld(now_ms)
    const key = JSON.stringify([tenant, program])
    if (!this.#programs.delete(key) && !this.#take(tenant, FILES_PER_PROGRAM, 0)) return false
    this.#programs.set(key, { tenant, at_ms: now_ms })
    return true
  }

  #take(tenant: string, files: number, calls: number): boolean {
    const held = this.#tenants.get(tenant) ?? { calls: 0, files: 0 }
    const isOver = held.files + files > this.#files_max * TENANT_SHARE
    if (isOver || this.#files + files > this.#files_max) return false
    this.#tenants.set(tenant, { calls: held.calls + calls, files: held.files + files })
    this.#files += files
    return true
  }

  #giveBack(tenant: string, files: number, calls: number): void {
    const held = this.#tenants.get(tenant)
    if (held === undefined) return
    this.#files -= files
    if (held.files === files) this.#tenants.delete(tenant)
    else this.#tenants.set(tenant, { calls: held.calls - calls, files: held.files - files })
  }

  #forgetOld(now_ms: number): void {
    for (const [key, { tenant, at_ms }] of this.#programs) {
      // A clock that was set back must not keep what it finds in the future.
      if (Math.abs(now_ms - at_ms) < PROGRAM_IN_MEMORY_MS) return
      this.#programs.delete(key)
      this.#giveBack(tenant, FILES_PER_PROGRAM, 0)
    }
  }
}
