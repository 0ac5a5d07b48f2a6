/**
 * Miniflare on a workerd that is named. Miniflare alone takes its binary from MINIFLARE_WORKERD_PATH, which this process may
 * have inherited, and waits forever for one that cannot be spawned. Here that is an error with its cause.
 */
import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { Miniflare, type MiniflareOptions } from 'miniflare'
import { workerdPath } from './workerd-launcher.ts'

const VARIABLE = 'MINIFLARE_WORKERD_PATH'
/** workerd opens its port before it opens a database, so this does not grow with the state. */
const READY_TIMEOUT_MS = 60_000

/** The environment is left as it was: processes that this one starts choose their own workerd. */
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
  const inherited = process.env[VARIABLE]
  process.env[VARIABLE] = workerd
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
  process.env[VARIABLE] = workerd
}

function restore(inherited: string | undefined): void {
  if (inherited === undefined) delete process.env[VARIABLE]
  else process.env[VARIABLE] = inherited
}
