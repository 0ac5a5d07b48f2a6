/** Applications as clients see them. */
import { z } from '@hono/zod-openapi'
import {
  type ApplicationReport,
  ApplicationStatus,
  type Definition,
  type HostsState,
} from '../../core/application/application-state.ts'
import { remainingMs } from '../../core/application/estimate.ts'
import type { Graph } from '../../core/application/graph.ts'
import { NodeId, Nodes } from '../../core/application/graph-schema.ts'
import { addTokens, type BatchTokens, NO_TOKENS } from '../../core/batch/batch-state.ts'
import { COMPLETION_WINDOW_RULE, completionSeconds } from '../../core/batch/completion-window.ts'
import { Id } from '../../protocol/index.ts'
import { Metadata } from '../../protocol/openai.ts'
import { FileId, seconds } from '../files/file-schemas.ts'

export const APPLICATIONS_PAGE_MAX = 100
/** Of lines in the body of a request, as JSONL. */
export const INLINE_BYTES_MAX = 4 * 1024 * 1024
/** Of a graph and lines. */
export const APPLICATION_BODY_BYTES_MAX = 6 * 1024 * 1024
/** Of the nodes, as JSON. */
export const GRAPH_BYTES_MAX = 512 * 1024
const TOKENS_MAX = 1e12

const Input = z.union([
  z.strictObject({ lines: z.array(z.record(z.string(), z.unknown())).min(1) }),
  z.strictObject({ file: FileId }),
])

export const ApplicationStart = z.strictObject({
  /** Sent again with the same nodes and input, it goes on. Left out: one is made. */
  id: NodeId.optional(),
  name: z.string().min(1).max(200),
  nodes: Nodes,
  input: Input.openapi({ description: 'Objects, or a file of lines that are objects' }),
  completion_window: z
    .string()
    .refine((text) => completionSeconds(text) !== null, COMPLETION_WINDOW_RULE)
    .default('24h'),
  limits: z
    .strictObject({
      calls: z.int().min(1).nullable().default(null),
      tokens: z.int().min(1).max(TOKENS_MAX).nullable().default(null),
    })
    .default({ calls: null, tokens: null }),
  start: z
    .boolean()
    .default(true)
    .openapi({ description: 'False: its lines are checked and it is planned, but not run' }),
  metadata: Metadata.nullish(),
})
export type ApplicationStart = z.infer<typeof ApplicationStart>

const Time = z.number().int().nullable()
const Usage = z.object({
  input_tokens: z.number().int(),
  input_tokens_details: z.object({ cached_tokens: z.number().int() }),
  output_tokens: z.number().int(),
  total_tokens: z.number().int(),
})
const NodeObject = z.object({
  id: z.string(),
  model: z.string(),
  requests: z.number().int().openapi({ description: '0 until all lines are checked' }),
  waiting: z.number().int(),
  running: z.number().int(),
  completed: z.number().int(),
  failed: z.number().int(),
  usage: Usage,
  output_file_id: z.string().nullable().openapi({ description: 'Once the application has completed' }),
})

export const ApplicationObject = z
  .object({
    id: z.string(),
    object: z.literal('application'),
    name: z.string(),
    status: ApplicationStatus,
    errors: z
      .object({
        object: z.literal('list'),
        data: z.array(
          z.object({
            code: z.string(),
            line: z.number().int().nullable(),
            message: z.string(),
            param: z.string().nullable(),
          }),
        ),
      })
      .nullable(),
    input_file_id: z.string(),
    completion_window: z.string(),
    limits: z.object({ calls: z.number().int().nullable(), tokens: z.number().int().nullable() }),
    created_at: z.number().int(),
    started_at: Time,
    expires_at: z.number().int(),
    ended_at: Time,
    estimated_end_at: Time.openapi({ description: 'While it runs; null: not known yet' }),
    request_counts: z.object({
      total: z.number().int(),
      completed: z.number().int(),
      failed: z.number().int(),
    }),
    usage: Usage,
    nodes: z.array(NodeObject),
    metadata: z.record(z.string(), z.string()).nullable(),
  })
  .openapi('Application')
export type ApplicationObject = z.infer<typeof ApplicationObject>

export const ApplicationList = z
  .object({
    object: z.literal('list'),
    data: z.array(ApplicationObject),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
    has_more: z.boolean(),
  })
  .openapi('ApplicationList')

const PlanNode = z.object({
  id: z.string(),
  model: z.string(),
  after: z.array(z.string()).openapi({ description: 'Nodes whose outputs it takes' }),
  requests: z.number().int(),
  prompt_tokens_estimate: z
    .number()
    .int()
    .openapi({ description: 'Of all its requests, without the outputs of other nodes' }),
  output_tokens_estimate: z
    .number()
    .int()
    .nullable()
    .openapi({ description: 'By what its model gave this tenant before, else by its limit; null: neither is known' }),
  engines: z
    .array(z.object({ region: z.string(), ready: z.number().int(), seats: z.number().int() }))
    .openapi({ description: 'That serve its model at this moment. None: it waits for one' }),
})

