/**
 * `npm run deploy`: checks what is missing, prepares R2, migrates D1 and deploys the Worker. `-- --dry-run` checks what can be
 * checked without an account. `-- --verify URL` tries out a system that is deployed.
 */
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { fail, readFlags } from '../cli/flags.ts'
import { prepareBucket } from './deploy/bucket.ts'
import { offlineChecks } from './deploy/offline-checks.ts'
import { preflight } from './deploy/preflight.ts'
import { exitCodeOf, findingLine, verify } from './deploy/verify.ts'
import { wranglerIn } from './deploy/wrangler.ts'
import { readWorkerConfig } from './workerd/worker-config.ts'

const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const BATCH_LIMIT_S = 120
const HELP = `Deploys the control plane to Cloudflare.

  npm run deploy -- [flags]

  --dry-run             checks bindings, names, migrations, limits and the bundle; needs no account and no network
  --verify URL          deploys nothing: tries out the system at URL as a first user would, and says what it found. It uses
                        SWITCHYARD_API_KEY for calls and a batch, SWITCHYARD_ADMIN_KEY for engines, METRICS_TOKEN for metrics
  --model ID            with --verify: the model to ask (default: the first that the key may use)
  --batch-limit-s ${BATCH_LIMIT_S}   with --verify: how long a batch of one line may take
  --help

--verify exits with 0 if all is well, 1 if something is not, 2 for a wrong flag, 3 if nothing answers.`
const EXIT_USAGE = 2

const read = readFlags('deploy', process.argv.slice(2), {
  'dry-run': { type: 'boolean', default: false },
  verify: { type: 'string' },
  model: { type: 'string' },
  'batch-limit-s': { type: 'string', default: `${BATCH_LIMIT_S}` },
  help: { type: 'boolean', short: 'h', default: false },
})
if (!read.ok) fail(read.reason)
const flags = read.values
const wrangler = wranglerIn(ROOT)
if (flags.help) console.log(HELP)
else if (flags.verify !== undefined) process.exitCode = await tryOut(flags.verify)
else if (flags['dry-run']) process.exitCode = await dryRun()
else process.exitCode = await deploy()

async function tryOut(url: string): Promise<number> {
  const batch_limit_s = Number(flags['batch-limit-s'])
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
    return wrongFlag(`--verify takes an http(s) URL, not ${url}`)
  if (!(batch_limit_s > 0)) return wrongFlag('--batch-limit-s takes a number of seconds above 0')
  const { SWITCHYARD_API_KEY, SWITCHYARD_ADMIN_KEY, METRICS_TOKEN } = process.env
  const findings = await verify(
    {
      url,
      api_key: SWITCHYARD_API_KEY || null,
      admin_key: SWITCHYARD_ADMIN_KEY || null,
      metrics_token: METRICS_TOKEN || null,
      model: flags.model ?? null,
      batch_limit_ms: batch_limit_s * 1000,
    },
    (finding) => console.log(findingLine(finding)),
  )
  return exitCodeOf(findings)
}

function wrongFlag(message: string): number {
  process.stderr.write(`${message}\n`)
  return EXIT_USAGE
}

async function dryRun(): Promise<number> {
  if (!(await passesOffline())) return 1
  return (await wrangler(['deploy', '--dry-run', '--outdir', 'dist'], true)).code
}

async function passesOffline(): Promise<boolean> {
  const { passed, faults } = await offlineChecks(ROOT)
  for (const what of passed) console.log(`ok  ${what}`)
  if (faults.length > 0)
    process.stderr.write(`This must be put right first:\n${faults.map((line) => `  - ${line}\n`).join('')}`)
  return faults.length === 0
}

async function deploy(): Promise<number> {
  if (!(await passesOffline())) return 1
  const file = path.join(ROOT, 'wrangler.toml')
  const { database, bucket, compatibilityDate, vars } = await readWorkerConfig(file)
  const today = new Date().toISOString().slice(0, 10)
  const checked = await preflight(wrangler, { file, databaseName: database.name, compatibilityDate }, today)
  if (!checked.ok) {
    process.stderr.write(
      `Before it can be deployed, this is missing:\n${checked.missing.map((line) => `  - ${line}\n`).join('')}`,
    )
    return 1
  }
  const fault = await prepareBucket(wrangler, bucket.name, Number(vars.ARCHIVE_RETENTION_DAYS))
  if (fault !== null) {
    process.stderr.write(`${fault}\n`)
    return 1
  }
  const pending = await wrangler(['d1', 'migrations', 'list', database.name, '--remote'], true)
  if (pending.code !== 0) return pending.code
  const migrated = await wrangler(['d1', 'migrations', 'apply', database.name, '--remote'], true)
  if (migrated.code !== 0) return migrated.code
  return (await wrangler(['deploy'], true)).code
}
