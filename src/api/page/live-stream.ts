/**
 * The events of one viewer as a stream (text/event-stream). The next one is made only when the last has been read, so a slow
 * client gets fewer and larger ones. The viewer's key is checked again for each, and a stream ends with its key.
 */
import type { LiveEvent } from '../../protocol/live.ts'
import { REFRESH_EVERY_MS } from './live-source.ts'

/** A client that left is noticed by a write that fails, and proxies cut streams that are silent. */
const HEARTBEAT_MS = 10_000
/** A stream ends after this long, and the page opens another. */
export const STREAM_MS_MAX = 30 * 60_000

export interface LiveStreamParts {
  next: (now_ms: number) => Promise<LiveEvent>
  /** False: the key opens nothing any more. */
  isAllowed: (now_ms: number) => Promise<boolean>
  written: (now_ms: number) => void
  closed: () => void
  signal: AbortSignal
}

export function liveStream({ next, isAllowed, written, closed, signal }: LiveStreamParts): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  const begun_ms = Date.now()
  let written_ms = 0
  let last: LiveEvent | null = null
  signal.addEventListener('abort', closed)
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        for (;;) {
          if (last !== null) await new Promise((resolve) => setTimeout(resolve, REFRESH_EVERY_MS))
          const now_ms = Date.now()
          if (signal.aborted || now_ms - begun_ms > STREAM_MS_MAX || !(await isAllowed(now_ms))) {
            closed()
            return controller.close()
          }
          const event = await next(now_ms)
          const isSilent = last !== null && !says(last, event)
          last = event
          if (isSilent && now_ms - written_ms < HEARTBEAT_MS) continue
          written_ms = now_ms
          written(now_ms)
          return controller.enqueue(encoder.encode(`data: ${JSON.stringify(event)}\n\n`))
        }
      },
      cancel: closed,
    },
    { highWaterMark: 0 },
  )
}

/** Whether the event tells anything that the last one did not. */
function says(last: LiveEvent, event: LiveEvent): boolean {
  if (event.pools !== null || event.tenants.length !== last.tenants.length) return true
  return event.tenants.some((tenant, at) => {
    const { changed, gone, reset, running, reachable, output_tokens_per_s, service_share } = tenant
    const before = last.tenants[at]
    const moved = before?.output_tokens_per_s !== output_tokens_per_s || before.service_share !== service_share
    return (
      reset || changed.length + gone.length > 0 || moved || before.running !== running || before.reachable !== reachable
    )
  })
}
