/**
 * Other gateways in front of the same emulated engine, as plain proxies: Portkey's open-source gateway (npm) and LiteLLM's proxy
 * (PyPI), each of one version, installed by its own package tool into the user's cache, never into the repository. They know no
 * programs, place no calls and keep no account of service; what is compared is the cost of passing a call through.
 */
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { modelCacheFolder } from '../../model/cache-folder.ts'
import { HOST } from '../../ops/port.ts'
import { type BenchLane, CONNECTIONS, closedRun, openRun, type Run, SHORT } from './calls.ts'
import { Child } from './child.ts'
import { switchyardLane, ticketLane } from './lanes.ts'
import { poisson } from './load.ts'
import { median } from './measure.ts'
import { residentBytes } from './proc.ts'
import { type BenchSystem, freePort, MODEL } from './system.ts'

export const PEER_NAMES = ['portkey', 'litellm'] as const
export type PeerName = (typeof PEER_NAMES)[number]

const VERSIONS: Readonly<Record<PeerName, string>> = { portkey: '1.15.2', litellm: '1.106.2' }
const INSTALL_TIMEOUT_MS = 10 * 60_000
const START_TIMEOUT_MS = 90_000
const WARM_UP_S = 3
const OPEN_CALLS_PER_S = 40

export interface PeersReport {
  versions: Readonly<Record<PeerName, string>>
  peers: { lane: string; peak_calls_per_s: number; open_p50_ms: number; open_p99_ms: number; resident_bytes: number }[]
  /** Of the open loads. */
  offered_calls_per_s: number
  runs: Run[]
}

interface Peer extends BenchLane {
  stop: () => Promise<void>
}

export async function measurePeers(
  system: BenchSystem,
  names: readonly PeerName[],
  { rounds, seconds, note }: { rounds: number; seconds: number; note: (line: string) => void },
): Promise<PeersReport> {
  const peers: Peer[] = []
  try {
    for (const name of names) {
      note(`${name} ${VERSIONS[name]}: installing into the cache where it is missing, then starting`)
      peers.push(await (name === 'portkey' ? startPortkey(system) : startLitellm(system)))
    }
    const lanes: BenchLane[] = [
      { lane: await ticketLane('direct', system.agent.port, system, SHORT), pid: null },
      ...peers,
      { lane: switchyardLane(system, SHORT), pid: system.workerd_pid },
    ]
    for (const lane of lanes) await closedRun(system, lane, CONNECTIONS[0], WARM_UP_S)
    const runs = await runsOf(system, lanes, rounds, seconds, note)
    return {
      versions: VERSIONS,
      offered_calls_per_s: OPEN_CALLS_PER_S,
      peers: lanes.map((one) => summed(one, runs)),
      runs,
    }
  } finally {
    for (const peer of peers) await peer.stop()
  }
}

async function runsOf(
  system: BenchSystem,
  lanes: readonly BenchLane[],
  rounds: number,
  seconds: number,
  note: (line: string) => void,
): Promise<Run[]> {
  const runs: Run[] = []
  for (let round = 1; round <= rounds; round++) {
    for (const connections of CONNECTIONS.slice(0, 2)) {
      for (const lane of lanes) {
        const run = await closedRun(system, lane, connections, seconds)
        runs.push({ lane: lane.lane.name, round, connections, offered_calls_per_s: null, ...run })
        note(`closed, ${connections} connections, ${lane.lane.name}: ${run.calls_per_s} calls/s`)
      }
    }
    const due = poisson(OPEN_CALLS_PER_S, seconds * 2 + WARM_UP_S, round)
    for (const lane of lanes) {
      const { measured } = await openRun(system, lane, due)
      runs.push({ lane: lane.lane.name, round, connections: null, offered_calls_per_s: OPEN_CALLS_PER_S, ...measured })
      note(`open, ${OPEN_CALLS_PER_S} calls/s, ${lane.lane.name}: p50 ${measured.p50_ms} ms`)
    }
  }
  return runs
}

