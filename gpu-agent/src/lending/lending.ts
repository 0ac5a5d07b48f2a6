/** Lends this host's GPUs: its link to the control plane, the coordinator, and the engines that come and go. Composes them and decides nothing. */
import { HOST_PROTOCOL_VERSION, type HomeEngine, type HostHello } from '../../../src/protocol/host.ts'
import type { AgentOptions, EngineStart, LendOptions } from '../agent-options.ts'
import { Coordinator } from './coordinator.ts'
import { HostLink } from './host-link.ts'
import { LentHost } from './lent-host.ts'

interface Surroundings {
  options: AgentOptions
  lend: LendOptions
  /** Models of the engines that run, by id. */
  models: ReadonlyMap<string, string>
  start: (engine: EngineStart) => Promise<void>
  end: (id: string, drain_limit_ms: number) => Promise<void>
  isUp: (id: string) => boolean
  ignored: () => void
  random: () => number
}

export class Lending {
  readonly host: LentHost
  readonly #coordinator: Coordinator
  readonly #link: HostLink

  constructor({ options, lend, models, start, end, isUp, ignored, random }: Surroundings) {
    const { id: agent, region, control_url, token, report } = options
    const home = [...lend.home_gpus].map(
      ([id, gpus]): HomeEngine => ({ id, model: models.get(id) ?? '', gpus: [...gpus] }),
    )
    const homeStart = (id: string): EngineStart | null => options.engines.find((engine) => engine.id === id) ?? null
    this.host = new LentHost({
      ...{ agent, home, end, isUp, report, random, ...lend.tuning },
      start: (engine, leaving) => {
        const found = engine.home ? homeStart(engine.id) : lend.engineOf(engine, leaving)
        if (found === null)
          throw new Error(`this host cannot start ${engine.model}: its --startable file does not name it`)
        return start(found)
      },
      changed: () => this.#link.changed(),
    })
    this.#coordinator = new Coordinator(lend.costs, lend.planner)
    const hello: HostHello = {
      ...{ type: 'hello', agent, region, gpus: lend.gpus, lend: lend.policy, models: [...lend.models], home },
      protocol: { min: HOST_PROTOCOL_VERSION, max: HOST_PROTOCOL_VERSION },
    }
    this.#link = new HostLink({
      ...{ control_url, region, token, report, ignored, random, host: this.host, coordinator: this.#coordinator },
      hello: () => hello,
      ...(lend.tuning?.link === undefined ? {} : { times: lend.tuning.link }),
    })
  }

  start(): void {
    this.#link.start()
  }

  /** Takes no further stage. Resolves when the engines that start or end have done so. */
  async stop(): Promise<void> {
    await Promise.all([this.#link.stop(), this.host.stop()])
    await this.#coordinator.stop()
  }
}
