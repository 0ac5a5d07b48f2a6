/** LiteLLM's proxy in front of a provider: one deployment with its limits, retries, and the scheduler that `priority` in a body asks for. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../../../ops/system/free-port.ts'
import { ManagedChild } from '../../testbed/managed-child.ts'

const KEY = 'sk-bench-litellm'
const START_MS_MAX = 300_000

export interface LiteLlmDeployment {
  /** With /v1. */
  url: string
  key: string
  model: string
  rpm: number
  tpm: number
}

export class LiteLlm {
  readonly url: string
  readonly key = KEY
  readonly #child: ManagedChild
  readonly #folder: string

  private constructor(url: string, child: ManagedChild, folder: string) {
    this.url = url
    this.#child = child
    this.#folder = folder
  }

  static async start(command: string, { url, key, model, rpm, tpm }: LiteLlmDeployment): Promise<LiteLlm> {
    const folder = mkdtempSync(path.join(tmpdir(), 'switchyard-litellm-'))
    const config = path.join(folder, 'config.yaml')
    const deployment = {
      model_name: model,
      litellm_params: { model: `openai/${model}`, api_base: url, api_key: key, rpm, tpm },
    }
    // YAML takes JSON.
    const settings = {
      model_list: [deployment],
      router_settings: { routing_strategy: 'usage-based-routing-v2', num_retries: 10, timeout: 1200 },
      general_settings: { master_key: KEY },
    }
    writeFileSync(config, JSON.stringify(settings))
    const port = await freePort()
    const args = ['--config', config, '--port', String(port), '--host', '127.0.0.1', '--telemetry', 'False']
    const child = new ManagedChild({ name: 'litellm', command, args, logFile: path.join(folder, 'log') })
    await child.start()
    const proxy = new LiteLlm(`http://127.0.0.1:${port}/v1`, child, folder)
    const give_up_ms = performance.now() + START_MS_MAX
    for (;;) {
      const live = await fetch(`http://127.0.0.1:${port}/health/liveliness`).then(
        ({ ok }) => ok,
        // Not listening so far.
        () => false,
      )
      if (live) return proxy
      if (performance.now() > give_up_ms) {
        await proxy.end()
        throw new Error(`${command} did not start within ${START_MS_MAX / 1000} s`)
      }
      await sleep(500)
    }
  }

  async end(): Promise<void> {
    await this.#child.end('SIGTERM')
    rmSync(this.#folder, { recursive: true, force: true })
  }
}
