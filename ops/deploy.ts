/** `npm run deploy`: checks what is missing, prepares R2, migrates D1 and deploys the Worker. `-- --dry-run` bundles it, offline. */
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { fail, readFlags } from '../cli/flags.ts'
import { prepareBucket } from './deploy/bucket.ts'
import { preflight } from './deploy/preflight.ts'
import { wranglerIn } from './deploy/wrangler.ts'
import { readWorkerConfig } from './workerd/worker-config.ts'

const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const HELP = `Deploys the control plane to Cloudflare.

  npm run deploy -- [flags]

  --dry-run    bundles the Worker and checks its bindings; needs no account and no network
  --help`

const read = readFlags('deploy', process.argv.slice(2), {
  'dry-run': { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
})
if (!read.ok) fail(read.reason)
const flags = read.values
const wrangler = wranglerIn(ROOT)
if (flags.help) console.log(HELP)
else if (flags['dry-run']) process.exitCode = (await wrangler(['deploy', '--dry-run', '--outdir', 'dist'], true)).code
else process.exitCode = await deploy()

async function deploy(): Promise<number> {
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
