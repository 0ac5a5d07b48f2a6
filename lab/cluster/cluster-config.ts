/**
 * The configuration of one workerd as that of each instance of a cluster (`Config.cluster` of workerd ≥ 1.20261117). What
 * changes: Durable Objects on disk get a disk of each instance's own and their state in a bucket. Blobs of the local R2 keep
 * one folder, which instances on several machines would mount. Addresses are chosen for each instance.
 */
import path from 'node:path'
import { z } from 'zod'

const Designator = z.looseObject({ name: z.string() })
const Binding = z.looseObject({ name: z.string(), service: Designator.optional() })
const Service = z.looseObject({
  name: z.string(),
  disk: z.looseObject({ path: z.string() }).optional(),
  worker: z
    .looseObject({
      bindings: z.array(Binding).optional(),
      durableObjectStorage: z.looseObject({ localDisk: z.string().optional() }).optional(),
    })
    .optional(),
})
const Socket = z.looseObject({ name: z.string(), address: z.string().optional() })
/** workerd.capnp's `Config`, as `capnp convert binary:json` writes it: the parts that are read or changed here. */
export const WorkerdConfig = z.looseObject({ services: z.array(Service), sockets: z.array(Socket) })
export type WorkerdConfig = z.infer<typeof WorkerdConfig>

export interface Bucket {
  /** `s3://bucket/prefix`. */
  url: string
  /** Divides the waits of a takeover: 1 is workerd's own 20 s lease. */
  time_divisor: number
  key: string
}

export interface ClusterConfig {
  config: WorkerdConfig
  /** Services that hold Durable Objects, by name, with the folder that a single instance uses. */
  disks: ReadonlyMap<string, string>
  /** Sockets that clients reach, by name, with the address that they expect. */
  sockets: ReadonlyMap<string, string>
}

/** Kept apart from the objects' disk: instances share what is in it. */
const SHARED = 'shared'

/** Null: no Durable Object of it is on a disk, so there is nothing to share. */
export function clusterConfig(config: WorkerdConfig, bucket: Bucket): ClusterConfig | null {
  const paths = new Map(config.services.flatMap(({ name, disk }) => (disk === undefined ? [] : [[name, disk.path]])))
  const disks = new Map<string, string>()
  for (const { worker } of config.services) {
    const disk = worker?.durableObjectStorage?.localDisk
    const folder = disk === undefined ? undefined : paths.get(disk)
    if (disk !== undefined && folder !== undefined) disks.set(disk, folder)
  }
  if (disks.size === 0) return null
  const shared = [...disks].map(([name, folder]) => ({
    name: `${name}:${SHARED}`,
    disk: { path: folder, writable: true, allowDotfiles: true },
  }))
  const services = config.services.map((service) => ({ ...service, ...withSharedBlobs(service, disks) }))
  const sockets = new Map(
    config.sockets.flatMap(({ name, address }) => (address === undefined ? [] : [[name, address]])),
  )
  const cluster = {
    bucket: bucket.url,
    address: '127.0.0.1:0',
    key: bucket.key,
    unsafeTimeDivisor: bucket.time_divisor,
  }
  return { config: { ...config, services: [...services, ...shared], cluster }, disks, sockets }
}

/** A binding to a disk of Durable Objects means its blobs. */
function withSharedBlobs(service: z.infer<typeof Service>, disks: ReadonlyMap<string, string>) {
  if (service.worker?.bindings === undefined) return {}
  const bindings = service.worker.bindings.map((binding) =>
    binding.service !== undefined && disks.has(binding.service.name)
      ? { ...binding, service: { ...binding.service, name: `${binding.service.name}:${SHARED}` } }
      : binding,
  )
  return { worker: { ...service.worker, bindings } }
}

/** Has the pid of an instance, beside its copies. */
export function pidFileOf(folder: string, instance: number): string {
  return path.join(path.dirname(ownFolder(folder, instance)), 'pid')
}

/** Where an instance keeps its copies of the objects of a disk. */
export function ownFolder(folder: string, instance: number): string {
  return path.join(path.dirname(folder), `.instance-${instance}`, path.basename(folder))
}
