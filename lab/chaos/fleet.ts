/**
 * A testbed whose parts can be broken: the Worker has an entry that takes its dependencies away, and a TCP proxy
 * (tcp-proxy.ts) is in front of each agent's data plane and behind each agent's link.
 */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { freePort } from '../../ops/system/free-port.ts'
import { agentIdsOf } from '../../ops/workerd/agent-ids.ts'
import type { Flags } from '../testbed/repository.ts'
import { type AgentChild, Testbed, type TestbedPlace, testbedPlace } from '../testbed/testbed.ts'
import { SmallDisk } from './small-disk.ts'
import { TcpProxy } from './tcp-proxy.ts'

/** Wraps the Worker's own. */
const FAULTY_ENTRY = 'test/workerd/faulty-worker.ts'
const FAULTY_PROCESSES_ENTRY = 'test/workerd/faulty-processes.ts'
const CONTEXT_TOKENS = 32_768
const DRAIN_LIMIT_S = 3
const CLOCK_READ_MS = 50

export interface FleetOptions {
  regions: readonly string[]
  agents_per_region: number
  engines_per_agent: number
  model: string
  /** Further flags of every agent. */
  agent_flags?: Flags
  /** How far an agent's wall clock is off from the start, by agent. */
  clocks_off_ms?: Readonly<Record<string, number>>
  /** Disks of the control plane's state, of D1 and of each agent are file systems of their own, which can be filled. */
  small_disks?: boolean
  /** Processes of the control plane. Default: one. */
  workers?: number
  /** Default: the control plane's. */
  stale_after_s?: number
  /** Of an agent, from its start. Default: of a ManagedChild. */
  ready_timeout_ms?: number
  /** As of a testbed. */
  guard_grace_s?: number
}

export interface FleetDisks {
  /** The control plane's Durable Objects and R2. */
  state: SmallDisk
  d1: SmallDisk
  /** By agent. */
  agents: ReadonlyMap<string, SmallDisk>
}

export interface WorkerFaults {
  admit_delay_ms?: number
  lease_delay_ms?: number
  pool_unreachable?: boolean
  d1_down?: boolean
  d1_refuses?: boolean
  r2_down?: boolean
  clock_step_ms?: number
  /** Between two writes of a class's row in D1. */
  class_row_interval_ms?: number
  /** By its name in RELAY_TIMES. */
  relay_times?: Readonly<Record<string, number>>
}

export interface FleetAgent {
  id: string
  region: string
  engines: string[]
  child: AgentChild
  /** Control plane → agent's data plane. */
  dataWire: TcpProxy
  /** Agent → control plane: link and records. */
  linkWire: TcpProxy
  /** Where its data plane listens, without the wire. */
  url: string
  outbox: string
}

export class Fleet extends Testbed {
  readonly options: FleetOptions
  agents: readonly FleetAgent[] = []
  #disks: FleetDisks | null = null

  private constructor(place: TestbedPlace, options: FleetOptions) {
    super(place, { ...testbedOptions(options), flags: controlFlags(options) })
    this.options = options
  }

