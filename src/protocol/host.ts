/**
 * The host link: an agent that may lend its GPUs to offline applications opens one more WebSocket, GET /agents/v1/host?region=…, to the HostsActor.
 * JSON text frames. The agent says `hello` first, and the actor answers `welcome` or closes with a code of link.ts.
 *
 * What holds:
 * - `stage` is the wanted state of a host, not a command. The host stops what is not named, starts what is named and keeps what is already as wanted.
 * - A stage of a lower epoch than the last one is refused. The same epoch renews the lease.
 * - A stage that is not renewed for `lease_ms`, or an empty one, returns the host: its home engines come back.
 * - `plan` and `choose` are questions to one agent, the coordinator of an application. Their answers name the question.
 */
import { z } from 'zod'
import { APPLICATION_NODES_MAX, ApplicationNodeId, ApplicationTokens } from './application-tokens.ts'
import { Count, Id } from './ids.ts'
import { ENGINES_PER_AGENT_MAX, EngineKind } from './link.ts'

export const HOST_PROTOCOL_VERSION = 1
export const GPUS_PER_HOST_MAX = 64
export const HOSTS_PER_PLAN_MAX = 64
export const STARTABLE_MODELS_MAX = 64
/** A longer plan is refused: each stage ends with a node, and nodes are few. */
export const STAGES_MAX = 256
/** A status goes out on change and at least this often. */
export const HOST_STATUS_INTERVAL_MS = 5000
/** A host whose stage is not renewed for so long returns to its home engines. */
export const HOST_LEASE_MS = 60_000
/** An application of 100,000 prompts in lengths takes about 400 kB for each node. */
export const HOST_DOWN_BYTES_MAX = 8 * 1024 * 1024
export const MESSAGE_CHARS_MAX = 400

const Gpu = z
  .int()
  .min(0)
  .max(GPUS_PER_HOST_MAX - 1)
const Gpus = z.array(Gpu).min(1).max(GPUS_PER_HOST_MAX)
const Degree = z.int().min(1).max(GPUS_PER_HOST_MAX)
/** Counted over all hosts of a plan. */
const PlanGpu = z
  .int()
  .min(0)
  .max(HOSTS_PER_PLAN_MAX * GPUS_PER_HOST_MAX - 1)
const Node = z
  .int()
  .min(0)
  .max(APPLICATION_NODES_MAX - 1)
const Seconds = z.number().min(0)
const Message = z.string().max(MESSAGE_CHARS_MAX)

/** An engine that the agent was started with, and the GPUs that it takes. */
export const HomeEngine = z.object({ id: Id, model: Id, gpus: Gpus })
export type HomeEngine = z.infer<typeof HomeEngine>

/** A model that the host can start an engine for. */
export const StartableModel = z.object({
  model: Id,
  kind: EngineKind,
  context_tokens_max: Count.nullable(),
  /** GPUs that one engine may have (tensor parallelism). */
  degrees: z.array(Degree).min(1).max(16),
})
export type StartableModel = z.infer<typeof StartableModel>

/** `spare`: home engines are lent only while another host serves their models. `all`: always. */
export const LendPolicy = z.enum(['spare', 'all'])
export type LendPolicy = z.infer<typeof LendPolicy>

export const HostHello = z.object({
  type: z.literal('hello'),
  protocol: z.object({ min: Count, max: Count }),
  agent: Id,
  region: Id,
  gpus: Degree,
  lend: LendPolicy,
  models: z.array(StartableModel).min(1).max(STARTABLE_MODELS_MAX),
  home: z.array(HomeEngine).max(ENGINES_PER_AGENT_MAX),
})
export type HostHello = z.infer<typeof HostHello>

export const HostEngine = z.object({
  id: Id,
  model: Id,
  gpus: Gpus,
  /** An engine that the agent was started with. */
  home: z.boolean(),
  state: z.enum(['loading', 'ready', 'failed', 'stopping']),
  /** Why it failed, with a next step. */
  message: Message.nullable(),
})
export type HostEngine = z.infer<typeof HostEngine>

export const HostStatus = z.object({
  type: z.literal('status'),
  /** Grows by one per status on a link; a repeated or older one is dropped. */
  seq: Count,
  /** Of the stage that the host converges to; 0: none, it is at home. */
  epoch: Count,
  engines: z.array(HostEngine).max(2 * ENGINES_PER_AGENT_MAX),
})
export type HostStatus = z.infer<typeof HostStatus>

