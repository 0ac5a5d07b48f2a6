/**
 * One simulation: programs with their arrivals, played through the control plane and its engines on a virtual clock until the
 * last one has ended. The result is a function of the config alone.
 */
import { addTools } from '../gpu-agent/engine/memory/handling/handling-counts.ts'
import type { Measurement } from '../gpu-agent/engine/types.ts'
import { DEFAULT_SERVICE_RATES, type ServiceRates } from '../src/core/call/service.ts'
import { createBalancer } from '../src/core/pool/balancers/index.ts'
import { isClairvoyant, learns, weighsMemory } from './policies/index.ts'
import { Clairvoyance, engineWorkUs, programTokens } from './policies/srpt.ts'
import { emptyResult, type ProgramResult, type SimulationConfig, type SimulationResult } from './simulation-types.ts'
import type { WorkloadCall, WorkloadProgram } from './workloads/program.ts'
import { type ForecastSource, forecastOf } from './world/call-forecasts.ts'
import { ClassKnowledge, classOf } from './world/class-knowledge.ts'
import { ControlPlane } from './world/control-plane.ts'
import { Placement, tenantsOf } from './world/placement.ts'
import { ProgramRun } from './world/program-run.ts'
import { SimShards } from './world/shards.ts'
import { Timeline, Timer, TURN } from './world/timeline.ts'
import { WorldEngines } from './world/world-engines.ts'

export type * from './simulation-types.ts'

export function simulate(config: SimulationConfig): SimulationResult {
  const simulation = new Simulation(config)
  return simulation.run()
}

class Simulation {
  readonly #config: SimulationConfig
  readonly #timeline = new Timeline()
  readonly #clairvoyance = new Clairvoyance()
  readonly #engines: WorldEngines
  readonly #pools = new Map<string, SimShards>()
  readonly #plane: ControlPlane
  readonly #result: SimulationResult
  readonly #rates: ServiceRates
  readonly #classes: ClassKnowledge
  readonly #forecast: ForecastSource
  /** Programs that end are learned from. */
  readonly #learns: boolean
  #ended_programs = 0