const PlannedStage = z.object({
  start_s: z.number(),
  end_s: z.number(),
  nodes: z.array(
    z.object({
      ids: z.array(z.string()),
      model: z.string(),
      dp: z.number().int().openapi({ description: 'Replicas, which share the requests' }),
      tp: z.number().int().openapi({ description: 'GPUs of each replica' }),
      loading_s: z.number().nullable().openapi({ description: 'Null: it goes on from the stage before' }),
      gpus: z.array(z.array(z.number().int())),
    }),
  ),
})

const PlannedHosts = z.object({
  stages: z.array(PlannedStage),
  total_s: z.number().nullable(),
  message: z.string().nullable().openapi({ description: 'Why it borrows no hosts. It runs on engines that are there' }),
})

export const PlanObject = z
  .object({
    object: z.literal('application.plan'),
    application: z.string(),
    steps: z
      .array(z.array(z.string()))
      .openapi({ description: 'Nodes in the order in which they can begin; a node begins with its first inputs' }),
    nodes: z.array(PlanNode),
    planner: z
      .unknown()
      .openapi({ description: 'The application as `npm run simulate -- plan --application` takes it' }),
  })
  .openapi('ApplicationPlan')

export const ApplicationParams = z.object({ id: Id })
export const NodeParams = ApplicationParams.extend({ node: NodeId })

export function applicationJson(
  { state, nodes }: ApplicationReport,
  definition: Definition,
  now_ms: number,
): ApplicationObject {
  const totals = { total: 0, completed: 0, failed: 0 }
  let tokens = NO_TOKENS
  const is_running = state.status === 'running'
  const shown = nodes.map((node, at) => {
    const { requests = 0, output } = state.nodes[at] ?? {}
    const { completed, failed, running } = node
    totals.total += requests
    totals.completed += completed
    totals.failed += failed
    tokens = addTokens(tokens, node.tokens)
    return {
      ...{ id: definition.nodes[at]?.id ?? '', model: definition.nodes[at]?.model ?? '', requests },
      ...{ waiting: Math.max(0, requests - completed - failed - running), running, completed, failed },
      usage: usageJson(node.tokens),
      output_file_id: state.status === 'completed' ? (output?.file ?? null) : null,
    }
  })
  const left_ms = is_running ? remainingOf({ state, nodes }) : null
  return {
    ...{ id: state.id, object: 'application', name: state.name, status: state.status },
    errors: state.faults.length === 0 ? null : { object: 'list', data: state.faults },
    ...{ input_file_id: state.input.file, completion_window: state.completion_window, limits: state.limits },
    created_at: seconds(state.created_at_ms),
    started_at: timeOf(state.started_at_ms),
    expires_at: seconds(state.expires_at_ms),
    ended_at: timeOf(state.ended_at_ms),
    estimated_end_at: left_ms === null ? null : seconds(now_ms + left_ms),
    ...{ request_counts: totals, usage: usageJson(tokens), nodes: shown, metadata: state.metadata },
  }
}

/** Milliseconds until it is done. Null: not known. */
export function remainingOf({ state, nodes }: ApplicationReport): number | null {
  return remainingMs(
    state.nodes.map(({ requests, spans }, at) => {
      const { completed = 0, failed = 0 } = nodes[at] ?? {}
      return { requests, done: completed + failed, spans }
    }),
  )
}

export function hostsJson(hosts: HostsState | null): z.infer<typeof PlannedHosts> | null {
  if (hosts?.status !== 'planned') return hosts && { stages: [], total_s: null, message: hosts.message }
  const { plan } = hosts
  const stages = plan.stages.map(({ start_s, end_s, nodes }) => ({
    ...{ start_s, end_s },
    nodes: nodes.map(({ node, plan: { dp, tp }, loading_s, gpus }) => {
      const { ids = [], model = '' } = plan.nodes[node] ?? {}
      return { ids, model, dp, tp, loading_s, gpus }
    }),
  }))
  return { stages, total_s: plan.total_s, message: null }
}

/** Nodes by the outputs that they need. */
export function stepsOf(graph: Graph): string[][] {
  const steps: string[][] = []
  for (const { id, depth } of graph) {
    steps[depth] = [...(steps[depth] ?? []), id]
  }
  return steps
}

function usageJson({ input, cached, output }: BatchTokens): z.infer<typeof Usage> {
  return {
    ...{ input_tokens: input, input_tokens_details: { cached_tokens: cached }, output_tokens: output },
    total_tokens: input + output,
  }
}

function timeOf(ms: number | null): number | null {
  return ms === null ? null : seconds(ms)
}
