/**
 * Other gateways in front of the same emulated engine, as plain proxies: Portkey's open-source gateway (npm) and LiteLLM's proxy
 * (PyPI), each of one version, installed by its own package tool into the user's cache, never into the repository. They know no
 * programs, place no calls and keep no account of service; what is compared is the cost of passing a call through.
 */
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { modelCacheFolder } from '../../../ops/model/cache-folder.ts'
import { freePort } from '../../../ops/system/free-port.ts'
import { HOST } from '../../../ops/system/port.ts'
import { ManagedChild } from '../../testbed/managed-child.ts'
import {
  addedMs,
  type BenchLane,
  type CallsOptions,
  CONNECTIONS,
  closedRun,
  openRun,
  type Run,
  SHORT,
} from './calls.ts'
import { type CallShape, switchyardLane, ticketLane } from './lanes.ts'
import { type Lane, poisson } from './load.ts'
import { median } from './measure.ts'
import { residentBytes } from './proc.ts'
import { LONG, STREAMS } from './streaming.ts'
import { type BenchSystem, MODEL } from './system.ts'

export const PEER_NAMES = ['portkey', 'litellm'] as const
export type PeerName = (typeof PEER_NAMES)[number]

const VERSIONS: Readonly<Record<PeerName, string>> = { portkey: '1.15.2', litellm: '1.106.2' }
/**
 * The server library under Portkey's gateway, of the version that its own repository patches. The range in its package.json also
 * admits versions above 1.14.2, and over those every streamed call is answered 500 (`TypeError: immutable`, its issue 1389).
 */
const PORTKEY_OVERRIDES = { '@hono/node-server': '1.13.5' }
const PEER_CONNECTIONS = CONNECTIONS.slice(0, 2)
const INSTALL_TIMEOUT_MS = 10 * 60_000
const START_TIMEOUT_MS = 90_000
const WARM_UP_S = 3

export interface PeersReport {
  versions: Readonly<Record<PeerName, string>>
  /** Half of what the slowest lane reached: the same open load over all. */
  offered_calls_per_s: number
  peers: PeerFigures[]
  runs: Run[]
}

interface PeerFigures {
  lane: string
  peak_calls_per_s: number
  /** Against the direct lane of the same round; the median over the rounds. */
  added_p50_ms: number
  added_p99_ms: number
  tokens_per_s: number
  resident_bytes: number
}

/** The short calls and the long streams over the same gateway. */
interface Peer {
  short: BenchLane
  long: BenchLane
  stop: () => Promise<void>
}

export async function measurePeers(
  system: BenchSystem,
  names: readonly PeerName[],
  options: CallsOptions,
): Promise<PeersReport> {
  const peers: Peer[] = []
  try {
    for (const name of names) {
      options.note(`${name} ${VERSIONS[name]}: installing into the cache where it is missing, then starting`)
      peers.push(await (name === 'portkey' ? startPortkey(system) : startLitellm(system)))
    }
    const { agent, workerd_pid } = system
    const directly = async (shape: CallShape) => ({
      lane: await ticketLane('direct', agent.port, system, shape),
      pid: null,
    })
    const through = (shape: CallShape) => ({ lane: switchyardLane(system, shape), pid: workerd_pid })
    const short = [await directly(SHORT), ...peers.map((peer) => peer.short), through(SHORT)]
    const long = [await directly(LONG), ...peers.map((peer) => peer.long), through(LONG)]
    for (const lane of short) await closedRun(system, lane, CONNECTIONS[0], WARM_UP_S)
    const closed = await closedRuns(system, short, options)
    const offered_calls_per_s = Math.max(1, Math.floor(Math.min(...short.map((lane) => peakOf(lane, closed))) / 2))
    const open = await openRuns(system, short, offered_calls_per_s, options)
    const streams = await streamRuns(system, long, options)
    return {
      versions: VERSIONS,
      offered_calls_per_s,
      peers: short.map((lane) => ({
        lane: lane.lane.name,
        peak_calls_per_s: peakOf(lane, closed),
        added_p50_ms: addedMs(open, lane.lane.name, 'p50_ms'),
        added_p99_ms: addedMs(open, lane.lane.name, 'p99_ms'),
        tokens_per_s: median(of(streams, lane).map((run) => run.calls_per_s * LONG.output_tokens)),
        resident_bytes: lane.pid === null ? 0 : residentBytes(lane.pid),
      })),
      runs: [...closed, ...open, ...streams],
    }
  } finally {
    for (const peer of peers) await peer.stop()
  }
}

async function closedRuns(system: BenchSystem, lanes: readonly BenchLane[], options: CallsOptions): Promise<Run[]> {
  const runs: Run[] = []
  for (let round = 1; round <= options.rounds; round++) {
    for (const connections of PEER_CONNECTIONS) {
      for (const lane of lanes) {
        const run = await closedRun(system, lane, connections, options.seconds)
        runs.push({ lane: lane.lane.name, round, connections, offered_calls_per_s: null, ...run })
        options.note(`closed, ${connections} connections, ${lane.lane.name}: ${run.calls_per_s} calls/s`)
      }
    }
  }
  return runs
}

