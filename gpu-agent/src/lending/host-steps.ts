/**
 * What a host does next to come to the engines that are wanted. Pure.
 *
 * - Wanted are the engines of a stage, or without a stage the home engines.
 * - An engine with the wanted model and GPUs stays, a home engine too.
 * - In a stage a home engine stays while nobody wants its GPUs. Once it has stopped, it comes back when the stage is over, not between two stages.
 * - An engine starts when all its GPUs are free: what ran there has stopped.
 */
import type { HomeEngine, HostEngine, WantedEngine } from '../../../src/protocol/host.ts'

export interface RunningEngine extends Pick<HostEngine, 'id' | 'model' | 'gpus' | 'home' | 'state'> {}

/** To start: `id` of a home engine, else null. */
export interface StartStep extends WantedEngine {
  home_id: string | null
}

export interface HostSteps {
  /** Ids of engines. */
  stop: string[]
  start: StartStep[]
}

/** `home`: as the agent was started. `wanted`: empty without a stage. */
export function hostSteps(
  running: readonly RunningEngine[],
  wanted: readonly WantedEngine[],
  home: readonly HomeEngine[],
): HostSteps {
  const at_home = wanted.length === 0
  const targets = wanted.map(({ model, gpus }): StartStep => {
    const same = home.find((one) => isSame(one, { model, gpus }))
    return { model, gpus, home_id: same?.id ?? null }
  })
  if (at_home) targets.push(...home.map(({ id, model, gpus }) => ({ model, gpus, home_id: id })))
  const claimed = new Set<StartStep>()
  const stop: string[] = []
  for (const engine of running) {
    if (engine.state === 'stopping') continue
    const target = targets.find((one) => !claimed.has(one) && fits(engine, one, at_home))
    if (target !== undefined) claimed.add(target)
    else if (at_home || !engine.home || targets.some((one) => overlaps(one.gpus, engine.gpus))) stop.push(engine.id)
  }
  const start = targets.filter((one) => !claimed.has(one) && isFree(one, running, at_home))
  return { stop, start }
}

/** At home each home engine is wanted by its id, since some may share GPUs. */
function fits(engine: RunningEngine, target: StartStep, at_home: boolean): boolean {
  return at_home ? engine.id === target.home_id : isSame(engine, target)
}

/** Home engines may share GPUs with each other, as they did when the agent started. */
function isFree(target: StartStep, running: readonly RunningEngine[], at_home: boolean): boolean {
  return !running.some(
    (engine) => engine.id === target.home_id || ((!at_home || !engine.home) && overlaps(engine.gpus, target.gpus)),
  )
}

function isSame(a: WantedEngine, b: WantedEngine): boolean {
  return a.model === b.model && a.gpus.length === b.gpus.length && a.gpus.every((gpu) => b.gpus.includes(gpu))
}

function overlaps(a: readonly number[], b: readonly number[]): boolean {
  return a.some((gpu) => b.includes(gpu))
}
