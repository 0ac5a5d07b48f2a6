/**
 * How many viewers this isolate serves, in all and of one tenant. A viewer whose client left may never say so, so one that has
 * not been written to for a while counts no more.
 */
export const VIEWERS_MAX = 64
export const VIEWERS_PER_TENANT_MAX = 8
export const VIEWER_SILENT_MS = 60_000

export class Viewers {
  readonly #open = new Map<symbol, { owner: string; at_ms: number }>()

  /** Null: there is no room for this owner, or for anybody. */
  open(owner: string, now_ms: number): symbol | null {
    for (const [id, { at_ms }] of this.#open) if (now_ms - at_ms > VIEWER_SILENT_MS) this.#open.delete(id)
    const own = [...this.#open.values()].filter((one) => one.owner === owner).length
    if (this.#open.size >= VIEWERS_MAX || own >= VIEWERS_PER_TENANT_MAX) return null
    const id = Symbol(owner)
    this.#open.set(id, { owner, at_ms: now_ms })
    return id
  }

  written(id: symbol, now_ms: number): void {
    const viewer = this.#open.get(id)
    if (viewer !== undefined) viewer.at_ms = now_ms
  }

  close(id: symbol): void {
    this.#open.delete(id)
  }
}
