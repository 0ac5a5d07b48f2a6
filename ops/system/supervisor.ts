/**
 * The supervisor: takes the data directory, starts the control plane and one agent per region, says `ready` when a real
 * call has worked, keeps dev.json true, restarts what dies and stops everything in order: agents first, so that their
 * last records find a control plane.
 */
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isLocalUrl } from '../../gpu-agent/src/fronts/attached/server-options.ts'
import { CLOSE } from '../../src/protocol/index.ts'
import { agentIdOf } from '../workerd/agent-ids.ts'
import { agentCommand, type Command, controlPlaneCommand, DRAIN_LIMIT_S } from './commands.ts'
import { type DataDir, dataDir } from './data-dir.ts'
import { type DevJson, writeDevJson } from './dev-json.ts'
import { UpRefused } from './explain-error.ts'
import type { Guard } from './guard.ts'
import type { ChildEvent } from './line-reader.ts'
import { lockHolder } from './lock.ts'
import { checkPort, HOST } from './port.ts'
import { waitForRealCall } from './real-call.ts'
import type { Reporter } from './reporter.ts'
import { loadSecrets, type Secrets } from './secrets.ts'
import { type ServedModel, servedModel } from './served-model.ts'
import { upgradeNote } from './state-format.ts'
import { type ChildSpec, deathNote, SupervisedChild } from './supervised-child.ts'
import { alreadyRunning, CONTROL_PLANE, GUARD_GRACE_S, takeDataDir } from './take.ts'
import type { UpOptions } from './up-flags.ts'

const READY_TIMEOUT_MS = 120_000
/** vLLM on two cores was ready in 54 s; one that is given a name of the hub fetches the model first. The agent gives up before. */
const VLLM_READY_TIMEOUT_MS = 22 * 60_000
const REAL_CALL_TIMEOUT_MS = 60_000
/** A server may have to load the model first. */
const SERVER_CALL_TIMEOUT_MS = 300_000
const LINK_TIMEOUT_MS = 60_000
/** Drain, then the engine's own end, then the last records. */
const AGENT_GRACE_MS = (DRAIN_LIMIT_S + 15) * 1000
/** vLLM is asked to end, and ended when it has not. */
const VLLM_AGENT_GRACE_MS = AGENT_GRACE_MS + 15_000
/** What an agent gets to end its vLLM when the supervisor itself was killed. */
const VLLM_GUARD_GRACE_S = 25
const PREPARING_GRACE_MS = 10_000
const CONTROL_PLANE_GRACE_MS = 5000
/** What an agent says of a link that it is not given: its token is not known, or it may not open links. */
const REFUSED_LINK = /^status 40[13]\b/
/** What it says of one that an operator closed (src/protocol/link.ts). */
const DISMISSED_LINK = `closed with ${CLOSE.dismissed}`

/** Sentences for a system that runs already and for a port that is taken; nothing is started or changed. */
export async function refuseEarly(options: UpOptions): Promise<void> {
  const place = dataDir(options.dataDir)
  const holder = await lockHolder(place.lock)
  if (holder !== null) throw new UpRefused(alreadyRunning(place, holder.pid))
  const free = await checkPort(options.port)
  if (!free.ok) throw new UpRefused(free.reason)
}

export class Supervisor {
  readonly #options: UpOptions
  readonly #place: DataDir
  readonly #reporter: Reporter
  readonly #children = new Map<string, SupervisedChild>()
  /** What a child said before it died. */
  readonly #failures = new Map<string, string>()
  readonly #linked = new Map<string, PromiseWithResolvers<void>>()
  readonly #stopped = new AbortController()
  #system: DevJson | null = null
  #described = false
  #guard: Guard | null = null
  #release: (() => Promise<void>) | null = null
  #preparing: Promise<ServedModel> | null = null
  #stopping: Promise<void> | null = null
  #writes: Promise<void> = Promise.resolve()

  constructor(options: UpOptions, reporter: Reporter) {
    this.#options = options
    this.#place = dataDir(options.dataDir)
    this.#reporter = reporter
  }

