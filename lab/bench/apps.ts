/**
 * `npm run bench:apps`: applications of two real models on lent shares of this machine's cores, planned and run. What the plan says is put beside what
 * happened, for our planner and for simpler ones.
 */
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus, loadavg, tmpdir } from 'node:os'
import path from 'node:path'
import { fail, flagsOrExit, wholeNumber } from '../../cli/flags.ts'
import { type Column, textTable } from '../../cli/table.ts'
import { PLANNER_LABELS, PLANNERS } from '../../gpu-agent/planner/search/planners.ts'
import { switchyardCacheFolder } from '../../ops/model/cache-folder.ts'
import { findOrFetchModel } from '../../ops/model/find-or-fetch.ts'
import { vllmPython } from '../../ops/vllm/environment.ts'
import { vllmModel } from '../../ops/vllm/model.ts'
import { benchApplications, MODELS } from './apps/applications.ts'
import { writeHalfPrecision } from './apps/half-precision.ts'
import { LentHost, type LentModel, type Run } from './apps/lent-host.ts'
import { measureCosts } from './apps/measured-costs.ts'

const SEATS = 4
const CONTEXT_TOKENS = { small: 1024, precise: 768 }
const DTYPES = { small: 'bfloat16', precise: 'float32' }
const ENGINES = ['embedded', 'vllm'] as const
/** Lines and documents of the run from which lengths of answers are learned. */
const LEARN = { lines: 24, documents: 8, chunks_max: 3 }

const HELP = `Runs two applications on real engines through the API and compares each run with its plan. The models are the shipped one and the
same weights in 16 bits, with another context. Shares of the cores stand for GPUs.

First the costs of both models are measured (npm run calibrate), and a small run of each application teaches how long answers are. With
--engine vllm both are vLLMs on the CPU: the shipped model in bfloat16, and in float32 with another context.

  npm run bench:apps -- [flags]

  --planners LIST      (ours,max,one-by-one) of ${PLANNERS.join(', ')}
  --applications LIST  (ensembling,chain summary)
  --engine embedded    or vllm
  --lines 100          of the ensemble
  --documents 24       of the summary; the longest has --chunks
  --chunks 10
  --tokens 48          limit of an answer
  --gpus 2             shares of the cores that are lent
  --model PATH         a GGUF of Q4_1, Q8_0 or F16 tensors (default: the shipped small model)
  --second PATH        the other model (default: the first one in 16 bits)
  --costs FILE         rows for small and precise; a file that is not there is measured and kept
  --seed 1
  --gantt DIR          a chart of each run, plan against reality (SVG)
  --json FILE
  --help

Nothing else may use the machine meanwhile.`

const TEXT = { type: 'string' } as const
const values = flagsOrExit('bench:apps', HELP, {
  planners: { ...TEXT, default: 'ours,max,one-by-one' },
  applications: { ...TEXT, default: 'ensembling,chain summary' },
  ...{ lines: { ...TEXT, default: '100' }, documents: { ...TEXT, default: '24' }, chunks: { ...TEXT, default: '10' } },
  ...{ tokens: { ...TEXT, default: '48' }, gpus: { ...TEXT, default: '2' }, seed: { ...TEXT, default: '1' } },
  ...{ model: TEXT, second: TEXT, costs: TEXT, gantt: TEXT, json: TEXT, engine: { ...TEXT, default: 'embedded' } },
})
const planners = values.planners.split(',').map((name) => {
  return (
    PLANNERS.find((one) => one === name) ?? fail(`--planners: there is no ${name}; there are ${PLANNERS.join(', ')}`)
  )
})
const engine = ENGINES.find((one) => one === values.engine) ?? fail(`--engine is one of ${ENGINES.join(', ')}`)
const sizes = {
  ...{
    lines: wholeNumber('--lines', values.lines, 1, 10_000),
    documents: wholeNumber('--documents', values.documents, 1, 1000),
    chunks_max: wholeNumber('--chunks', values.chunks, 1, 100),
  },
  output_tokens: wholeNumber('--tokens', values.tokens, 1, 256),
}
const seed = wholeNumber('--seed', values.seed, 1, 2 ** 31 - 1)
const gpus = wholeNumber('--gpus', values.gpus, 1, 64)
const named = values.applications.split(',')
const applications = benchApplications(sizes, seed).filter(({ name }) => named.includes(name))
if (applications.length === 0) fail('--applications: ensembling, chain summary')

