/**
 * Records what an order of programs was told and what it decided, as lines of JSON that the Python order replays. The
 * recorder is a ProgramOrder itself, put under the scheduler of a run, so a trace is of the engine's own decisions.
 *
 * Lines, after the header; times in us, `t` being when it happened, tokens and sums as in ProgramOrder:
 *   {"t","arrive":[lease, tenant, weight, program, class, sequence, settled, elsewhere, path, wait, output tokens,
 *                  prompt tokens, resident tokens]}   with "offline": true if it is,
 *                  and "program_weight" if it has one
 *   `forecast` beside it: [output tokens, [[probability, duration]…], confidence], where one is known
 *   {"t","resident":[lease, tokens, tokens on the device]}   the last is left out where all are
 *   {"t","seated":[lease…]}           a decision; null where it equals the one before
 *   {"t","wall","charges":[[lease, uncached, cached, output tokens, modelled]…]}
 *   {"t","positions":{lease: [open calls of its tenant before it, by what it is ordered, in words]}}   of some, now and then
 *   {"t","ended":lease,"sums":[wall, modelled, output tokens]}
 *   {"t","settled":[[lease, due]…]}   due null: never
 *   {"t","reconfigured":policy and its parameters, and the limits as in the header}
 *   {"t","classes":[{"tenant","class","objective","table"}…]}   known from then on, as the side channel tells it
 * `ranks` beside any of them: {lease: rank} of the open calls whose rank is another than before. `usage` beside a new
 * decision is each tenant's recent service. `memory` in the header is what the policy knows of its engine's. `standby` is one of the limits unless it is `in_order`.
 */
import type { CallState } from '../../gpu-agent/engine/order/call-state.ts'
import {
  createPolicy,
  type MemoryPolicyConfig,
  type PolicyConfig,
} from '../../gpu-agent/engine/order/policies/index.ts'
import type { EngineMemory, Policy } from '../../gpu-agent/engine/order/policy.ts'
import { type OrderConfig, ProgramOrder } from '../../gpu-agent/engine/order/program-order.ts'
import type { ScheduledCall } from '../../gpu-agent/engine/scheduled-call.ts'
import { type SchedulerConfig, schedulerConfig } from '../../gpu-agent/engine/scheduler-config.ts'
import type { OrderedCall } from '../../gpu-agent/engine/types.ts'
import type { ToldClass } from '../../gpu-agent/src/fronts/vllm/channel/class-teller.ts'
import type { CallForecast } from '../../src/core/call/forecast.ts'
import type { ServiceTokens } from '../../src/core/call/service.ts'
import { TenantShares } from '../../src/core/pool/tenant-shares.ts'
import { ToldClasses } from './told-classes.ts'

export const TRACE_VERSION = 2
/** After each of so many decisions it is told where so many open calls are. */
const DECISIONS_PER_POSITIONS = 40
const POSITIONS_TOLD = 3

export type TracedPolicy = PolicyConfig | MemoryPolicyConfig

export interface Scenario {
  name: string
  policy: TracedPolicy
  /** Left out: as in a usual engine. */
  memory?: EngineMemory
  config: Omit<Parameters<typeof schedulerConfig>[0], 'policy' | 'shares' | 'epoch'>
  play: (config: SchedulerConfig, order: RecordingOrder) => void
  /** In order of time. Each happens before the first decision at or after its time. */
  changes?: readonly Change[]
}

/** Tables of classes are told, the policy is replaced, or both. */
export interface Change {
  at_us: number
  classes?: readonly ToldClass[]
  policy?: TracedPolicy
}

type Line = Record<string, unknown>

/** The whole trace of a scenario, a line each. */
export function recordTrace({ name, policy, memory, config: given, play, changes = [] }: Scenario): string {
  const shares = new TenantShares()
  const classes = new ToldClasses()
  const known = memory === undefined ? {} : { memory }
  const context = { reading: given.ordering ?? ('modelled' as const), classes, ...known }
  const config = schedulerConfig({ epoch: 'golden', ...given, policy: createPolicy(policy, context), shares })
  const order = new RecordingOrder(config, shares, { name, policy, ...known })
  for (const { at_us, classes: told, policy: other } of changes) {
    order.plan(at_us, (t) => {
      if (told !== undefined) order.tellClasses(classes, told, t)
      if (other !== undefined) order.change(other, { ...config, policy: createPolicy(other, context) }, t)
    })
  }
  play(config, order)
  return `${order.lines.map((line) => JSON.stringify(line)).join('\n')}\n`
}

/** Of the seating, as the header and a reconfiguration tell them. */
function limitsOf(config: OrderConfig): Line {
  const { seats, shares_interval_us, steps_per_decision, preemptions_per_decision_max, standby } = config
  const limits = { seats, shares_interval_us, steps_per_decision, preemptions_per_decision_max }
  return standby === 'in_order' ? limits : { ...limits, standby }
}

export class RecordingOrder<O = ScheduledCall> extends ProgramOrder<O> {
  readonly lines: Line[]
  readonly #shares: TenantShares
  readonly #tenants = new Set<string>()
  readonly #open = new Map<string, CallState<O>>()
  readonly #ranks = new Map<string, number>()
  #policy: Policy
  #seated = ''
  #decided = 0
  readonly #planned: { at_us: number; work: (t: number) => void }[] = []
  /** Charges of the step being charged; null between steps. */
  #charges: { t: number; wall: number; charges: unknown[] } | null = null

  constructor(
    config: OrderConfig,
    shares: TenantShares,
    { name, policy, memory }: Pick<Scenario, 'name' | 'policy' | 'memory'>,
  ) {
    super(config)
    this.#policy = config.policy
    this.#shares = shares
    const { ordering, rates } = config
    this.lines = [
      {
        trace: TRACE_VERSION,
        name,
        policy,
        ...limitsOf(config),
        ordering,
        rates,
        ...(memory === undefined ? {} : { memory }),
      },
    ]
  }

