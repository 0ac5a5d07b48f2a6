/** The command lines of the supervisor's children. Secrets go by environment, never by argument. */
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { agentIdOf } from '../control/provision-local.ts'
import type { DataDir } from './data-dir.ts'
import type { Secrets } from './secrets.ts'
import { CONTEXT_TOKENS, type EngineSize } from './sizing.ts'
import type { UpOptions } from './up-flags.ts'

const ROOT = path.dirname(path.dirname(path.dirname(fileURLToPath(import.meta.url))))
/** An emulated engine holds no KV, so its context costs nothing. */
const EMULATED_CONTEXT_TOKENS = 8192
/** Calls under way may take this long when the system is stopped. */
export const DRAIN_LIMIT_S = 5

export interface ServedModel {
  id: string
  /** Null for emulated engines. */
  path: string | null
}

export interface Command {
  args: string[]
  env: Record<string, string>
}

function contextTokens(options: UpOptions): number {
  return options.engine === 'emulated' ? EMULATED_CONTEXT_TOKENS : CONTEXT_TOKENS
}

export function controlPlaneCommand(options: UpOptions, place: DataDir, model: ServedModel): Command {
  const flags = {
    'data-dir': place.root,
    port: options.port,
    regions: options.regions.join(','),
    model: model.id,
    'context-tokens': contextTokens(options),
    'region-rtt-ms': options.regionRtt_ms,
    'program-stale-after-s': options.programStaleAfter_s,
  }
  return { args: [path.join(ROOT, 'scripts/control-plane.ts'), ...flagList(flags)], env: {} }
}

/** Secrets reach it by the environment that it inherits. */
export function productionCommand(options: UpOptions, place: DataDir): Command {
  const flags = {
    'data-dir': place.root,
    host: options.bind,
    port: options.port,
    'program-stale-after-s': options.programStaleAfter_s,
  }
  return { args: [path.join(ROOT, 'scripts/control-plane.ts'), '--production', ...flagList(flags)], env: {} }
}

export function agentCommand(
  options: UpOptions,
  place: DataDir,
  model: ServedModel,
  region: string,
  secrets: Secrets,
  size: EngineSize,
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
    'model-id': model.id,
    policy: options.policy,
    'seat-hold-ms': options.seatHold_ms,
    'context-tokens': contextTokens(options),
    'data-dir': place.agent(id),
    'drain-limit-s': DRAIN_LIMIT_S,
  }
  if (model.path !== null)
    Object.assign(flags, {
      'model-path': model.path,
      seats: size.seats,
      slots: size.slots,
      threads: size.threads,
    })
  return {
    args: [path.join(ROOT, 'gpu-agent/src/main.ts'), ...flagList(flags)],
    env: { SWITCHYARD_AGENT_TOKEN: token },
  }
}

function flagList(flags: Readonly<Record<string, string | number>>): string[] {
  return Object.entries(flags).flatMap(([name, value]) => [`--${name}`, String(value)])
}