  /**
   * Resolves when a real call has worked. Throws UpRefused for what the user can fix, and other errors if it is stopped
   * meanwhile; then nothing is left running.
   */
  async start(): Promise<void> {
    const started_ms = performance.now()
    try {
      await this.#take()
      this.#preparing = servedModel(this.#options, this.#stopped.signal)
      const model = await this.#preparing
      this.#stopped.signal.throwIfAborted()
      const secrets = await loadSecrets(
        this.#place.secrets,
        this.#options.regions.map((region) => agentIdOf(region)),
      )
      this.#system = this.#describe(model, secrets)
      await this.#startChildren(model, secrets)
      this.#stopped.signal.throwIfAborted()
      await this.#waitUntilServing(model, secrets)
      this.#stopped.signal.throwIfAborted()
      this.#described = true
      await this.#writeDevJson()
      this.#reporter.ready(this.#system, Math.round((performance.now() - started_ms) / 100) / 10)
    } catch (error) {
      await this.stop()
      throw error
    }
  }

  /** Ends all children in order and leaves the data directory to the next start. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop()
    return this.#stopping
  }

  get stopping(): boolean {
    return this.#stopping !== null
  }

  async #take(): Promise<void> {
    this.#guard = await takeDataDir(
      this.#place,
      {
        mode: 'development',
        host: HOST,
        port: this.#options.port,
        guard_grace_s: this.#options.engine === 'vllm' ? VLLM_GUARD_GRACE_S : GUARD_GRACE_S,
      },
      (line) => this.#reporter.note(line),
      (release) => {
        this.#release = release
      },
    )
  }

  #describe(model: ServedModel, secrets: Secrets): DevJson {
    const { port, policy, engine, regions } = this.#options
    return {
      url: `http://${HOST}:${port}`,
      apiKey: secrets.apiKey,
      adminKey: secrets.adminKey,
      pid: process.pid,
      controlPlanePid: 0,
      policy,
      model: model.id,
      ...(model.others.length === 0 ? {} : { models: [model.id, ...model.others.map(({ id }) => id)] }),
      engine,
      agents: regions.map((region) => ({ id: agentIdOf(region), region, url: '', pid: 0 })),
    }
  }

  async #startChildren(model: ServedModel, secrets: Secrets): Promise<void> {
    const { regions } = this.#options
    for (const region of regions) {
      const linked = Promise.withResolvers<void>()
      // It may fail before anybody waits for it.
      linked.promise.catch(() => undefined)
      this.#linked.set(agentIdOf(region), linked)
    }
    const starts = [
      this.#startChild(CONTROL_PLANE, controlPlaneCommand(this.#options, this.#place, model)),
      ...regions.map((region) =>
        this.#startChild(agentIdOf(region), agentCommand(this.#options, this.#place, model, region, secrets)),
      ),
    ]
    const label =
      model.vllm === null
        ? 'Starting the control plane and the agents'
        : `Starting the control plane and vLLM on the ${model.vllm.device.toUpperCase()}, which takes about a minute`
    await this.#reporter.step(label, () => Promise.all(starts))
  }

  async #startChild(name: string, command: Command): Promise<void> {
    const spec: ChildSpec = {
      name,
      ...command,
      logFile: path.join(this.#place.logs, `${name}.log`),
      runFolder: this.#place.run,
      ready_timeout_ms: this.#options.engine === 'vllm' ? VLLM_READY_TIMEOUT_MS : READY_TIMEOUT_MS,
      onEvent: (event, pid) => this.#heard(name, event, pid),
      onDeath: (what, restart_in_ms) => this.#reporter.note(deathNote(name, what, restart_in_ms)),
    }
    const child = new SupervisedChild(spec)
    this.#children.set(name, child)
    try {
      await child.start()
    } catch (error) {
      const told = this.#failures.get(name)
      throw new UpRefused(
        told === undefined ? (error as Error).message : `${name}: ${told}\nLog of ${name}: ${spec.logFile}`,
      )
    }
  }

  #heard(name: string, event: ChildEvent, pid: number): void {
    if (event.event === 'failed') this.#failures.set(name, String(event.message))
    if (event.event === 'upgraded') this.#reporter.note(upgradeNote(event))
    if (event.event === 'vllm_loading') this.#reporter.detail(String(event.phase))
    if (event.event === 'vllm_down' || event.event === 'server_down') this.#reporter.note(`${name}: ${event.reason}`)
    if (event.event === 'disk_full') this.#reporter.note(String(event.message))
    if (event.event === 'disk_has_room') this.#reporter.note(`The disk that holds ${this.#place.root} has room again.`)
    if (event.event === 'outbox_write_failed')
      this.#reporter.note(
        `${name}: its disk takes no records (${event.message}), so it refuses calls until there is room`,
      )
    if (event.event === 'outbox_writes_again') this.#reporter.note(`${name}: its disk takes records again`)
    if (event.event === 'linked') this.#linked.get(name)?.resolve()
    if (event.event === 'link_lost') this.#linkLost(name, String(event.reason))
    if (event.event !== 'ready' || this.#system === null) return
    if (name === CONTROL_PLANE) this.#system.controlPlanePid = pid
    const agent = this.#system.agents.find(({ id }) => id === name)
    if (agent !== undefined) Object.assign(agent, { url: String(event.url), pid })
    if (!this.#described || this.stopping) return
    this.#reporter.note(`${name} runs again (pid ${pid})`)
    this.#writeDevJson().catch((error: Error) => this.#reporter.note(`dev.json: ${error.message}`))
  }

  /** An agent that the control plane does not know any more is not waited for. */
  #linkLost(name: string, reason: string): void {
    const { dataDir } = this.#options
    const others = this.#options.regions.filter((region) => agentIdOf(region) !== name)
    const without = others.length === 0 ? '' : `leave its region out (--regions ${others.join(',')}), `
    if (REFUSED_LINK.test(reason)) {
      const message = `The control plane refuses the agent ${name} (${reason}): an operator removed it, and its id is not used again. To go on, ${without}use another --data-dir, or wipe this one: npm run reset -- --data-dir ${dataDir}`
      this.#linked.get(name)?.reject(new UpRefused(message))
    } else if (reason.startsWith(DISMISSED_LINK) && this.#described) {
      this.#reporter.note(`${name} was removed by an operator, or its token replaced: it serves no more`)
    }
  }

  /** One write after the other, so that the last state is the one that stays. */
  #writeDevJson(): Promise<void> {
    this.#writes = this.#writes.then(async () => {
      if (this.#system !== null && !this.stopping) await writeDevJson(this.#place.devJson, this.#system)
    })
    return this.#writes
  }

  async #waitUntilServing(model: ServedModel, secrets: Secrets): Promise<void> {
    const system = this.#system
    if (system === null) throw new Error('the system is described before it serves')
    const { server } = this.#options
    // A call to a hosted model costs money, so it is the operator's to ask for.
    if (server !== null && server.given.probe !== true && !isLocalUrl(server.url)) {
      await this.#reporter.step('Waiting for the agent to reach its server', () => this.#waitForLinks())
      return
    }
    const limit_ms = server === null ? REAL_CALL_TIMEOUT_MS : SERVER_CALL_TIMEOUT_MS
    const outcome = await this.#reporter.step('Waiting for a first call to succeed', async () => {
      await this.#waitForLinks()
      const told = (why: string): void => this.#reporter.detail(`the last one failed: ${why}`)
      return await waitForRealCall(system.url, secrets.apiKey, model.id, limit_ms, this.#stopped.signal, told)
    })
    if (!outcome.ok)
      throw new UpRefused(`No call succeeded: ${system.url} ${outcome.reason}. Logs: ${this.#place.logs}`)
    if (outcome.serves === 'embeddings') system.serves = 'embeddings'
  }

  /** Without this the first call would work while only one region does. */
  async #waitForLinks(): Promise<void> {
    const all = Promise.all([...this.#linked.values()].map(({ promise }) => promise)).then(() => true)
    const signal = AbortSignal.any([this.#stopped.signal, AbortSignal.timeout(LINK_TIMEOUT_MS)])
    const aborted = once(signal, 'abort').then(() => false)
    if (!(await Promise.race([all, aborted])))
      throw new UpRefused(`Not every agent reached the control plane. Logs: ${this.#place.logs}`)
  }

  async #stop(): Promise<void> {
    this.#stopped.abort()
    // An installation that is stopped takes away what it has made so far.
    await Promise.race([this.#preparing?.catch(() => undefined), sleep(PREPARING_GRACE_MS, undefined, { ref: false })])
    const agents = [...this.#children].filter(([name]) => name !== CONTROL_PLANE)
    const grace_ms = this.#options.engine === 'vllm' ? VLLM_AGENT_GRACE_MS : AGENT_GRACE_MS
    await Promise.all(agents.map(([, child]) => child.stop(grace_ms)))
    await this.#children.get(CONTROL_PLANE)?.stop(CONTROL_PLANE_GRACE_MS)
    this.#guard?.release()
    await this.#writes.catch(() => undefined)
    if (this.#release === null) return
    await rm(this.#place.devJson, { force: true })
    await this.#release()
  }
}
