/**
 * `npm run dev`: `wrangler dev` with what it needs: secrets in .dev.vars, D1 migrated and provisioned. For editing the
 * Worker; it is many times slower than `npm run up`. Agents are started by hand, so that they outlive the Worker's reloads.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseEnv } from 'node:util'
import { readFileIfAny, writeFileAtomic } from './system/atomic-file.ts'
import { dataDir } from './system/data-dir.ts'
import { loadSecrets, type Secrets } from './system/secrets.ts'
import { agentIdOf } from './workerd/agent-ids.ts'
import { applyMigrations, readMigrations } from './workerd/d1-migrations.ts'
import { withLocalD1 } from './workerd/local-d1.ts'
import { provisionLocal } from './workerd/provision-local.ts'
import { readWorkerConfig } from './workerd/worker-config.ts'

const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const DEV_VARS = path.join(ROOT, '.dev.vars')
const REGIONS = ['us-east', 'eu-west']
const MODEL = { id: 'emulated-8b', context_tokens: 8192 }

const passed = process.argv.slice(2)
if (passed.includes('--help') || passed.includes('-h')) {
  console.log('Runs `wrangler dev` for editing the Worker.\n\n  npm run dev -- [flags of wrangler dev]\n')
  process.exit(0)
}
const place = dataDir(path.join(ROOT, '.wrangler', 'switchyard'))
const config = await readWorkerConfig(path.join(ROOT, 'wrangler.toml'))
const secrets = await loadSecrets(
  place.secrets,
  REGIONS.map((region) => agentIdOf(region)),
)
const vars = await devVars(secrets)
await mkdir(place.root, { recursive: true })
await withLocalD1(config, path.join(ROOT, '.wrangler', 'state', 'v3'), async (database) => {
  const applied = await applyMigrations(database, await readMigrations(path.join(ROOT, config.database.migrationsDir)))
  for (const name of applied) console.log(`Applied migration ${name}`)
  await provisionLocal(database, {
    regions: REGIONS,
    models: [MODEL],
    secrets: { ...secrets, keyPepper: vars.KEY_PEPPER ?? secrets.keyPepper },
    now_ms: Date.now(),
  })
})
const port = portOf(passed)
console.log(`
API key      ${secrets.apiKey}
Admin key    ${vars.ADMIN_KEY ?? '(none in .dev.vars)'}
Model        ${MODEL.id}
An agent, in another terminal:
${REGIONS.map((region) => `  ${agentLine(region)}`).join('\n')}
`)
const wrangler = spawn('wrangler', ['dev', ...(passed.includes('--port') ? [] : ['--port', String(port)]), ...passed], {
  cwd: ROOT,
  stdio: 'inherit',
  env: { ...process.env, WRANGLER_SEND_METRICS: process.env.WRANGLER_SEND_METRICS ?? 'false' },
})
process.on('SIGINT', () => undefined)
process.on('SIGTERM', () => wrangler.kill('SIGTERM'))
const [code] = (await once(wrangler, 'exit')) as [number | null]
process.exit(code ?? 0)

/** Secrets as wrangler reads them; a file that the user made is left alone. */
async function devVars({ keyPepper, ticketSecret, adminKey }: Secrets): Promise<NodeJS.Dict<string>> {
  const text = await readFileIfAny(DEV_VARS)
  if (text !== null) return parseEnv(text)
  const vars = { KEY_PEPPER: keyPepper, TICKET_SECRET: ticketSecret, ADMIN_KEY: adminKey }
  const lines = Object.entries(vars).map(([name, value]) => `${name}=${value}\n`)
  await writeFileAtomic(DEV_VARS, lines.join(''))
  console.log('Made .dev.vars with fresh secrets')
  return vars
}

function portOf(argv: readonly string[]): number {
  const at = argv.indexOf('--port')
  return at < 0 ? 8787 : Number(argv[at + 1])
}

function agentLine(region: string): string {
  const id = agentIdOf(region)
  return `SWITCHYARD_AGENT_TOKEN=${secrets.agentTokens[id]} npx node gpu-agent/src/main.ts --id ${id} --region ${region} --control-url http://127.0.0.1:${port} --engine emulated --model-id ${MODEL.id} --context-tokens ${MODEL.context_tokens} --data-dir ${path.join('.wrangler', 'switchyard', 'agents', id)}`
}
