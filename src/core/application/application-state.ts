/**
 * What an application's actor keeps of it, and what D1's row has. Of each node, `done` is the place up to which results lie
 * in R2: what is lost with a process, the node goes on from there and from the results that the actor stored.
 */
import { z } from 'zod'
import { HostPlan } from '../../protocol/host.ts'
import { Count, Id } from '../../protocol/index.ts'
import { BatchTokens, Fault, NO_TOKENS, OutputFile, Place, START } from '../batch/batch-state.ts'
import { FilePart } from '../batch/file-part.ts'
import { Nodes } from './graph-schema.ts'
import { LengthSketch, NO_LENGTHS } from './output-lengths.ts'

/** Of one application, over all nodes. */
export const CALLS_MAX = 1_000_000
/** Stretches of work of a node that are told apart; the closest are joined beyond that. */
export const SPANS_MAX = 64

export const ApplicationStatus = z.enum([
  'validating',
  'planned',
  'running',
  'cancelling',
  'completed',
  'failed',
  'expired',
  'cancelled',
  'limit_reached',
])
export type ApplicationStatus = z.infer<typeof ApplicationStatus>

const Ending = ApplicationStatus.extract(['completed', 'failed', 'expired', 'cancelled', 'limit_reached'])
export type ApplicationEnding = z.infer<typeof Ending>

/** What validation has seen of a node's prompts. Bytes are those of UTF-8. */
const InputSums = z.object({
  /** Fields that the template names, over all requests. */
  field_bytes: Count,
  /** Chunks of documents. */
  chunk_bytes: Count,
  /** Documents by their number of chunks. */
  chunks: z.record(z.string(), Count),
})

const NodeState = z.object({
  done: Place,
  /** 0 until all lines are checked. */
  requests: Count,
  inputs: InputSums,
  /** Of those before `done`. */
  completed: Count,
  failed: Count,
  tokens: BatchTokens,
  lengths: LengthSketch.default(NO_LENGTHS),
  output: OutputFile,
  /** The line of the first result of each part. */
  part_lines: z.array(Count),
  /** When it worked, from and to. */
  spans: z.array(z.tuple([Count, Count])),
})
export type NodeState = z.infer<typeof NodeState>

export const Limits = z.object({ calls: Count.nullable(), tokens: Count.nullable() })

/** Hosts that are lent to the application, by a plan; or why none are. */
const HostsState = z.discriminatedUnion('status', [
  z.object({ status: z.literal('planned'), plan_id: z.string(), plan: HostPlan, message: z.null() }),
  z.object({ status: z.literal('refused'), plan_id: z.null(), plan: z.null(), message: z.string() }),
])
export type HostsState = z.infer<typeof HostsState>

const Time = Count.nullable()

export const ApplicationState = z.object({
  id: Id,
  tenant: Id,
  /** Id of the API key that its calls are made for. */
  key: Id,
  name: z.string(),
  /** Of the nodes and the input. The same again is the same application. */
  digest: z.string(),
  input: z.object({ file: Id, parts: z.array(FilePart) }),
  /** Whether it runs once its lines are checked. */
  start: z.boolean(),
  limits: Limits,
  /** Regions that may serve its calls; null: all. */
  regions: z.array(Id).nullable().default(null),
  /** Null: not asked for yet. */
  hosts: HostsState.nullable().default(null),
  completion_window: z.string(),
  metadata: z.record(z.string(), z.string()).nullable(),
  status: ApplicationStatus,
  /** Null: it goes on. */
  ending: Ending.nullable(),
  faults: z.array(Fault),
  /** Up to where lines are checked. Its `requests` are those of all nodes. */
  checked: Place,
  is_checked: z.boolean(),
  nodes: z.array(NodeState),
  created_at_ms: Count,
  started_at_ms: Time,
  expires_at_ms: Count,
  ended_at_ms: Time,
})
export type ApplicationState = z.infer<typeof ApplicationState>

/** Never changes. In the order of the state's nodes. */
export const Definition = z.object({ nodes: Nodes })
export type Definition = z.infer<typeof Definition>

/** Of a node, with the results that are in no part yet. */
export const NodeProgress = z.object({
  completed: Count,
  failed: Count,
  /** Calls that are open. */
  running: Count,
  tokens: BatchTokens,
  /** Of its answers. */
  lengths: LengthSketch.default(NO_LENGTHS),
})
export type NodeProgress = z.infer<typeof NodeProgress>

export const ApplicationReport = z.object({
  state: ApplicationState,
  /** In the order of the state's nodes. */
  nodes: z.array(NodeProgress),
})
export type ApplicationReport = z.infer<typeof ApplicationReport>

export type NewApplication = Pick<
  ApplicationState,
  | 'id'
  | 'tenant'
  | 'key'
  | 'name'
  | 'digest'
  | 'input'
  | 'start'
  | 'limits'
  | 'regions'
  | 'completion_window'
  | 'metadata'
  | 'created_at_ms'
  | 'expires_at_ms'
>

/** `files`: ids of the nodes' outputs. */
export function newApplication(given: NewApplication, files: readonly string[]): ApplicationState {
  return {
    ...given,
    ...{ status: 'validating', ending: null, hosts: null, faults: [], checked: START, is_checked: false },
    nodes: files.map((file) => ({
      ...{ done: START, requests: 0, inputs: { field_bytes: 0, chunk_bytes: 0, chunks: {} } },
      ...{ completed: 0, failed: 0, tokens: NO_TOKENS, lengths: NO_LENGTHS },
      ...{ output: { file, parts: [] }, part_lines: [], spans: [] },
    })),
    ...{ started_at_ms: null, ended_at_ms: null },
  }
}

/** Sent again: it goes on with what the client says now. Null: there is nothing to do. */
export function resumed(state: ApplicationState, given: NewApplication, now_ms: number): ApplicationState | null {
  const { key, input, start, limits, regions, completion_window, expires_at_ms } = given
  if (state.status === 'completed') return null
  const is_over = state.ended_at_ms !== null
  if (!is_over && (state.start || !start)) return null
  const started_at_ms = state.started_at_ms ?? (state.is_checked && start ? now_ms : null)
  const status = state.is_checked ? (start ? 'running' : 'planned') : 'validating'
  return {
    ...state,
    ...{ key, input, start, limits, regions, hosts: null, completion_window, expires_at_ms, status, ending: null },
    ...{ started_at_ms, ended_at_ms: null },
    // Lines at fault are looked at again: the input may lie there again.
    ...(state.is_checked ? { faults: [] } : { faults: [], checked: START }),
  }
}

/** Adds a moment of work: it lengthens the last stretch if that ended at most `gap_ms` ago. */
export function noteWork({ spans }: Pick<NodeState, 'spans'>, now_ms: number, gap_ms: number): void {
  const last = spans.at(-1)
  if (last !== undefined && now_ms - last[1] <= gap_ms) last[1] = Math.max(last[1], now_ms)
  else spans.push([now_ms, now_ms])
  if (spans.length <= SPANS_MAX) return
  let closest = 1
  const gap = (at: number) => (spans[at]?.[0] ?? 0) - (spans[at - 1]?.[1] ?? 0)
  for (let at = 2; at < spans.length; at += 1) if (gap(at) < gap(closest)) closest = at
  const [removed] = spans.splice(closest, 1)
  const joined = spans[closest - 1]
  if (joined !== undefined && removed !== undefined) joined[1] = removed[1]
}
