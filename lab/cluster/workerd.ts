/**
 * In place of one workerd, several that form a cluster, with a balancer at the addresses of the one. It takes workerd's
 * command line and the configuration on stdin, as Miniflare gives them, so the whole system and its tests run on a cluster
 * unchanged. docs/self-host.md has the results. It needs `capnp` and `setpriv` on the path, a workerd that has clusters in
 * CLUSTER_WORKERD, a bucket in CLUSTER_BUCKET, and its endpoint and keys in AWS_ENDPOINT_URL and so on.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { freePort } from '../../ops/system/free-port.ts'
import { startBalancer } from '../../ops/workerd/balancer.ts'
import { clusterConfig, ownFolder, pidFileOf, WorkerdConfig } from './cluster-config.ts'

const CONTROL_FD = /^--control-fd=/
/** The schema names annotations of C++ code, which mean nothing here. */
const CXX_SCHEMA = `@0xbdf87d7bb8304e81;
$namespace("capnp::annotations");
annotation namespace(file): Text;
annotation name(field, enumerant, struct, enum, interface, method, param, group, union): Text;
annotation allowCancellation(interface, method, file): Void;
`
/** `capnp` before 1.0 knows no defaults of structs. Without one, a field that is left out stays left out. */
const STRUCT_DEFAULT = /(:ServiceDesignator) = "\w+";/g

const Environment = z.object({
  CLUSTER_WORKERD: z.string(),
  CLUSTER_BUCKET: z.string().startsWith('s3://'),
  CLUSTER_INSTANCES: z.coerce.number().int().min(1).max(16).default(2),
  CLUSTER_TIME_DIVISOR: z.coerce.number().int().min(1).max(1000).default(1),
  CLUSTER_RESTART_S: z.coerce.number().min(0).max(600).default(1),
})

const env = Environment.parse(process.env)
const args = process.argv.slice(2)
const folder = mkdtempSync(path.join(tmpdir(), 'switchyard-cluster-'))
const read = await buffer(process.stdin)
const config = WorkerdConfig.parse(JSON.parse(convert('binary:json', read).toString()))
const made = clusterConfig(config, {
  url: `${env.CLUSTER_BUCKET}/${prefixOf(config)}`,
  time_divisor: env.CLUSTER_TIME_DIVISOR,
  key: 'a key for instances on one machine, of at least 32 bytes',
})
const children = new Map<number, ChildProcess>()
let ending = false

if (made === null) {
  const child = spawn(env.CLUSTER_WORKERD, args, { stdio: ['pipe', 'inherit', 'inherit', 3] })
  child.stdin?.end(read)
  children.set(1, child)
  child.on('close', (code) => end(code ?? 1))
} else {
  const file = path.join(folder, 'config.bin')
  writeFileSync(file, convert('json:binary', Buffer.from(JSON.stringify(made.config))))
  const instances = Array.from({ length: env.CLUSTER_INSTANCES }, (_, index) => index + 1)
  const ports = new Map<string, number[]>()
  for (const name of made.sockets.keys()) ports.set(name, await Promise.all(instances.map(() => freePort())))
  for (const instance of instances) start(instance, flagsOf(instance, file, ports))
  for (const [name, address] of made.sockets) {
    const { hostname, port } = new URL(`tcp://${address}`)
    await startBalancer({ host: hostname, port: Number(port) }, ports.get(name) ?? [])
  }
}
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => end(0))

function flagsOf(instance: number, file: string, ports: ReadonlyMap<string, readonly number[]>): string[] {
  const disks = [...(made?.disks ?? [])].map(([name, shared]) => {
    const own = ownFolder(shared, instance)
    mkdirSync(own, { recursive: true })
    return `--directory-path=${name}=${own}`
  })
  const sockets = [...ports].map(([name, of]) => `--socket-addr=${name}=127.0.0.1:${of[instance - 1]}`)
  const given = args.filter((arg) => arg !== '-' && (instance === 1 || !CONTROL_FD.test(arg)))
  return [...given, ...disks, ...sockets, file]
}

/** An instance that ends is started again after CLUSTER_RESTART_S, as a service manager does. */
function start(instance: number, flags: string[]): void {
  const command = ['--pdeathsig', 'KILL', env.CLUSTER_WORKERD, ...flags]
  const child = spawn('setpriv', command, { stdio: ['ignore', 'inherit', 'inherit', 3] })
  children.set(instance, child)
  for (const shared of made?.disks.values() ?? []) writeFileSync(pidFileOf(shared, instance), `${child.pid}`)
  child.on('close', async () => {
    if (ending) return
    await sleep(env.CLUSTER_RESTART_S * 1000)
    // The pipe for ports that were chosen is read once.
    start(
      instance,
      flags.filter((flag) => !CONTROL_FD.test(flag)),
    )
  })
}

function end(code: number): void {
  ending = true
  for (const child of children.values()) child.kill('SIGKILL')
  rmSync(folder, { recursive: true, force: true })
  process.exit(code)
}

/** One state folder is one cluster. */
function prefixOf({ services }: WorkerdConfig): string {
  const disks = services.flatMap(({ disk }) => (disk === undefined ? [] : [path.dirname(disk.path)]))
  return createHash('sha256')
    .update(disks.sort()[0] ?? '')
    .digest('hex')
    .slice(0, 16)
}

function convert(formats: 'binary:json' | 'json:binary', input: Buffer): Buffer {
  const schemas = path.join(folder, 'schemas')
  mkdirSync(path.join(schemas, 'capnp'), { recursive: true })
  writeFileSync(path.join(schemas, 'capnp', 'c++.capnp'), CXX_SCHEMA)
  const schema = path.join(schemas, 'workerd.capnp')
  const published = readFileSync(path.join(path.dirname(env.CLUSTER_WORKERD), '../../../workerd/workerd.capnp'), 'utf8')
  writeFileSync(schema, published.replaceAll(STRUCT_DEFAULT, '$1;'))
  return execFileSync('capnp', ['convert', '-I', schemas, formats, schema, 'Config'], {
    ...{ input, maxBuffer: 64 * 1024 * 1024, stdio: ['pipe', 'pipe', 'ignore'] },
  })
}
