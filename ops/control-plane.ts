/**
 * The control plane on one machine, as a process of its own with one workerd or several (--workers): bundles the Worker, applies
 * D1 migrations, provisions, and serves it from workerd on a direct socket. In front of several it is the balancer. Prints one JSON
 * line when it is ready, ends on SIGTERM, and takes every workerd with it however it ends. With --production its secrets come from
 * the environment and nothing is provisioned: that is the operator's, over the admin API.
 */
import { randomBytes } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import type { Server } from 'node:net'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import type { Miniflare } from 'miniflare'
import '../gpu-agent/src/outbox/quick-drizzle.ts'
import { BALANCER_DEFAULT } from '../src/core/pool/balancers/index.ts'
import { readFileIfAny } from './system/atomic-file.ts'
import { DATA_DIR_DEFAULT, type DataDir, dataDir } from './system/data-dir.ts'
import { errorText, explained } from './system/explain-error.ts'
import { freePorts } from './system/free-port.ts'
import { endOrphans, type Guard, pidFile, removePidFile, startGuard } from './system/guard.ts'
import { diskFullText, freeBytes, openFilesLimit } from './system/host-limits.ts'
import { HOST, waitForPort } from './system/port.ts'
import { parseProcessRecord } from './system/processes.ts'
import { productionSecrets } from './system/production-secrets.ts'
import { loadSecrets, type Secrets } from './system/secrets.ts'
import { knownFormat, markProcesses, prepareState } from './system/state-format.ts'
import { agentIdsOf } from './workerd/agent-ids.ts'
import { startBalancer } from './workerd/balancer.ts'
import { bundleWorker } from './workerd/bundle-worker.ts'
import { applyMigrations, readMigrations } from './workerd/d1-migrations.ts'
import { withLocalD1 } from './workerd/local-d1.ts'
import { type ControlPlaneOptions, startMiniflare } from './workerd/miniflare.ts'
import { spreadObjects } from './workerd/spread-objects.ts'
import { untilRefused } from './workerd/watch-port.ts'
import { readWorkerConfig } from './workerd/worker-config.ts'
import { WORKERD_NAME, workerdSuffix, writeWorkerdLauncher } from './workerd/workerd-launcher.ts'

const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
/** workerd is ended without grace (SQLite's WAL survives that), so its port is free almost at once. */
const ORPHAN_GRACE_MS = 0
const PORT_TIMEOUT_MS = 5000
const DISK_LOOK_MS = 5000
/** In place of wrangler.toml's `main` where several processes are the control plane. */
const SEVERAL_MAIN = 'src/processes/worker.ts'
const WORKERD_WATCH = { look_ms: 1000, refused_ms_max: 10_000 }

const { values: flags } = parseArgs({
  options: {
    'data-dir': { type: 'string', default: DATA_DIR_DEFAULT },
    host: { type: 'string', default: HOST },
    port: { type: 'string', default: '8787' },
    production: { type: 'boolean', default: false },
    regions: { type: 'string', default: 'us-east,eu-west' },
    'agents-per-region': { type: 'string', default: '1' },
    /** In place of the Worker's own, for tests; relative to the repository. */
    entry: { type: 'string' },
    model: { type: 'string', default: 'smollm2-135m-instruct' },
    'context-tokens': { type: 'string', default: '2048' },
    /** JSON: `[{"id": …, "context_tokens": …}]`. */
    'other-models': { type: 'string', default: '[]' },
    'region-rtt-ms': { type: 'string', default: '0' },
    'program-stale-after-s': { type: 'string', default: '1800' },
    balancer: { type: 'string', default: BALANCER_DEFAULT },
    workers: { type: 'string', default: '1' },
  },
})

interface Started {
  miniflares: Miniflare[]
  /** The port of each workerd. */
  ports: number[]
  /** Null: the one workerd has the public port. */
  balancer: Server | null
  guard: Guard
  folder: string
}

