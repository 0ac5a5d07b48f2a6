/**
 * A system of real processes in a tester's hands: the control plane in workerd, and agents, all in one temporary folder.
 * Nothing restarts by itself. A guard ends every process if the tester dies.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { readFileIfAny } from '../../ops/system/atomic-file.ts'
import { type DataDir, dataDir } from '../../ops/system/data-dir.ts'
import { freePort } from '../../ops/system/free-port.ts'
import { type Guard, pidFile, startGuard } from '../../ops/system/guard.ts'
import { endLeftVllms } from '../../ops/system/left-vllms.ts'
import { HOST } from '../../ops/system/port.ts'
import { isSameProcess, parseProcessRecord, processRecord } from '../../ops/system/processes.ts'
import { loadSecrets, type Secrets } from '../../ops/system/secrets.ts'
import { agentIdsOf } from '../../ops/workerd/agent-ids.ts'
import { WORKERD_NAME, workerdSuffix } from '../../ops/workerd/workerd-launcher.ts'
import type { StatedPrices } from '../../src/core/budget/call-cap.ts'
import type { StatedPeriods } from '../../src/core/budget/period-limits.ts'
import { ManagedChild } from './managed-child.ts'
import { AGENT, CONTROL_PLANE, type Flags, flagList } from './repository.ts'

const POLL_MS = 20

export interface TestbedOptions {
  /** Of the temporary folder, `switchyard-NAME-…`. */
  name: string
  /** The folder in which that is made. Default: the system's for temporary files. */
  within?: string
  regions: readonly string[]
  /** Provisioned, not started. Default: 1. */
  agents_per_region?: number
  model: string
  /** Further flags of the control plane. */
  flags?: Flags
  /** Files that each process of the control plane may open. Default: as many as this process. */
  open_files?: number
  /** If the tester dies: what agents get to end their engines, before they are ended themselves. Default: 0. */
  guard_grace_s?: number
}

export interface TestbedPlace {
  place: DataDir
  secrets: Secrets
  port: number
}

export interface AgentOptions {
  id: string
  region: string
  flags: Flags
  /** Flags of Node itself. */
  node_flags?: readonly string[]
  ready_timeout_ms?: number
}

export type AgentChild = ManagedChild<'ready' | 'linked'>

export class Testbed {
  readonly place: DataDir
  readonly secrets: Secrets
  readonly port: number
  readonly model: string
  readonly #control: ManagedChild<'ready'>
  readonly #agents: AgentChild[] = []
  readonly #guard: Guard
  /** Of each process of the control plane; empty while it is down. */
  #workerd_pids: number[] = []
  #starting: Promise<void> | null = null

