/**
 * Miniflare on a workerd that is named. Miniflare alone takes its binary from MINIFLARE_WORKERD_PATH, which this process may
 * have inherited, and waits forever for one that cannot be spawned. Here that is an error with its cause.
 *
 * V8 first collects all garbage of an isolate when its old space has reached a limit. Those in which Miniflare plays D1 and R2
 * keep a few megabytes and reach the default late, and until then the native parts of each request stay, many times as much.
 * So the first limit is lower. V8 sets its later limits by what is in use.
 */
import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { Miniflare, type MiniflareOptions } from 'miniflare'
import { workerdPath } from './workerd-launcher.ts'

const PATH_VARIABLE = 'MINIFLARE_WORKERD_PATH'
const V8_FLAGS_VARIABLE = 'MINIFLARE_WORKERD_V8_FLAGS'
/** In MB. An operator's own flags stand in place of it. */
const V8_FLAGS = '--initial-old-space-size=8'
/** workerd opens its port before it opens a database, so this does not grow with the state. */
const READY_TIMEOUT_MS = 60_000

/** The path is left as it was: processes that this one starts choose their own workerd. V8 flags stay for a workerd that crashed. */
export async function readyMiniflare(
  options: MiniflareOptions,
  workerd: string = workerdPath(),
  timeout_ms: number = READY_TIMEOUT_MS,
): Promise<Miniflare> {
  try {
    await access(workerd, constants.X_OK)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new Error(`workerd cannot be started: ${workerd} is missing or may not be executed (${code})`)
  }
  const inherited = process.env[PATH_VARIABLE]
  process.env[PATH_VARIABLE] = workerd
  process.env[V8_FLAGS_VARIABLE] ??= V8_FLAGS
  const miniflare = new Miniflare(options)
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    const fail = () => reject(new Error(`it was not ready after ${timeout_ms / 1000} s`))
    timer = setTimeout(fail, timeout_ms)
  })
  try {
    await Promise.race([miniflare.ready, late])
    return miniflare
  } catch (error) {
    // One that never was ready may not end either. The process that started it exits.
    void miniflare.dispose().catch(() => undefined)
    throw new Error(`workerd (${workerd}) did not start: ${(error as Error).message}`, { cause: error })
  } finally {
    clearTimeout(timer)
    restore(inherited)
  }
}

/** For a process whose Miniflare must start the same workerd again after a crash. */
export function restartWith(workerd: string): void {
  process.env[PATH_VARIABLE] = workerd
}

function restore(inherited: string | undefined): void {
  if (inherited === undefined) delete process.env[PATH_VARIABLE]
  else process.env[PATH_VARIABLE] = inherited
}