async function start(): Promise<Started> {
  const place = dataDir(flags['data-dir'])
  const port = Number(flags.port)
  const regions = flags.regions.split(',')
  const agents_per_region = Number(flags['agents-per-region'])
  const workers = Number(flags.workers)
  const folder = path.join(place.run, 'control-plane')
  if (flags.production && flags.entry !== undefined)
    throw new Error('--entry is for tests: leave it out with --production')
  const agents = regions.flatMap((region) => agentIdsOf(region, agents_per_region))
  const local = flags.production ? null : await loadSecrets(place.secrets, agents)
  const secrets = local === null ? secretsOfEnvironment() : workerSecrets(local)
  const config = await readWorkerConfig(path.join(ROOT, 'wrangler.toml'))
  await endOrphans(folder, ORPHAN_GRACE_MS)
  await ownTemporaryFolder(place)
  const free = await waitForPort(port, PORT_TIMEOUT_MS, flags.host)
  if (!free.ok) throw new Error(free.reason)
  const prepared = await prepareState(place, await knownFormat(ROOT))
  if (prepared.status === 'upgraded') report({ event: 'upgraded', backup: prepared.backup, bytes: prepared.bytes })
  if (workers > 1) await markProcesses(place, workers)
  const objects_moved = await spreadObjects(place.state, workers)
  if (workers === 1) await markProcesses(place, workers)
  // esbuild has a process of its own, so it costs little beside the rest.
  const bundling = bundleWorker(ROOT, flags.entry ?? (workers === 1 ? config.main : SEVERAL_MAIN))
  // Before the port is open, so that no request meets a database without tables.
  const migrating = withLocalD1(config, place.state, async (database) => {
    const names = await applyMigrations(database, await readMigrations(path.join(ROOT, config.database.migrationsDir)))
    const models = [{ id: flags.model, context_tokens: Number(flags['context-tokens']) }, ...otherModels()]
    const system = { regions, agents_per_region, models, now_ms: Date.now() }
    if (local !== null) {
      // Drizzle is behind it, which loads quickly from here on.
      const { provisionLocal } = await import('./workerd/provision-local.ts')
      await provisionLocal(database, { ...system, secrets: local })
    }
    return names
  })
  const [script, applied] = await Promise.all([bundling, migrating])
  const launcher = await writeWorkerdLauncher(folder)
  const guard = startGuard(folder, 0)
  const open_files = await openFilesLimit()
  const common = {
    config,
    script,
    stateFolder: place.state,
    launcher,
    vars: {
      SIMULATED_REGION_RTT_MS: flags['region-rtt-ms'],
      PROGRAM_STALE_AFTER_S: flags['program-stale-after-s'],
      BALANCER: flags.balancer,
      OPENING_WRITE: 'timer',
      ...(open_files === null ? {} : { OPEN_FILES: String(open_files) }),
      ...secrets,
      ...operatorSettings(process.env),
    },
  }
  const { miniflares, ports, balancer } =
    workers === 1 ? await startOne(common, flags.host, port) : await startSeveral(common, workers, flags.host, port)
  const workerds = await Promise.all(ports.map((_, index) => workerdPid(folder, index)))
  report({
    event: 'ready',
    url: `http://${flags.host.includes(':') ? `[${flags.host}]` : flags.host}:${port}`,
    pid: process.pid,
    workerd_pid: workerds[0] ?? null,
    ...(workers === 1 ? {} : { workerd_pids: workerds }),
    migrations_applied: applied,
    ...(objects_moved === 0 ? {} : { objects_moved }),
  })
  return { miniflares, ports, balancer, guard, folder }
}

type Common = Omit<ControlPlaneOptions, 'host' | 'port' | 'process'>

async function startOne(common: Common, host: string, port: number) {
  const miniflare = await startMiniflare({ ...common, host, port, process: null })
  return { miniflares: [miniflare], ports: [port], balancer: null }
}

/** The first alone: it has the database that the others ask for. The public port comes last. */
async function startSeveral(common: Common, workers: number, host: string, port: number) {
  const free = await freePorts(2 * workers)
  const [ports, peer_ports] = [free.slice(0, workers), free.slice(workers)]
  const secret = randomBytes(32).toString('base64url')
  const start = (worker_port: number, index: number) =>
    startMiniflare({ ...common, host: HOST, port: worker_port, process: { index, peer_ports, secret } })
  const [first = 0, ...others] = ports
  const miniflares = [await start(first, 0), ...(await Promise.all(others.map((one, at) => start(one, at + 1))))]
  return { miniflares, ports, balancer: await startBalancer({ host, port }, ports) }
}

