/**
 * `npm run bench:policies`: what program-level order is worth on the real model. Overload of short chats, long chats and
 * trees; each policy meets the same programs at the same times; seeds are interleaved over the policies, so that whatever
 * else the machine does falls on all of them alike.
 */
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { loadLlamaRuntime } from '../../gpu-agent/engine/llama/llama-runtime.ts'
import { POLICY_NAMES, type PolicyName } from '../../gpu-agent/engine/policies/index.ts'
import type { ServiceReading } from '../../src/core/service.ts'
import { textTable } from '../cli/table.ts'
import { findOrFetchModel } from '../model/find-or-fetch.ts'
import { play } from './play.ts'
import { policiesPlot } from './policies-plot.ts'
import { CONTEXT_TOKENS, SEATS, SLOTS, startRealEngine } from './real-engine.ts'
import { mean, type Summary, summary } from './statistics.ts'
import { drawWorkload, outputTokens, type ProgramKind, workUs } from './workload.ts'

const HELP = `Program token latency under each policy, on the real model, in overload.

  npm run bench:policies -- [flags]

  --policies fcfs,mlfq,plas,atlas   what to compare; fcfs is the base of the ratios
  --seeds 3                         workloads; each policy plays each
  --programs 40                     per workload
  --load 1.35                       arrival rate as a multiple of what the engine can serve, measured first
  --service wall                    the reading that orders calls: wall (as the paper) or modelled
  --threads 1                       of llama.cpp
  --model PATH                      a GGUF (default: the shipped small model)
  --json FILE                       all figures
  --plot FILE.svg                   a plot
  --help`

interface Run {
  policy: PolicyName
  seed: number
  program_token_latency_ms: Summary
  program_token_latency_ms_by_kind: Partial<Record<ProgramKind, number>>
  program_latency_s: Summary
  makespan_s: number
  preemptions: number
  swapped_tokens: number
  cached_prompt_share: number
}

const CAPACITY_PROGRAMS = 16
const CAPACITY_SEED = 4711

const { values } = parseArgs({
  options: {
    policies: { type: 'string', default: 'fcfs,mlfq,plas,atlas' },
    seeds: { type: 'string', default: '3' },
    programs: { type: 'string', default: '40' },
    load: { type: 'string', default: '1.35' },
    service: { type: 'string', default: 'wall' },
    threads: { type: 'string', default: '1' },
    model: { type: 'string' },
    json: { type: 'string' },
    plot: { type: 'string' },
    help: { type: 'boolean', short: 'h', default: false },
  },
})
if (values.help) {
  console.log(HELP)
  process.exit(0)
}
const policies = values.policies.split(',').map(policyName)
const seeds = positive('--seeds', values.seeds)
const programs = positive('--programs', values.programs)
const load = positive('--load', values.load)
const threads = positive('--threads', values.threads)
const reading = serviceReading(values.service)

const model = await findOrFetchModel(values.model === undefined ? {} : { model: values.model })
const runtime = await loadLlamaRuntime(model.path)
const started = performance.now()
progress('measuring what the engine can serve')
const burst = await playOne('fcfs', CAPACITY_SEED, CAPACITY_PROGRAMS, Number.POSITIVE_INFINITY)
// By seat time, since at the end of a burst seats stand empty; and by work, since programs differ and seeds draw others.
const seat_s_per_work_s = burst.seat_s / totalWork_s(CAPACITY_SEED, CAPACITY_PROGRAMS)

const runs: Run[] = []
for (let seed = 1; seed <= seeds; seed += 1) {
  // Another policy goes first with each seed.
  for (let i = 0; i < policies.length; i += 1) {
    const policy = policies[(i + seed) % policies.length] as PolicyName
    progress(`${policy}, seed ${seed}: run ${runs.length + 1} of ${seeds * policies.length}`)
    const played = await playOne(policy, seed, programs, load * capacityOf(seed))
    runs.push(runOf(policy, seed, played))
  }
}
await runtime.dispose()

