/** Plays a scenario on the TypeScript order and records what it decides, as a golden trace does. */
import type { CallState } from '../../../gpu-agent/engine/order/call-state.ts'
import { createPolicy } from '../../../gpu-agent/engine/order/policies/index.ts'
import type { OrderConfig } from '../../../gpu-agent/engine/order/program-order.ts'
import type { OrderedCall } from '../../../gpu-agent/engine/types.ts'
import { TenantShares } from '../../../src/core/pool/tenant-shares.ts'
import { RecordingOrder, type TracedPolicy } from '../../golden/record-trace.ts'
import { ToldClasses } from '../../golden/told-classes.ts'
import type { FuzzScenario, Limits, OrderEvent, Work } from './scenario.ts'

type Call = CallState<null>
type Of<Kind extends OrderEvent['do']> = Extract<OrderEvent, { do: Kind }>

export function play(scenario: FuzzScenario): string[] {
  const player = new Player(scenario)
  for (const { after_us, event } of scenario.events) player.play(after_us, event)
  player.endAll()
  return player.lines()
}

class Player {
  readonly #scenario: FuzzScenario
  readonly #shares = new TenantShares()
  readonly #classes = new ToldClasses()
  readonly #order: RecordingOrder<null>
  readonly #open: Call[] = []
  /** By program: what it had settled after each of its calls that ended here. */
  readonly #settled_us = new Map<string, number[]>()
  #arrived = 0
  #now_us = 0

  constructor(scenario: FuzzScenario) {
    this.#scenario = scenario
    const { policy, memory, limits } = scenario
    this.#order = new RecordingOrder<null>(this.#config(policy, limits), this.#shares, {
      ...{ name: 'fuzz', policy, memory },
    })
  }

  lines(): string[] {
    return this.#order.lines.map((line) => JSON.stringify(line))
  }

  play(after_us: number, event: OrderEvent): void {
    this.#now_us += after_us
    switch (event.do) {
      case 'arrive':
        this.#arrive(event)
        break
      case 'resident': {
        const call = this.#pick(event.call)
        if (call === null) break
        const tokens = Math.floor(event.resident * call.prompt_tokens)
        this.#order.resident(call, tokens, this.#now_us, Math.floor(event.on_device * tokens))
        break
      }
      case 'step':
        this.#step(event)
        break
      case 'decide':
        this.#order.decide(this.#now_us)
        break
      case 'end': {
        const call = this.#pick(event.call)
        if (call !== null) this.#end(call)
        break
      }
      case 'reconfigure':
        this.#order.change(event.policy, this.#config(event.policy, event.limits), this.#now_us)
        break
      case 'classes':
        this.#order.tellClasses(this.#classes, event.told, this.#now_us)
    }
  }

  endAll(): void {
    for (const call of [...this.#open]) this.#end(call)
  }

  #config(policy: TracedPolicy, limits: Limits): OrderConfig {
    const { ordering, rates, seats, memory } = this.#scenario
    const made = createPolicy(policy, { reading: ordering, rates, classes: this.#classes, memory })
    return { ...limits, seats, policy: made, shares: this.#shares, ordering, rates }
  }

  #arrive({
    tenant,
    program,
    class: of_class,
    objective,
    offline,
    forecast,
    ticket,
    prompt_tokens,
    resident,
  }: Of<'arrive'>): void {
    const name = `t${tenant}/p${program}`
    const settled_us = this.#settled_us.get(name) ?? []
    const call: OrderedCall = {
      lease: `c${this.#arrived++}`,
      tenant: `t${tenant}`,
      tenant_weight: 1 + tenant,
      ...(program % 3 === 2 ? { program_weight: 2.5 } : {}),
      ...(objective === undefined ? {} : { objective }),
      ...(offline === undefined ? {} : { offline }),
      ...(forecast === undefined ? {} : { forecast }),
      program: name,
      thread: '',
      class: `c${of_class}`,
      sequence: this.#scenario.sequences[program] ?? null,
      settled_service_us: (settled_us.at(-1 - ticket.late_calls) ?? 0) + ticket.elsewhere_settled_us,
      open_elsewhere_us: ticket.open_elsewhere_us,
      critical_path_us: ticket.critical_path_us,
      program_wait_us: ticket.wait_us,
      program_output_tokens: ticket.output_tokens,
    }
    const resident_tokens = Math.floor(resident * prompt_tokens)
    this.#open.push(this.#order.arrive(call, { prompt_tokens, resident_tokens }, null, this.#now_us))
  }

  #step({ wall_us, work, others }: Of<'step'>): void {
    const seated = [...this.#order.decide(this.#now_us)]
    this.#now_us += wall_us
    const calls = (others ? this.#open : seated).slice(0, work.length)
    for (const [index, call] of calls.entries()) this.#compute(call, work[index] as Work, wall_us)
    for (const [index, call] of calls.entries()) if (work[index]?.ends) this.#end(call)
    this.#order.settle(calls, this.#now_us)
  }

  #compute(call: Call, { uncached, cached, output, resident }: Work, wall_us: number): void {
    if (resident !== null) this.#order.resident(call, Math.floor(resident * call.prompt_tokens), this.#now_us)
    const tokens = { uncached_prompt_tokens: uncached, cached_prompt_tokens: cached, output_tokens: output }
    this.#order.charge(call, tokens, wall_us, this.#now_us)
  }

  #end(call: Call): void {
    this.#open.splice(this.#open.indexOf(call), 1)
    const settled_us = this.#settled_us.get(call.call.program) ?? []
    settled_us.push((settled_us.at(-1) ?? 0) + call.charged_us)
    this.#settled_us.set(call.call.program, settled_us)
    this.#order.ended(call, this.#now_us)
  }

  #pick(index: number): Call | null {
    return this.#open[index % Math.max(1, this.#open.length)] ?? null
  }
}
