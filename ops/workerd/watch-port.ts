/**
 * Whether something still listens. Miniflare starts a workerd that crashed once more, and where that fails too, on a full disk
 * for one, it leaves the process without a workerd.
 */
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

const CONNECT_MS_MAX = 5_000

export interface PortWatch {
  look_ms: number
  /** So long a restart may take. */
  refused_ms_max: number
}

/** Resolves once every connection was refused for `refused_ms_max`. A listener that is only busy does not refuse. */
export async function untilRefused(port: number, host: string, { look_ms, refused_ms_max }: PortWatch): Promise<void> {
  let refused_since_ms: number | null = null
  for (;;) {
    const now_ms = performance.now()
    if (!(await isRefused(port, host))) refused_since_ms = null
    else if (refused_since_ms === null) refused_since_ms = now_ms
    else if (now_ms - refused_since_ms >= refused_ms_max) return
    await sleep(look_ms, undefined, { ref: false })
  }
}

function isRefused(port: number, host: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: reachable(host) })
    const end = (refused: boolean): void => {
      socket.destroy()
      resolve(refused)
    }
    socket.once('connect', () => end(false))
    socket.once('error', ({ code }: NodeJS.ErrnoException) => end(code === 'ECONNREFUSED'))
    socket.setTimeout(CONNECT_MS_MAX, () => end(false))
  })
}

/** Of a host to listen on. */
function reachable(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1'
  return host === '::' ? '::1' : host
}
