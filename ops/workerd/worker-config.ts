/** wrangler.toml is the one description of the Worker; what Miniflare needs is read from it. */
import { readFile } from 'node:fs/promises'
import { parse } from 'smol-toml'
import { z } from 'zod'

const WranglerToml = z.object({
  name: z.string(),
  main: z.string(),
  compatibility_date: z.string(),
  compatibility_flags: z.array(z.string()).default([]),
  d1_databases: z
    .array(
      z.object({
        binding: z.string(),
        database_name: z.string(),
        database_id: z.string(),
        migrations_dir: z.string().default('migrations'),
      }),
    )
    .length(1),
  r2_buckets: z.array(z.object({ binding: z.string(), bucket_name: z.string() })).length(1),
  durable_objects: z.object({ bindings: z.array(z.object({ name: z.string(), class_name: z.string() })) }),
  migrations: z.array(z.object({ tag: z.string(), new_sqlite_classes: z.array(z.string()).default([]) })),
  vars: z.record(z.string(), z.string()).default({}),
})

export interface WorkerConfig {
  name: string
  main: string
  compatibilityDate: string
  compatibilityFlags: string[]
  database: { binding: string; name: string; id: string; migrationsDir: string }
  bucket: { binding: string; name: string }
  /** Binding name → class; every class keeps its state in SQLite. */
  durableObjects: { binding: string; className: string }[]
  vars: Record<string, string>
}

export async function readWorkerConfig(file: string): Promise<WorkerConfig> {
  return parseWorkerConfig(await readFile(file, 'utf8'), file)
}

export function parseWorkerConfig(text: string, file: string): WorkerConfig {
  const parsed = WranglerToml.safeParse(parse(text))
  if (!parsed.success) throw new Error(`${file}: ${z.prettifyError(parsed.error)}`)
  const toml = parsed.data
  const sqliteClasses = new Set(toml.migrations.flatMap((migration) => migration.new_sqlite_classes))
  for (const { class_name } of toml.durable_objects.bindings) {
    if (!sqliteClasses.has(class_name)) throw new Error(`${file}: no migration makes ${class_name} an SQLite class`)
  }
  const [database] = toml.d1_databases
  if (database === undefined) throw new Error(`${file}: no D1 database`)
  const [bucket] = toml.r2_buckets
  if (bucket === undefined) throw new Error(`${file}: no R2 bucket`)
  return {
    name: toml.name,
    main: toml.main,
    compatibilityDate: toml.compatibility_date,
    compatibilityFlags: toml.compatibility_flags,
    database: {
      binding: database.binding,
      name: database.database_name,
      id: database.database_id,
      migrationsDir: database.migrations_dir,
    },
    bucket: { binding: bucket.binding, name: bucket.bucket_name },
    durableObjects: toml.durable_objects.bindings.map(({ name, class_name }) => ({
      binding: name,
      className: class_name,
    })),
    vars: toml.vars,
  }
}
