/**
 * Agents that have stated usage that cannot be. A chat or completions stream flows from an agent to its client unread
 * (stream.ts), and only its last event is looked at. From the first nonsense on this isolate reads the streams of that agent
 * event by event, and their clients get sound usage only.
 */

/** An agent that was set right is read for this long. Reading costs CPU and changes nothing else. */
export const DOUBTED_MS = 60 * 60_000
/** Past it the agent that was doubted longest ago is forgotten. */
export const DOUBTED_AGENTS_MAX = 1024

export class DoubtedAgents {
  readonly #since = new Map<string, number>()

  doubt(agent: string, now_ms: number): void {
    this.#since.delete(agent)
    this.#since.set(agent, now_ms)
    for (const oldest of this.#since.keys()) {
      if (this.#since.size <= DOUBTED_AGENTS_MAX) return
      this.#since.delete(oldest)
    }
  }

  has(agent: string, now_ms: number): boolean {
    const since_ms = this.#since.get(agent)
    return since_ms !== undefined && now_ms - since_ms < DOUBTED_MS
  }
}
