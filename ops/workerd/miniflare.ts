/**
 * The control plane in bare workerd: a direct socket reaches the Worker without Miniflare's proxy Worker (design.md:
 * 6–15 times faster), WebSocket upgrades and unbuffered streams included. Without the proxy there is no request.cf.
 *
 * Where several processes are one control plane, each has a second socket on 127.0.0.1, on which the others ask its objects
 * (src/processes/peer.ts). The first has D1 and R2.
 */
import { Log, LogLevel, type Miniflare, type MiniflareOptions } from 'miniflare'
import { networkService } from './network-service.ts'
import { processFolder } from './process-folder.ts'
import { readyMiniflare, restartWith } from './ready-miniflare.ts'
import type { WorkerConfig } from './worker-config.ts'
import { SUFFIX_VARIABLE, workerdSuffix } from './workerd-launcher.ts'

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
  /** Null: this process is all of it. */
  process: OneOfSeveral | null
}

export interface OneOfSeveral {
  /** Among `peer_ports`. */
  index: number
  /** Where each process is asked by the others. */
  peer_ports: readonly number[]
  /** Every question carries it. */
  secret: string
}

const PEER_HOST = '127.0.0.1'
const PEER_ENTRYPOINT = 'PeerEntrypoint'
const MODULE = 'worker.js'

export async function startMiniflare(options: ControlPlaneOptions): Promise<Miniflare> {
  const miniflare = await readyMiniflare(miniflareOptions(options), options.launcher)
  restartWith(options.launcher)
  return miniflare
}

function miniflareOptions(options: ControlPlaneOptions): MiniflareOptions {
  const { config, script, host, port, stateFolder, vars, process: one } = options
  const texts = Object.entries({ ...config.vars, ...vars, ...(one === null ? {} : peerVars(one)) })
  const hasStores = one === null || one.index === 0
  return {
    host: '127.0.0.1',
    port: 0,
    cf: false,
    logRequests: false,
    log: new Log(LogLevel.WARN),
    telemetry: { enabled: false },
    enableDevRegistry: false,
    resourcePersistencePath: processFolder(stateFolder, one?.index ?? 0),
    unsafeRuntimeEnv: { [SUFFIX_VARIABLE]: workerdSuffix(one?.index ?? 0) },
    workers: [
      {
        config: {
          name: config.name,
          compatibilityDate: config.compatibilityDate,
          compatibilityFlags: config.compatibilityFlags,
          manifest: { mainModule: MODULE, modules: { [MODULE]: { type: 'esm', contents: script } } },
          env: {
            NETWORK: networkService(process.env.NODE_EXTRA_CA_CERTS),
            ...(hasStores ? stores(config) : {}),
            ...(one === null ? {} : peers(one)),
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
        dev: { unsafeDirectSockets: [{ host, port }, ...(one === null ? [] : [peerSocket(one)])] },
      },
    ],
  }
}

function stores({ database, bucket }: WorkerConfig) {
  return {
    [database.binding]: { type: 'd1' as const, id: database.id },
    [bucket.binding]: { type: 'r2' as const, name: bucket.name },
  }
}

function peerVars({ index, peer_ports, secret }: OneOfSeveral): Record<string, string> {
  return { PROCESSES: String(peer_ports.length), PROCESS: String(index), PEER_SECRET: secret }
}

/** By HTTP with JavaScript RPC on top, as between Workers of one process. */
function peers({ index, peer_ports }: OneOfSeveral) {
  const others = peer_ports.map((port, peer) => ({ port, peer })).filter(({ peer }) => peer !== index)
  return Object.fromEntries(
    others.map(({ port, peer }) => [
      `PEER_${peer}`,
      { type: 'external' as const, address: `${PEER_HOST}:${port}`, http: {} },
    ]),
  )
}

function peerSocket({ index, peer_ports }: OneOfSeveral) {
  return { host: PEER_HOST, port: peer_ports[index] ?? 0, entrypoint: PEER_ENTRYPOINT }
}