  override arrive(
    call: OrderedCall,
    tokens: { prompt_tokens: number; resident_tokens?: number },
    owner: O,
    t: number,
  ): CallState<O> {
    const state = super.arrive(call, tokens, owner, t)
    this.#tenants.add(state.tenant.share)
    this.#open.set(call.lease, state)
    const { lease, tenant, tenant_weight, program, sequence, settled_service_us, open_elsewhere_us } = call
    const known = [settled_service_us, open_elsewhere_us, call.critical_path_us, call.program_wait_us]
    const arrive = [lease, tenant, tenant_weight, program, call.class, sequence, ...known, call.program_output_tokens]
    const objective = call.objective === undefined ? [] : [call.objective]
    const offline = call.offline ? { offline: true } : {}
    const forecast = call.forecast === undefined ? {} : { forecast: forecastLine(call.forecast) }
    const weight = call.program_weight === undefined ? {} : { program_weight: call.program_weight }
    this.#tell({
      t,
      arrive: [...arrive, state.prompt_tokens, state.resident_tokens, ...objective],
      ...offline,
      ...forecast,
      ...weight,
    })
    return state
  }

  override resident(call: CallState<O>, tokens: number, t: number, device_tokens = tokens): void {
    const { resident_tokens, holds_kv } = call
    super.resident(call, tokens, t, device_tokens)
    if (call.resident_tokens === resident_tokens && call.holds_kv === holds_kv) return
    const on_device = device_tokens === tokens ? [] : [device_tokens]
    this.#tell({ t, resident: [call.call.lease, tokens, ...on_device] })
  }

  override decide(t: number): readonly CallState<O>[] {
    while ((this.#planned[0]?.at_us ?? Number.POSITIVE_INFINITY) <= t) this.#planned.shift()?.work(t)
    const order = super.decide(t)
    const leases = order.map(({ call }) => call.lease)
    const seated = JSON.stringify(leases)
    if (seated === this.#seated) this.#tell({ t, seated: null })
    else {
      this.#seated = seated
      const usage = Array.from(this.#tenants, (tenant) => [tenant, this.#shares.recentServiceUs(tenant, t)])
      this.#tell({ t, seated: leases, ...(usage.length > 1 ? { usage: Object.fromEntries(usage) } : {}) })
    }
    this.#decided += 1
    if (this.#decided % DECISIONS_PER_POSITIONS === 0) this.#tellPositions(t)
    return order
  }

  override charge(call: CallState<O>, tokens: ServiceTokens, wall_us: number, t: number): number {
    const modelled_us = super.charge(call, tokens, wall_us, t)
    const { uncached_prompt_tokens, cached_prompt_tokens, output_tokens } = tokens
    this.#charges ??= { t, wall: wall_us, charges: [] }
    this.#charges.charges.push([
      call.call.lease,
      uncached_prompt_tokens,
      cached_prompt_tokens,
      output_tokens,
      modelled_us,
    ])
    return modelled_us
  }

  override ended(call: CallState<O>, t: number): void {
    super.ended(call, t)
    const { lease } = call.call
    this.#open.delete(lease)
    this.#ranks.delete(lease)
    this.#tell({ t, ended: lease, sums: [call.service_wall_us, call.service_modelled_us, call.output_tokens] })
  }

  override settle(calls: readonly CallState<O>[], t: number): void {
    super.settle(calls, t)
    const going = calls.filter(({ ended }) => !ended)
    this.#tell({ t, settled: going.map((call) => [call.call.lease, finite(this.#policy.dueUs(call.place))]) })
  }

  /** As `reconfigure`; a policy does not tell what it was made of. */
  change(policy: TracedPolicy, config: OrderConfig, t: number): void {
    this.reconfigure(config, t)
    this.#policy = config.policy
    this.#tell({ t, reconfigured: policy, ...limitsOf(config) })
  }

  /** Later calls of these classes are ordered by other tables. */
  tellClasses(classes: ToldClasses, told: readonly ToldClass[], t: number): void {
    classes.take(told)
    this.#tell({ t, classes: told })
  }

  /** `work` happens before the first decision at or after `at_us`. Plans come in order of time. */
  plan(at_us: number, work: (t: number) => void): void {
    this.#planned.push({ at_us, work })
  }

  /** Of those that came last: they are the likeliest to wait. */
  #tellPositions(t: number): void {
    const told = [...this.#open].slice(-POSITIONS_TOLD).map(([lease, call]) => {
      const { before, order } = this.position(call)
      return [lease, [before, order]] as const
    })
    if (told.length > 0) this.#tell({ t, positions: Object.fromEntries(told) })
  }

  /** Charges are told before what came after them, and those between which nothing came are one line. */
  #tell(line: Line): void {
    if (this.#charges !== null) this.lines.push(this.#charges)
    this.#charges = null
    const ranks: Record<string, number> = {}
    for (const [lease, { place }] of this.#open) {
      if (this.#ranks.get(lease) === place.rank) continue
      this.#ranks.set(lease, place.rank)
      ranks[lease] = place.rank
    }
    this.lines.push(Object.keys(ranks).length > 0 ? { ...line, ranks } : line)
  }
}

function forecastLine({ output_tokens, tool, alternatives = [], confidence }: CallForecast): unknown[] {
  const tools = tool === null ? [] : [tool, ...alternatives]
  return [output_tokens, tools.map(({ probability, duration_us }) => [probability, duration_us]), confidence]
}

function finite(value: number): number | null {
  return Number.isFinite(value) ? value : null
}
