/**
 * `npm run up -- --url` in front of the least that a server can be, and of llama.cpp's own server where
 * SWITCHYARD_LLAMA_SERVER names its binary (docs/any-engine.md says how to build one).
 */
import { fileURLToPath } from 'node:url'
import { MODEL_PATH } from '../../gpu-agent/engine/backends/llama/testing/real-model.ts'
import { anyServerContract } from './support/any-server.contract.ts'

const PLAIN = fileURLToPath(new URL('../../lab/plain-server.ts', import.meta.url))
const LLAMA = process.env.SWITCHYARD_LLAMA_SERVER ?? ''

anyServerContract({
  name: 'a server with two routes',
  command: (port) => ({ command: process.execPath, args: [PLAIN, '--port', String(port), '--step-ms', '20'] }),
  real: false,
  attached: { kind: 'openai', model: 'plain', seats: null, kv_tokens: null, reports_queue: false },
})

// Left out, not skipped, where there is none: nothing else depends on it.
if (LLAMA !== '') {
  anyServerContract({
    name: "llama.cpp's server",
    command: (port) => ({
      command: LLAMA,
      args: [
        ...['-m', MODEL_PATH, '--port', String(port), '--parallel', '4', '-c', '8192', '--metrics', '--slots'],
        ...['--threads', '1', '--alias', 'smollm2'],
      ],
    }),
    real: true,
    attached: { kind: 'llama.cpp', seats: 4, reports_queue: true, prefix_cache: true },
  })
}
