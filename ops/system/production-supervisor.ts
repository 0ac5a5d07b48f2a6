/**
 * The supervisor of a production system: the control plane alone, on a data directory of its own, with its secrets from the
 * environment. It makes no key, starts no agent and writes nothing that must stay secret. A control plane that dies is
 * started again.
 */
import path from 'node:path'
import { productionCommand } from './commands.ts'
import { type DataDir, dataDir } from './data-dir.ts'
import { writeProductionJson } from './dev-json.ts'
import { EXIT_CONFIG, UpRefused } from './explain-error.ts'
import type { Guard } from './guard.ts'
import { productionSecrets } from './production-secrets.ts'
import type { Reporter } from './reporter.ts'
import { upgradeNote } from './state-format.ts'
import { deathNote, SupervisedChild } from './supervised-child.ts'
import { CONTROL_PLANE, takeDataDir } from './take.ts'
import type { UpOptions } from './up-flags.ts'

const READY_TIMEOUT_MS = 60_000
const STOP_GRACE_MS = 10_000

export class ProductionSupervisor {
  readonly #options: UpOptions
  readonly #place: DataDir
  readonly #reporter: Reporter
  #child: SupervisedChild | null = null
  #guard: Guard | null = null
  #release: (() => Promise<void>) | null = null
  #stopping: Promise<void> | null = null

  constructor(options: UpOptions, reporter: Reporter) {
    this.#options = options
    this.#place = dataDir(options.dataDir)
    this.#reporter = reporter
  }

  get stopping(): boolean {
    return this.#stopping !== null
  }

  /** Throws UpRefused for what the operator can fix; then nothing is left running. */
  async start(): Promise<void> {
    const { bind, port } = this.#options
    try {
      const verdict = productionSecrets(process.env)
      if (!verdict.ok) throw new UpRefused(secretsRefused(verdict.faults), { exit_code: EXIT_CONFIG })
      this.#guard = await takeDataDir(
        this.#place,
        { mode: 'production', host: bind, port },
        (line) => this.#reporter.note(line),
        (release) => {
          this.#release = release
        },
      )
      await this.#describe(0)
      await this.#reporter.step('Starting the control plane', () => this.#startControlPlane())
      this.#reporter.note(
        `Switchyard serves http://${authority(bind, port)} in plain HTTP: put a proxy with TLS in front (docs/self-host.md).`,
      )
    } catch (error) {
      await this.stop()
      throw error
    }
  }

  stop(): Promise<void> {
    this.#stopping ??= this.#stop()
    return this.#stopping
  }

  async #startControlPlane(): Promise<void> {
    let failure: string | null = null
    const logFile = path.join(this.#place.logs, `${CONTROL_PLANE}.log`)
    const child = new SupervisedChild({
      name: CONTROL_PLANE,
      ...productionCommand(this.#options, this.#place),
      logFile,
      runFolder: this.#place.run,
      ready_timeout_ms: READY_TIMEOUT_MS,
      onEvent: (event, pid) => {
        if (event.event === 'disk_full') this.#reporter.note(String(event.message))
        if (event.event === 'disk_has_room')
          this.#reporter.note(`The disk that holds ${this.#place.root} has room again.`)
        if (event.event === 'failed') failure = String(event.message)
        if (event.event === 'upgraded') this.#reporter.note(upgradeNote(event))
        if (event.event !== 'ready' || this.stopping) return
        this.#describe(pid).catch((error: Error) => this.#reporter.note(`production.json: ${error.message}`))
      },
      onDeath: (what, restart_in_ms) => this.#reporter.note(deathNote('the control plane', what, restart_in_ms)),
    })
    this.#child = child
    try {
      await child.start()
    } catch (error) {
      throw new UpRefused(failure === null ? (error as Error).message : `${failure}\nLog: ${logFile}`)
    }
  }

  /** For `npm run status`. It stays, and marks the directory as a production system's. */
  async #describe(controlPlanePid: number): Promise<void> {
    const { bind, port } = this.#options
    const system = { url: `http://${authority(bind, port)}`, pid: process.pid, controlPlanePid }
    await writeProductionJson(this.#place.production, system)
  }

  async #stop(): Promise<void> {
    await this.#child?.stop(STOP_GRACE_MS)
    this.#guard?.release()
    await this.#release?.()
  }
}

function secretsRefused(faults: readonly string[]): string {
  const lines = faults.map((fault) => `  - ${fault}`).join('\n')
  return `A production system takes its secrets from the environment, and these are not in order:\n${lines}\nMake each with \`openssl rand -base64 32\` and keep it where your other secrets are.`
}

function authority(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}
