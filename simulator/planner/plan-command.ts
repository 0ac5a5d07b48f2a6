/** `npm run simulate -- plan --application`: the stages in which an application would run, before anything runs. */
import { readFileSync, writeFileSync } from 'node:fs'
import type { z } from 'zod'
import { fail, readFlags } from '../../cli/flags.ts'
import { type Column, textTable } from '../../cli/table.ts'
import { drawWorkload, type NodeLengths } from '../../gpu-agent/planner/application.ts'
import { A100_COSTS } from '../../gpu-agent/planner/costs/a100.ts'
import { CostsFile, type ModelCosts } from '../../gpu-agent/planner/costs/model-costs.ts'
import { tableOfLengths } from '../../gpu-agent/planner/lengths/length-table.ts'
import { lengthsOf } from '../../gpu-agent/planner/lengths/model-lengths.ts'
import type { Host } from '../../gpu-agent/planner/placement.ts'
import type { ApplicationPlan, PlannedNode } from '../../gpu-agent/planner/plan.ts'
import { SimulatedWorld } from '../../gpu-agent/planner/runs/simulated-world.ts'
import { PLANNERS, planBy } from '../../gpu-agent/planner/search/planners.ts'
import { ganttChart } from '../../src/core/plot/gantt.ts'
import { ApplicationTokens } from '../../src/protocol/application-tokens.ts'
import { standalone } from '../evaluation/plots/chart.ts'
import { seededRandom } from '../random.ts'
import { FlagError, inputFile, integer, list, oneOf, outputFile } from '../run/flag-values.ts'
import { idleGpuSeconds, planGantt } from './plan-gantt.ts'

const HOSTS_MAX = 64
const GPUS_PER_HOST_MAX = 16
const SEED_MAX = 2 ** 31 - 1

const HELP = `Plans an application of several models over fixed inputs: which run at the same time, on how many GPUs, and for how long.

  npm run simulate -- plan --application examples/applications/chain-summary.json
  npm run simulate -- plan --application FILE --gpus 8,8 --gantt plan.svg

  --application FILE  the graph as JSON: docs/applications.md describes it
  --gpus 8            GPUs of each host, one number a host: 8,8 is two hosts of eight
  --planner ours      ${PLANNERS.join(', ')}
  --costs FILE        what iterations and loading take, by model and tensor parallelism (default: A100-80GB; docs/applications.md)
  --seed 1            of the output lengths that are drawn
  --gantt FILE        the plan as a Gantt chart (SVG)
  --json FILE         the plan as data
  --help`

/** Without it `plan` is about engines for a workload (simulator/fleet). */
export function isForApplication(argv: readonly string[]): boolean {
  return argv.some((word) => word === '--application' || word.startsWith('--application='))
}

export function applicationPlanCommand(argv: readonly string[]): void {
  if (argv.includes('--help') || argv.includes('-h')) {
    console.log(HELP)
    return
  }
  const flags = readFlags('simulate -- plan', argv, {
    ...{
      application: { type: 'string' },
      costs: { type: 'string' },
      gantt: { type: 'string' },
      json: { type: 'string' },
    },
    gpus: { type: 'string', default: '8' },
    planner: { type: 'string', default: 'ours' },
    seed: { type: 'string', default: '1' },
  })
  if (!flags.ok) fail(flags.reason)
  const { application, gpus, planner, costs, seed, gantt, json } = flags.values
  if (application === undefined)
    fail('--application FILE is missing. `npm run simulate -- plan --application --help` has examples')
  try {
    const settings = {
      hosts: list(gpus, (text): Host => ({ gpus: integer('--gpus', text, 1, GPUS_PER_HOST_MAX) })),
      planner: oneOf('--planner', planner, PLANNERS),
      seed: integer('--seed', seed, 0, SEED_MAX),
      costs: costs === undefined ? A100_COSTS.models : readJson(costs, CostsFile, '--costs').models,
    }
    if (settings.hosts.length > HOSTS_MAX) fail(`--gpus takes at most ${HOSTS_MAX} hosts`)
    const out = { gantt: outputFile('--gantt', gantt), json: outputFile('--json', json) }
    plan(readJson(application, ApplicationTokens, '--application'), settings, out)
  } catch (error) {
    if (!(error instanceof FlagError)) throw error
    fail(error.message)
  }
}

interface Settings {
  hosts: readonly Host[]
  planner: (typeof PLANNERS)[number]
  seed: number
  costs: readonly ModelCosts[]
}

