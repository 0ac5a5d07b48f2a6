/**
 * Which hosts an application gets in its plan, and why the others do not count. Hosts that are free come first: a plan for hosts that are lent waits.
 * A host that lends only what is spare keeps the last engine of a model for the calls of others.
 */
import { HOSTS_PER_PLAN_MAX, type HostHello } from '../../protocol/host.ts'
import type { LoanHost } from './loan.ts'

export interface KnownHost extends Pick<HostHello, 'agent' | 'region' | 'gpus' | 'lend' | 'models' | 'home'> {
  linked: boolean
  /** The operator drains it. */
  draining: boolean
  /** In a loan, or to be lent later. */
  lent: boolean
  /** Online calls need its own engines at this moment. */
  needed_at_home: boolean
}

export interface HostWish {
  models: ReadonlySet<string>
  /** Null: any. */
  regions: ReadonlySet<string> | null
  gpus_max: number
}

export type HostChoice = { ok: true; hosts: LoanHost[] } | { ok: false; reason: string }

/** Reasons that are told. */
const REASONS_MAX = 8

/** `servedBy`: agents with an engine that is ready for this model in this region. */
export function chooseHosts(
  known: readonly KnownHost[],
  wish: HostWish,
  servedBy: (region: string, model: string) => ReadonlySet<string>,
): HostChoice {
  const faults: string[] = []
  const able: KnownHost[] = []
  for (const host of known) {
    const fault = faultOf(host, wish)
    if (fault === null) able.push(host)
    else faults.push(`${host.agent}: ${fault}`)
  }
  const free = able.filter(({ lent }) => !lent)
  const asked = (free.length > 0 ? free : able).sort((a, b) => b.gpus - a.gpus || (a.agent < b.agent ? -1 : 1))
  const chosen = new Map(asked.map((host) => [host.agent, host]))
  // From the last on, so that the largest hosts stay.
  for (const host of asked.toReversed()) {
    const last = lastServed(host, chosen, servedBy)
    if (last === null) continue
    chosen.delete(host.agent)
    faults.push(
      `${host.agent}: no other engine would serve ${last} in ${host.region}; start one, or this agent with --lend all`,
    )
  }
  const hosts: LoanHost[] = []
  let left = wish.gpus_max
  for (const { agent, region, gpus } of chosen.values()) {
    if (left === 0 || hosts.length === HOSTS_PER_PLAN_MAX) break
    const taken = Math.min(gpus, left)
    hosts.push({ agent, region, gpus: taken })
    left -= taken
  }
  return hosts.length > 0 ? { ok: true, hosts } : { ok: false, reason: reasonOf(faults) }
}

function faultOf(host: KnownHost, { models, regions }: HostWish): string | null {
  if (!host.linked) return 'it is not linked'
  if (host.draining) return 'the operator drains it'
  if (host.needed_at_home) return 'online calls need its own engines'
  if (regions !== null && !regions.has(host.region)) return `its region ${host.region} is not allowed here`
  const startable = new Set(host.models.map(({ model }) => model))
  const absent = [...models].filter((model) => !startable.has(model))
  return absent.length === 0 ? null : `it cannot start ${absent.join(', ')}`
}

/** A home model of the host that no engine outside of the chosen hosts serves, where the host lends only what is spare. */
function lastServed(
  { lend, home, region }: KnownHost,
  chosen: ReadonlyMap<string, KnownHost>,
  servedBy: (region: string, model: string) => ReadonlySet<string>,
): string | null {
  if (lend === 'all') return null
  const stays = (model: string) => [...servedBy(region, model)].some((agent) => !chosen.has(agent))
  return home.find(({ model }) => !stays(model))?.model ?? null
}

function reasonOf(faults: readonly string[]): string {
  if (faults.length === 0) return 'No agent lends its GPUs. Start one with --lend (docs/applications.md).'
  const told = faults.slice(0, REASONS_MAX).join('; ')
  const more = faults.length > REASONS_MAX ? `; and ${faults.length - REASONS_MAX} more` : ''
  return `No host can run this application. ${told}${more}.`
}
