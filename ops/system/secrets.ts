/** Secrets of one data directory: made once, kept in a file that only its owner can read. */
import { randomBytes } from 'node:crypto'
import { chmod, mkdir } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { newSecret } from '../../src/store/secret-check.ts'
import { AGENT_TOKEN_PREFIX, API_KEY_PREFIX, randomBase62, SECRET_CHARS } from '../../src/store/secrets.ts'
import { MODE_SECRET, readFileIfAny, writeFileAtomic } from './atomic-file.ts'
import { UpRefused } from './explain-error.ts'

const Secrets = z.object({
  keyPepper: z.string().min(32),
  ticketSecret: z.string().min(32),
  adminKey: z.string().startsWith('sy-admin-'),
  apiKey: z.string().startsWith('sk-sy-'),
  agentTokens: z.record(z.string(), z.string().startsWith('sya-')),
})
export type Secrets = z.infer<typeof Secrets>

/** Reads the secrets, makes what is missing (all at first, a token for an agent that is seen for the first time). */
export async function loadSecrets(file: string, agents: readonly string[]): Promise<Secrets> {
  const text = await readFileIfAny(file)
  const secrets = text === null ? await freshSecrets() : parseSecrets(file, text)
  const missing = agents.filter((id) => secrets.agentTokens[id] === undefined)
  for (const id of missing) secrets.agentTokens[id] = await newSecret(secrets.keyPepper, AGENT_TOKEN_PREFIX)
  if (text === null || missing.length > 0) {
    await mkdir(path.dirname(file), { recursive: true })
    await writeFileAtomic(file, `${JSON.stringify(secrets, null, 2)}\n`)
  } else await chmod(file, MODE_SECRET)
  return secrets
}

function parseSecrets(file: string, text: string): Secrets {
  try {
    return Secrets.parse(JSON.parse(text))
  } catch (error) {
    const repair = `npm run reset -- --data-dir ${path.dirname(file)}`
    throw new UpRefused(
      `${file} is damaged. Copy a backup of it back, or wipe its folder and start with new keys: ${repair}`,
      { cause: error },
    )
  }
}

export async function freshSecrets(): Promise<Secrets> {
  const keyPepper = randomBytes(32).toString('base64url')
  return {
    keyPepper,
    ticketSecret: randomBytes(32).toString('base64url'),
    adminKey: `sy-admin-${randomBase62(SECRET_CHARS)}`,
    apiKey: await newSecret(keyPepper, API_KEY_PREFIX),
    agentTokens: {},
  }
}
