/** `npm run up -- --url` in front of a stock vLLM on the CPU, without the plug-in. */
import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import { switchyardCacheFolder } from '../../../ops/model/cache-folder.ts'
import { vllmPython } from '../../../ops/vllm/environment.ts'
import { vllmModel } from '../../../ops/vllm/model.ts'
import { anyServerContract, TOOLS_TEMPLATE } from '../../system/support/any-server.contract.ts'

const found = await vllmPython('cpu', { cache_folder: switchyardCacheFolder(), signal: AbortSignal.timeout(600_000) })
if (!found.ok) throw new Error(found.reason)
const { python } = found
const { path: model } = await vllmModel({ python })

const key = `sk-${randomUUID()}`

anyServerContract({
  name: 'a stock vLLM',
  command: (port) => ({
    command: python,
    args: [
      ...['-m', 'vllm.entrypoints.openai.api_server', '--model', model, '--served-model-name', 'smollm2'],
      ...['--host', '127.0.0.1', '--port', String(port), '--dtype', 'float32', '--enforce-eager'],
      ...['--max-num-seqs', '4', '--max-model-len', '2048', '--block-size', '32', '--enable-prompt-tokens-details'],
      ...['--api-key', key, '--chat-template', TOOLS_TEMPLATE],
      ...['--enable-auto-tool-choice', '--tool-call-parser', 'hermes'],
    ],
    env: { HF_HUB_OFFLINE: '1', VLLM_NO_USAGE_STATS: '1', VLLM_CPU_KVCACHE_SPACE: '1' },
  }),
  key,
  real: true,
  tools: true,
  resumes: true,
  attached: {
    kind: 'vllm',
    seats: null,
    reports_queue: true,
    resumes: true,
    context_tokens: 2048,
    kv_tokens: expect.any(Number),
  },
})
