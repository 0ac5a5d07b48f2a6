/** `npm run test:python-client`: lint, types and tests of clients/python against a small server of their own (60 MB of tools). */
import { spawn } from 'node:child_process'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { PYTHON_CLIENT_ROOT, pythonClientEnvironment } from './clients/python-client-environment.ts'
import { CHECK_CACHE } from './testbed/repository.ts'

const USAGE = `usage: node lab/python-client.ts check|test

check  ruff (also on examples/) and mypy
test   pytest, except what needs a running system: test/system/client-libraries.test.ts runs that

The virtual environment is made under the user's cache, from a lock file with hashes. SWITCHYARD_PYTHON names the Python.`

const RUFF = ['--quiet', '--no-cache', '--config', 'pyproject.toml']
const EXAMPLES = '../../examples'

const COMMANDS: Readonly<Record<string, readonly string[][]>> = {
  check: [
    ['ruff', 'check', ...RUFF, '.'],
    ['ruff', 'check', ...RUFF, '--ignore', 'T201', EXAMPLES],
    ['ruff', 'format', '--check', ...RUFF, '.', EXAMPLES],
    ['mypy', '--no-error-summary', '--cache-dir', path.join(CHECK_CACHE, 'mypy-client')],
  ],
  test: [['pytest', '-q', 'tests/unit']],
}

const { positionals, values } = parseArgs({ allowPositionals: true, options: { help: { type: 'boolean' } } })
const commands = COMMANDS[positionals[0] ?? '']
if (values.help || positionals.length !== 1 || commands === undefined) {
  console.log(USAGE)
  process.exit(values.help ? 0 : 2)
}
const environment = await pythonClientEnvironment()
if (!environment.ok) {
  console.error(`clients/python cannot be tested: ${environment.reason}`)
  process.exit(1)
}
for (const command of commands) {
  if ((await run(environment.python, ['-m', ...command])) !== 0) {
    console.error(`${command.join(' ')} failed in clients/python`)
    process.exit(1)
  }
}

function run(command: string, args: readonly string[]): Promise<number> {
  const env = { ...process.env, PYTHONDONTWRITEBYTECODE: '1' }
  const child = spawn(command, args, { cwd: PYTHON_CLIENT_ROOT, stdio: 'inherit', env })
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) => resolve(code ?? 1))
  })
}
