/**
 * `npm run db:generate`: migrations for every schema change, by drizzle-kit. D1's lie in migrations/; those of the actors'
 * own SQLite are embedded in src/actors/storage/migrations.gen.ts, since an actor has no file system to read them from.
 * With `--check` nothing is written: it exits 1 if a schema has changes that no migration has.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import Database from 'better-sqlite3'
import { z } from 'zod'
import { flagsOrExit } from '../cli/flags.ts'

const ACTOR_STORAGE = 'src/actors/storage'
const EMBEDDED = join(ACTOR_STORAGE, 'migrations.gen.ts')
const ACTORS = ['program', 'pool', 'tenant', 'idempotency', 'responses', 'archive']
/** Tables that D1 has too. */
const ARCHIVE_SCHEMA = 'src/store/archive-schema.ts'

interface Target {
  schema: string
  out: string
}

const TARGETS: Target[] = [
  { schema: 'src/store/schema.ts', out: 'migrations' },
  { schema: 'gpu-agent/src/outbox/outbox-schema.ts', out: 'gpu-agent/migrations' },
  ...ACTORS.map((actor) => ({
    schema: actor === 'archive' ? ARCHIVE_SCHEMA : `${ACTOR_STORAGE}/${actor}-schema.ts`,
    out: `${ACTOR_STORAGE}/migrations/${actor}`,
  })),
]

function generate(target: Target, out: string): void {
  execFileSync('drizzle-kit', ['generate', '--dialect=sqlite', `--schema=${target.schema}`, `--out=${out}`], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
}

function sqlFiles(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith('.sql')) : []
}

/** Whether drizzle-kit would write another migration, tried on a copy: `drizzle-kit check` compares only snapshots. */
function isBehind(target: Target): boolean {
  // drizzle-kit resolves `--out` against the working directory and mangles absolute paths.
  const copy = mkdtempSync(join(tmpdir(), 'switchyard-migrations-'))
  try {
    if (existsSync(target.out)) cpSync(target.out, copy, { recursive: true })
    generate(target, relative(process.cwd(), copy))
    return sqlFiles(copy).length !== sqlFiles(target.out).length
  } finally {
    rmSync(copy, { recursive: true })
  }
}

/** What all migrations make of an empty database: an object that has stored nothing gets it in one step. */
function freshSchema(migrations: readonly string[]): string[] {
  const database = new Database(':memory:')
  try {
    for (const migration of migrations) database.exec(migration.replaceAll('--> statement-breakpoint', ''))
    const made = database.prepare(`SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid`).pluck().all()
    return z.array(z.string()).parse(made)
  } finally {
    database.close()
  }
}

/** The shape that drizzle-orm/durable-sqlite/migrator takes, and the schema of an object without tables, one export per actor. */
function embed(): string {
  const parts = ['/** Written by `npm run db:generate` from the .sql files beside this one. */']
  for (const actor of ACTORS) {
    const folder = join(ACTOR_STORAGE, 'migrations', actor)
    const journal: unknown = JSON.parse(readFileSync(join(folder, 'meta', '_journal.json'), 'utf8'))
    const files = sqlFiles(folder).sort()
    const migrations = Object.fromEntries(
      files.map((name) => [`m${name.slice(0, 4)}`, readFileSync(join(folder, name), 'utf8')]),
    )
    const fresh = freshSchema(Object.values(migrations))
    parts.push(`export const ${actor}Migrations = ${JSON.stringify({ journal, migrations, fresh }, null, 2)}`)
  }
  return `${parts.join('\n\n')}\n`
}

const HELP = `Writes a migration for every change of a schema.

  npm run db:generate -- [flags]

  --check    writes nothing; exits 1 if a schema has changes that no migration has
  --help`
const { check } = flagsOrExit('db:generate', HELP, { check: { type: 'boolean', default: false } })

if (check) {
  const behind = TARGETS.filter(isBehind).map(({ schema }) => schema)
  if (!existsSync(EMBEDDED) || readFileSync(EMBEDDED, 'utf8') !== embed()) behind.push(EMBEDDED)
  if (behind.length > 0) {
    console.error(`behind its schema: ${behind.join(', ')}. \`npm run db:generate\` writes what is missing.`)
    process.exit(1)
  }
} else {
  for (const target of TARGETS) generate(target, target.out)
  writeFileSync(EMBEDDED, embed())
}
