/** `npm run docs`: builds the documentation as a site and serves it on this machine, with search and without a network. */
import { spawn } from 'node:child_process'
import path from 'node:path'
import { fail, flagsOrExit } from '../cli/flags.ts'
import { withProgress } from '../cli/progress.ts'
import { checkPort, HOST } from '../ops/system/port.ts'
import { buildSite } from './docs-site/build.ts'

const PORT = 8788
const OUT_DEFAULT = 'dist/docs'
const HELP = `Builds the documentation as a site and serves it on this machine until Ctrl-C.

  npm run docs -- [flags]

  --port ${PORT}    where it is served, on ${HOST}
  --build        only builds it; a broken link or a page that is not reachable fails
  --out FOLDER   where it is built; the site is in FOLDER/site (${OUT_DEFAULT})
  --help

The generator is installed once under the user's cache (Python 3.11 or later; 20 MB to download, 160 MB on disk).`

const flags = flagsOrExit('docs', HELP, {
  port: { type: 'string', default: `${PORT}` },
  build: { type: 'boolean', default: false },
  out: { type: 'string', default: OUT_DEFAULT },
})
const port = Number(flags.port)
if (!flags.build) {
  const free = await checkPort(port)
  if (!free.ok) fail(free.reason)
}
const built = await withProgress('Building the documentation', () => buildSite(path.resolve(flags.out)))
if (!built.ok) fail(`The documentation was not built: ${built.reason}`)
if (flags.build) console.log(`The site is in ${built.folder}.`)
else serve(built.folder, built.python)

function serve(folder: string, python: string): void {
  const child = spawn(python, ['-m', 'http.server', `${port}`, '--bind', HOST, '--directory', folder], {
    stdio: ['ignore', 'ignore', 'ignore'],
  })
  console.log(`The documentation is at http://${HOST}:${port}/. Ctrl-C stops it.`)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal))
  child.on('close', () => process.exit(0))
}
