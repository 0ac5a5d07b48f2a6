/** The hosts that lend GPUs: what each said in its hello (stored), its last status and since when it has no link (in memory). */
import { z } from 'zod'
import { HostHello, type HostStatus } from '../../protocol/host.ts'

/** Hosts that are known at a time. Past it the one without a link for longest is forgotten. */
export const HOSTS_MAX = 256
const HOST_PREFIX = 'host:'

const StoredHost = z.object({ hello: HostHello, draining: z.boolean() })

interface Host extends z.infer<typeof StoredHost> {
  status: HostStatus | null
  /** Null: it is linked. */
  lost_ms: number | null
  /** When it was last sent its stage. */
  staged_ms: number
  /** Online calls need its own engines: until then it is not lent. */
  home_until_ms: number
}

export class HostBook {
  readonly #storage: DurableObjectStorage
  readonly #hosts = new Map<string, Host>()

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage
  }

  /** Hosts count as lost from `now_ms` on, but for those that `isLinked`. */
  async restore(now_ms: number, isLinked: (agent: string) => boolean): Promise<void> {
    const rows = await this.#storage.list({ prefix: HOST_PREFIX, limit: HOSTS_MAX })
    for (const value of rows.values()) {
      const stored = StoredHost.safeParse(value)
      if (!stored.success) continue
      const { agent } = stored.data.hello
      const lost_ms = isLinked(agent) ? null : now_ms
      this.#hosts.set(agent, { ...stored.data, status: null, lost_ms, staged_ms: 0, home_until_ms: 0 })
    }
  }

  /** By agent. */
  get all(): Host[] {
    return [...this.#hosts.values()].sort((a, b) => (a.hello.agent < b.hello.agent ? -1 : 1))
  }

  of(agent: string): Host | undefined {
    return this.#hosts.get(agent)
  }

  /** False: there is no room for another host. */
  async joined(hello: HostHello, draining: boolean): Promise<boolean> {
    const { agent } = hello
    const before = this.#hosts.get(agent)
    if (before === undefined && this.#hosts.size >= HOSTS_MAX && !(await this.#forgetOne())) return false
    const { home_until_ms = 0 } = before ?? {}
    const host: Host = { hello, draining, status: null, lost_ms: null, staged_ms: 0, home_until_ms }
    this.#hosts.set(agent, host)
    if (before !== undefined && isSame(before, host)) return true
    await this.#store(host)
    return true
  }

  /** False: it is not newer than the last one. */
  told(agent: string, status: HostStatus): boolean {
    const host = this.#hosts.get(agent)
    if (host === undefined || (host.status !== null && status.seq <= host.status.seq)) return false
    host.status = status
    return true
  }

  left(agent: string, now_ms: number): void {
    const host = this.#hosts.get(agent)
    if (host === undefined) return
    host.lost_ms ??= now_ms
    host.status = null
  }

  async drain(agent: string, draining: boolean): Promise<void> {
    const host = this.#hosts.get(agent)
    if (host === undefined || host.draining === draining) return
    host.draining = draining
    await this.#store(host)
  }

  async forget(agent: string): Promise<void> {
    this.#hosts.delete(agent)
    await this.#storage.delete(HOST_PREFIX + agent)
  }

  async #forgetOne(): Promise<boolean> {
    const lost = this.all.filter(({ lost_ms }) => lost_ms !== null).sort((a, b) => (a.lost_ms ?? 0) - (b.lost_ms ?? 0))
    const [oldest] = lost
    if (oldest === undefined) return false
    await this.forget(oldest.hello.agent)
    return true
  }

  async #store({ hello, draining }: Host): Promise<void> {
    await this.#storage.put(HOST_PREFIX + hello.agent, { hello, draining })
  }
}

function isSame(a: Host, b: Host): boolean {
  return a.draining === b.draining && JSON.stringify(a.hello) === JSON.stringify(b.hello)
}
