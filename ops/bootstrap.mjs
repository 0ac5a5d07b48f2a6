/**
 * Runs a TypeScript script of this repository under the project's own Node, on a machine with any Node ≥ 20:
 * installs the exact dependencies first when they are missing or are not those of package-lock.json.
 * Plain JavaScript, because nothing is installed yet when it starts. Usage: node ops/bootstrap.mjs SCRIPT [ARGUMENT…]
 */
import { existsSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { installOnce } from './bootstrap/install.mjs'
import { isInstalled, projectNode } from './bootstrap/installed.mjs'
import { runScript } from './bootstrap/run-script.mjs'

const NODE_MAJOR_MIN = 20
const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))

const [script, ...args] = process.argv.slice(2)
if (script === undefined) fail('usage: node ops/bootstrap.mjs SCRIPT [ARGUMENT…]')
const major = Number(process.versions.node.split('.')[0])
if (major < NODE_MAJOR_MIN)
  fail(`Switchyard needs Node ${NODE_MAJOR_MIN} or later to start; this is ${process.version}.`)

if (!isInstalled(root)) {
  const refused = await installOnce(root)
  if (refused !== null) fail(refused.message, refused.exit_code)
}
if (!existsSync(projectNode(root))) {
  fail(
    'The project\'s own Node (npm package "node") did not install. Run\n' +
      '  npm rebuild node --ignore-scripts=false\nand try again.',
  )
}
process.exitCode = await runScript(root, projectNode(root), [path.join(root, script), ...args])

function fail(message, exit_code = 1) {
  process.stderr.write(`${message}\n`)
  process.exit(exit_code)
}
