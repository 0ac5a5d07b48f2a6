/** `npm run up`: starts Switchyard in the foreground, or with --detach in a process of its own. */
import { type ChildProcess, fork } from 'node:child_process'
import { closeSync, mkdirSync, openSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { EXIT_USAGE, fail } from '../cli/flags.ts'
import { withProgress } from '../cli/progress.ts'
import { banner } from './system/banner.ts'
import { dataDir } from './system/data-dir.ts'
import type { DevJson } from './system/dev-json.ts'
import { errorText, exitExplained, UpRefused } from './system/explain-error.ts'
import { logTail } from './system/log-file.ts'
import { ProductionSupervisor } from './system/production-supervisor.ts'
import { type DetachedMessage, detachedReporter, terminalReporter } from './system/reporter.ts'
import { servedModel } from './system/served-model.ts'
import { refuseEarly, Supervisor } from './system/supervisor.ts'
import { parseUpFlags, UP_HELP, type UpOptions } from './system/up-flags.ts'

/** Set for the process that a detached start leaves behind. */
const DETACHED_VARIABLE = 'SWITCHYARD_DETACHED'
const TAIL_LINES = 20
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

// Programs' names and metadata, records and hashes of keys lie in the data directory, written by every process from here
// on: they are their owner's alone.
process.umask(0o077)
const verdict = parseUpFlags(process.argv.slice(2))
if (verdict.status === 'help') console.log(UP_HELP)
else if (verdict.status === 'refused') fail(verdict.reason, EXIT_USAGE)
else if (process.env[DETACHED_VARIABLE] === '1') await serve(verdict.options, true)
else if (verdict.options.detach) await detach(verdict.options)
else await serve(verdict.options, false)

async function serve(options: UpOptions, detached: boolean): Promise<void> {
  const reporter = detached
    ? detachedReporter()
    : terminalReporter((system, took_s) => {
        console.log(readyText(options, system, took_s, false))
      })
  const supervisor = options.production
    ? new ProductionSupervisor(options, reporter)
    : new Supervisor(options, reporter)
  for (const signal of SIGNALS) {
    process.on(signal, () => {
      if (supervisor.stopping) {
        // A second Ctrl-C means: at once. The guard ends the children. Service managers may send SIGTERM to every process of
        // a service, which reaches this one twice.
        if (signal === 'SIGINT') process.exit(1)
        return
      }
      reporter.note('Stopping …')
      supervisor.stop().then(
        () => process.exit(0),
        (error: Error) => {
          reporter.failed(errorText(error, dataDir(options.dataDir)))
          process.exit(1)
        },
      )
    })
  }
  try {
    await supervisor.start()
  } catch (error) {
    if (!supervisor.stopping || !isAbort(error)) reporter.failed(errorText(error, dataDir(options.dataDir)))
    process.exit(error instanceof UpRefused ? error.exit_code : 1)
  }
}

function readyText({ json, dataDir: root }: UpOptions, system: DevJson, took_s: number, detached: boolean): string {
  if (json) return JSON.stringify({ took_s, ...system })
  return banner(system, took_s, { detached, dataDir: root })
}

function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError'
}

/** Leaves a supervisor behind that writes to a log, and returns when that one is ready or has failed. */
async function detach(options: UpOptions): Promise<void> {
  const stopped = new AbortController()
  const stop = () => stopped.abort()
  for (const signal of SIGNALS) process.on(signal, stop)
  try {
    await refuseEarly(options)
    // Here, where progress can be shown; the supervisor finds it in the cache.
    await servedModel(options, stopped.signal)
  } catch (error) {
    if (stopped.signal.aborted) process.exit(1)
    fail(errorText(error, dataDir(options.dataDir)))
  }
  exitExplained(dataDir(options.dataDir))
  for (const signal of SIGNALS) process.off(signal, stop)
  const { logs } = dataDir(options.dataDir)
  const log = path.join(logs, 'up.log')
  mkdirSync(logs, { recursive: true })
  const fd = openSync(log, 'a', 0o600)
  const child = fork(fileURLToPath(import.meta.url), process.argv.slice(2), {
    detached: true,
    env: { ...process.env, [DETACHED_VARIABLE]: '1' },
    stdio: ['ignore', fd, fd, 'ipc'],
  })
  closeSync(fd)
  for (const signal of SIGNALS) process.on(signal, () => child.kill('SIGTERM'))
  const outcome = await firstWord(child)
  if ('failure' in outcome) {
    const tail = outcome.shown ? '' : `\nThe end of ${log}:\n${await logTail(log, TAIL_LINES)}`
    fail(`${outcome.failure}${tail}`)
  }
  console.log(readyText(options, outcome.system, outcome.took_s, true))
  child.disconnect()
  child.unref()
  process.exit(0)
}

type Outcome = { system: DevJson; took_s: number } | { failure: string; shown: boolean }

async function firstWord(child: ChildProcess): Promise<Outcome> {
  let step = ''
  let detail: string | null = null
  return await withProgress(
    'Starting Switchyard',
    () =>
      new Promise<Outcome>((resolve) => {
        let failure: string | null = null
        child.on('message', (message: DetachedMessage) => {
          if (message.type === 'step') {
            step = message.label
            detail = null
          } else if (message.type === 'detail') detail = message.text
          else if (message.type === 'failed') failure = message.message
          else resolve(message)
        })
        child.on('exit', (code, signal) => {
          const what = signal === null ? `exited with ${code}` : `was ended by ${signal}`
          resolve({ failure: failure ?? `The supervisor ${what}.`, shown: failure !== null })
        })
      }),
    () => (step === '' ? null : [step, detail].filter((part) => part !== null).join(': ')),
  )
}