/** A node with its plan and the first GPU of each replica, counted over all hosts. */
export const PlacedNode = z.object({
  node: Node,
  tp: Degree,
  first_gpus: z
    .array(PlanGpu)
    .min(1)
    .max(HOSTS_PER_PLAN_MAX * GPUS_PER_HOST_MAX),
})
export type PlacedNode = z.infer<typeof PlacedNode>

export const PlannedStage = z.object({
  start_s: Seconds,
  end_s: Seconds,
  nodes: z
    .array(
      z.object({
        node: Node,
        plan: z.object({ dp: z.int().min(1), tp: Degree }),
        /** Null: it goes on from the stage before, without loading. */
        loading_s: Seconds.nullable(),
        /** GPUs of each replica, counted over all hosts. */
        gpus: z.array(z.array(PlanGpu)),
        finishes: z.boolean(),
        busy_gpu_s: Seconds,
      }),
    )
    .max(APPLICATION_NODES_MAX),
})

/** Stages before anything runs. Nodes in a row that run one model are one node of the plan. */
export const HostPlan = z.object({
  nodes: z
    .array(
      z.object({
        /** Nodes of the application that it stands for. */
        ids: z.array(ApplicationNodeId).min(1).max(APPLICATION_NODES_MAX),
        model: Id,
        /** Nodes of the plan whose outputs it takes. */
        inputs: z.array(Node).max(APPLICATION_NODES_MAX),
      }),
    )
    .min(1)
    .max(APPLICATION_NODES_MAX),
  stages: z.array(PlannedStage).min(1).max(STAGES_MAX),
  total_s: Seconds,
  planning_ms: z.number().min(0),
  /** Models whose output lengths nobody knows: they were drawn from those of other models. */
  guessed_lengths: z.array(Id).max(APPLICATION_NODES_MAX),
})
export type HostPlan = z.infer<typeof HostPlan>

const PlanHosts = z
  .array(z.object({ gpus: Degree }))
  .min(1)
  .max(HOSTS_PER_PLAN_MAX)

export const PlanQuestion = z.object({
  type: z.literal('plan'),
  id: Count,
  application: ApplicationTokens,
  /** In the order in which their GPUs are counted. */
  hosts: PlanHosts,
  seed: z.int().min(0),
})
export type PlanQuestion = z.infer<typeof PlanQuestion>

export const ChooseQuestion = z.object({
  type: z.literal('choose'),
  id: Count,
  /** Of the application's run. An answer with another one is late, and refused. */
  epoch: Count,
  plan: HostPlan,
  hosts: PlanHosts,
  /** Nodes that have ended. */
  done: z.array(Node).max(APPLICATION_NODES_MAX),
  /** What the last stage placed. */
  placed: z.array(PlacedNode).max(APPLICATION_NODES_MAX),
})
export type ChooseQuestion = z.infer<typeof ChooseQuestion>

const Refusal = z.object({ ok: z.literal(false), reason: Message })

export const Planned = z.object({
  type: z.literal('planned'),
  id: Count,
  outcome: z.discriminatedUnion('ok', [z.object({ ok: z.literal(true), plan: HostPlan }), Refusal]),
})
export type Planned = z.infer<typeof Planned>

export const Chosen = z.object({
  type: z.literal('chosen'),
  id: Count,
  epoch: Count,
  outcome: z.discriminatedUnion('ok', [
    z.object({ ok: z.literal(true), placed: z.array(PlacedNode).max(APPLICATION_NODES_MAX) }),
    Refusal,
  ]),
})
export type Chosen = z.infer<typeof Chosen>

export const HostUpMessage = z.discriminatedUnion('type', [HostHello, HostStatus, Planned, Chosen])
export type HostUpMessage = z.infer<typeof HostUpMessage>

export const HostWelcome = z.object({ type: z.literal('welcome'), protocol: Count })
export type HostWelcome = z.infer<typeof HostWelcome>

export const WantedEngine = z.object({ model: Id, gpus: Gpus })
export type WantedEngine = z.infer<typeof WantedEngine>

export const HostStage = z.object({
  type: z.literal('stage'),
  epoch: Count,
  lease_ms: z.int().min(1).max(3_600_000),
  /** Empty: the host returns to its home engines. Each GPU is in one engine at most. */
  engines: z.array(WantedEngine).max(GPUS_PER_HOST_MAX),
})
export type HostStage = z.infer<typeof HostStage>

export const HostDownMessage = z.discriminatedUnion('type', [HostWelcome, PlanQuestion, ChooseQuestion, HostStage])
export type HostDownMessage = z.infer<typeof HostDownMessage>
