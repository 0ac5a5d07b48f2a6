/** Does to a fleet what a plan says, and heals it again. Each gives back how it is healed. */
import { isAlive } from '../../ops/system/processes.ts'
import { poolActorName, programActorName, tenantActorName } from '../../src/actors/contracts.ts'
import { LINK_UNITS_MAX } from '../../src/core/pool/link-budget.ts'
import type { Fleet, FleetAgent, WorkerFaults } from './fleet.ts'
import { startFlood } from './hostile-agent.ts'
import { lie } from './lying-agent.ts'
import { leaveFewFiles } from './open-files.ts'
import type { Random } from './random.ts'
import type { PlannedFault } from './schedule.ts'
import type { SmallDisk } from './small-disk.ts'
import { forgeTickets } from './tickets.ts'

export type Heal = () => Promise<void>

const FLAP_MS = 500
/** For a process of the control plane. */
const RESTARTED_MS = 10_000
const LOOK_MS = 100
const STALE_MS = 10_000
const SLOW_ADMIT_MS = 2000
const SLOW_LEASE_MS = 1500
const PROGRAMS_EVICTED = 8
/** Files that a struck process may still open. */
const FILES_SPARE = 8
export const CLOCK_STEP_MAX_MS = 600_000
const CLOCK_STEP_MS = [100_000, CLOCK_STEP_MAX_MS] as const

/** A link on which so much was sent is open no more. */
const FLOOD_FRAMES = 20 * LINK_UNITS_MAX

const nothing: Heal = async () => undefined
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

export interface Struck {
  fleet: Fleet
  /** Programs that have made calls, by tenant. */
  programs: () => readonly { tenant: string; program: string }[]
  tenants: readonly string[]
  random: Random
  /** What must not be, and was seen while a fault was made. */
  violation: (what: string) => void
}

export async function applyFault({ fault, target }: PlannedFault, struck: Struck): Promise<Heal> {
  const { fleet, tenants, random } = struck
  switch (fault) {
    case 'kill_agent':
      return killAgent(fleet.agentOf(target))
    case 'stop_agent':
      fleet.agentOf(target).child.signal('SIGSTOP')
      return async () => fleet.agentOf(target).child.signal('SIGCONT')
    case 'power_loss':
      return losePower(fleet.agentOf(target))
    case 'kill_control_plane':
      await fleet.endControlPlane('SIGKILL')
      return () => fleet.startControlPlane()
    case 'stop_control_plane':
      await fleet.signalControlPlane('SIGSTOP')
      return () => fleet.signalControlPlane('SIGCONT')
    case 'kill_process':
      return killProcess(fleet, random)
    case 'cut_link':
      return wires([fleet.agentOf(target).linkWire], 'cut')
    case 'flap_link':
      return flap(fleet.agentOf(target))
    case 'freeze_link':
      return wires([fleet.agentOf(target).linkWire], 'frozen')
    case 'stale_reports':
      fleet.agentOf(target).linkWire.delay_ms = STALE_MS
      return async () => {
        fleet.agentOf(target).linkWire.delay_ms = 0
      }
    case 'cut_data':
      return wires([fleet.agentOf(target).dataWire], 'cut')
    case 'freeze_data':
      return wires([fleet.agentOf(target).dataWire], 'frozen')
    case 'cut_region':
      return wires(
        fleet.agents.filter(({ region }) => region === target).flatMap((agent) => [agent.dataWire, agent.linkWire]),
        'cut',
      )
    case 'evict_programs':
    case 'alarm_twice':
      return onPrograms(struck, fault)
    case 'evict_pool':
      await fleet.evict('POOL', poolActorName(target, fleet.options.model, 0))
      return nothing
    case 'evict_tenant':
      // The first shard is asked the most.
      await fleet.evict('TENANT', tenantActorName(random.pick(tenants), random.pick([0, 0, 1, 2, 3])))
      return nothing
    case 'change_shards':
      await fleet.setShards(random.pick(tenants), random.pick([1, 2, 4]))
      return nothing
    case 'slow_admit':
      return workerFaults(fleet, { admit_delay_ms: SLOW_ADMIT_MS })
    case 'slow_lease':
      return workerFaults(fleet, { lease_delay_ms: SLOW_LEASE_MS })
    case 'pool_unreachable':
      return workerFaults(fleet, { pool_unreachable: true })
    case 'd1_down':
      return workerFaults(fleet, { d1_down: true })
    case 'd1_refuses':
      return workerFaults(fleet, { d1_refuses: true })
    case 'r2_down':
      return workerFaults(fleet, { r2_down: true })
    case 'clock_jump':
      return workerFaults(fleet, { clock_step_ms: clockStep(random) })
    case 'agent_clock_jump':
      return stepClock(struck, target)
    case 'disk_full':
      return fillDisks(fleet.disks.state, fleet.disks.d1)
    case 'd1_full':
      return fillDisks(fleet.disks.d1)
    case 'agent_disk_full':
      return fillDisks(fleet.disks.agents.get(target))
    case 'few_files':
      return fewFiles(await fleet.runningWorkerd(), async () => fleet.isControlPlaneUp || fleet.startControlPlane())
    case 'agent_few_files': {
      const { child } = fleet.agentOf(target)
      return fewFiles(child.pid, async () => child.pid ?? child.start())
    }
    case 'flooding_agent':
      return floodingAgent(struck)
    case 'lying_agent':
      for (const what of await lie(fleet, hostileName('liar'), random.pick(fleet.options.regions))) {
        struck.violation(what)
      }
      return nothing
    case 'forged_tickets':
      for (const what of await forgeTickets(fleet, fleet.agentOf(target))) struck.violation(what)
      return nothing
  }
}

