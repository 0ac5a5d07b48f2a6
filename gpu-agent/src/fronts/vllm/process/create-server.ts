/** The vLLM that an operator's flags ask for: one that the agent runs, or one that it is given the address of. */
import type { Report } from '../../../events.ts'
import { AttachedServer } from '../../attached/attached-server.ts'
import type { FrontOptions } from '../../front-options.ts'
import type { VllmWish } from './vllm-launch.ts'
import { KEY_VARIABLE, type VllmOptions } from './vllm-options.ts'
import { VllmProcess } from './vllm-process.ts'
import type { VllmServer } from './vllm-server.ts'

export function createVllmServer(
  options: FrontOptions,
  { report, leaving }: { report: Report; leaving: AbortSignal },
): VllmServer {
  const { id: engine, model_id, vllm, place, seats = null, context_tokens = null } = options
  if (vllm === undefined) throw new Error('--engine vllm needs its own options')
  if (vllm.mode === 'attached') {
    return new AttachedServer({
      ...{ ...vllm, engine, model_id, seats, context_tokens, report },
      ...{ kind: 'vllm', probe: null, url_flag: '--vllm-url', key_variable: KEY_VARIABLE },
    })
  }
  if (place === undefined) throw new Error('a vLLM that the agent runs needs a folder')
  const { start_limit_ms } = vllm
  const wish = wishOf(options, vllm, place)
  return new VllmProcess({ ...{ engine, folder: place.folder, start_limit_ms, report, leaving }, wish })
}

/** What its command line is made of. */
export function wishOf(
  { model_id, seats, context_tokens, policy, ordering = 'modelled', hold_kv, handling }: FrontOptions,
  { model, python, args, gpus, kv_swap_gib }: VllmOptions & { mode: 'process' },
  { engine_index, engines }: { engine_index: number; engines: number },
): VllmWish {
  return {
    ...{ python, model, model_id, args, gpus, engine_index, engines, kv_swap_gib },
    ...{ seats: seats ?? null, context_tokens: context_tokens ?? null },
    scheduler: {
      ...{ policy, ordering },
      ...(hold_kv === undefined ? {} : { hold_kv }),
      ...(handling === undefined ? {} : { handling }),
    },
  }
}
