/**
 * `npm run up -- --url` in front of the least that a server can be. Where SWITCHYARD_LLAMA_SERVER names its binary, in front of
 * llama.cpp's own server, and where SWITCHYARD_LITELLM names its command, of LiteLLM's proxy, which speaks three APIs
 * (docs/any-engine.md says how to install both).
 */
import { randomUUID } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, it } from 'vitest'
import { MODEL_PATH } from '../../gpu-agent/engine/backends/llama/testing/real-model.ts'
import { anyServerContract, TOOLS_TEMPLATE } from './support/any-server.contract.ts'
import { System } from './support/system.ts'

const PLAIN = fileURLToPath(new URL('../../lab/plain-server.ts', import.meta.url))
const LLAMA = process.env.SWITCHYARD_LLAMA_SERVER ?? ''
const LITELLM = process.env.SWITCHYARD_LITELLM ?? ''

anyServerContract({
  name: 'a server with two routes',
  command: (port) => ({ command: process.execPath, args: [PLAIN, '--port', String(port), '--step-ms', '20'] }),
  real: false,
  attached: { kind: 'openai', model: 'plain', seats: null, kv_tokens: null, reports_queue: false },
})

const KEY = `sk-${randomUUID()}`

if (LLAMA === '') {
  describe("in front of llama.cpp's server", () => {
    it.skip('runs where SWITCHYARD_LLAMA_SERVER names its binary (docs/any-engine.md#try-it)')
  })
} else {
  const llama = {
    command: (template: string[]) => (port: number) => ({
      command: LLAMA,
      args: [
        ...['-m', MODEL_PATH, '--port', String(port), '--parallel', '4', '-c', '8192', '--metrics', '--slots'],
        ...['--threads', '1', '--alias', 'smollm2', '--api-key', KEY, ...template],
      ],
    }),
    ...{ key: KEY, real: true, resumes: true },
    attached: { kind: 'llama.cpp', seats: 4, reports_queue: true, prefix_cache: true, resumes: true },
  }
  anyServerContract({
    ...llama,
    name: "llama.cpp's server",
    command: llama.command(['--jinja', '--chat-template-file', TOOLS_TEMPLATE]),
    tools: true,
  })
  // The model's own template has no tools.
  anyServerContract({ ...llama, name: "llama.cpp's server with the model's own template", command: llama.command([]) })
}

if (LITELLM === '') {
  describe("in front of LiteLLM's proxy", () => {
    it.skip('runs where SWITCHYARD_LITELLM names its command (docs/any-engine.md#try-it)')
  })
} else {
  // The proxy has the model of a control plane of its own, whose engine keeps to schemas and calls tools.
  const upstream = await System.start({ engine: 'embedded' })
  afterAll(() => upstream.remove())
  const config = path.join(tmpdir(), `switchyard-litellm-${process.pid}.json`)
  const { model, url, apiKey } = upstream.dev
  const litellm_params = { model: `openai/${model}`, api_base: `${url}/v1`, api_key: apiKey }
  const general_settings = { master_key: KEY }
  writeFileSync(config, JSON.stringify({ model_list: [{ model_name: 'smollm2', litellm_params }], general_settings }))
  anyServerContract({
    name: "LiteLLM's proxy",
    command: (port) => ({
      command: LITELLM,
      args: ['--config', config, '--host', '127.0.0.1', '--port', String(port), '--telemetry', 'False'],
    }),
    key: KEY,
    real: true,
    tools: true,
    attached: { kind: 'openai', model: 'smollm2', apis: ['chat', 'messages', 'responses'] },
  })
}