  constructor(
    { place, secrets, port }: TestbedPlace,
    { regions, agents_per_region = 1, model, flags, open_files, guard_grace_s = 0 }: TestbedOptions,
  ) {
    this.place = place
    this.secrets = secrets
    this.port = port
    this.model = model
    this.#guard = startGuard(place.run, guard_grace_s)
    const served = { regions: regions.join(','), 'agents-per-region': agents_per_region, model }
    const args = [CONTROL_PLANE, ...flagList({ 'data-dir': place.root, port, ...served, ...flags })]
    this.#control = new ManagedChild({
      name: 'control-plane',
      ...(open_files === undefined ? { args } : withOpenFiles(open_files, args)),
      logFile: path.join(place.logs, 'control-plane.log'),
      runFolder: place.run,
      ready: ['ready'],
    })
  }

  get url(): string {
    return `http://${HOST}:${this.port}`
  }

  get isControlPlaneUp(): boolean {
    return this.#control.pid !== null
  }

  get controlPlanePid(): number | null {
    return this.#control.pid
  }

  /** Of each process; empty while the control plane is down. */
  get workerdPids(): readonly number[] {
    return this.#workerd_pids
  }

  /** Null while the control plane is down. */
  get workerdPid(): number | null {
    return this.#workerd_pids[0] ?? null
  }

  /** Also one that was started in place of one that crashed. Null: none runs. */
  async runningWorkerd(): Promise<number | null> {
    return (await this.runningWorkerds())[0] ?? null
  }

  /** Of each process of the control plane. */
  async runningWorkerds(): Promise<(number | null)[]> {
    const folder = path.join(this.place.run, 'control-plane')
    return Promise.all(
      this.#workerd_pids.map(async (_, index) => {
        const file = pidFile(folder, `${WORKERD_NAME}${workerdSuffix(index)}`)
        const record = parseProcessRecord(await readFileIfAny(file))
        return record !== null && (await isSameProcess(record)) ? record.pid : null
      }),
    )
  }

  /** Not started. It is ready when its data plane listens and it has joined its pool. */
  agent({ id, region, flags, node_flags = [], ready_timeout_ms }: AgentOptions): AgentChild {
    const own = { id, region, 'control-url': this.url, listen: `${HOST}:0`, 'model-id': this.model }
    const child = new ManagedChild({
      name: id,
      args: [...node_flags, AGENT, ...flagList({ ...own, 'data-dir': this.place.agent(id), ...flags })],
      env: { SWITCHYARD_AGENT_TOKEN: this.secrets.agentTokens[id] ?? '' },
      logFile: path.join(this.place.logs, `${id}.log`),
      runFolder: this.place.run,
      ready: ['ready', 'linked'],
      ...(ready_timeout_ms === undefined ? {} : { ready_timeout_ms }),
    })
    this.#agents.push(child)
    return child
  }

  /** A caller that asks while it starts waits for the same start. */
  startControlPlane(): Promise<void> {
    this.#starting ??= this.#startControlPlane().finally(() => {
      this.#starting = null
    })
    return this.#starting
  }

  /** The control plane and every agent, unless they run. */
  async startWhatIsDown(): Promise<void> {
    if (!this.isControlPlaneUp || this.#starting !== null) await this.startControlPlane()
    await Promise.all(this.#agents.map(async (agent) => agent.pid ?? agent.start()))
  }

  /** Ends the control plane and its workerd with it. */
  async endControlPlane(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    await this.#control.end(signal)
    for (const pid of this.#workerd_pids)
      while ((await processRecord(pid)) !== null) await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    this.#workerd_pids = []
  }

  /** While stopped, it keeps its sockets and reads nothing. */
  async signalControlPlane(signal: 'SIGSTOP' | 'SIGCONT'): Promise<void> {
    for (const pid of await this.runningWorkerds()) if (pid !== null) process.kill(pid, signal)
  }

  fetch(route: string, init: RequestInit & { apiKey?: string } = {}): Promise<Response> {
    const headers = new Headers(init.headers)
    headers.set('authorization', `Bearer ${init.apiKey ?? this.secrets.apiKey}`)
    if (init.body !== undefined && !headers.has('content-type')) headers.set('content-type', 'application/json')
    return fetch(`${this.url}${route}`, { ...init, headers })
  }

  /** A second tenant and its key, through the admin API. */
  async createTenant(name: string, budget: StatedPeriods | null = null): Promise<{ tenant: string; apiKey: string }> {
    const { id: tenant = '' } = await this.#administer('POST', '/admin/v1/tenants', { name, budget })
    return { tenant, apiKey: await this.createKey(tenant, { name }) }
  }

  async createKey(
    tenant: string,
    key: { name: string; regions?: readonly string[]; budget?: StatedPeriods | null },
  ): Promise<string> {
    const { key: apiKey = '' } = await this.#administer('POST', `/admin/v1/tenants/${tenant}/keys`, key)
    return apiKey
  }

  /** New runs of the tenant's programs are spread over so many objects. */
  async setShards(tenant: string, shards: number): Promise<void> {
    await this.#administer('PATCH', `/admin/v1/tenants/${tenant}`, { shards })
  }

  async setPrices(prices: StatedPrices): Promise<void> {
    await this.#administer('PATCH', `/admin/v1/models/${encodeURIComponent(this.model)}`, prices)
  }

  /** Ends every process. */
  async endAll(): Promise<void> {
    for (const agent of this.#agents) agent.signal('SIGCONT')
    await Promise.all(this.#agents.map((agent) => agent.end('SIGKILL')))
    await endLeftVllms(this.place)
    await this.endControlPlane('SIGTERM')
  }

  /** Ends everything and removes its state. */
  async remove(): Promise<void> {
    await this.endAll()
    this.#guard.release()
    await this.#guard.ended
    rmSync(this.place.root, { recursive: true, force: true })
  }

  async #startControlPlane(): Promise<void> {
    const { ready } = await this.#control.start()
    this.#workerd_pids = (ready.workerd_pids ?? [ready.workerd_pid]) as number[]
  }

  async #administer(method: 'POST' | 'PATCH', route: string, body: object): Promise<Record<string, string>> {
    const { adminKey: apiKey } = this.secrets
    const answer = await this.fetch(route, { method, apiKey, body: JSON.stringify(body) })
    if (!answer.ok) throw new Error(`${route}: ${answer.status} ${await answer.text()}`)
    return (await answer.json()) as Record<string, string>
  }
}

/** prlimit becomes Node, so the child's pid is Node's. */
function withOpenFiles(limit: number, args: readonly string[]): { command: string; args: readonly string[] } {
  return { command: 'prlimit', args: [`--nofile=${limit}`, process.execPath, ...args] }
}

/** Its folder, secrets and port, before a process runs. */
export async function testbedPlace(options: TestbedOptions): Promise<TestbedPlace> {
  const { name, within = tmpdir(), regions, agents_per_region = 1 } = options
  const place = dataDir(mkdtempSync(path.join(within, `switchyard-${name}-`)))
  for (const folder of [place.logs, place.run]) mkdirSync(folder, { recursive: true })
  const agents = regions.flatMap((region) => agentIdsOf(region, agents_per_region))
  return { place, secrets: await loadSecrets(place.secrets, agents), port: await freePort() }
}

/** With its control plane running, and no agents yet. */
export async function startTestbed(options: TestbedOptions): Promise<Testbed> {
  const testbed = new Testbed(await testbedPlace(options), options)
  try {
    await testbed.startControlPlane()
    return testbed
  } catch (error) {
    await testbed.remove()
    throw error
  }
}
