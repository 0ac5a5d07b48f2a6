/**
 * One process of vLLM: its API server and the engine processes that it starts, in a session and a group of their own, so that
 * they outlive the agent and can be ended together (engine processes of 0.32.0 go on when their API server is killed). Every
 * start writes state.json before anything else happens, so whenever the agent dies the next one finds what it left.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { closeSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { groupMembers, sharedMemoryOf, signalGroup, signalProcess, startOf } from './process-group.ts'
import type { VllmEnd } from './vllm-failure.ts'
import type { Environment, VllmHost } from './vllm-host.ts'
import { commandOf, fingerprintOf, type VllmPlace, type VllmWish } from './vllm-launch.ts'
import { openLog } from './vllm-log.ts'
import { removeState, type VllmState, writeState } from './vllm-state.ts'

/** A Unix socket's path has room for so many bytes in every system's sockaddr_un; the plug-in refuses longer ones. */
export const SOCKET_PATH_BYTES_MAX = 103
/** After SIGTERM, before SIGKILL. Its calls have ended or been cancelled by then: this is for freeing memory. */
export const STOP_MS_MAX = 15_000
/** After the leader has ended, for the processes that it started to end by themselves. */
const GROUP_GRACE_MS = 2000
/** After SIGKILL, for the kernel to take a process down; one in an uninterruptible wait may need longer. */
const KILL_MS_MAX = 20_000
const POLL_MS = 50

export const logOf = (folder: string): string => join(folder, 'vllm.log')

export class VllmRun {
  #state: VllmState
  readonly folder: string
  #child: ChildProcess | null = null
  #exit: VllmEnd['exit'] = null

  /** A process that a former agent started. */
  constructor(folder: string, state: VllmState) {
    this.folder = folder
    this.#state = state
  }

  get state(): VllmState {
    return this.#state
  }

  /** Throws when the process cannot be made at all. */
  static async start(
    folder: string,
    { wish, host, gpus, env }: { wish: VllmWish; host: VllmHost; gpus: readonly number[]; env: Environment },
  ): Promise<VllmRun> {
    const place: VllmPlace = {
      port: await freePort(),
      socket: socketPath(folder),
      api_key: randomBytes(32).toString('base64url'),
    }
    const command = commandOf(wish, host, gpus, place, env)
    const log = openLog(logOf(folder), new Date().toISOString())
    try {
      const stdio = ['ignore', log, log] as const
      const child = spawn(wish.python, command.args, { detached: true, stdio: [...stdio], env: command.env })
      await spawned(child)
      const pid = child.pid ?? 0
      const run = new VllmRun(folder, {
        v: 1,
        pid,
        // One that has ended already is seen by its exit.
        started: startOf(pid) ?? 'ended',
        ...place,
        fingerprint: fingerprintOf(wish, host, gpus, env),
        scheduler: wish.scheduler,
        shared_memory: [],
        started_at_ms: Date.now(),
      })
      writeState(folder, run.state)
      run.#watch(child)
      return run
    } finally {
      closeSync(log)
    }
  }

  get url(): string {
    return `http://127.0.0.1:${this.state.port}`
  }

  get alive(): boolean {
    if (this.#child !== null) return this.#exit === null
    return startOf(this.state.pid) === this.state.started
  }

  /** null: it has not ended, or it is not known how. */
  get exit(): VllmEnd['exit'] {
    return this.#exit
  }

  /** What it has now is removed when it is ended, by this agent or by one that finds it. */
  noteSharedMemory(): void {
    const shared_memory = [...new Set([...this.#state.shared_memory, ...sharedMemoryOf(this.#state.pid)])]
    if (shared_memory.length === this.#state.shared_memory.length) return
    this.#state = { ...this.#state, shared_memory }
    writeState(this.folder, this.#state)
  }

  /**
   * Ends all its processes and removes what it left: the signal (SIGABRT to all, so that each writes its threads' stacks), then
   * SIGKILL after `grace_ms`. Resolves with the pids that even that did not end.
   */
  async end(signal: 'SIGTERM' | 'SIGABRT' | 'SIGKILL', grace_ms: number): Promise<number[]> {
    const { pid } = this.state
    if (this.#isOurs()) {
      this.noteSharedMemory()
      if (signal === 'SIGTERM') signalProcess(pid, signal)
      else signalGroup(pid, signal)
      await until(() => !this.alive, grace_ms)
      const patience_ms = signal === 'SIGTERM' && !this.alive ? GROUP_GRACE_MS : 0
      await until(() => groupMembers(pid).length === 0, patience_ms)
    }
    const left = this.#isOurs() ? await this.#kill() : []
    this.#clean()
    return left
  }

  /** At once, for an agent that ends in this very moment. */
  killNow(): void {
    if (this.#isOurs()) signalGroup(this.state.pid, 'SIGKILL')
    this.#clean()
  }

  async #kill(): Promise<number[]> {
    const { pid } = this.state
    signalGroup(pid, 'SIGKILL')
    await until(() => groupMembers(pid).length === 0, KILL_MS_MAX)
    return groupMembers(pid)
  }

  /** Whether the group with this id can be ours. A leader of another start, or another boot, says that it is not. */
  #isOurs(): boolean {
    const { pid, started } = this.state
    const now = startOf(pid)
    if (now !== null) return now === started
    return this.#child !== null || bootOf(started) === bootOf(startOf(process.pid) ?? '')
  }

  #clean(): void {
    const { socket, shared_memory } = this.state
    for (const file of shared_memory) rmSync(file, { force: true })
    rmSync(socket, { force: true })
    if (dirname(socket) !== resolve(this.folder)) rmSync(dirname(socket), { recursive: true, force: true })
    removeState(this.folder)
  }

  #watch(child: ChildProcess): void {
    this.#child = child
    if (child.exitCode !== null || child.signalCode !== null) {
      this.#exit = { code: child.exitCode, signal: child.signalCode }
    }
    child.on('exit', (code, signal) => {
      this.#exit = { code, signal }
    })
    child.unref()
  }
}

function bootOf(started: string): string {
  return started.split(':', 1)[0] ?? ''
}

async function until(holds: () => boolean, ms_max: number): Promise<void> {
  const give_up_ms = performance.now() + ms_max
  while (!holds() && performance.now() < give_up_ms) await sleep(POLL_MS)
}

function spawned(child: ChildProcess): Promise<void> {
  return new Promise((done, failed) => {
    child.on('spawn', done)
    child.on('error', failed)
  })
}

/** In the engine's own folder where it fits, else in a folder of its own that this account alone can enter. */
function socketPath(folder: string): string {
  const wanted = join(resolve(folder), 'engine.sock')
  if (Buffer.byteLength(wanted) <= SOCKET_PATH_BYTES_MAX) return wanted
  const short = join(tmpdir(), 'switchyard-')
  return join(mkdtempSync(Buffer.byteLength(short) < SOCKET_PATH_BYTES_MAX - 16 ? short : '/tmp/switchyard-'), 'e.sock')
}

/** Free when asked; vLLM says so if another process was quicker. */
function freePort(): Promise<number> {
  return new Promise((done, failed) => {
    const server = createServer()
    server.on('error', failed)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => done(typeof address === 'object' && address !== null ? address.port : 0))
    })
  })
}
