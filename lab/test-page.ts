/** `npm run test:page`: the page in a real Chromium against a running system. Apart from `npm test`, which needs no browser. */
import { spawn } from 'node:child_process'
import { fail, flagsOrExit } from '../cli/flags.ts'
import { chromiumPath, NO_CHROMIUM } from './testbed/chromium.ts'

const HELP = `Opens the page in a Chromium against a running system, and every page of the built documentation. About three minutes.

  npm run test:page

Needs Chromium or Chrome: that of the machine, of SWITCHYARD_CHROMIUM, or \`npx playwright-core install chromium\`.`
flagsOrExit('test:page', HELP, {})

if (chromiumPath() === null) fail(NO_CHROMIUM)
const child = spawn('vitest', ['run', '--project', 'page'], { stdio: 'inherit' })
child.on('error', (error) => fail(`vitest did not start: ${error.message}`))
child.on('close', (code) => {
  process.exitCode = code ?? 1
})
