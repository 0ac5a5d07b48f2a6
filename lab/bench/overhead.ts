/**
 * `npm run bench:overhead`: what Switchyard costs per call, beside the same calls to the same emulated engine directly and
 * through a bare Worker; what streams lose in it; what a program costs in memory; and, on request, the same load through
 * other gateways. One generator, one run; its own cost is shown.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus, tmpdir } from 'node:os'
import path from 'node:path'
import { fail, flagsOrExit, wholeNumber } from '../../cli/flags.ts'
import { profileOf } from '../../gpu-agent/engine/backends/emulated/profiles/index.ts'
import { PROCESSES_MAX } from '../../src/processes/owner.ts'
import { measureCalls } from './overhead/calls.ts'
import { INFERENCE_CONTEXT_TOKENS, measureInference } from './overhead/inference.ts'
import { measureMemory } from './overhead/memory.ts'
import { measurePages } from './overhead/pages.ts'
import { measurePeers, PEER_NAMES, type PeerName } from './overhead/peers.ts'
import { CALLS_PER_S_MAX, measureRates, PROMPT_KB_MAX, RATES_CONTEXT_TOKENS } from './overhead/rates.ts'
import { printReport, type Report } from './overhead/report.ts'
import { STATES, type StateHome, stateFolder } from './overhead/state-folder.ts'
import { measureStreaming } from './overhead/streaming.ts'
import { type BenchSystem, startSystem } from './overhead/system.ts'
import { measureWorkers } from './overhead/workers.ts'

/** Of any flag. */
const WHOLE_MAX = 1_000_000
const PARTS = ['calls', 'rates', 'stream', 'memory', 'inference', 'pages', 'workers'] as const
/** Of the part rates: fewer say little of a range. */
const RATE_ROUNDS = 5
const HELP = `What Switchyard costs: per call, per token of a stream, per program in memory.

  npm run bench:overhead -- [flags]

  --parts ${PARTS.join(',')}   which parts to measure; each can run alone, with a file of its own
  --rounds 3                    of every load; lanes take turns in each (part rates: ${RATE_ROUNDS})
  --seconds 3                   of each closed load; open loads last twice as long
  --prompt-kb 1,50,200          of the part rates: sizes of prompts
  --rates 100,200               of the part rates: calls/s, fixed
  --state disk,memory           of the part rates: where the state lies, TMPDIR or /dev/shm (default: those that there are)
  --programs 10000              of the part memory, in all its waves
  --pages 3                     of the part pages: pages that are open and read all live events, against none
  --workers 1,2,4               of the part workers: processes of the control plane
  --peers ${PEER_NAMES.join(',')}       the same short calls through these gateways, which are installed once into the user's cache;
                                with --parts none, nothing else
  --json FILE                   every run, and what is computed from them
  --help

With these defaults calls take about 6 minutes, rates 45, stream 2, memory 6 (most of it waiting for evictions), inference 3, pages 2, workers 5, peers 6; progress goes to
stderr. The machine should do nothing else: generator, workerd and agent share its cores. TMPDIR says on which disk the state lies.`

const flags = flagsOrExit('bench:overhead', HELP, {
  parts: { type: 'string', default: PARTS.join(',') },
  rounds: { type: 'string' },
  seconds: { type: 'string', default: '3' },
  programs: { type: 'string', default: '10000' },
  pages: { type: 'string', default: '3' },
  workers: { type: 'string', default: '1,2,4' },
  'prompt-kb': { type: 'string', default: '1,50,200' },
  rates: { type: 'string', default: '100,200' },
  state: { type: 'string' },
  peers: { type: 'string', default: '' },
  json: { type: 'string' },
})
const note = (line: string): void => void process.stderr.write(`${line}\n`)
const parts = flags.parts === 'none' ? [] : flags.parts.split(',')
const peers = flags.peers === '' ? [] : flags.peers.split(',').map(peerName)
const unknown = parts.find((part) => !PARTS.some((known) => known === part))
if (unknown !== undefined) fail(`--parts takes ${PARTS.join(', ')}, not ${JSON.stringify(unknown)}`)
const rounds = wholeNumber('--rounds', flags.rounds ?? '3', 1, WHOLE_MAX)
const rate_rounds = flags.rounds === undefined ? RATE_ROUNDS : rounds
const prompts_kb = flags['prompt-kb'].split(',').map((text) => wholeNumber('--prompt-kb', text, 1, PROMPT_KB_MAX))
const rates = flags.rates.split(',').map((text) => wholeNumber('--rates', text, 1, CALLS_PER_S_MAX))
const states = flags.state === undefined ? STATES.filter(isThere) : flags.state.split(',').map(stateHome)
const seconds = wholeNumber('--seconds', flags.seconds, 1, WHOLE_MAX)
const programs = wholeNumber('--programs', flags.programs, 1, WHOLE_MAX)
const workers = flags.workers.split(',').map((text) => wholeNumber('--workers', text, 1, PROCESSES_MAX))
const pages = wholeNumber('--pages', flags.pages, 1, WHOLE_MAX)

