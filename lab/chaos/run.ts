/**
 * One chaos run: a system, its load, a plan of faults, and the questions after the invariants. Everything that happens is
 * told to `log` with its time; a violation is told when it is seen.
 */

import { applyFault, type Heal } from './apply-fault.ts'
import { type BudgetsSeen, BudgetWatch } from './budget-watch.ts'
import { Fleet } from './fleet.ts'
import { HostStalls } from './host-stalls.ts'
import { checkAll, type KnownProgram, neverAhead, noViolations, settled, type Violations } from './invariants.ts'
import { LedgerBook } from './ledger.ts'
import { LimitedTenants, PRICES } from './limited-tenants.ts'
import { type Ended, Load } from './load.ts'
import { Random } from './random.ts'
import type { PlannedFault } from './schedule.ts'
import { probeShares, type SharesSeen } from './shares.ts'
import type { StreamCounts } from './stream-counts.ts'
import { StreamWatch } from './stream-watch.ts'

export const CHAOS_PLACE = {
  regions: ['us-east', 'eu-west'],
  agents_per_region: 2,
} as const
const MODEL = 'emulated-8b'
export const PROGRAMS_AT_ONCE_DEFAULT = 14
/**
 * No call may take longer, under any fault: three leases, each silent to its limit, and what follows. Time in which the host
 * did not run the system does not count.
 */
const CALL_ENDS_WITHIN_MS = 120_000
/** Within it a call completes, under any fault. Time in which the host did not run the system does not count. */
const SERVES_WITHIN_MS = 180_000
const SAMPLE_EVERY_MS = 2000
/** As `npm run up` and systemd do with a control plane that ends by itself. */
const RESTART_AFTER_MS = 1000
/** Of the newest, each time. */
const PROGRAMS_SAMPLED = 8
const PROGRAMS_SAMPLED_OF = 30
/** Programs of a long run are archived while it goes on. No clock jumps as far (apply-fault.ts). */
const STALE_AFTER_S = 900
/** One agent's clock is this far off for the whole run, another's as far the other way. */
const CLOCK_OFF_MS = 300_000

export interface ChaosResult {
  violations: Violations
  ends: Record<string, number>
  programs: number
  calls: number
  faults: Record<string, number>
  /** Leases whose Worker died before it reached their agent; given up later, and no violation. */
  leases_not_arrived: number
  samples: number
  /** How long the host did not run what was due. */
  stalled_ms: number
  shares: SharesSeen | null
  streams: StreamCounts
  budgets: BudgetsSeen
}

/** Within this, every process reads the catalogue again: CACHE_TTL_MS of src/store/isolate-cache.ts. */
const CATALOGUE_READ_MS = 10_000

export interface ChaosOptions {
  seed: number
  duration_ms: number
  schedule: readonly PlannedFault[]
  small_disks: boolean
  /** Processes of the control plane. */
  workers: number
  /** At work at a time. */
  programs_at_once: number
  log: (event: Record<string, unknown>) => void
  progress: (text: string) => void
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
const total = (found: Violations): number => Object.values(found).flat().length

export async function runChaos(options: ChaosOptions): Promise<ChaosResult> {
  const fleet = await Fleet.start({
    ...CHAOS_PLACE,
    engines_per_agent: 1,
    model: MODEL,
    agent_flags: { profile: 'tiny', seats: 6, slots: 16, 'context-tokens': 8192 },
    clocks_off_ms: { 'us-east-1': CLOCK_OFF_MS, 'eu-west-1': -CLOCK_OFF_MS },
    small_disks: options.small_disks,
    workers: options.workers,
    stale_after_s: STALE_AFTER_S,
  })
  try {
    return await new ChaosRun(fleet, options).run()
  } finally {
    await fleet.remove()
  }
}

class ChaosRun {
  readonly #fleet: Fleet
  readonly #options: ChaosOptions
  readonly #found = noViolations()
  readonly #book: LedgerBook
  readonly #stalls = new HostStalls()
  readonly #completed = new Map<string, Set<string>>()
  readonly #ends: Record<string, number> = {}
  readonly #faults: Record<string, number> = {}
  readonly #limited: LimitedTenants
  readonly #streams: StreamWatch
  readonly #budgets: BudgetWatch
  readonly #started_ms = performance.now()
  #samples = 0
  #over = false
  /** The control plane was killed, and its fault is not healed. */
  #isKilled = false
  #completed_ms = 0
  #completed_stalled_ms = 0

