/** The command lines of the supervisor's children. Secrets go by environment, never by argument. */
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { agentIdOf } from '../workerd/agent-ids.ts'
import type { DataDir } from './data-dir.ts'
import type { Secrets } from './secrets.ts'
import type { ServedModel } from './served-model.ts'
import type { EngineSize } from './sizing.ts'
import type { ServerFlags, UpOptions } from './up-flags.ts'

const ROOT = path.dirname(path.dirname(path.dirname(fileURLToPath(import.meta.url))))
/** Calls under way may take this long when the system is stopped. */
export const DRAIN_LIMIT_S = 5

export interface Command {
  args: string[]
  env: Record<string, string>
}

export function controlPlaneCommand(options: UpOptions, place: DataDir, model: ServedModel): Command {
  const lent = (options.lend?.models ?? []).filter(({ id }) => id !== model.id)
  const others = [...model.others, ...lent]
  const flags = {
    'data-dir': place.root,
    port: options.port,
    regions: options.regions.join(','),
    model: model.id,
    'context-tokens': model.context_tokens,
    ...(others.length === 0 ? {} : { 'other-models': JSON.stringify(others) }),
    'region-rtt-ms': options.regionRtt_ms,
    'program-stale-after-s': options.programStaleAfter_s,
    balancer: options.balancer,
    workers: options.workers,
  }
  return { args: [path.join(ROOT, 'ops/control-plane.ts'), ...flagList(flags)], env: {} }
}

/** Secrets reach it by the environment that it inherits. */
export function productionCommand(options: UpOptions, place: DataDir): Command {
  const flags = {
    'data-dir': place.root,
    host: options.bind,
    port: options.port,
    'program-stale-after-s': options.programStaleAfter_s,
    balancer: options.balancer,
    workers: options.workers,
  }
  return { args: [path.join(ROOT, 'ops/control-plane.ts'), '--production', ...flagList(flags)], env: {} }
}

export function agentCommand(
  options: UpOptions,
  place: DataDir,
  model: ServedModel,
  region: string,
  secrets: Secrets,
): Command {
  const id = agentIdOf(region)
  const token = secrets.agentTokens[id]
  if (token === undefined) throw new Error(`agent ${id} has no token`)
  const flags: Record<string, string | number> = {
    id,
    region,
    'control-url': `http://127.0.0.1:${options.port}`,
    listen: '127.0.0.1:0',
    engine: options.engine,
    engines: options.enginesPerRegion,
    policy: options.policy,
    'data-dir': place.agent(id),
    'drain-limit-s': DRAIN_LIMIT_S,
  }
  if (options.server === null) Object.assign(flags, { 'model-id': model.id, 'context-tokens': model.context_tokens })
  else Object.assign(flags, serverFlags(options, options.server, model))
  if (options.seats !== undefined) flags.seats = options.seats
  if (options.lend !== null) {
    const { file, gpus } = options.lend
    Object.assign(flags, { lend: 'all', 'lend-gpus': gpus, startable: file })
  }
  if (options.script !== undefined) flags.script = path.resolve(options.script)
  if (model.path !== null && model.size !== null)
    Object.assign(flags, embeddedFlags(model.path, options, model.size, model.advice))
  if (model.path !== null && model.vllm !== null)
    Object.assign(flags, vllmFlags(model.path, model.vllm, options, region))
  return {
    args: [
      path.join(ROOT, 'gpu-agent/src/main.ts'),
      ...flagList(flags),
      ...(options.server?.given.probe ? ['--probe'] : []),
    ],
    env: { SWITCHYARD_AGENT_TOKEN: token },
  }
}

type Flags = Record<string, string | number>

function defined(flags: Readonly<Record<string, string | undefined>>): Flags {
  return Object.fromEntries(Object.entries(flags).filter((flag): flag is [string, string] => flag[1] !== undefined))
}

/** Its key stays in the environment, which the agent inherits. */
function serverFlags({ contextTokens }: UpOptions, server: ServerFlags, { id, others }: ServedModel): Flags {
  const { probe: _, limit = [], model: __, ...given } = server.given
  const flags: Flags = { ...defined(given), model: [id, ...others.map((other) => other.id)].join(',') }
  if (limit.length > 0) flags.limit = limit.join(',')
  if (contextTokens !== undefined) flags['context-tokens'] = contextTokens
  return flags
}

function embeddedFlags(
  model_path: string,
  { seats }: UpOptions,
  size: EngineSize,
  advice: ServedModel['advice'],
): Flags {
  const slots = Math.max(size.slots, seats ?? 0)
  const flags = { 'model-path': model_path, seats: seats ?? size.seats, slots, threads: size.threads }
  if (advice === null) return flags
  const { system_prompt, sampling } = advice
  return { ...flags, 'system-prompt': system_prompt, temperature: sampling.temperature, 'top-p': sampling.top_p }
}

/** Region by region, each engine on a GPU of its own (host.ts has seen that there are enough). */
function vllmFlags(model: string, vllm: NonNullable<ServedModel['vllm']>, options: UpOptions, region: string): Flags {
  const { seats, vllmArgs, regions, enginesPerRegion } = options
  const flags: Flags = { model, 'vllm-python': vllm.python }
  if (seats !== undefined) flags.seats = seats
  if (vllmArgs !== undefined) flags['vllm-args'] = vllmArgs
  const first = regions.indexOf(region) * enginesPerRegion
  if (vllm.device === 'gpu')
    flags.gpus = Array.from({ length: enginesPerRegion }, (_, index) => first + index).join(',')
  return flags
}

function flagList(flags: Readonly<Record<string, string | number>>): string[] {
  // Behind `=` what begins with a dash is a value too.
  return Object.entries(flags).flatMap(([name, value]) =>
    String(value).startsWith('-') ? [`--${name}=${value}`] : [`--${name}`, String(value)],
  )
}
