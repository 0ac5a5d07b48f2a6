#!/usr/bin/env node
/** `switchyard COMMAND …`: the system on this machine (up, down, status, reset, demo), and every command of the admin API. */
const SYSTEM = {
  up: './ops/up.js',
  down: './ops/down.js',
  status: './ops/status.js',
  reset: './ops/reset.js',
  demo: './ops/demo/main.js',
}
const [command = ''] = process.argv.slice(2)
const script = Object.hasOwn(SYSTEM, command) ? SYSTEM[command] : null
if (script === null) {
  if (['', '--help', '-h'].includes(command)) {
    console.log(`The system on this machine: switchyard ${Object.keys(SYSTEM).join('|')} [--help]\n`)
  }
  await import('./ops/switchyard/main.js')
} else {
  process.argv.splice(2, 1)
  await import(script)
}
