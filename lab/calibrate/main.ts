/** `npm run calibrate`: a latency profile of a live engine, and the planner's costs of its model, measured by driving it. */
import { writeFileSync } from 'node:fs'
import { availableParallelism, cpus } from 'node:os'
import { fail, flagsOrExit, wholeNumber } from '../../cli/flags.ts'
import type { LatencyProfile } from '../../gpu-agent/engine/backends/emulated/profiles/index.ts'
import { parseProfile } from '../../gpu-agent/engine/backends/emulated/profiles/parse-profile.ts'
import { engineCosts } from '../../gpu-agent/planner/costs/engine-costs.ts'
import type { ModelCosts } from '../../gpu-agent/planner/costs/model-costs.ts'
import { CONTEXT_TOKENS, SEATS, SLOTS } from '../bench/real-engine.ts'
import { readTable, withRow, writeTable } from './cost-table.ts'
import { fitPhases } from './fit-phases.ts'
import { embeddedSource, endpointSource, type Measured } from './sources.ts'
import { type CalibrationFit, fitSpans } from './span.ts'
import { correctedBy } from './trial-run.ts'

const HELP = `Measures a live engine. It writes a latency profile, which \`npm run simulate -- run --profile FILE\` and an emulated engine
(--profile FILE) take, or a table of costs, which the planner of applications takes, or both.

  npm run calibrate -- --out FILE [flags]
  npm run calibrate -- --costs FILE --gpus 1 [flags]

  --out FILE            the profile
  --costs FILE          the planner's costs of the model: "costs" in the --startable file of an agent that lends, and
                        \`npm run simulate -- plan --costs FILE\`. A row for each model and number of GPUs; other rows stay
  --gpus 1              GPUs that the measured engine has, or shares of the cores (--threads); for --costs
  --json FILE           the observed spans and the fits, too
  --name NAME           of the profile (default calibrated), and of the model in the table (default: the model's)

The embedded engine in this process, its steps timed one by one (default):
  --model PATH          a GGUF (default: the shipped small model)
  --threads 1           of llama.cpp
  --seats ${SEATS}             calls at a time
  --slots ${SLOTS}            contexts that it holds
  --context-tokens ${CONTEXT_TOKENS} longest prompt and answer together

An OpenAI-compatible endpoint, by times of first and later tokens:
  --url URL             its base URL, ending in /v1
  --model NAME          the model to ask for (required)
  --api-key-env NAME    variable that holds the key
  --seats 8             calls at a time, at most; the profile's seats
  --context-tokens 4096 longest prompt and answer together
  --kv-tokens 65536     tokens of KV that it holds
  --chunk-tokens 2048   prompt tokens that it computes in a step
  --rounds 2            how often each point is measured
  --loading-s N         how long it took to load (required for --costs: from outside it is not seen; an agent that
                        lends reports it as loading_s of the event engine_started)
  --help

Nothing else may use the engine or the machine while it is measured.`

const TEXT = { type: 'string' } as const
const values = flagsOrExit('calibrate', HELP, {
  ...{ out: TEXT, costs: TEXT, gpus: TEXT, json: TEXT, name: TEXT, model: TEXT, threads: TEXT },
  ...{ url: TEXT, 'api-key-env': TEXT, seats: TEXT, slots: TEXT, 'context-tokens': TEXT, 'loading-s': TEXT },
  'kv-tokens': { type: 'string', default: '65536' },
  'chunk-tokens': { type: 'string', default: '2048' },
  rounds: { type: 'string', default: '2' },
})
if (values.out === undefined && values.costs === undefined) fail('--out FILE or --costs FILE is required')
const { url, costs: table } = values
if (table !== undefined && url !== undefined && values['loading-s'] === undefined)
  fail('--costs with --url needs --loading-s: how long the server took to load cannot be seen from outside')
if (values['loading-s'] !== undefined && url === undefined) fail('--loading-s goes with --url: loading is measured')
if (values.slots !== undefined && url !== undefined) fail('--slots goes with the embedded engine')
const gpus = wholeNumber('--gpus', values.gpus ?? '1', 1, 64)
const rows = table === undefined ? [] : tableRows(table)
const measured = url === undefined ? await embedded() : await endpoint(url)
const date = new Date().toISOString().slice(0, 10)
const machine = url === undefined ? ` on ${availableParallelism()} x ${cpus()[0]?.model.trim() ?? 'unknown CPU'}` : ''
const fit = fitSpans(measured.spans)
if (values.out !== undefined) writeProfile(values.out)
const row = table === undefined ? null : writeRow(table)
if (values.json !== undefined) {
  const { spans, driver_us, trials } = measured
  writeFileSync(values.json, `${JSON.stringify({ fit, driver_us, spans, trials, costs: row }, null, 2)}\n`)
}
process.exit(0)

function tableRows(file: string): ModelCosts[] {
  try {
    return readTable(file)
  } catch (error) {
    if (error instanceof RangeError) fail(`--costs: ${error.message}`)
    throw error
  }
}