  static async start(options: FleetOptions): Promise<Fleet> {
    const fleet = new Fleet(await testbedPlace(testbedOptions(options)), options)
    try {
      const ids = options.regions.flatMap((region) =>
        agentIdsOf(region, options.agents_per_region).map((id) => ({ id, region })),
      )
      fleet.agents = await Promise.all(ids.map(({ id, region }) => fleet.#wiredAgent(id, region)))
      if (options.small_disks === true) await fleet.#mountDisks()
      await fleet.startWhatIsDown()
      return fleet
    } catch (error) {
      await fleet.remove()
      throw error
    }
  }

  get disks(): FleetDisks {
    if (this.#disks === null) throw new Error('this fleet has no disks of its own')
    return this.#disks
  }

  agentOf(id: string): FleetAgent {
    const agent = this.agents.find((one) => one.id === id)
    if (agent === undefined) throw new Error(`no agent ${id}`)
    return agent
  }

  /** Sets all of them: a fault that is left out is over. */
  async setFaults(faults: WorkerFaults): Promise<void> {
    await this.#disturb('set', faults)
  }

  async evict(kind: 'PROGRAM' | 'POOL' | 'TENANT', name: string): Promise<void> {
    await this.#disturb('evict', { kind, name })
  }

  async alarmTwice(kind: 'PROGRAM' | 'POOL', name: string): Promise<void> {
    await this.#disturb('alarm-twice', { kind, name })
  }

  /** The agent's wall clock is this far off, from within CLOCK_READ_MS on. */
  setClock(id: string, off_ms: number): void {
    writeFileSync(this.#clockFile(id), String(off_ms))
  }

  override async remove(): Promise<void> {
    await this.endAll()
    if (this.#disks !== null) {
      for (const disk of [...this.#disks.agents.values(), this.#disks.d1, this.#disks.state]) await disk.unmount()
    }
    await super.remove()
    await Promise.all(this.agents.flatMap(({ dataWire, linkWire }) => [dataWire.close(), linkWire.close()]))
  }

  async #disturb(what: string, body: object): Promise<void> {
    const answer = await fetch(`${this.url}/faults/${what}`, { method: 'POST', body: JSON.stringify(body) })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${what} ${JSON.stringify(body)}: ${answer.status} ${text}`)
  }

  async #mountDisks(): Promise<void> {
    const { state } = this.place
    const agents = new Map<string, SmallDisk>()
    this.#disks = { state: await SmallDisk.mount(state), d1: await SmallDisk.mount(path.join(state, 'd1')), agents }
    for (const { id } of this.agents) agents.set(id, await SmallDisk.mount(this.place.agent(id)))
  }

  #clockFile(id: string): string {
    return path.join(this.place.run, `clock-${id}`)
  }

  async #wiredAgent(id: string, region: string): Promise<FleetAgent> {
    const { engines_per_agent, agent_flags, clocks_off_ms, ready_timeout_ms } = this.options
    const port = await freePort()
    const [dataWire, linkWire] = await Promise.all([
      TcpProxy.open({ host: '127.0.0.1', port }),
      TcpProxy.open({ host: '127.0.0.1', port: this.port }),
    ])
    const flags = {
      'control-url': `http://127.0.0.1:${linkWire.port}`,
      'public-url': `http://127.0.0.1:${dataWire.port}`,
      listen: `127.0.0.1:${port}`,
      engine: 'emulated',
      engines: engines_per_agent,
      'drain-limit-s': DRAIN_LIMIT_S,
      ...agent_flags,
    }
    this.setClock(id, clocks_off_ms?.[id] ?? 0)
    const limits = ready_timeout_ms === undefined ? {} : { ready_timeout_ms }
    const child = this.agent({ id, region, flags, node_flags: steppedClock(this.#clockFile(id)), ...limits })
    const engines = Array.from({ length: engines_per_agent }, (_, index) => `${id}-e${index}`)
    const outbox = path.join(this.place.agent(id), 'outbox.sqlite')
    return { id, region, engines, child, dataWire, linkWire, url: `http://127.0.0.1:${port}`, outbox }
  }
}

/** Node's wall clock is off by the number in `file`, which is read again and again. */
function steppedClock(file: string): string[] {
  const read = `Number(readFileSync(${JSON.stringify(file)},'utf8'))||0`
  const code = `import{readFileSync}from'node:fs';const now=Date.now;let off=${read};setInterval(()=>{off=${read}},${CLOCK_READ_MS}).unref();Date.now=()=>now()+off`
  return ['--import', `data:text/javascript,${encodeURIComponent(code)}`]
}

function controlFlags({ stale_after_s, workers = 1 }: FleetOptions): Flags {
  const stale = stale_after_s === undefined ? {} : { 'program-stale-after-s': stale_after_s }
  const entry = workers === 1 ? FAULTY_ENTRY : FAULTY_PROCESSES_ENTRY
  return { entry, workers, 'context-tokens': CONTEXT_TOKENS, ...stale }
}

function testbedOptions({ regions, agents_per_region, model, guard_grace_s = 0 }: FleetOptions) {
  return { name: 'fleet', regions, agents_per_region, model, guard_grace_s }
}
