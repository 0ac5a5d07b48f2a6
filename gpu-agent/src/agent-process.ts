/** The gpu-agent as a process: flags in, one JSON line per event out, signals to drain and exit codes. */
import { writeSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { ENGINES_PER_AGENT_MAX } from '../../src/protocol/index.ts'
import { Agent, AgentStartError } from './agent.ts'
import type { KnownClasses } from './classes/known-classes.ts'
import { type AgentEvent, messageOf } from './events.ts'
import { type OfferedModel, offeredModels } from './fronts/attached/offered-models.ts'
import { SharedServer } from './fronts/attached/shared-server.ts'
import type { EngineFront, EngineFrontEvents } from './fronts/engine-front.ts'
import { lendOptions } from './lending/lend-options.ts'
import { type CliOptions, HELP, parseCli } from './options.ts'
import type { LostCall } from './outbox/lost-calls.ts'

const EXIT_FAILED = 1
const EXIT_USAGE = 2
/** sysexits.h EX_CONFIG: a restart changes nothing. The documented systemd unit does not restart after it. */
const EXIT_CONFIG = 78
const EXIT_SIGNAL = { SIGTERM: 143, SIGINT: 130 } as const

/** Synchronous, so that the last line of a process that ends is not lost in a pipe. */
function report(event: AgentEvent): void {
  try {
    writeSync(1, `${JSON.stringify({ ...event, at: new Date().toISOString() })}\n`)
  } catch (error) {
    // The reader of the events is gone or takes none: serving goes on, and only this line is lost.
    if (!['EPIPE', 'EAGAIN'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}

function fail(stage: string, error: unknown): never {
  report({ event: 'failed', stage, message: messageOf(error) })
  process.exit(EXIT_FAILED)
}

function agentOf(
  options: CliOptions,
  models: readonly OfferedModel[],
  leaving: AbortSignal,
  refused: (reason: string) => void,
): Agent {
  const { engine, engines, policy, front, data_dir, lend } = options
  // A key has one queue.
  const keys = [front.server, ...(front.server?.further_keys ?? [])].map((key) => ({ key, shared: new SharedServer() }))
  let strays_ended = false
  type Create = (events: EngineFrontEvents, lost: readonly LostCall[], classes: KnownClasses) => Promise<EngineFront>
  const create =
    (id: string, engine_index: number): Create =>
    async (events, lost, classes) => {
      // Loaded here, so that --help and a wrong flag do not load an inference library.
      const { createFront } = await import('./fronts/create-front.ts')
      const { endStrays, engineFolder } = await import('./fronts/vllm/process/engine-folder.ts')
      // The outbox is open by now, so this agent has the data directory to itself.
      if (engine_index === 0 && !strays_ended)
        await endStrays(data_dir, engine === 'vllm' && front.vllm?.mode === 'process' ? engines : 0)
      strays_ended = true
      const place = { folder: engineFolder(data_dir, engine_index), engine_index, engines }
      const { model_id, model } = atOrLast(models, engine_index % models.length)
      const { key, shared } = atOrLast(keys, Math.floor(engine_index / models.length))
      const host = { report, leaving, lost, shared }
      const server = front.server === undefined ? undefined : { ...front.server, ...key, model }
      return createFront({ engine, id, model_id, policy, ...front, server, place }, events, classes, undefined, host)
    }
  const count = engine === 'openai' ? Math.min(ENGINES_PER_AGENT_MAX, models.length * keys.length) : engines
  const ids = Array.from({ length: count }, (_, index) => `${options.id}-e${index}`)
  return new Agent({
    ...options,
    engines: ids.map((id, index) => ({ id, create: create(id, index), outlives_agent: engine === 'vllm' })),
    start_together: engine === 'vllm',
    lend: lend === null ? null : lendOptions({ cli: options, lend, report, leaving, cores: availableParallelism() }),
    report,
    fatal: (message) => fail('outbox', message),
    refused,
  })
}

/** Engines of one kind serve one model with one queue each; those of an attached server have a model each, for every key. */
function atOrLast<T>(of: readonly T[], index: number): T {
  const one = of[Math.min(index, of.length - 1)]
  if (one === undefined) throw new Error('an agent offers at least one model')
  return one
}

async function modelsOf({ front, model_id }: CliOptions, leaving: AbortSignal): Promise<readonly OfferedModel[]> {
  if (front.server !== undefined) return offeredModels(front.server, model_id, { report, stopping: leaving })
  if (model_id === null) throw new Error('an engine without a server has a model')
  return [{ model_id, model: model_id }]
}

/** Records that are not acknowledged stay in the data directory for an agent that is let in again. */
function refusedBy({ control_url, id }: CliOptions, reason: string): string {
  return `${control_url} refuses the agent ${id} (${reason}). Check --token-file, --region and --model-id, then start it again.`
}

async function run(options: CliOptions): Promise<void> {
  const leaving = new AbortController()
  let asked = false
  let running = false
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      // An agent that starts serves no call yet, and its engine may take for ever.
      if (asked || !running) {
        leaving.abort()
        process.exit(EXIT_SIGNAL[signal])
      }
      end(0)
    })
  }
  const models = await modelsOf(options, leaving.signal).catch((error: unknown) => fail('engine', error))
  const agent = agentOf(options, models, leaving.signal, (reason) => end(EXIT_CONFIG, refusedBy(options, reason)))
  const end = (code: number, failure?: string): void => {
    if (asked) return
    asked = true
    if (failure !== undefined) report({ event: 'failed', stage: 'link', message: failure })
    agent.drain(options.drain_limit_ms).then(
      () => process.exit(code),
      (error: unknown) => fail('drain', error),
    )
  }
  try {
    await agent.start()
    running = true
  } catch (error) {
    // Engines that are still starting.
    leaving.abort()
    fail(error instanceof AgentStartError ? error.stage : 'start', error)
  }
}

process.on('uncaughtException', (error) => fail('uncaught', error))
process.on('unhandledRejection', (error) => fail('uncaught', error))

const verdict = parseCli(process.argv.slice(2), process.env)
if (verdict.status === 'help') process.stdout.write(HELP)
else if (verdict.status === 'wrong') {
  process.stderr.write(`gpu-agent: ${verdict.message}\nSee --help.\n`)
  process.exitCode = EXIT_USAGE
} else await run(verdict.options)