function summed({ lane, pid }: BenchLane, runs: readonly Run[]): PeersReport['peers'][number] {
  const own = runs.filter((run) => run.lane === lane.name)
  const open = own.filter((run) => run.connections === null)
  const peaks = CONNECTIONS.slice(0, 2).map((connections) =>
    median(own.filter((run) => run.connections === connections).map((run) => run.calls_per_s)),
  )
  return {
    lane: lane.name,
    peak_calls_per_s: Math.max(...peaks),
    open_p50_ms: median(open.map((run) => run.p50_ms)),
    open_p99_ms: median(open.map((run) => run.p99_ms)),
    resident_bytes: pid === null ? 0 : residentBytes(pid),
  }
}

async function startPortkey(system: BenchSystem): Promise<Peer> {
  const spec = `@portkey-ai/gateway@${VERSIONS.portkey}`
  const folder = await installed('portkey', (to) => [
    ['npm', 'install', '--prefix', to, '--no-fund', '--no-audit', spec],
  ])
  const port = await freePort()
  const file = path.join(folder, 'node_modules/@portkey-ai/gateway/build/start-server.js')
  const child = new Child('portkey', process.execPath, [file, `--port=${port}`, '--headless'])
  const headers = ['x-portkey-provider: openai', `x-portkey-custom-host: http://${HOST}:${system.agent.port}/v1`]
  const lane = await ticketLane('portkey', port, system, SHORT, headers)
  return started(child, { ...lane, events: null })
}

/** The ticket goes in as the client's own key of the provider, which LiteLLM passes on where its configuration allows it. */
async function startLitellm(system: BenchSystem): Promise<Peer> {
  const folder = await installed('litellm', (to) => [
    ['python3', '-m', 'venv', to],
    [path.join(to, 'bin/pip'), 'install', '--quiet', `litellm[proxy]==${VERSIONS.litellm}`],
  ])
  const port = await freePort()
  const config = path.join(system.folder, 'litellm.yaml')
  writeFileSync(
    config,
    `model_list:
  - model_name: ${MODEL}
    litellm_params:
      model: openai/${MODEL}
      api_base: http://${HOST}:${system.agent.port}/v1
      api_key: none
      configurable_clientside_auth_params: ["api_key"]
general_settings:
  disable_spend_logs: true
litellm_settings:
  telemetry: false
`,
  )
  const args = ['--config', config, '--host', HOST, '--port', String(port), '--num_workers', '1']
  const key = `sk-${randomUUID()}`
  const env = { LITELLM_MASTER_KEY: key, LITELLM_LOG: 'ERROR', LITELLM_LOCAL_MODEL_COST_MAP: 'True' }
  const child = new Child('litellm', path.join(folder, 'bin/litellm'), args, env)
  const lane = await ticketLane('litellm', port, system, SHORT, [`authorization: Bearer ${key}`], 'body')
  return started(child, { ...lane, events: null })
}

/** A file marks a whole installation, so that a broken one is never taken for it. */
async function installed(name: PeerName, commands: (folder: string) => string[][]): Promise<string> {
  const root = path.join(path.dirname(modelCacheFolder()), 'peers')
  const folder = path.join(root, `${name}-${VERSIONS[name]}`)
  if (existsSync(path.join(folder, '.installed'))) return folder
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  for (const [command = '', ...args] of commands(folder)) {
    await promisify(execFile)(command, args, { timeout: INSTALL_TIMEOUT_MS, maxBuffer: 16 * 1024 * 1024 })
  }
  writeFileSync(path.join(folder, '.installed'), '')
  return folder
}

async function started(child: Child, lane: BenchLane['lane']): Promise<Peer> {
  const until_ms = performance.now() + START_TIMEOUT_MS
  for (;;) {
    const answers = await fetch(`http://${lane.host}:${lane.port}/`).then(
      () => true,
      () => false,
    )
    if (answers) return { lane, pid: child.pid, stop: () => child.stop() }
    if (performance.now() > until_ms || child.hasEnded) {
      await child.stop()
      throw new Error(`${lane.name} did not start:\n${child.output}`)
    }
    await sleep(250)
  }
}