async function openRuns(
  system: BenchSystem,
  lanes: readonly BenchLane[],
  offered_calls_per_s: number,
  { rounds, seconds, note }: CallsOptions,
): Promise<Run[]> {
  const runs: Run[] = []
  for (let round = 1; round <= rounds; round++) {
    const due = poisson(offered_calls_per_s, seconds * 2 + WARM_UP_S, round)
    for (const lane of lanes) {
      const { measured } = await openRun(system, lane, due)
      runs.push({ lane: lane.lane.name, round, connections: null, offered_calls_per_s, ...measured })
      note(`open, ${offered_calls_per_s} calls/s, ${lane.lane.name}: p50 ${measured.p50_ms} ms`)
    }
  }
  return runs
}

async function streamRuns(
  system: BenchSystem,
  lanes: readonly BenchLane[],
  { rounds, seconds, note }: CallsOptions,
): Promise<Run[]> {
  const runs: Run[] = []
  for (let round = 1; round <= rounds; round++) {
    for (const lane of lanes) {
      const run = await closedRun(system, lane, STREAMS, seconds, 0)
      runs.push({ lane: lane.lane.name, round, connections: STREAMS, offered_calls_per_s: null, ...run })
      note(`streams, ${lane.lane.name}: ${run.calls_per_s * LONG.output_tokens} tokens/s`)
    }
  }
  return runs
}

function of(runs: readonly Run[], { lane }: BenchLane): Run[] {
  return runs.filter((run) => run.lane === lane.name)
}

function peakOf(lane: BenchLane, closed: readonly Run[]): number {
  const peaks = PEER_CONNECTIONS.map((connections) =>
    median(
      of(closed, lane)
        .filter((run) => run.connections === connections)
        .map((run) => run.calls_per_s),
    ),
  )
  return Math.max(...peaks)
}

async function startPortkey(system: BenchSystem): Promise<Peer> {
  const dependencies = { '@portkey-ai/gateway': VERSIONS.portkey }
  const folder = await installed('portkey', (to) => {
    const manifest = { private: true, dependencies, overrides: PORTKEY_OVERRIDES }
    writeFileSync(path.join(to, 'package.json'), JSON.stringify(manifest))
    return [['npm', 'install', '--prefix', to, '--no-fund', '--no-audit']]
  })
  const port = await freePort()
  const file = path.join(folder, 'node_modules/@portkey-ai/gateway/build/start-server.js')
  const child = new ManagedChild({ name: 'portkey', args: [file, `--port=${port}`, '--headless'] })
  const headers = ['x-portkey-provider: openai', `x-portkey-custom-host: http://${HOST}:${system.agent.port}/v1`]
  return started(child, (shape) => ticketLane('portkey', port, system, shape, headers))
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
  const child = new ManagedChild({ name: 'litellm', command: path.join(folder, 'bin/litellm'), args, env })
  const headers = [`authorization: Bearer ${key}`]
  return started(child, (shape) => ticketLane('litellm', port, system, shape, headers, 'body'))
}

/** A file marks a whole installation and says of what, so that a broken or another one is never taken for it. */
async function installed(name: PeerName, commands: (folder: string) => string[][]): Promise<string> {
  const root = path.join(path.dirname(modelCacheFolder()), 'peers')
  const folder = path.join(root, `${name}-${VERSIONS[name]}`)
  const marker = path.join(folder, '.installed')
  const what = JSON.stringify(name === 'portkey' ? PORTKEY_OVERRIDES : {})
  if (existsSync(marker) && readFileSync(marker, 'utf8') === what) return folder
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  for (const [command = '', ...args] of commands(folder)) {
    await promisify(execFile)(command, args, { timeout: INSTALL_TIMEOUT_MS, maxBuffer: 16 * 1024 * 1024 })
  }
  writeFileSync(marker, what)
  return folder
}

/** A gateway may put chunks together, so their number is not held against it. */
async function started(child: ManagedChild, laneOf: (shape: CallShape) => Promise<Lane>): Promise<Peer> {
  const [short, long] = [await laneOf(SHORT), await laneOf(LONG)]
  await child.start()
  const until_ms = performance.now() + START_TIMEOUT_MS
  for (;;) {
    const answers = await fetch(`http://${short.host}:${short.port}/`).then(
      () => true,
      () => false,
    )
    if (answers) break
    if (performance.now() > until_ms || child.pid === null) {
      await child.end()
      throw new Error(`${short.name} did not start:\n${child.output}`)
    }
    await sleep(250)
  }
  const { pid } = child
  return {
    short: { lane: { ...short }, pid },
    long: { lane: { ...long }, pid },
    stop: () => child.end(),
  }
}