function plan(
  file: ApplicationTokens,
  { hosts, planner, seed, costs }: Settings,
  out: { gantt: string | null; json: string | null },
): void {
  const tableOf: NodeLengths = (model, { output_lengths }) => {
    const context = Math.max(1, ...costs.filter((one) => one.model === model).map((one) => one.max_model_tokens))
    return (output_lengths === undefined ? undefined : tableOfLengths(output_lengths, context)) ?? lengthsOf(model)
  }
  const drawn = drawWorkload(file, tableOf, seededRandom(seed))
  if (!drawn.ok) fail(`--application: ${drawn.reason}`)
  const { nodes } = drawn.workload
  const unknown = nodes.find(({ model }) => !costs.some((one) => one.model === model))
  if (unknown !== undefined)
    fail(
      `node ${unknown.id}: there are no costs for the model ${unknown.model}; there are for ${[...new Set(costs.map(({ model }) => model))].join(', ')}. Name others with --costs FILE`,
    )
  const world = new SimulatedWorld(drawn.workload, costs, hosts)
  const started_ms = performance.now()
  const outcome = planBy(planner, world)
  const planning_s = (performance.now() - started_ms) / 1000
  if (!outcome.ok) fail(`There is no plan: ${outcome.reason}`)
  const ids = nodes.map(({ id }) => id)
  print(file.name, ids, outcome.plan, world.gpus, planning_s)
  const planned = outcome.plan.stages.flatMap((stage) => stage.nodes)
  const transferred = costs.filter(
    ({ model, tp, basis }) =>
      basis === 'transferred' && planned.some(({ node, plan }) => nodes[node]?.model === model && plan.tp === tp),
  )
  if (transferred.length > 0) {
    const names = transferred.map(({ model, tp }) => `${model} (tp ${tp})`).join(', ')
    console.log(`\nCosts carried over from other models, not fitted to a log: ${names}.`)
  }
  if (out.gantt !== null) {
    const chart = planGantt(outcome.plan, { title: file.name, nodes: ids, gpus: world.gpus })
    writeFileSync(out.gantt, standalone(ganttChart(chart)))
    console.log(`Wrote ${out.gantt}.`)
  }
  if (out.json !== null)
    writeFileSync(out.json, `${JSON.stringify({ nodes: ids, planning_s, ...outcome.plan }, null, 2)}\n`)
}

interface Row {
  stage: number
  start_s: number
  end_s: number
  id: string
  node: PlannedNode
}

const seconds = (title: string, of: (row: Row) => number): Column<Row> => ({
  title,
  align: 'right',
  cell: (row) => of(row).toFixed(1),
})

const COLUMNS: readonly Column<Row>[] = [
  { title: 'stage', align: 'right', cell: ({ stage }) => `${stage}` },
  seconds('from s', ({ start_s }) => start_s),
  seconds('to s', ({ end_s }) => end_s),
  { title: 'node', cell: ({ id }) => id },
  { title: 'dp', align: 'right', cell: ({ node }) => `${node.plan.dp}` },
  { title: 'tp', align: 'right', cell: ({ node }) => `${node.plan.tp}` },
  { title: 'GPUs', cell: ({ node }) => node.gpus.map((replica) => replica.join('+')).join(' ') },
  {
    title: 'loading s',
    align: 'right',
    cell: ({ node }) => (node.loading_s === null ? '' : node.loading_s.toFixed(1)),
  },
  { title: '', cell: ({ node }) => (node.finishes ? 'ends' : '') },
]

function print(name: string, ids: readonly string[], result: ApplicationPlan, gpus: number, planning_s: number): void {
  const rows = result.stages.flatMap(({ start_s, end_s, nodes }, at) =>
    nodes.map((node): Row => ({ stage: at + 1, start_s, end_s, id: ids[node.node] ?? '', node })),
  )
  console.log(`${name}\n\n${textTable([...COLUMNS], rows)}`)
  const idle = (100 * idleGpuSeconds(result, gpus)) / (gpus * result.total_s)
  console.log(
    `\n${result.total_s.toFixed(1)} s in all, estimated; GPUs idle ${idle.toFixed(0)} % of the time; planned in ${planning_s.toFixed(2)} s.`,
  )
}

function readJson<T extends z.ZodType>(file: string, schema: T, flag: string): z.infer<T> {
  let data: unknown
  try {
    data = JSON.parse(readFileSync(inputFile(flag, file), 'utf8'))
  } catch (error) {
    if (error instanceof FlagError) throw error
    throw new FlagError(`${flag}: cannot read ${file}: ${error instanceof Error ? error.message : String(error)}`)
  }
  const verdict = schema.safeParse(data)
  if (verdict.success) return verdict.data
  const [issue] = verdict.error.issues
  throw new FlagError(`${flag}: ${file}: ${issue?.path.join('.') || 'the file'}: ${issue?.message}`)
}
