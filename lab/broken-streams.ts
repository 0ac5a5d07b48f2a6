/**
 * `npm run chaos:streams`: kills agents under streams until so many were broken, and says how many of them ended whole. Exits 1
 * where fewer did than the goal, or where any answer had other words than it should.
 */
import { writeFileSync } from 'node:fs'
import { availableParallelism, cpus } from 'node:os'
import { fail, flagsOrExit, wholeNumber } from '../cli/flags.ts'
import { breakStreams } from './chaos/broken-streams.ts'
import { WHOLE_SHARE_GOAL as GOAL } from './chaos/stream-counts.ts'
import { STREAM_ENGINES } from './chaos/stream-engines.ts'

const BROKEN_MAX = 1_000_000
const AT_ONCE_MAX = 256
const NOTE_INTERVAL_MS = 10_000

const HELP = `Kills agents under streams, and checks that the streams go on elsewhere, word for word.

  npm run chaos:streams -- [flags]

  --broken 300      streams that are to be broken after their first event; 10000 take about 20 minutes
  --at-once N       streams at a time (default: emulated 48, embedded 8, vllm 6)
  --engine NAME     emulated (default), embedded, or vllm (6 GB, installed once; starts take a minute each). The last two are a
                    real model, whose unbroken answers are asked for first
  --seed 1
  --json FILE       the counts
  --help`

const values = flagsOrExit('chaos:streams', HELP, {
  broken: { type: 'string', default: '300' },
  'at-once': { type: 'string' },
  engine: { type: 'string', default: 'emulated' },
  seed: { type: 'string', default: '1' },
  json: { type: 'string' },
})
let noted_ms = 0
const engine = STREAM_ENGINES.find((one) => one === values.engine)
const report = await breakStreams({
  engine: engine ?? fail(`--engine takes ${STREAM_ENGINES.join(', ')}, not ${JSON.stringify(values.engine)}`),
  broken: wholeNumber('--broken', values.broken, 1, BROKEN_MAX),
  at_once: values['at-once'] === undefined ? null : wholeNumber('--at-once', values['at-once'], 1, AT_ONCE_MAX),
  seed: wholeNumber('--seed', values.seed, 0, 2 ** 31),
  note: (broken, streams) => {
    if (performance.now() - noted_ms < NOTE_INTERVAL_MS) return
    noted_ms = performance.now()
    process.stderr.write(`${broken} of ${values.broken} broken, ${streams} streams have ended\n`)
  },
})
const machine = { cpu: cpus()[0]?.model ?? 'unknown', cores: availableParallelism(), at: new Date().toISOString() }
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ machine, ...report }, null, 2)}\n`)
console.log(JSON.stringify(report, null, 2))
const is_met = report.completed_share >= GOAL && report.wrong_words === 0
console.log(`Goal, broken streams that end whole ≥ ${GOAL * 100} %, every word right: ${is_met ? 'met' : 'missed'}`)
if (!is_met) process.exitCode = 1
