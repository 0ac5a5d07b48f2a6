/** What an agent lends, from its flags: GPUs of its home engines, the models of its --startable file, and how their engines are started. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { StartableModel } from '../../../src/protocol/host.ts'
import { POLICY_NAMES } from '../../engine/order/policies/index.ts'
import type { EngineStart, LendOptions } from '../agent-options.ts'
import type { Report } from '../events.ts'
import type { FrontOptions } from '../fronts/front-options.ts'
import { engineFolder } from '../fronts/vllm/process/engine-folder.ts'
import type { CliOptions } from '../options.ts'
import type { Startable } from './startable-file.ts'

interface LendContext {
  cli: CliOptions
  lend: NonNullable<CliOptions['lend']>
  report: Report
  /** Aborted when the agent ends in this very moment. */
  leaving: AbortSignal
  /** Of this host, shared by its GPUs. */
  cores: number
}

export function lendOptions(context: LendContext): LendOptions {
  const { cli, lend } = context
  const { gpus, startable, policy, planner } = lend
  return {
    policy,
    planner,
    gpus,
    models: startable.map((one): StartableModel => modelOf(one, gpus)),
    costs: startable.flatMap(({ costs }) => [...costs.values()]),
    home_gpus: homeGpus(cli, gpus),
    engineOf: (engine, leaving) => {
      const found = startable.find(({ model }) => model === engine.model)
      return found === undefined ? null : engineOf(context, found, engine, leaving)
    },
  }
}

function modelOf({ model, engine, front, costs }: Startable, gpus: number): StartableModel {
  const longest = Math.max(...[...costs.values()].map(({ max_model_tokens }) => max_model_tokens))
  const degrees = [...costs.keys()].filter((degree) => degree <= gpus).sort((a, b) => a - b)
  return { model, kind: engine, context_tokens_max: front.context_tokens ?? longest, degrees }
}

/** Engines of vLLM have the GPUs that --gpus names. Others share the host's evenly; with more engines than GPUs, some have one together. */
export function homeGpus({ id, engine, engines, front }: CliOptions, gpus: number): Map<string, number[]> {
  const listed = front.vllm?.mode === 'process' ? (front.vllm.gpus ?? [...Array(engines).keys()]) : null
  const of = new Map<string, number[]>()
  for (let index = 0; index < engines; index += 1) {
    const share = (listed?.length ?? gpus) / engines
    const first = Math.floor(index * share)
    const last = Math.max(first + 1, Math.floor((index + 1) * share))
    const numbers = Array.from({ length: last - first }, (_, at) => first + at)
    const named = engine === 'vllm' ? numbers.map((at) => listed?.[at] ?? at) : numbers
    of.set(`${id}-e${index}`, named)
  }
  return of
}

function engineOf(
  context: LendContext,
  startable: Startable,
  { id, gpus }: { id: string; gpus: readonly number[] },
  unwanted: AbortSignal,
): EngineStart {
  const { report, leaving: agent_leaving } = context
  const leaving = AbortSignal.any([agent_leaving, unwanted])
  const create: EngineStart['create'] = async (events, lost, classes) => {
    const { createFront } = await import('../fronts/create-front.ts')
    const played = startable.emulated.get(gpus.length)
    if (played !== undefined) await sleep(played.loading_s * 1000, undefined, { signal: leaving })
    const options = lentFront(context, startable, { id, gpus })
    return createFront(options, events, classes, undefined, { report, leaving, lost })
  }
  return { id, create }
}

/** How the engine of a model is started on these GPUs. One of several GPUs is tensor parallel over them. */
export function lentFront(
  { cli, lend, cores }: Pick<LendContext, 'cli' | 'lend' | 'cores'>,
  { model, engine, front, on_cpu, emulated }: Startable,
  { id, gpus }: { id: string; gpus: readonly number[] },
): FrontOptions {
  const { data_dir, policy } = cli
  const { server: _, ...sizes } = front
  const known = POLICY_NAMES.find((name) => name === policy)
  const home_engines = cli.engine === 'vllm' ? cli.engines : 0
  // Engines that share the host's memory and cores. One that has GPUs has all those that it is given.
  const has_gpus = engine === 'vllm' && !on_cpu
  const engines = has_gpus ? 1 : Math.max(1, Math.floor(lend.gpus / gpus.length))
  const options: FrontOptions = {
    ...{ engine, id, model_id: model, ...sizes, policy: engine === 'vllm' ? policy : (known ?? 'plas') },
    place: { folder: engineFolder(data_dir, home_engines + (gpus[0] ?? 0)), engine_index: 0, engines },
  }
  // Cores stand for GPUs.
  if (engine === 'embedded') options.threads = gpus.length * Math.max(1, Math.floor(cores / lend.gpus))
  if (options.vllm?.mode === 'process') options.vllm = { ...options.vllm, gpus: has_gpus ? [...gpus] : null }
  const played = emulated.get(gpus.length)
  if (played !== undefined) options.profile = played.profile
  return options
}