/** One of several. It is started again by the control plane that it belongs to. */
async function killProcess(fleet: Fleet, random: Random): Promise<Heal> {
  const running = (await fleet.runningWorkerds()).filter((pid) => pid !== null)
  if (running.length > 0) process.kill(random.pick(running), 'SIGKILL')
  return async () => {
    const missing = async (): Promise<boolean> => (await fleet.runningWorkerds()).includes(null)
    for (let waited_ms = 0; (await missing()) && waited_ms < RESTARTED_MS; waited_ms += LOOK_MS) await sleep(LOOK_MS)
    if (!fleet.isControlPlaneUp) await fleet.startControlPlane()
  }
}

/** Either way, and more than a ticket lives. */
function clockStep(random: Random): number {
  return random.between(...CLOCK_STEP_MS) * (random.chance(0.5) ? 1 : -1)
}

function stepClock({ fleet, random }: Struck, agent: string): Heal {
  const off_ms = fleet.options.clocks_off_ms?.[agent] ?? 0
  fleet.setClock(agent, off_ms + clockStep(random))
  return async () => fleet.setClock(agent, off_ms)
}

async function fillDisks(...disks: readonly (SmallDisk | undefined)[]): Promise<Heal> {
  for (const disk of disks) await disk?.fill()
  return async () => {
    for (const disk of disks) await disk?.free()
  }
}

/** A process that did not live through it is started again, with its old limit. */
async function fewFiles(pid: number | null, restart: () => Promise<unknown>): Promise<Heal> {
  if (pid === null) throw new Error('the process does not run')
  const heal = await leaveFewFiles(pid, FILES_SPARE)
  return async () => {
    if (isAlive(pid)) await heal()
    await restart()
  }
}

let hostile = 0

/** An agent is enrolled for each, so that none is barred from the start. */
function hostileName(kind: string): string {
  hostile += 1
  return `${kind}-${hostile}`
}

async function floodingAgent({ fleet, random, violation }: Struck): Promise<Heal> {
  const id = hostileName('flood')
  const frames = random.pick(['hello', 'status'] as const)
  const kind = { frames, links: random.between(1, 2), deaf: random.chance(0.5) }
  const flood = await startFlood(fleet, { id, region: random.pick(fleet.options.regions), ...kind })
  return async () => {
    await flood.end()
    const { links, frames: sent, refused } = flood.seen
    if (sent > FLOOD_FRAMES && flood.closes.length + refused === 0 && links <= kind.links) {
      violation(`${id} sent ${sent} frames, and its links stayed open`)
    }
  }
}

async function killAgent({ child }: FleetAgent): Promise<Heal> {
  await child.end('SIGKILL')
  return async () => {
    await child.start()
  }
}

async function losePower({ child, dataWire, linkWire }: FleetAgent): Promise<Heal> {
  // Frozen first: not one packet tells that the process has gone.
  dataWire.set('frozen')
  linkWire.set('frozen')
  await child.end('SIGKILL')
  return async () => {
    dataWire.set('open')
    linkWire.set('open')
    await child.start()
  }
}

function wires(struck: readonly FleetAgent['linkWire'][], state: 'cut' | 'frozen'): Heal {
  for (const wire of struck) wire.set(state)
  return async () => {
    for (const wire of struck) wire.set('open')
  }
}

function flap({ linkWire }: FleetAgent): Heal {
  let flapping = true
  const flaps = (async () => {
    while (flapping) {
      linkWire.set(linkWire.state === 'open' ? 'cut' : 'open')
      await sleep(FLAP_MS)
    }
    linkWire.set('open')
  })()
  return async () => {
    flapping = false
    await flaps
  }
}

async function workerFaults(fleet: Fleet, faults: WorkerFaults): Promise<Heal> {
  await fleet.setFaults(faults)
  return () => fleet.setFaults({})
}

async function onPrograms({ fleet, programs, random }: Struck, fault: 'evict_programs' | 'alarm_twice'): Promise<Heal> {
  const known = programs()
  for (let index = 0; index < PROGRAMS_EVICTED && known.length > 0; index += 1) {
    const { tenant, program } = random.pick(known)
    const name = programActorName(tenant, program)
    if (fault === 'evict_programs') await fleet.evict('PROGRAM', name)
    else await fleet.alarmTwice('PROGRAM', name)
  }
  return nothing
}
