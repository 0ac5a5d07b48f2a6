/**
 * A system of real processes with one host that is lent: shares of the cores stand for GPUs, and its home engine is an emulated one that takes no CPU.
 * Applications go through the public API.
 */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import type { PlannerName } from '../../../gpu-agent/planner/search/planners.ts'
import { type AgentChild, startTestbed, type Testbed } from '../../testbed/testbed.ts'
import type { BenchApplication } from './applications.ts'

const AGENT = 'us-east-1'
const REGION = 'us-east'
const POLL_MS = 200

export interface LentModel {
  model: string
  path: string
  context_tokens: number
  /** Null: the embedded engine. */
  vllm: VllmModelOptions | null
}

export interface VllmModelOptions {
  python: string
  dtype: string
}

export interface LentHostOptions {
  models: readonly LentModel[]
  /** The table that was measured. */
  costs: string
  seats: number
  gpus: number
}

const Planned = z.object({
  hosts: z
    .object({
      total_s: z.number().nullable(),
      message: z.string().nullable(),
      stages: z.array(
        z.object({
          start_s: z.number(),
          end_s: z.number(),
          nodes: z.array(
            z.object({ ids: z.array(z.string()), dp: z.number(), tp: z.number(), loading_s: z.number().nullable() }),
          ),
        }),
      ),
    })
    .nullable(),
})
const Application = z.object({
  id: z.string(),
  status: z.string(),
  request_counts: z.object({ total: z.number(), completed: z.number(), failed: z.number() }),
  usage: z.object({ input_tokens: z.number(), output_tokens: z.number() }),
})

export interface Run {
  application: string
  planner: PlannerName
  /** Seconds that the plan says, and from the plan to the end. */
  planned_s: number
  real_s: number
  stages: NonNullable<z.infer<typeof Planned>['hosts']>['stages']
  requests: number
  failed: number
  input_tokens: number
  output_tokens: number
  /** Plan against reality. */
  gantt_svg: string
}

export class LentHost {
  readonly #bed: Testbed
  readonly #options: LentHostOptions
  #agent: { planner: PlannerName; child: AgentChild } | null = null

  private constructor(bed: Testbed, options: LentHostOptions) {
    this.#bed = bed
    this.#options = options
  }

  static async start(options: LentHostOptions): Promise<LentHost> {
    const others = options.models.map(({ model: id, context_tokens }) => ({ id, context_tokens }))
    const flags = { 'other-models': JSON.stringify(others) }
    const bed = await startTestbed({ name: 'bench-apps', regions: [REGION], model: 'home', flags })
    const { models, costs, seats } = options
    const startable = models.map((one) => ({ model: one.model, costs, ...engineOf(one, seats) }))
    writeFileSync(path.join(bed.place.root, 'startable.json'), JSON.stringify({ models: startable }))
    await bed.startWhatIsDown()
    return new LentHost(bed, options)
  }

  /** Rejects if it is not planned for the host, or does not complete. */
  async run(planner: PlannerName, { name, nodes, lines }: BenchApplication): Promise<Run> {
    await this.#plansBy(planner)
    const created = await this.#post('/v1/applications', { name, nodes, input: { lines } })
    const { id } = Application.parse(created)
    const plan = await this.#until(`/v1/applications/${id}/plan`, Planned, ({ hosts }) => hosts !== null)
    const planned_ms = performance.now()
    if (plan.hosts?.total_s == null) throw new Error(`${name} was not planned: ${plan.hosts?.message}`)
    const ended = await this.#until(
      `/v1/applications/${id}`,
      Application,
      ({ status }) => !['validating', 'running'].includes(status),
    )
    const real_s = (performance.now() - planned_ms) / 1000
    if (ended.status !== 'completed') throw new Error(`${name} has ${ended.status}`)
    const gantt = await this.#bed.fetch(`/v1/applications/${id}/gantt.svg`)
    return {
      ...{ application: name, planner, planned_s: plan.hosts.total_s, real_s, stages: plan.hosts.stages },
      ...{ requests: ended.request_counts.total, failed: ended.request_counts.failed },
      ...{ input_tokens: ended.usage.input_tokens, output_tokens: ended.usage.output_tokens },
      gantt_svg: await gantt.text(),
    }
  }

  async remove(): Promise<void> {
    await this.#bed.remove()
  }

  /** The agent is the coordinator of its applications, so it is started again for another planner. */
  async #plansBy(planner: PlannerName): Promise<void> {
    if (this.#agent?.planner === planner) return
    await this.#agent?.child.end('SIGTERM')
    const { gpus } = this.#options
    const startable = path.join(this.#bed.place.root, 'startable.json')
    const child = this.#bed.agent({
      ...{ id: AGENT, region: REGION },
      flags: { engine: 'emulated', profile: 'tiny', lend: 'all', 'lend-gpus': gpus, startable, planner },
    })
    await child.start()
    this.#agent = { planner, child }
  }

  async #post(route: string, body: object): Promise<unknown> {
    const response = await this.#bed.fetch(route, { method: 'POST', body: JSON.stringify(body) })
    if (!response.ok) throw new Error(`${route}: ${response.status} ${await response.text()}`)
    return response.json()
  }

  async #until<T>(route: string, schema: z.ZodType<T>, is: (found: T) => boolean): Promise<T> {
    for (;;) {
      const response = await this.#bed.fetch(route)
      if (!response.ok) throw new Error(`${route}: ${response.status} ${await response.text()}`)
      const found = schema.parse(await response.json())
      if (is(found)) return found
      await sleep(POLL_MS)
    }
  }
}

function engineOf({ path: file, context_tokens, vllm }: LentModel, seats: number): object {
  const sizes = { 'context-tokens': context_tokens, seats }
  if (vllm === null) return { engine: 'embedded', flags: { 'model-path': file, slots: seats, ...sizes } }
  const flags = { model: file, 'vllm-python': vllm.python, 'vllm-args': `--dtype ${vllm.dtype}`, ...sizes }
  return { engine: 'vllm', device: 'cpu', flags }
}