const report: Report = {
  machine: {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: availableParallelism(),
    node: process.version,
    at: new Date().toISOString(),
  },
}
if (parts.includes('calls')) {
  report.calls = await within((system) => measureCalls(system, { rounds, seconds, note }))
  save()
}
if (parts.includes('rates')) {
  for (const state of states) folderOf(state)
  const options = { states, prompts_kb, rates, rounds: rate_rounds, seconds, note }
  report.rates = await measureRates(
    (state, work) => within(work, RATES_CONTEXT_TOKENS, undefined, folderOf(state)),
    options,
  )
  save()
}
if (parts.includes('stream')) {
  report.streaming = await measureStreaming(withSteps, { rounds, seconds, note })
  save()
}
if (parts.includes('memory')) {
  report.memory = await within((system) => measureMemory(system, { programs, note }))
  save()
}
if (parts.includes('inference')) {
  const measure = (system: BenchSystem) => measureInference(system, { rounds, seconds, note })
  report.inference = await within(measure, INFERENCE_CONTEXT_TOKENS)
  save()
}
if (parts.includes('pages')) {
  report.pages = await within((system) => measurePages(system, pages, { rounds, seconds, note }))
  save()
}
if (parts.includes('workers')) {
  const start = <T>(count: number, work: (system: BenchSystem) => Promise<T>): Promise<T> =>
    within(work, undefined, undefined, undefined, count)
  report.workers = await measureWorkers(workers, start, { rounds, seconds, note })
  save()
}
if (peers.length > 0) {
  report.peers = await within((system) => measurePeers(system, peers, { rounds, seconds, note }))
  save()
}
printReport(report)

/** After every part, so that one that fails takes nothing along. */
function save(): void {
  if (flags.json !== undefined) writeFileSync(flags.json, `${JSON.stringify(report, null, 2)}\n`)
}

/** Each part has a system of its own, so that none finds what another left. */
async function within<T>(
  work: (system: BenchSystem) => Promise<T>,
  context_tokens?: number,
  profile?: string,
  state_in?: string,
  workers = 1,
): Promise<T> {
  const system = await startSystem(context_tokens, profile, state_in, workers)
  try {
    return await work(system)
  } finally {
    await system.stop()
  }
}

/** With an engine whose steps take so long. */
async function withSteps<T>(step_ms: number, work: (system: BenchSystem) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(path.join(tmpdir(), 'steps-'))
  const file = path.join(folder, 'profile.json')
  writeFileSync(file, JSON.stringify({ ...profileOf('fast'), name: `steps-of-${step_ms}-ms`, base_us: step_ms * 1000 }))
  try {
    return await within(work, undefined, file)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

function stateHome(text: string): StateHome {
  const state = STATES.find((known) => known === text)
  return state ?? fail(`--state takes ${STATES.join(', ')}, not ${JSON.stringify(text)}`)
}

/** For the default: what a machine does not have is left out, and said. */
function isThere(state: StateHome): boolean {
  const found = stateFolder(state)
  if (!found.ok && parts.includes('rates')) note(`left out: ${found.reason}`)
  return found.ok
}

function folderOf(state: StateHome): string {
  const found = stateFolder(state)
  return found.ok ? found.folder : fail(found.reason)
}

function peerName(text: string): PeerName {
  const name = PEER_NAMES.find((known) => known === text)
  return name ?? fail(`--peers takes ${PEER_NAMES.join(', ')}, not ${JSON.stringify(text)}`)
}