const folder = mkdtempSync(path.join(tmpdir(), 'switchyard-bench-apps-'))
const runs: Run[] = []
const started = { date: new Date().toISOString().slice(0, 10), load: loadavg()[0] ?? 0 }
let learned: Run[] = []
try {
  const models = await modelsIn(folder)
  const costs = path.resolve(values.costs ?? path.join(folder, 'costs.json'))
  const threads_per_gpu = Math.max(1, Math.floor(availableParallelism() / gpus))
  if (!existsSync(costs)) await measureCosts(costs, models, { gpus, seats: SEATS, threads_per_gpu, folder })
  const host = await LentHost.start({ models, costs, seats: SEATS, gpus })
  try {
    learned = await learn(host)
    for (const planner of planners) {
      for (const application of applications) {
        process.stderr.write(`${application.name}, ${planner}\n`)
        runs.push(await host.run(planner, application))
        report()
      }
    }
  } finally {
    await host.remove()
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
console.log(textTable(columns(), runs))
const failed = runs.reduce((sum, run) => sum + run.failed, 0)
if (failed > 0) fail(`${failed} requests failed`)

async function modelsIn(place: string): Promise<LentModel[]> {
  if (engine === 'vllm') return vllmModels()
  const { path: first } = await findOrFetchModel(values.model === undefined ? {} : { model: values.model })
  const second = values.second ?? path.join(place, 'precise.gguf')
  if (values.second === undefined) writeHalfPrecision(first, second)
  const paths = { small: first, precise: path.resolve(second) }
  return MODELS.map((model) => ({ model, path: paths[model], context_tokens: CONTEXT_TOKENS[model], vllm: null }))
}

async function vllmModels(): Promise<LentModel[]> {
  const found = await vllmPython('cpu', { cache_folder: switchyardCacheFolder() })
  if (!found.ok) fail(found.reason)
  const { python } = found
  const { path: weights } = await vllmModel({ python, ...(values.model === undefined ? {} : { model: values.model }) })
  return MODELS.map((model) => ({
    ...{ model, path: weights, context_tokens: CONTEXT_TOKENS[model] },
    vllm: { python, dtype: DTYPES[model] },
  }))
}

/** Its plans are made with guessed lengths, and show what learning is for. */
async function learn(host: LentHost): Promise<Run[]> {
  const small = benchApplications({ ...LEARN, output_tokens: sizes.output_tokens }, seed + 100)
  const done: Run[] = []
  for (const application of small.filter(({ name }) => named.includes(name))) {
    process.stderr.write(`${application.name}, to learn lengths\n`)
    done.push(await host.run('ours', application))
  }
  return done
}

function report(): void {
  if (values.gantt !== undefined) {
    mkdirSync(values.gantt, { recursive: true })
    const last = runs.at(-1)
    const name = `${last?.application.replaceAll(' ', '-')}-${last?.planner}.svg`
    writeFileSync(path.join(values.gantt, name), last?.gantt_svg ?? '')
  }
  if (values.json === undefined) return
  const bare = (list: readonly Run[]) => list.map(({ gantt_svg: _, ...run }) => ({ ...run, off_percent: off(run) }))
  const machine = { cores: availableParallelism(), cpu: cpus()[0]?.model.trim() ?? '', load_at_start: started.load }
  const conditions = { date: started.date, ...machine, engine, gpus, seats: SEATS, ...sizes, seed }
  writeFileSync(values.json, `${JSON.stringify({ conditions, learning: bare(learned), runs: bare(runs) }, null, 1)}\n`)
}

/** Above 0: the plan says longer than it took. */
function off({ planned_s, real_s }: Pick<Run, 'planned_s' | 'real_s'>): number {
  return Number((100 * (planned_s / real_s - 1)).toFixed(1))
}

function columns(): Column<Run>[] {
  const right = (title: string, cell: (run: Run) => string): Column<Run> => ({ title, cell, align: 'right' })
  const oursOf = ({ application }: Run) =>
    runs.find((run) => run.application === application && run.planner === 'ours')?.real_s ?? Number.NaN
  return [
    { title: 'application', cell: ({ application }) => application },
    { title: 'planner', cell: ({ planner }) => PLANNER_LABELS[planner] },
    right('stages', ({ stages }) => String(stages.length)),
    right('requests', ({ requests }) => String(requests)),
    right('planned s', ({ planned_s }) => planned_s.toFixed(1)),
    right('real s', ({ real_s }) => real_s.toFixed(1)),
    right('off %', (run) => off(run).toFixed(1)),
    right('real ÷ ours', (run) => (run.real_s / oursOf(run)).toFixed(2)),
  ]
}