async function workerdPid(folder: string, index: number): Promise<number | null> {
  const file = pidFile(folder, `${WORKERD_NAME}${workerdSuffix(index)}`)
  return parseProcessRecord(await readFileIfAny(file))?.pid ?? null
}

function otherModels(): { id: string; context_tokens: number }[] {
  return JSON.parse(flags['other-models']) as { id: string; context_tokens: number }[]
}

/** A service may see every other folder read-only; and what a killed run left behind goes at the next start. */
async function ownTemporaryFolder({ tmp }: DataDir): Promise<void> {
  await rm(tmp, { recursive: true, force: true })
  await mkdir(tmp, { recursive: true, mode: 0o700 })
  process.env.TMPDIR = tmp
}

function workerSecrets({ keyPepper, ticketSecret, adminKey }: Secrets) {
  return { KEY_PEPPER: keyPepper, TICKET_SECRET: ticketSecret, ADMIN_KEY: adminKey }
}

function secretsOfEnvironment() {
  const verdict = productionSecrets(process.env)
  if (!verdict.ok) throw new Error(verdict.faults.join('; '))
  return verdict.secrets
}

/** The operator's own settings, passed on as they are where they are set. */
function operatorSettings(env: NodeJS.ProcessEnv): Record<string, string> {
  const names = [
    'AGENT_URL_HOSTS',
    'ARCHIVE_RETENTION_DAYS',
    'CORS_ORIGINS',
    'METRICS_TOKEN',
    'POOL_SHARD_ENGINES',
    'LOG_LEVEL',
    'OTEL_EXPORTER_OTLP_ENDPOINT',
    'OTEL_EXPORTER_OTLP_HEADERS',
    'OTEL_TRACES_SAMPLER_ARG',
  ]
  return Object.fromEntries(names.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])))
}

function report(event: Record<string, unknown>): void {
  process.stdout.write(`${JSON.stringify(event)}\n`)
}

const started = start()
let stopping = false
async function stop(): Promise<void> {
  if (stopping) return
  stopping = true
  const { miniflares, balancer, guard, folder } = await started
  balancer?.close()
  await Promise.all(miniflares.map((one) => one.dispose()))
  guard.release()
  await Promise.all(miniflares.map((_, index) => removePidFile(folder, `${WORKERD_NAME}${workerdSuffix(index)}`)))
  process.exit(0)
}

/** Tells the supervisor when the disk has no more room, and when it has some again. */
async function watchDisk(root: string): Promise<void> {
  let told: string | null = null
  for (;;) {
    const full = diskFullText(root, await freeBytes(root))
    if ((full === null) !== (told === null))
      report(full === null ? { event: 'disk_has_room' } : { event: 'disk_full', message: full })
    told = full
    await sleep(DISK_LOOK_MS, undefined, { ref: false })
  }
}

/** A new start, by the supervisor, frees what the old one held, and is repeated until it succeeds. */
async function watchWorkerd(port: number, host: string): Promise<void> {
  await untilRefused(port, host, WORKERD_WATCH)
  if (stopping) return
  const { refused_ms_max } = WORKERD_WATCH
  const message = `workerd has ended, and did not come back within ${refused_ms_max / 1000} s. The reason is in the lines above`
  process.stderr.write(`${message}\n`)
  report({ event: 'failed', message })
  process.exit(1)
}

started.then(
  ({ ports, balancer }) => {
    for (const port of ports) void watchWorkerd(port, balancer === null ? flags.host : HOST)
    watchDisk(dataDir(flags['data-dir']).root).catch((error: Error) => process.stderr.write(`disk: ${error.message}\n`))
    // Miniflare's own handlers exit with 128 + n before our pid file and guard are gone.
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.removeAllListeners(signal).on(signal, stop)
  },
  (error: Error) => {
    const place = dataDir(flags['data-dir'])
    report({ event: 'failed', message: explained(error, place) ?? error.message })
    process.stderr.write(`${errorText(error, place)}\n`)
    process.exit(1)
  },
)
