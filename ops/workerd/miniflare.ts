/**
 * The control plane in bare workerd: a direct socket reaches the Worker without Miniflare's proxy Worker (design.md:
 * 6–15 times faster), WebSocket upgrades and unbuffered streams included. Without the proxy there is no request.cf.
 */
import { Log, LogLevel, type Miniflare, type MiniflareOptions } from 'miniflare'
import { networkService } from './network-service.ts'
import { readyMiniflare, restartWith } from './ready-miniflare.ts'
import type { WorkerConfig } from './worker-config.ts'

export interface ControlPlaneOptions {
  config: WorkerConfig
  script: string
  host: string
  port: number
  /** D1, R2 and Durable Objects live here. */
  stateFolder: string
  /** Secrets and what replaces the vars of wrangler.toml. */
  vars: Readonly<Record<string, string>>
  launcher: string
}

const MODULE = 'worker.js'

export async function startMiniflare(options: ControlPlaneOptions): Promise<Miniflare> {
  const miniflare = await readyMiniflare(miniflareOptions(options), options.launcher)
  restartWith(options.launcher)
  return miniflare
}

function miniflareOptions({ config, script, host, port, stateFolder, vars }: ControlPlaneOptions): MiniflareOptions {
  const texts = Object.entries({ ...config.vars, ...vars })
  return {
    host: '127.0.0.1',
    port: 0,
    cf: false,
    logRequests: false,
    log: new Log(LogLevel.WARN),
    telemetry: { enabled: false },
    enableDevRegistry: false,
    resourcePersistencePath: stateFolder,
    workers: [
      {
        config: {
          name: config.name,
          compatibilityDate: config.compatibilityDate,
          compatibilityFlags: config.compatibilityFlags,
          manifest: { mainModule: MODULE, modules: { [MODULE]: { type: 'esm', contents: script } } },
          env: {
            [config.database.binding]: { type: 'd1', id: config.database.id },
            NETWORK: networkService(process.env.NODE_EXTRA_CA_CERTS),
            [config.bucket.binding]: { type: 'r2', name: config.bucket.name },
            ...Object.fromEntries(
              config.durableObjects.map(({ binding, className }) => [
                binding,
                { type: 'durable-object' as const, worker: config.name, exportName: className },
              ]),
            ),
            ...Object.fromEntries(texts.map(([name, value]) => [name, { type: 'text' as const, value }])),
          },
          exports: Object.fromEntries(
            config.durableObjects.map(({ className }) => [
              className,
              { type: 'durable-object' as const, storage: 'sqlite' as const },
            ]),
          ),
        },
        dev: { unsafeDirectSockets: [{ host, port }] },
      },
    ],
  }
}
