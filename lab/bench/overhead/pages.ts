/** Pages that are open while the load runs: each reads the live events as the operator's browser does, and draws nothing. */
import type { BenchSystem } from './system.ts'

/** Returns what closes them. Throws if one is refused. */
export async function openPages({ port, secrets }: Pick<BenchSystem, 'port' | 'secrets'>, pages: number) {
  const stop = new AbortController()
  const reading = Array.from({ length: pages }, async () => {
    const headers = { authorization: `Bearer ${secrets.adminKey}`, accept: 'text/event-stream' }
    const response = await fetch(`http://127.0.0.1:${port}/page/live`, { headers, signal: stop.signal })
    if (response.body === null || !response.ok) throw new Error(`a page got ${response.status}`)
    return response.body
  })
  const bodies = await Promise.all(reading)
  const read = bodies.map(async (body) => {
    // What it says plays no part: a browser of its own would draw it.
    for await (const _ of body) if (stop.signal.aborted) return
  })
  return async (): Promise<void> => {
    stop.abort()
    await Promise.allSettled(read)
  }
}