const figures = {
  model: model.id,
  seats: SEATS,
  slots: SLOTS,
  context_tokens: CONTEXT_TOKENS,
  threads,
  service: reading,
  programs,
  workloads: Array.from({ length: seeds }, (_, index) => ({
    seed: index + 1,
    output_tokens: drawWorkload(index + 1, programs, 1).reduce((sum, program) => sum + outputTokens(program), 0),
    capacity_programs_per_s: capacityOf(index + 1),
    rate_programs_per_s: load * capacityOf(index + 1),
  })),
  load,
  duration_s: (performance.now() - started) / 1000,
  runs,
  ratio_to_fcfs: ratios(),
}
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(figures, null, 2)}\n`)
if (values.plot !== undefined) writeFileSync(values.plot, policiesPlot(policies, runs))
report()

/** Programs of this seed's workload that the engine can serve in a second, all seats taken. */
function capacityOf(seed: number): number {
  return (SEATS * programs) / (seat_s_per_work_s * totalWork_s(seed, programs))
}

/** Shapes do not depend on the arrival rate. */
function totalWork_s(seed: number, count: number): number {
  return drawWorkload(seed, count, 1).reduce((sum, program) => sum + workUs(program), 0) / 1e6
}

async function playOne(policy: PolicyName, seed: number, count: number, arrivals: number) {
  const driver = await startRealEngine({
    ...{ runtime, policy, reading, threads },
    onBroken: (error) => {
      throw error
    },
  })
  const workload = drawWorkload(seed, count, arrivals)
  // Ids of ordinary text: the vocabulary begins with control tokens.
  const vocabulary = [1000, 40_000] as const
  const onProgram = (ended: number) => progress(`${policy}, seed ${seed}: ${ended} of ${count} programs`)
  try {
    return await play(driver, workload, { reading, vocabulary, onProgram })
  } finally {
    await driver.stop()
  }
}

function runOf(policy: PolicyName, seed: number, played: Awaited<ReturnType<typeof play>>): Run {
  const perToken = (kind?: ProgramKind) =>
    played.programs
      .filter((program) => kind === undefined || program.kind === kind)
      .map(({ response_s, output_tokens }) => (response_s * 1000) / output_tokens)
  const kinds: ProgramKind[] = ['short_chat', 'long_chat', 'tree']
  return {
    policy,
    seed,
    program_token_latency_ms: summary(perToken()),
    program_token_latency_ms_by_kind: Object.fromEntries(
      kinds.filter((kind) => perToken(kind).length > 0).map((kind) => [kind, mean(perToken(kind))]),
    ),
    program_latency_s: summary(played.programs.map(({ response_s }) => response_s)),
    makespan_s: played.makespan_s,
    preemptions: played.preemptions,
    swapped_tokens: played.swapped_tokens,
    cached_prompt_share: played.cached_tokens / played.prompt_tokens,
  }
}

/** Means over the seeds of each figure, divided by fcfs's of the same seed. */
function ratios(): Record<string, Record<string, number>> {
  const base = new Map(runs.filter(({ policy }) => policy === 'fcfs').map((run) => [run.seed, run]))
  const result: Record<string, Record<string, number>> = {}
  for (const policy of policies) {
    const own = runs.filter((run) => run.policy === policy && base.has(run.seed))
    const ratio = (figure: (run: Run) => number) =>
      mean(own.map((run) => figure(run) / figure(base.get(run.seed) as Run)))
    if (own.length === 0) continue
    result[policy] = {
      mean: ratio((run) => run.program_token_latency_ms.mean),
      p50: ratio((run) => run.program_token_latency_ms.p50),
      p95: ratio((run) => run.program_token_latency_ms.p95),
      p99: ratio((run) => run.program_token_latency_ms.p99),
      makespan: ratio((run) => run.makespan_s),
    }
  }
  return result
}

function report(): void {
  const over = (policy: PolicyName, figure: (run: Run) => number) =>
    mean(runs.filter((run) => run.policy === policy).map(figure))
  const column = (title: string, figure: (run: Run) => number, digits = 0) => ({
    title,
    align: 'right' as const,
    cell: (policy: PolicyName) => over(policy, figure).toFixed(digits),
  })
  const ratio = (title: string, name: string) => ({
    title,
    align: 'right' as const,
    cell: (policy: PolicyName) => figures.ratio_to_fcfs[policy]?.[name]?.toFixed(2) ?? '',
  })
  const columns = [
    { title: 'policy', cell: (policy: PolicyName) => policy },
    ...(['mean', 'p50', 'p95', 'p99'] as const).map((q) => column(q, (run) => run.program_token_latency_ms[q])),
    column('makespan s', (run) => run.makespan_s, 1),
    column('preemptions', (run) => run.preemptions),
    column('swapped tokens', (run) => run.swapped_tokens),
    ratio('mean ÷ fcfs', 'mean'),
    ratio('makespan ÷ fcfs', 'makespan'),
  ]
  console.log(`\nProgram token latency in ms, ${programs} programs at ${load} × capacity, mean of ${seeds} seeds:\n`)
  console.log(textTable(columns, policies))
}

function progress(text: string): void {
  const elapsed_s = ((performance.now() - started) / 1000).toFixed(0)
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${elapsed_s} s  ${text}`)
  else if (!text.endsWith('programs')) process.stderr.write(`${elapsed_s} s  ${text}\n`)
}

function policyName(name: string): PolicyName {
  const known = POLICY_NAMES.find((policy) => policy === name)
  if (known === undefined) fail(`--policies: there is no policy ${name}; there are ${POLICY_NAMES.join(', ')}`)
  return known
}

function serviceReading(name: string): ServiceReading {
  if (name !== 'wall' && name !== 'modelled') fail(`--service must be wall or modelled, not ${name}`)
  return name
}

function positive(flag: string, text: string): number {
  const value = Number(text)
  if (!(value > 0)) fail(`${flag} must be a positive number, not ${text}`)
  return value
}

function fail(message: string): never {
  console.error(`${message}\n\n${HELP}`)
  process.exit(1)
}
