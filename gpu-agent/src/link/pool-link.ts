/** The link of an agent to one pool: of all its engines that serve one model. */
import {
  type ClassData,
  type Hello,
  PROTOCOL_VERSION,
  PROTOCOL_VERSION_MIN,
  type QueuePosition,
  type Replay,
  type ReplayQuestion,
} from '../../../src/protocol/index.ts'
import type { AgentOptions } from '../agent-options.ts'
import type { TicketGate } from '../data-plane/ticket-gate.ts'
import type { ProgramKey } from '../fronts/engine-front.ts'
import { type ServedEngine, takeStatuses } from '../served-engine.ts'
import { ChargeReports, type OpenLeaseSums } from './charge-reports.ts'
import { Link } from './link.ts'

export interface PoolLinkOptions {
  options: Pick<AgentOptions, 'id' | 'control_url' | 'region' | 'token' | 'report' | 'tuning'>
  /** Base URL of the data plane as Workers reach it. */
  url: string
  engines: () => readonly ServedEngine[]
  gate: Pick<TicketGate, 'welcome' | 'setClock' | 'forget'>
  random: () => number
  wall_ms: () => number
  /** An empty list means all engines. */
  holdEngines: (ids: readonly string[], held: boolean) => void
  /** The program of these leases was ended. */
  cancel: (leases: readonly string[]) => void
  /** What a pool knows about classes of programs. */
  classes: (classes: readonly ClassData[]) => void
  /** A program goes on elsewhere than on this engine, or has ended. */
  discard: (engine: string, program: ProgramKey) => void
  /** What a program's calls would have waited under first come, first served. */
  replay: (question: ReplayQuestion) => Replay
  /** Every open lease with what it has been charged. */
  openSums: () => Iterable<OpenLeaseSums>
  /** The control plane refuses this agent in this pool, and not just for a moment. */
  refused: (model: string, reason: string) => void
  /** Whether the lease is open, on disk or about to be. */
  isOpen: (lease: string) => boolean
  /** A message was not understood. */
  ignored: () => void
}

/** Not started. */
export function poolLink(model: string, context: PoolLinkOptions): Link {
  const { engines, gate, random, wall_ms, holdEngines, cancel, ignored, url } = context
  const { id, control_url, region, token, report, tuning } = context.options
  const charges = new ChargeReports({ open: context.openSums, monotonic_ms: () => performance.now() })
  const served = (): ServedEngine[] => engines().filter(({ description }) => description.model === model)
  const hello = (): Hello => ({
    type: 'hello',
    protocol: { min: PROTOCOL_VERSION_MIN, max: PROTOCOL_VERSION },
    agent: id,
    region,
    model,
    url,
    engines: served().map(({ description }) => description),
    now_ms: wall_ms(),
  })
  return new Link({
    ...{ control_url, region, model, token, random, hello },
    statuses: () => {
      const told = served()
      return takeStatuses(told, charges.take(new Set(told.map((engine) => engine.id))))
    },
    onWelcome: (welcome) => gate.welcome(model, welcome),
    onClock: (clock_offset_ms) => {
      gate.setClock(clock_offset_ms)
      report({ event: 'clock_set', model, clock_offset_ms })
    },
    wall_ms,
    onDrain: (ids) => holdEngines(ids, true),
    onUndrain: (ids) => holdEngines(ids, false),
    onDismissed: () => gate.forget(model),
    onCancel: cancel,
    onClasses: context.classes,
    onHandle: ({ engine, tenant, program, run }) => context.discard(engine, { tenant, program, run }),
    onReplay: context.replay,
    onPositions: (leases) => positionsIn(served(), leases),
    isOpen: context.isOpen,
    onIgnored: ignored,
    onLinked: (clock_offset_ms) => report({ event: 'linked', model, clock_offset_ms }),
    onLost: (reason, retry_in_ms) => report({ event: 'link_lost', model, reason, retry_in_ms }),
    onRefused: (reason) => context.refused(model, reason),
    ...(tuning?.link === undefined ? {} : { times: tuning.link }),
  })
}

/** An engine leaves out what it does not have. */
async function positionsIn(engines: readonly ServedEngine[], leases: readonly string[]): Promise<QueuePosition[]> {
  const told = await Promise.all(engines.map(({ front }) => front.positions?.(leases) ?? []))
  return told.flat()
}
