/**
 * One child process in a tester's hands: started, waited for, signalled, ended and started again. The end of its output is
 * kept, so that a failure shows its cause.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { createWriteStream } from 'node:fs'
import { writePidFile } from '../../ops/system/guard.ts'
import { type ChildEvent, lineReader, parseEvent } from '../../ops/system/line-reader.ts'

const READY_TIMEOUT_MS = 180_000
const END_GRACE_MS = 10_000
const OUTPUT_CHARS_MAX = 8_000
/** A process of the child's own can hold its pipes open after the child has exited. */
const PIPES_CLOSE_MS = 500

export interface ChildOptions<Ready extends string> {
  name: string
  /** Default: this Node. */
  command?: string
  args: readonly string[]
  /** Added to this process's own. */
  env?: Readonly<Record<string, string>>
  /** False: it gets `env` alone. Default: true. */
  inherit_env?: boolean
  cwd?: string
  /** The events, printed as JSON lines, that must all have come before `start` resolves. Default: none. */
  ready?: readonly Ready[]
  ready_timeout_ms?: number
  /** Receives all output, appended. */
  logFile?: string
  /** Receives a pid file, by which a guard (ops/system/guard.ts) ends the child if this process dies. */
  runFolder?: string
  /** Gives it a process group, which is signalled as a whole: for children that have processes of their own. */
  group?: boolean
  onLine?: (line: string) => void
  /** A longer line is passed on in pieces. */
  line_chars_max?: number
  /** Opens its stdin for `write`. */
  writable?: boolean
}

export class ManagedChild<Ready extends string = never> {
  readonly name: string
  readonly #options: ChildOptions<Ready>
  #process: ChildProcess | null = null
  #ended: Promise<number | null> = Promise.resolve(null)
  #output = ''

  constructor(options: ChildOptions<Ready>) {
    this.name = options.name
    this.#options = options
  }

  /** Null while it does not run. */
  get pid(): number | null {
    const child = this.#process
    return child === null || child.exitCode !== null || child.signalCode !== null ? null : (child.pid ?? null)
  }

  /** The end of what it has printed since its last start. */
  get output(): string {
    return this.#output
  }

  /** Of the last start: resolves with the exit code, or null if a signal ended it. */
  get ended(): Promise<number | null> {
    return this.#ended
  }

  /** Resolves with its ready events. Rejects if it prints `failed`, ends, or takes too long; the message has its output. */
  async start(): Promise<Record<Ready, ChildEvent>> {
    if (this.pid !== null) throw new Error(`${this.name} is already running`)
    const { ready = [], ready_timeout_ms = READY_TIMEOUT_MS, runFolder } = this.#options
    const told = new Map<string, ChildEvent>()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const fail = (what: string) => reject(new Error(`${this.name} ${what}. The end of its output:\n${this.#output}`))
    this.#spawn((event) => {
      if (!told.has(event.event)) told.set(event.event, event)
      if (event.event === 'failed') fail('failed')
      else if (ready.every((name) => told.has(name))) resolve()
    })
    if (ready.length === 0) resolve()
    void this.#ended.then((code) => fail(`ended with ${code ?? 'a signal'}`))
    const timer = setTimeout(() => fail(`was not ready within ${ready_timeout_ms / 1000} s`), ready_timeout_ms)
    try {
      if (runFolder !== undefined && this.pid !== null) await writePidFile(runFolder, this.name, this.pid)
      await promise
    } finally {
      clearTimeout(timer)
    }
    return Object.fromEntries(told) as Record<Ready, ChildEvent>
  }

  /** A line to its stdin. */
  write(line: string): void {
    this.#process?.stdin?.write(`${line}\n`)
  }

  signal(signal: NodeJS.Signals): void {
    const pid = this.#process?.pid
    if (pid === undefined) return
    try {
      if (this.#options.group) process.kill(-pid, signal)
      else if (this.pid !== null) process.kill(pid, signal)
    } catch (error) {
      // It has ended, or its group is empty.
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
  }

  /** Resolves when it is gone; at once if it does not run. SIGKILL follows after `grace_ms`. */
  async end(signal: NodeJS.Signals = 'SIGTERM', grace_ms: number = END_GRACE_MS): Promise<void> {
    if (this.#process === null) return
    const timer = setTimeout(() => this.signal('SIGKILL'), grace_ms)
    if (this.pid !== null) this.signal(signal)
    await this.#ended
    clearTimeout(timer)
    // Processes of its group that outlived it.
    if (this.#options.group) this.signal('SIGKILL')
  }

  #spawn(onEvent: (event: ChildEvent) => void): void {
    const {
      command = process.execPath,
      args,
      env,
      inherit_env = true,
      cwd,
      logFile,
      group = false,
      onLine,
      line_chars_max,
      writable,
    } = this.#options
    const child = spawn(command, args, {
      stdio: [writable ? 'pipe' : 'ignore', 'pipe', 'pipe'],
      env: { ...(inherit_env ? process.env : {}), ...env },
      ...(cwd === undefined ? {} : { cwd }),
      detached: group,
    })
    this.#process = child
    this.#output = ''
    const log = logFile === undefined ? null : createWriteStream(logFile, { flags: 'a', mode: 0o600 })
    // A full disk takes the log, and nothing else, from the test that filled it.
    log?.on('error', () => undefined)
    const keep = (text: string): void => {
      this.#output = (this.#output + text).slice(-OUTPUT_CHARS_MAX)
      log?.write(text)
    }
    const lines = lineReader((line) => {
      onLine?.(line)
      const event = parseEvent(line)
      if (event !== null) onEvent(event)
    }, line_chars_max)
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      keep(text)
      lines(text)
    })
    child.stderr?.setEncoding('utf8').on('data', keep)
    // A write after its end: `ended` tells of the end.
    child.stdin?.on('error', () => undefined)
    child.once('error', (error) => keep(`${error.message}\n`))
    this.#ended = endOf(child).finally(() => log?.end())
  }
}

/** With what it printed, as far as its pipes close soon. */
async function endOf(child: ChildProcess): Promise<number | null> {
  const closed = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  await Promise.race([closed, exited])
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, PIPES_CLOSE_MS)
  })
  await Promise.race([closed, late])
  clearTimeout(timer)
  return child.exitCode
}
