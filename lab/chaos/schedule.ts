/**
 * Which fault comes when, from a seed alone: the part of a chaos run that can be repeated exactly. Faults of one target do
 * not overlap, and one agent of each run is always left alone for long enough that serving goes on.
 */
import { Random } from './random.ts'

export const FAULTS = [
  'kill_agent',
  'stop_agent',
  'power_loss',
  'kill_control_plane',
  'stop_control_plane',
  'kill_process',
  'cut_link',
  'flap_link',
  'freeze_link',
  'stale_reports',
  'cut_data',
  'freeze_data',
  'cut_region',
  'evict_programs',
  'evict_pool',
  'evict_tenant',
  'change_shards',
  'alarm_twice',
  'slow_admit',
  'slow_lease',
  'pool_unreachable',
  'd1_down',
  'forged_tickets',
  'flooding_agent',
  'lying_agent',
  'disk_full',
  'agent_disk_full',
  'd1_full',
  'd1_refuses',
  'r2_down',
  'few_files',
  'agent_few_files',
  'clock_jump',
  'agent_clock_jump',
] as const
export type FaultName = (typeof FAULTS)[number]

export interface PlannedFault {
  at_ms: number
  /** From the fault to its healing. */
  for_ms: number
  fault: FaultName
  /** Agent, region or pool; '' where there is only one to choose. */
  target: string
}

/** What each fault strikes, how long it lasts at least and at most, and how often it comes beside the others. */
const KINDS: Readonly<
  Record<FaultName, { of: 'agent' | 'region' | 'worker' | 'none'; ms: [number, number]; weight: number }>
> = {
  kill_agent: { of: 'agent', ms: [500, 4000], weight: 4 },
  stop_agent: { of: 'agent', ms: [500, 6000], weight: 3 },
  power_loss: { of: 'agent', ms: [2000, 8000], weight: 2 },
  // Most of these are dropped: only faults of agents may stand near one.
  kill_control_plane: { of: 'worker', ms: [0, 1500], weight: 5 },
  stop_control_plane: { of: 'worker', ms: [500, 8000], weight: 1 },
  kill_process: { of: 'worker', ms: [500, 3000], weight: 4 },
  cut_link: { of: 'agent', ms: [500, 5000], weight: 3 },
  flap_link: { of: 'agent', ms: [3000, 8000], weight: 2 },
  freeze_link: { of: 'agent', ms: [2000, 6000], weight: 2 },
  stale_reports: { of: 'agent', ms: [3000, 8000], weight: 2 },
  cut_data: { of: 'agent', ms: [300, 3000], weight: 3 },
  freeze_data: { of: 'agent', ms: [500, 5000], weight: 2 },
  cut_region: { of: 'region', ms: [1000, 5000], weight: 2 },
  evict_programs: { of: 'none', ms: [0, 0], weight: 8 },
  evict_pool: { of: 'region', ms: [0, 0], weight: 4 },
  evict_tenant: { of: 'none', ms: [0, 0], weight: 4 },
  change_shards: { of: 'none', ms: [0, 0], weight: 3 },
  alarm_twice: { of: 'none', ms: [0, 0], weight: 4 },
  slow_admit: { of: 'worker', ms: [2000, 4000], weight: 2 },
  slow_lease: { of: 'worker', ms: [2000, 4000], weight: 2 },
  pool_unreachable: { of: 'worker', ms: [1000, 4000], weight: 2 },
  d1_down: { of: 'worker', ms: [2000, 12_000], weight: 2 },
  forged_tickets: { of: 'agent', ms: [0, 0], weight: 2 },
  flooding_agent: { of: 'none', ms: [2000, 6000], weight: 2 },
  lying_agent: { of: 'none', ms: [0, 0], weight: 2 },
  disk_full: { of: 'worker', ms: [2000, 12_000], weight: 3 },
  agent_disk_full: { of: 'agent', ms: [2000, 8000], weight: 3 },
  d1_full: { of: 'worker', ms: [2000, 12_000], weight: 2 },
  d1_refuses: { of: 'worker', ms: [2000, 12_000], weight: 2 },
  r2_down: { of: 'worker', ms: [2000, 12_000], weight: 2 },
  few_files: { of: 'worker', ms: [2000, 8000], weight: 2 },
  agent_few_files: { of: 'agent', ms: [2000, 8000], weight: 2 },
  clock_jump: { of: 'worker', ms: [2000, 12_000], weight: 2 },
  agent_clock_jump: { of: 'agent', ms: [2000, 12_000], weight: 2 },
}
/** These need a file system of their own (private-mounts.ts). */
const DISK_FAULTS: readonly FaultName[] = ['disk_full', 'agent_disk_full', 'd1_full']

