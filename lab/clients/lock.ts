/**
 * Writes the locks of the clients' environments anew, from the versions that locks/NAME.in and locks/NAME/package.json ask
 * for: `node ops/bootstrap.mjs lab/clients/lock.ts [NAME…]`. Python's locks hold for Python 3.11 and later on any platform.
 */
import path from 'node:path'
import { fail } from '../../cli/flags.ts'
import { switchyardCacheFolder } from '../../ops/model/cache-folder.ts'
import { pythonEnvironment } from '../../ops/python/environment.ts'
import { runTool } from '../../ops/python/run-tool.ts'
import { UV_ENVIRONMENT } from '../../ops/python/uv.ts'
import { CLIENTS } from './clients.ts'
import { LOCKS_FOLDER, npm } from './environments.ts'

const COMPILE_TIMEOUT_MS = 10 * 60_000
const COMPILE = [
  'pip',
  'compile',
  '--quiet',
  '--universal',
  '--generate-hashes',
  '--python-version',
  '3.11',
  '--no-annotate',
  '--no-header',
]

const named = process.argv.slice(2)
const languages = new Map(CLIENTS.map(({ environment, language }) => [environment, language]))
const uv = await pythonEnvironment(UV_ENVIRONMENT, { cache_folder: switchyardCacheFolder() })
if (!uv.ok) fail(uv.reason)
for (const [name, language] of languages) {
  if (named.length > 0 && !named.includes(name)) continue
  const lock = path.join(LOCKS_FOLDER, name)
  const run =
    language === 'python'
      ? await runTool([uv.python, '-m', 'uv', ...COMPILE, '-o', `${lock}.txt`, `${lock}.in`], {
          timeout_ms: COMPILE_TIMEOUT_MS,
        })
      : await npm(['install', '--package-lock-only', '--ignore-scripts', '--no-audit', '--no-fund', '--prefix', lock])
  if (run.status !== 'done') fail(`${name}: ${'reason' in run ? run.reason : 'the tool is not there'}`)
  console.log(name)
}
