/**
 * What can be wrong with a deployment and be seen without an account: wrangler.toml against the Worker, against the last
 * release and against Cloudflare's limits. Everything that is wrong is named at once, with what to do.
 */
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { gzipSync } from 'node:zlib'
import { parse } from 'smol-toml'
import { z } from 'zod'
import { bundleWorker } from '../workerd/bundle-worker.ts'
import { splitStatements } from '../workerd/d1-migrations.ts'
import { readWorkerConfig, type WorkerConfig } from '../workerd/worker-config.ts'
import { SECRETS } from './preflight.ts'

/** Written by `npm run release`. */
export const LAST_RELEASE = 'ops/deploy/last-release.json'

/** Cloudflare's documented limits for the paid plan (Workers, D1 and R2: platform limits, November 2026). */
export const LIMITS = {
  bundle_gzip_bytes: 10 * 1024 * 1024,
  vars: 128,
  var_bytes: 5 * 1024,
  statement_bytes: 100_000,
  durable_object_classes: 500,
} as const

/** A lower-case name that R2 takes; D1 and Workers take it too. */
const NAME = /^[a-z0-9](?:[a-z0-9-]{1,61})[a-z0-9]$/

/** What a later version may only add to. */
export const Release = z.object({
  version: z.string(),
  worker: z.string(),
  d1: z.string(),
  r2: z.string(),
  durable_object_tags: z.array(z.string()),
  /** Name of each migration's file, and the hash of what is in it. */
  migrations: z.record(z.string(), z.string()),
})
export type Release = z.infer<typeof Release>

const DurableObjectTags = z.object({ migrations: z.array(z.object({ tag: z.string() })) })

export interface OfflineReport {
  /** What was seen to be well. */
  passed: string[]
  faults: string[]
}

export async function offlineChecks(root: string): Promise<OfflineReport> {
  const file = path.join(root, 'wrangler.toml')
  const config = await readWorkerConfig(file)
  const report: OfflineReport = { passed: [], faults: [] }
  const check = (what: string, faults: readonly string[]): void => {
    if (faults.length === 0) report.passed.push(what)
    report.faults.push(...faults)
  }
  check('every binding that the Worker reads is in wrangler.toml', await bindingFaults(root, config))
  check('names of the Worker, the database and the bucket', nameFaults(config))
  check('no secret is in [vars], and vars are within the limits', varFaults(config))
  check('statements of migrations are within the limits', await statementFaults(root, config))
  check('the bundle is within the limits', await bundleFaults(root, config))
  const last = await lastRelease(root)
  if (last === null) report.passed.push('there is no release yet, so every migration may still change')
  else check(`what release ${last.version} left is kept`, releaseFaults(last, await currentRelease(root, last.version)))
  return report
}

/** What this version would leave on an account. */
export async function currentRelease(root: string, version: string): Promise<Release> {
  const file = path.join(root, 'wrangler.toml')
  const config = await readWorkerConfig(file)
  const { migrations: tags } = DurableObjectTags.parse(parse(await readFile(file, 'utf8')))
  const folder = path.join(root, config.database.migrationsDir)
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort()
  const hashed = await Promise.all(
    names.map(async (name) => {
      const text = await readFile(path.join(folder, name))
      return [name, createHash('sha256').update(text).digest('hex')] as const
    }),
  )
  return {
    ...{ version, worker: config.name, d1: config.database.name, r2: config.bucket.name },
    durable_object_tags: tags.map(({ tag }) => tag),
    migrations: Object.fromEntries(hashed),
  }
}

/** Null: there was none. */
async function lastRelease(root: string): Promise<Release | null> {
  const file = path.join(root, LAST_RELEASE)
  return existsSync(file) ? Release.parse(JSON.parse(await readFile(file, 'utf8'))) : null
}