/** Mean time between two faults. */
const FAULT_EVERY_MS = 1500
/** Nothing before this: programs must be at work. */
const FIRST_AT_MS = 2000
/** For the start of a process that was killed, from the end of its fault to the next one on the same agent. */
const RESTART_MS = 6000
const KILLS: readonly FaultName[] = ['kill_agent', 'power_loss', 'kill_process']
/** Beside a control plane that is down, and for its start. */
const CONTROL_PLANE_QUIET_MS = 6000

export interface Place {
  agents: readonly { id: string; region: string }[]
  regions: readonly string[]
  /** Whether disks can be filled here. */
  small_disks: boolean
  /** Processes of the control plane. */
  workers: number
}

/** Sorted by time; every fault is healed before `duration_ms`. */
export function makeSchedule(seed: number, duration_ms: number, place: Place): PlannedFault[] {
  const random = new Random(seed)
  const possible = FAULTS.filter((fault) => {
    if (fault === 'kill_process') return place.workers > 1
    return place.small_disks || !DISK_FAULTS.includes(fault)
  })
  const bag = possible.flatMap((fault) => Array<FaultName>(KINDS[fault].weight).fill(fault))
  const planned: PlannedFault[] = []
  let at_ms = FIRST_AT_MS
  for (;;) {
    at_ms += random.between(FAULT_EVERY_MS / 3, (FAULT_EVERY_MS * 5) / 3)
    const fault = random.pick(bag)
    const { of, ms } = KINDS[fault]
    const for_ms = random.between(...ms)
    const target = targetOf(of, place, random)
    if (at_ms + for_ms >= duration_ms) return planned
    const next = { at_ms, for_ms, fault, target }
    if (planned.every((other) => mayMeet(other, next, place))) planned.push(next)
  }
}

function targetOf(of: 'agent' | 'region' | 'worker' | 'none', { agents, regions }: Place, random: Random): string {
  if (of === 'agent') return random.pick(agents).id
  return of === 'region' ? random.pick(regions) : ''
}

/** Whether two faults may both be in one plan. */
function mayMeet(a: PlannedFault, b: PlannedFault, place: Place): boolean {
  const kill = [a, b].some(({ fault }) => fault === 'kill_control_plane')
  const apart_ms = kill ? CONTROL_PLANE_QUIET_MS : KILLS.includes(a.fault) ? RESTART_MS : 0
  const apart = b.at_ms >= a.at_ms + a.for_ms + apart_ms
  if (apart) return true
  if (kill) return KINDS[a.fault].of === 'agent' || KINDS[b.fault].of === 'agent'
  const [ofA, ofB] = [KINDS[a.fault].of, KINDS[b.fault].of]
  if (ofA === 'worker' && ofB === 'worker') return false
  const strikes = (one: PlannedFault): string[] =>
    place.agents.filter(({ id, region }) => one.target === id || one.target === region).map(({ id }) => id)
  const struck = new Set([...strikes(a), ...strikes(b)])
  const overlap = strikes(a).some((id) => strikes(b).includes(id))
  return !overlap && (ofA === 'none' || ofB === 'none' || struck.size < place.agents.length)
}