  constructor(config: SimulationConfig) {
    this.#config = config
    this.#result = emptyResult()
    this.#rates = config.rates ?? DEFAULT_SERVICE_RATES
    this.#forecast = weighsMemory(config.policy) ? (config.forecast ?? { kind: 'none' }) : { kind: 'none' }
    const with_tools = this.#forecast.kind === 'learned'
    this.#learns = learns(config.policy) || with_tools
    this.#classes = new ClassKnowledge(config.told_us, with_tools)
    this.#engines = new WorldEngines({
      ...{ config, timeline: this.#timeline, rates: this.#rates, classes: this.#classes },
      clairvoyance: this.#clairvoyance,
    })
    for (const { name, engines } of config.regions) this.#openRegion(name, engines)
    this.#plane = new ControlPlane({
      timeline: this.#timeline,
      reading: config.reading,
      balancer: createBalancer(config.balancer, config.short_prompt_tokens),
      pools: this.#pools,
      delayUs: (from, to) => (from === to ? 0 : delayUs(config.rtt_us, from, to)),
      prefix_cache: config.engine.prefix_cache,
      programs_max: config.programs.length + 1,
      labelled: config.labelled,
      record_us: config.record_us ?? 0,
      forecast: (run, index) =>
        forecastOf(this.#forecast, run, index, () =>
          this.#classes.toolsOf(run.place.tenant, classOf(run.program, config.labelled).class),
        ),
      onIssue: (run) => this.#called(run),
      onCall: (run, index, measured) => this.#callEnded(run, index, measured),
      onRecord: (run, measured) => this.#learnCall(run, measured),
      onProgram: (run) => this.#programEnded(run),
      onEnd: (run) => this.#learn(run.name, run.program, run.place.tenant, this.#timeline.now_us),
    })
  }

  run(): SimulationResult {
    const { programs, arrivals_us, until_us } = this.#config
    const places = new Placement(this.#config)
    for (const ended of this.#config.history ?? []) {
      if (ended.client?.tells_end === false) continue
      for (const { name } of tenantsOf(ended, this.#config.tenants)) this.#learn('', ended, name, 0)
    }
    for (const [index, program] of programs.entries()) {
      const { tenant, region } = places.next(program)
      const place = { index, tenant: tenant.name, tenant_weight: tenant.weight, region }
      const arrived_us = arrivals_us[index] as number
      const { id, workload } = program
      const output_tokens = programTokens(program)
      this.#result.programs.push({
        id,
        workload,
        tenant: tenant.name,
        region,
        arrived_us,
        response_us: -1,
        first_token_us: -1,
        output_tokens,
      })
      const timer = new Timer(TURN.arrival, index, () => this.#start(program, place, arrived_us))
      this.#timeline.set(timer, arrived_us)
    }
    this.#timeline.run(() => this.#ended_programs === programs.length, until_us)
    for (const { refusals = 0 } of this.#engines.all) this.#result.refusals += refusals
    for (const engine of this.#engines.computing) {
      this.#result.decisions += engine.scheduler.decisions
      this.#result.steps += engine.steps
      this.#result.step_events += engine.events
      this.#result.busy_us += engine.busy_us
      this.#result.swaps += engine.swaps
      const { begun, returned, given_up, expired, held_back } = engine.scheduler.holds
      this.#result.holds_begun += begun
      this.#result.holds_returned += returned
      this.#result.holds_expired += given_up + expired
      this.#result.held_back += held_back
      this.#result.tools = addTools(this.#result.tools, engine.scheduler.tools)
      this.#result.swap_us += engine.scheduler.tools.swap_us
    }
    return this.#result
  }

  /** For orders that know all that is to come. */
  get #workUs(): (call: WorkloadCall) => number {
    return this.#config.front?.workUs ?? engineWorkUs(this.#rates)
  }

  #start(program: WorkloadProgram, place: ProgramRun['place'], arrived_us: number): void {
    const run = new ProgramRun(program, place, arrived_us)
    const { policy } = this.#config
    if (isClairvoyant(policy)) this.#clairvoyance.begin(run.name, program, policy === 'wsrpt', this.#workUs)
    this.#timeline.send(0, () => this.#plane.start(run))
  }

  #learn(name: string, program: WorkloadProgram, tenant: string, now_us: number): void {
    if (!this.#learns) return
    this.#classes.ended(tenant, classOf(program, this.#config.labelled).class, name, program, now_us)
  }

  #called({ name, program, place }: ProgramRun): void {
    if (!this.#learns) return
    this.#classes.called(place.tenant, classOf(program, this.#config.labelled).class, name)
  }

  #learnCall({ name, program, place }: ProgramRun, { output_tokens }: Measurement): void {
    if (!this.#learns) return
    const { class: program_class } = classOf(program, this.#config.labelled)
    this.#classes.wentOn(place.tenant, program_class, name, output_tokens, this.#timeline.now_us)
  }

  #callEnded(run: ProgramRun, call: number, measured: Measurement): void {
    const result = this.#result
    result.calls += 1
    result.service_us += measured.service_wall_us
    result.wait_us += measured.wait_us
    result.preemptions += measured.preemptions
    result.swapped_out_tokens += measured.swapped_out_tokens
    result.swapped_in_tokens += measured.swapped_in_tokens
    result.recomputed_tokens += measured.recomputed_tokens
    result.swap_us += measured.swap_us
    result.prompt_tokens += measured.prompt_tokens
    result.cached_tokens += measured.cached_tokens
    result.output_tokens += measured.output_tokens
    const program = result.programs[run.place.index] as ProgramResult
    const began_us = this.#timeline.now_us - measured.duration_us
    const first_token_us = began_us + (measured.first_token_us ?? measured.duration_us) - run.arrived_us
    if (program.first_token_us === -1 || first_token_us < program.first_token_us)
      program.first_token_us = first_token_us
    this.#config.onCall?.({ program: run.place.index, call, ended_us: this.#timeline.now_us, measured })
  }

  #programEnded(run: ProgramRun): void {
    this.#clairvoyance.end(run.name)
    this.#ended_programs += 1
    this.#result.makespan_us = Math.max(this.#result.makespan_us, run.ended_us)
    const program = this.#result.programs[run.place.index] as ProgramResult
    program.response_us = run.ended_us - run.arrived_us
    this.#config.onProgram?.(this.#ended_programs)
  }

  #openRegion(name: string, count: number): void {
    const { balancer, short_prompt_tokens, report_us, shards = 1 } = this.#config
    const engines = Array.from({ length: count }, (_, at) =>
      this.#engines.open(name, at, count, (ended, engine, now_us) => {
        if (isClairvoyant(this.#config.policy)) this.#clairvoyance.callEnded(ended.lease)
        this.#plane.ended(ended)
        this.#pools.get(name)?.changed(engine, now_us)
      }),
    )
    const pool = new SimShards(
      {
        ...{ region: name, engines, report_us },
        balancer: createBalancer(balancer, short_prompt_tokens),
        timeline: this.#timeline,
        alive: () => this.#ended_programs < this.#config.programs.length,
      },
      shards,
    )
    this.#pools.set(name, pool)
  }
}

function delayUs(rtt_us: ReadonlyMap<string, number>, from: string, to: string): number {
  return Math.round((rtt_us.get(`${from}-${to}`) ?? rtt_us.get(`${to}-${from}`) ?? 0) / 2)
}
