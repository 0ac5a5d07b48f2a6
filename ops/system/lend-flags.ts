/** `npm run up -- --lend FILE`: what the local agents lend to offline applications. The agents check it again when they start. */
import path from 'node:path'
import type { EngineKind } from '../../gpu-agent/src/engine-flags.ts'
import { WrongFlag } from '../../gpu-agent/src/flag-values.ts'
import { readStartable } from '../../gpu-agent/src/lending/startable-file.ts'
import { GPUS_PER_HOST_MAX } from '../../src/protocol/host.ts'

/** Shares of a small machine's cores. */
export const LEND_GPUS_DEFAULT = 2

export interface LendFlags {
  file: string
  /** Of each agent. */
  gpus: number
  /** Models of the file, for the catalogue. */
  models: { id: string; context_tokens: number }[]
}

/** Null: nothing is lent. A string: what is wrong. */
export function lendFlags(
  values: { lend?: string | undefined; 'lend-gpus'?: string | undefined },
  engine: EngineKind,
  env: Readonly<Record<string, string | undefined>> = process.env,
): LendFlags | string | null {
  const { lend, 'lend-gpus': count = String(LEND_GPUS_DEFAULT) } = values
  if (lend === undefined) return values['lend-gpus'] === undefined ? null : '--lend-gpus goes with --lend FILE'
  if (engine === 'openai') return '--lend does not go with --url: an agent cannot end a server that it does not run'
  const gpus = Number(count)
  if (!/^\d+$/.test(count) || gpus < 1 || gpus > GPUS_PER_HOST_MAX)
    return `--lend-gpus must be a whole number from 1 to ${GPUS_PER_HOST_MAX}, not ${JSON.stringify(count)}`
  const file = path.resolve(lend)
  try {
    const models = readStartable(file, env).map(({ model, front, costs }) => {
      const longest = Math.max(...[...costs.values()].map(({ max_model_tokens }) => max_model_tokens))
      return { id: model, context_tokens: front.context_tokens ?? longest }
    })
    return { file, gpus, models }
  } catch (error) {
    if (error instanceof WrongFlag) return error.message.replace('--startable', '--lend')
    throw error
  }
}
