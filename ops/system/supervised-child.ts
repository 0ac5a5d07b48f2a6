/**
 * One child of the supervisor: started, watched until it says that it is ready, and started again when it dies, after a
 * delay that doubles from 0.25 s to 10 s and begins anew once a run has lasted STEADY_MS. A child that dies before it was
 * ever ready, or says that its configuration is wrong (exit 78), is not restarted: that is a mistake to show, not a fault to
 * ride out.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { EXIT_CONFIG } from './explain-error.ts'
import { removePidFile, writePidFile } from './guard.ts'
import { type ChildEvent, lineReader, parseEvent } from './line-reader.ts'
import { LogFile, logTail } from './log-file.ts'

export const BACKOFF_FIRST_MS = 250
export const BACKOFF_MAX_MS = 10_000
const STEADY_MS = 30_000
const TAIL_LINES = 20
/** What a log says where a run begins. */
const STARTS = ') starts\n'

export interface ChildSpec {
  name: string
  args: readonly string[]
  env: Readonly<Record<string, string>>
  logFile: string
  /** Folder of pid files (guard.ts). */
  runFolder: string
  ready_timeout_ms: number
  /** Every event that the child prints, `ready` included, at its first start and after restarts. */
  onEvent: (event: ChildEvent, pid: number) => void
  /** At every unexpected death. Null: it is not started again. */
  onDeath: (what: string, restart_in_ms: number | null) => void
}

export function backoff_ms(deathsInARow: number): number {
  return Math.min(BACKOFF_MAX_MS, BACKOFF_FIRST_MS * 2 ** Math.min(deathsInARow, 20))
}

export function deathNote(name: string, what: string, restart_in_ms: number | null): string {
  return `${name} ${what}; it ${restart_in_ms === null ? 'is not started again' : `starts again in ${restart_in_ms / 1000} s`}`
}

export class SupervisedChild {
  readonly #spec: ChildSpec
  readonly #log: LogFile
  #child: ChildProcess | null = null
  #ended: Promise<void> = Promise.resolve()
  #restart: NodeJS.Timeout | null = null
  #deathsInARow = 0
  #stopping = false

  constructor(spec: ChildSpec) {
    this.#spec = spec
    this.#log = new LogFile(spec.logFile)
  }

  /** Resolves at the first `ready`; rejects, with the end of the log, if the child dies or stays silent before it. */
  async start(): Promise<void> {
    const { name, logFile, ready_timeout_ms } = this.#spec
    const failure = await new Promise<string | null>((resolve) => {
      const timer = setTimeout(() => resolve(`is not ready after ${ready_timeout_ms / 1000} s`), ready_timeout_ms)
      this.#run(
        () => resolve(null),
        (what) => resolve(what),
      )
      this.#ended.finally(() => clearTimeout(timer))
    })
    if (failure === null) return
    const tail = (await logTail(logFile, TAIL_LINES)).split(STARTS).at(-1)?.trim()
    throw new Error(`${name} ${failure}. The end of ${logFile}:\n${tail}`)
  }

  /** Asks the child to end; ends it when it has not within `grace_ms`. */
  async stop(grace_ms: number): Promise<void> {
    this.#stopping = true
    if (this.#restart !== null) clearTimeout(this.#restart)
    const timer = setTimeout(() => this.#child?.kill('SIGKILL'), grace_ms)
    this.#child?.kill('SIGTERM')
    await this.#ended
    clearTimeout(timer)
    this.#log.close()
  }

  #run(onFirstReady: (() => void) | null, onEarlyDeath: ((what: string) => void) | null): void {
    const { name, args, env, runFolder, onEvent } = this.#spec
    const started_ms = performance.now()
    let ready = onFirstReady === null
    const child = spawn(process.execPath, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...env },
      // Of its own process group: Ctrl-C reaches the supervisor alone, which ends its children in order.
      detached: true,
    })
    this.#child = child
    this.#log.write(`--- ${new Date().toISOString()} ${name} (pid ${child.pid ?? 'none'}${STARTS}`)
    const pidWritten = child.pid === undefined ? Promise.resolve() : writePidFile(runFolder, name, child.pid)
    const lines = lineReader((line) => {
      const event = parseEvent(line)
      if (event === null || child.pid === undefined) return
      onEvent(event, child.pid)
      if (event.event !== 'ready') return
      ready = true
      onFirstReady?.()
    })
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.#log.write(text)
      lines(text)
    })
    child.stderr.on('data', (chunk: Buffer) => this.#log.write(chunk))
    this.#ended = new Promise((resolve) => {
      let settled = false
      const end = async (what: string, code: number | null = null) => {
        if (settled) return
        settled = true
        this.#child = null
        await pidWritten
        await removePidFile(runFolder, name)
        this.#log.write(`--- ${new Date().toISOString()} ${name} ${what}\n`)
        if (!ready && onEarlyDeath !== null) onEarlyDeath(what)
        else if (!this.#stopping && code === EXIT_CONFIG) this.#spec.onDeath(what, null)
        else if (!this.#stopping) this.#restartLater(what, performance.now() - started_ms)
        resolve()
      }
      child.on('error', (error) => void end(`could not be started: ${error.message}`))
      child.on('close', (code, signal) => {
        void end(signal === null ? `exited with ${code}` : `was ended by ${signal}`, code)
      })
    })
  }

  #restartLater(what: string, lasted_ms: number): void {
    if (lasted_ms > STEADY_MS) this.#deathsInARow = 0
    const delay_ms = backoff_ms(this.#deathsInARow)
    this.#deathsInARow += 1
    this.#spec.onDeath(what, delay_ms)
    this.#restart = setTimeout(() => this.#run(null, null), delay_ms)
  }
}