function embedded(): Promise<Measured> {
  const seats = wholeNumber('--seats', values.seats ?? String(SEATS), 1, 256)
  return embeddedSource({
    ...{ model: values.model, threads: wholeNumber('--threads', values.threads ?? '1', 1, 256), seats },
    slots: wholeNumber('--slots', values.slots ?? String(Math.max(seats, SLOTS)), seats, 256),
    context_tokens: wholeNumber('--context-tokens', values['context-tokens'] ?? String(CONTEXT_TOKENS), 128, 1_048_576),
  })
}

function endpoint(base: string): Promise<Measured> {
  const key_variable = values['api-key-env']
  const context_tokens = wholeNumber('--context-tokens', values['context-tokens'] ?? '4096', 128, 1_048_576)
  return endpointSource({
    ...{ url: base, model: values.model ?? fail('--model NAME is required with --url'), context_tokens },
    api_key: key_variable === undefined ? null : (process.env[key_variable] ?? fail(`${key_variable} is not set`)),
    seats: wholeNumber('--seats', values.seats ?? '8', 1, 1024),
    kv_tokens: wholeNumber('--kv-tokens', values['kv-tokens'], context_tokens, 2 ** 30),
    chunk_tokens: wholeNumber('--chunk-tokens', values['chunk-tokens'], 1, 1_048_576),
    rounds: wholeNumber('--rounds', values.rounds, 1, 100),
    clock: () => performance.now() * 1000,
  })
}

function writeProfile(out: string): void {
  const { driver_us } = measured
  const profile = profileOf(fit)
  const dated = { ...fit, driver_us, date: new Date().toISOString() }
  writeFileSync(out, `${JSON.stringify({ ...profile, fit: dated }, null, 2)}\n`)
  console.log(
    `${profile.name}: ${fit.spans} spans; on spans that the fit has not seen it errs by ${fit.error.mean_abs_percent.toFixed(1)} % on average, ` +
      `p95 ${fit.error.p95_abs_percent.toFixed(1)} %`,
  )
  console.log(fit.costs)
  if (driver_us !== null)
    console.log(
      `between two steps the engine took ${Math.round(driver_us)} us: simulate with --decision-us ${Math.round(driver_us)}`,
    )
}

/** The engine's own time between two steps is part of an iteration. */
function writeRow(file: string): ModelCosts {
  const { spans, sizes, what, driver_us, trials, model } = measured
  const [first, second] = trials
  if (first === undefined || second === undefined) fail('the trials were not run')
  const phases = fitPhases(spans, driver_us ?? 0)
  const loading_s = measured.loading_s ?? seconds('--loading-s', values['loading-s'] ?? '')
  const { costs, simulated_s, run_percent } = correctedBy([first, second], phases.times, (times) =>
    engineCosts({ model: values.name ?? model, tp: gpus, loading_s }, times, {
      ...{ seats: sizes.seats, context_tokens: sizes.slot_tokens_max, block_tokens: sizes.block_tokens },
      ...{ kv_tokens: sizes.capacity_blocks * sizes.block_tokens, step_tokens: sizes.max_step_tokens },
    }),
  )
  const done: ModelCosts = {
    ...costs,
    provenance: `${what}${machine}, measured ${date}: ${spans.length} spans, corrected by a run of mixed calls`,
    error_percent: { ...phases.error_percent, run: run_percent },
  }
  writeTable(file, withRow(rows, done))
  const { prefill, decode } = phases.error_percent
  console.log(
    `${done.model} on ${gpus} GPU${gpus === 1 ? '' : 's'}: loads in ${loading_s} s. On spans that the fit has not seen it errs by ${prefill} % of a prefill and ` +
      `${decode} % of a decode iteration, on average.`,
  )
  console.log(
    `Corrected by a run of ${first.calls.length} calls. Others took ${second.real_s.toFixed(1)} s, where the planner expects ${simulated_s.toFixed(1)} s: ${run_percent} % off.`,
  )
  console.log(`Wrote ${file}.`)
  return done
}

function profileOf({ costs, error, spans: count }: CalibrationFit): LatencyProfile {
  const provenance =
    `${measured.what}${machine}, measured ${date} by npm run calibrate: ${count} spans, mean error ` +
    `${error.mean_abs_percent.toFixed(1)} %, p95 ${error.p95_abs_percent.toFixed(1)} % on spans not fitted.`
  const profile = { name: values.name ?? 'calibrated', provenance, ...costs, ...measured.sizes }
  try {
    return parseProfile(JSON.stringify(profile), 'the profile')
  } catch (wrong) {
    if (wrong instanceof RangeError) fail(wrong.message)
    throw wrong
  }
}

function seconds(flag: string, text: string): number {
  const value = Number(text)
  return text !== '' && value >= 0 && value <= 86_400 ? value : fail(`${flag} must be seconds from 0 to 86400`)
}