  constructor(fleet: Fleet, options: ChaosOptions) {
    this.#fleet = fleet
    this.#book = new LedgerBook(fleet)
    this.#options = options
    this.#limited = new LimitedTenants(fleet, new Random(options.seed + 3))
    this.#streams = new StreamWatch(fleet)
    this.#budgets = new BudgetWatch(fleet, this.#limited, (invariant, what) => this.#violate(invariant, what))
  }

  async run(): Promise<ChaosResult> {
    const { seed, duration_ms, programs_at_once, log } = this.#options
    await this.#fleet.setPrices(PRICES)
    // The other processes know the first price when they read the catalogue again.
    if (this.#options.workers > 1) await sleep(CATALOGUE_READ_MS)
    const other = await this.#fleet.createTenant('other')
    const tenants = [{ tenant: 'local', apiKey: this.#fleet.secrets.apiKey }, other]
    const load = new Load({
      fleet: this.#fleet,
      tenants,
      limited: this.#limited,
      seed,
      programs_at_once,
      stalls: this.#stalls,
      onEnded: (ended) => this.#ended(ended),
    })
    const running = load.run()
    const sampling = this.#sample(load)
    const keeping = [this.#keepControlPlane(), this.#streams.watch(), this.#limited.keep()]
    await this.#strike(
      load,
      tenants.map(({ tenant }) => tenant),
    )
    await sleep(Math.max(0, duration_ms - this.#now()))
    load.stop()
    log({ t_ms: this.#now(), event: 'healed' })
    await running
    this.#over = true
    this.#limited.stop()
    this.#streams.stop()
    await Promise.all([sampling, ...keeping])
    const shares = await this.#sharesWhole(tenants)
    const { leases_not_arrived } = await this.#checkAtEnd(load.programs)
    await this.#budgets.check(tenants, this.#book, this.#options.progress)
    this.#stalls.stop()
    return {
      violations: this.#found,
      ends: this.#ends,
      programs: load.programs.length,
      calls: load.calls,
      faults: this.#faults,
      leases_not_arrived,
      samples: this.#samples,
      stalled_ms: Math.round(this.#stalls.stalled_ms),
      shares,
      streams: this.#streams.counts(this.#book),
      budgets: this.#budgets.seen,
    }
  }

  #now(): number {
    return Math.round(performance.now() - this.#started_ms)
  }

  #violate(invariant: keyof Violations, what: string): void {
    this.#found[invariant].push(what)
    this.#options.log({ t_ms: this.#now(), event: 'violation', invariant, what })
  }

  #ended(call: Ended): void {
    const { tenant, program, api, stream, took_ms, stalled_ms, ended } = call
    this.#ends[ended.end] = (this.#ends[ended.end] ?? 0) + 1
    this.#options.log({
      t_ms: this.#now(),
      event: 'call',
      tenant: tenant.tenant,
      ...{ program, api, stream, took_ms, stalled_ms },
      ...ended,
    })
    this.#streams.ended(call)
    this.#budgets.ended(call)
    if (ended.end === 'half_truth') this.#violate('one_stream', `${program}: ${ended.reason}`)
    if (took_ms - stalled_ms > CALL_ENDS_WITHIN_MS)
      this.#violate('no_starvation', `${program}: a call took ${took_ms} ms`)
    if (ended.end === 'completed') this.#served()
    if (ended.end !== 'completed' || ended.call === null) return
    const key = JSON.stringify([tenant.tenant, program])
    const known = this.#completed.get(key) ?? new Set()
    this.#completed.set(key, known.add(ended.call))
  }

  /** Makes the planned faults at their times, and heals what stands at the end. */
  async #strike(load: Load, tenants: readonly string[]): Promise<void> {
    const { schedule, log, seed } = this.#options
    const struck = {
      fleet: this.#fleet,
      programs: () => load.programs.map(({ tenant, program }) => ({ tenant: tenant.tenant, program })),
      tenants,
      random: new Random(seed + 1),
      violation: (what: string) => this.#violate('isolation', what),
    }
    const healing: Promise<void>[] = []
    for (const planned of schedule) {
      await sleep(Math.max(0, planned.at_ms - this.#now()))
      const { fault, target, for_ms } = planned
      this.#faults[fault] = (this.#faults[fault] ?? 0) + 1
      log({ t_ms: this.#now(), event: 'fault', fault, target, for_ms })
      this.#show(load, `${fault} ${target}`)
      if (fault === 'kill_control_plane') this.#isKilled = true
      const heal = await this.#attempt(planned, () => applyFault(planned, struck))
      healing.push(sleep(for_ms).then(() => this.#heal(planned, heal)))
      if (fault === 'kill_control_plane') {
        await healing.at(-1)
        this.#isKilled = false
      }
    }
    await Promise.all(healing)
    await this.#fleet.startWhatIsDown()
    await this.#fleet.setFaults({})
  }

  /** A fault may meet a control plane that another one has just ended: then it did not take place. */
  async #attempt(planned: PlannedFault, work: () => Promise<Heal>): Promise<Heal> {
    try {
      return await work()
    } catch (error) {
      this.#options.log({ t_ms: this.#now(), event: 'fault_missed', ...planned, reason: String(error) })
      return async () => undefined
    }
  }

  async #heal(planned: PlannedFault, heal: Heal): Promise<void> {
    const { fault, target } = planned
    try {
      await heal()
      this.#options.log({ t_ms: this.#now(), event: 'heal', fault, target })
    } catch (error) {
      // A process that did not come up in time is started again when the plan is over.
      this.#options.log({ t_ms: this.#now(), event: 'heal_failed', fault, target, reason: String(error) })
    }
  }

  #served(): void {
    this.#completed_ms = this.#now()
    this.#completed_stalled_ms = this.#stalls.stalled_ms
  }

  #checkServing(): void {
    const for_ms = this.#now() - this.#completed_ms - (this.#stalls.stalled_ms - this.#completed_stalled_ms)
    if (for_ms <= SERVES_WITHIN_MS) return
    this.#violate('no_starvation', `no call completed for ${Math.round(for_ms)} ms`)
    this.#served()
  }

  async #keepControlPlane(): Promise<void> {
    while (!this.#over) {
      await sleep(RESTART_AFTER_MS)
      this.#checkServing()
      if (this.#isKilled || this.#fleet.isControlPlaneUp) continue
      this.#options.log({ t_ms: this.#now(), event: 'control_plane_ended_by_itself' })
      await this.#fleet.startControlPlane().catch((error: Error) => {
        this.#options.log({ t_ms: this.#now(), event: 'control_plane_start_failed', reason: error.message })
      })
    }
  }

  /** Asks of a program at random, again and again, whether the table is ahead of the engines. */
  async #sample(load: Load): Promise<void> {
    const random = new Random(this.#options.seed + 2)
    while (!this.#over) {
      await sleep(SAMPLE_EVERY_MS)
      await this.#budgets.sample()
      if (load.programs.length === 0) continue
      const recent = load.programs.slice(-PROGRAMS_SAMPLED_OF)
      const sampled = Array.from({ length: PROGRAMS_SAMPLED }, () => random.pick(recent))
      const ahead = await neverAhead(this.#fleet, this.#book, sampled)
      if (ahead === null) continue
      this.#samples += sampled.length
      for (const what of ahead) this.#violate('conservation', what)
      this.#show(load, '')
    }
  }

  async #sharesWhole(tenants: readonly { tenant: string; apiKey: string }[]): Promise<SharesSeen | null> {
    const [flooding, probing] = tenants
    if (flooding === undefined || probing === undefined) return null
    this.#options.progress('shares of two tenants')
    // Engines that were killed last must have told their pools that they are back.
    await sleep(SAMPLE_EVERY_MS)
    const { seen, violations } = await probeShares(this.#fleet, flooding, probing)
    for (const what of violations) this.#violate('shares', what)
    return seen
  }

  async #checkAtEnd(programs: readonly KnownProgram[]): Promise<{ leases_not_arrived: number }> {
    this.#options.progress('waiting until every record is acknowledged')
    for (const what of await settled(this.#fleet)) this.#violate('conservation', what)
    const before = structuredClone(this.#found)
    const checked = await checkAll(this.#fleet, this.#book, programs, this.#completed, this.#found, (done) =>
      this.#options.progress(`${done} of ${programs.length} programs checked`),
    )
    for (const [invariant, whats] of Object.entries(this.#found)) {
      for (const what of whats.slice(before[invariant as keyof Violations].length)) {
        this.#options.log({ t_ms: this.#now(), event: 'violation', invariant, what })
      }
    }
    return checked
  }

  #show(load: Load, what: string): void {
    const share = Math.min(100, Math.round((100 * this.#now()) / this.#options.duration_ms))
    const figures = `${load.programs.length} programs, ${load.calls} calls, ${total(this.#found)} violations`
    this.#options.progress(`${share} %: ${figures}${what === '' ? '' : `, ${what}`}`)
  }
}