export function releaseFaults(last: Release, current: Release): string[] {
  const faults: string[] = []
  for (const name of ['worker', 'd1', 'r2'] as const) {
    if (last[name] !== current[name])
      faults.push(
        `The name of the ${name} was ${last[name]} in ${last.version} and is ${current[name]}: a deployment would begin without what is stored. Put it back.`,
      )
  }
  const tags = current.durable_object_tags.slice(0, last.durable_object_tags.length)
  if (tags.join() !== last.durable_object_tags.join())
    faults.push(
      `Durable Object migrations of ${last.version} (${last.durable_object_tags.join(', ')}) were changed: Cloudflare refuses that. Put them back, and add a new tag after them.`,
    )
  for (const [name, hash] of Object.entries(last.migrations)) {
    if (current.migrations[name] === undefined)
      faults.push(`The D1 migration ${name} of ${last.version} is gone: put it back. Migrations only add.`)
    else if (current.migrations[name] !== hash)
      faults.push(
        `The D1 migration ${name} of ${last.version} was changed, and is not applied again where it was: put it back, and add another.`,
      )
  }
  const newest = Object.keys(last.migrations).sort().at(-1) ?? ''
  const before = Object.keys(current.migrations).filter((name) => !(name in last.migrations) && name < newest)
  for (const name of before)
    faults.push(`The D1 migration ${name} comes before ${newest} of ${last.version}: give it a later number.`)
  return faults
}

/** The Worker's `Env` names what it reads. */
async function bindingFaults(root: string, config: WorkerConfig): Promise<string[]> {
  const env = await readFile(path.join(root, 'src/env.ts'), 'utf8')
  const read = [...env.matchAll(/^ {2}([A-Z][A-Z0-9_]*)(\?)?:/gm)].map(([, name = '', optional]) => ({
    name,
    optional,
  }))
  const given = new Set<string>([
    ...[config.database.binding, config.bucket.binding],
    ...config.durableObjects.map(({ binding }) => binding),
    ...[...Object.keys(config.vars), ...SECRETS],
  ])
  const absent = read.filter(({ name, optional }) => optional === undefined && !given.has(name))
  const worker = await readFile(path.join(root, config.main), 'utf8')
  const unexported = config.durableObjects.filter(({ className }) => !new RegExp(`\\b${className}\\b`).test(worker))
  return [
    ...absent.map(
      ({ name }) => `The Worker reads ${name} (src/env.ts), which wrangler.toml does not give: add the binding.`,
    ),
    ...unexported.map(
      ({ className }) => `${config.main} does not export ${className}, which wrangler.toml binds: export it.`,
    ),
  ]
}

function nameFaults({ name, database, bucket }: WorkerConfig): string[] {
  return [name, database.name, bucket.name]
    .filter((each) => !NAME.test(each))
    .map(
      (each) =>
        `The name ${JSON.stringify(each)} in wrangler.toml: use 3 to 63 lower-case letters, digits and hyphens.`,
    )
}

function varFaults({ vars, durableObjects }: WorkerConfig): string[] {
  const faults: string[] = []
  for (const name of SECRETS) {
    if (name in vars)
      faults.push(
        `${name} is in [vars] of wrangler.toml, where everyone who reads the repository sees it: remove it, make another, and run \`npx wrangler secret put ${name}\`.`,
      )
  }
  for (const [name, value] of Object.entries(vars)) {
    if (Buffer.byteLength(value) > LIMITS.var_bytes)
      faults.push(`${name} in wrangler.toml has over ${LIMITS.var_bytes} bytes, which Cloudflare refuses.`)
  }
  if (Object.keys(vars).length + SECRETS.length > LIMITS.vars)
    faults.push(`wrangler.toml has more than ${LIMITS.vars} variables and secrets.`)
  if (durableObjects.length > LIMITS.durable_object_classes)
    faults.push(`wrangler.toml binds more than ${LIMITS.durable_object_classes} Durable Object classes.`)
  return faults
}

async function statementFaults(root: string, { database }: WorkerConfig): Promise<string[]> {
  const folder = path.join(root, database.migrationsDir)
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql'))
  const faults = await Promise.all(
    names.map(async (name) => {
      const statements = splitStatements(await readFile(path.join(folder, name), 'utf8'))
      const large = statements.some((statement) => Buffer.byteLength(statement) > LIMITS.statement_bytes)
      return large
        ? [`${name} has a statement of over ${LIMITS.statement_bytes} bytes, which D1 refuses: split it.`]
        : []
    }),
  )
  return faults.flat()
}

async function bundleFaults(root: string, { main }: WorkerConfig): Promise<string[]> {
  const bytes = gzipSync(await bundleWorker(root, main)).length
  return bytes <= LIMITS.bundle_gzip_bytes
    ? []
    : [`The Worker has ${bytes} bytes compressed. Cloudflare takes ${LIMITS.bundle_gzip_bytes}.`]
}
