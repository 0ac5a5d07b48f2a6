/**
 * What a deployment needs before its first byte is uploaded. Everything that is missing is named at once, each with the
 * command that fixes it. The D1 database is made here: wrangler.toml needs its id. The bucket is made in bucket.ts.
 */
import { readFile } from 'node:fs/promises'
import { writeFileAtomic } from '../system/atomic-file.ts'
import type { Wrangler } from './wrangler.ts'

export const SECRETS = ['KEY_PEPPER', 'TICKET_SECRET', 'ADMIN_KEY'] as const
/** Stands in wrangler.toml until a database has been made. */
export const DATABASE_ID_UNSET = '00000000-0000-0000-0000-000000000000'
const MODE_PUBLIC = 0o644

export type Preflight = { ok: true; databaseId: string } | { ok: false; missing: string[] }

export async function preflight(
  wrangler: Wrangler,
  toml: { file: string; databaseName: string; compatibilityDate: string },
  today: string,
): Promise<Preflight> {
  const dated = compatibilityFault(toml.compatibilityDate, today)
  if (dated !== null) return { ok: false, missing: [dated] }
  if ((await wrangler(['whoami', '--json'])).code !== 0) {
    return {
      ok: false,
      missing: [
        'A Cloudflare account: run `npx wrangler login`, or set CLOUDFLARE_API_TOKEN and CLOUDFLARE_ACCOUNT_ID',
      ],
    }
  }
  const missing = await missingSecrets(wrangler)
  if (missing.length > 0) return { ok: false, missing }
  const text = await readFile(toml.file, 'utf8')
  if (!text.includes(DATABASE_ID_UNSET)) return { ok: true, databaseId: 'as in wrangler.toml' }
  const databaseId =
    (await findDatabase(wrangler, toml.databaseName)) ?? (await createDatabase(wrangler, toml.databaseName))
  if (databaseId === null)
    return { ok: false, missing: [`The D1 database: \`npx wrangler d1 create ${toml.databaseName}\` did not make one`] }
  await writeFileAtomic(toml.file, text.replaceAll(DATABASE_ID_UNSET, databaseId), MODE_PUBLIC)
  return { ok: true, databaseId }
}

/** Cloudflare refuses a date that it has not reached. ISO dates compare as text. */
function compatibilityFault(date: string, today: string): string | null {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(date)) return `compatibility_date in wrangler.toml is no date: ${date}`
  return date > today ? `A compatibility_date of today or before: wrangler.toml has ${date}, today is ${today}` : null
}

/** `secret list` fails for a Worker that does not exist; then all of them are missing. */
async function missingSecrets(wrangler: Wrangler): Promise<string[]> {
  const listed = await wrangler(['secret', 'list', '--format', 'json'])
  const names = listed.code === 0 ? (JSON.parse(listed.stdout) as { name: string }[]).map(({ name }) => name) : []
  return SECRETS.filter((name) => !names.includes(name)).map(
    (name) => `The secret ${name}: openssl rand -base64 32 | npx wrangler secret put ${name}`,
  )
}

async function findDatabase(wrangler: Wrangler, name: string): Promise<string | null> {
  const listed = await wrangler(['d1', 'list', '--json'])
  if (listed.code !== 0) throw new Error(`wrangler d1 list failed: ${listed.stderr.trim()}`)
  const databases = JSON.parse(listed.stdout) as { name: string; uuid: string }[]
  return databases.find((database) => database.name === name)?.uuid ?? null
}

async function createDatabase(wrangler: Wrangler, name: string): Promise<string | null> {
  const created = await wrangler(['d1', 'create', name], true)
  return created.code === 0 ? await findDatabase(wrangler, name) : null
}
