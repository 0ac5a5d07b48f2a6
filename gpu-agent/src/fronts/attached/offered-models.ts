/**
 * Which models of a server an agent offers, asked before its engines are made, since each is one engine and one pool. A server
 * that is not there yet is waited for.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { backoffMs } from '../../../../src/core/backoff.ts'
import { ENGINES_PER_AGENT_MAX, Id } from '../../../../src/protocol/index.ts'
import type { Report } from '../../events.ts'
import { attachFault } from './attach-fault.ts'
import { PROBE_PAUSE } from './attached-server.ts'
import { askModels, type ServedModel } from './server-facts.ts'
import type { ServerOptions } from './server-options.ts'

export interface OfferedModel {
  /** As clients name it. */
  model_id: string
  /** As the server does. */
  model: string
}

/** `model_id`: the operator's name for an only model; null: the server's own. Throws with a sentence. */
export async function offeredModels(
  options: ServerOptions,
  model_id: string | null,
  { report, stopping }: { report: Report; stopping: AbortSignal },
): Promise<OfferedModel[]> {
  const { url, key_variable, start_limit_ms } = options
  const give_up_ms = performance.now() + start_limit_ms
  for (let failures = 1; ; failures += 1) {
    const asked = await askModels(options)
    if (asked.ok) return chosen(asked.value, options, model_id)
    const { reason, final } = attachFault(asked, { url, url_flag: '--url', key_variable })
    if (final || performance.now() > give_up_ms || stopping.aborted) {
      throw new Error(`the server at ${url} cannot be used: ${reason}`)
    }
    const retry_in_ms = backoffMs(failures, PROBE_PAUSE, Math.random())
    report({ event: 'server_down', engine: url, reason, retry_in_ms })
    // Rejects only when the agent ends.
    await sleep(retry_in_ms, undefined, { signal: stopping }).catch(() => undefined)
  }
}

function chosen(served: readonly ServedModel[], options: ServerOptions, model_id: string | null): OfferedModel[] {
  const { url, models } = options
  const names = served.map(({ id }) => id)
  const missing = models?.find((name) => !names.includes(name))
  if (missing !== undefined) {
    throw new Error(`the server at ${url} serves no model ${missing} (--model), but ${names.join(', ') || 'none'}`)
  }
  const wanted = (models ?? names).filter((name) => Id.safeParse(name).success)
  if (wanted.length === 0) throw new Error(`the server at ${url} serves no model: load one into it`)
  const [only] = wanted
  if (model_id === null) return wanted.slice(0, ENGINES_PER_AGENT_MAX).map((model) => ({ model_id: model, model }))
  if (wanted.length === 1 && only !== undefined) return [{ model_id, model: only }]
  if (models === null && names.includes(model_id)) return [{ model_id, model: model_id }]
  throw new Error(
    `--model-id names one model, and the server at ${url} serves ${names.join(', ')}: say which with --model`,
  )
}
