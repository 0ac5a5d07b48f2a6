/** Makes the front of an engine by its kind. Ready when resolved; rejects when the engine cannot be started. */

import { createPolicy } from '../../engine/order/policies/index.ts'
import { KnownClasses } from '../classes/known-classes.ts'
import type { Report } from '../events.ts'
import type { LostCall } from '../outbox/lost-calls.ts'
import { AttachedServer } from './attached/attached-server.ts'
import type { Behaviour } from './attached/behaviour.ts'
import { keyId } from './attached/limits/key-id.ts'
import { KeyLimits } from './attached/limits/key-limits.ts'
import { probeServer } from './attached/probe-server.ts'
import type { ServerFacts } from './attached/server-facts.ts'
import { ServerQueue } from './attached/server-queue.ts'
import { SharedServer } from './attached/shared-server.ts'
import { ChildFront } from './child/child-front.ts'
import type { EngineFront, EngineFrontEvents } from './engine-front.ts'
import type { FrontOptions } from './front-options.ts'
import { startEmulatedFront } from './local/emulated-front.ts'
import { monotonicUs } from './local/scheduler-of.ts'
import { startScriptedFront } from './local/scripted/scripted-front.ts'
import { createVllmServer } from './vllm/process/create-server.ts'
import { VllmFront } from './vllm/vllm-front.ts'

/** A server may load a model before it answers, and a long prompt on a processor takes minutes. */
const SERVER_HANG_MS_MAX = 600_000

/** The agent, as a vLLM sees it. */
export interface FrontHost {
  /** Hears what that vLLM does. */
  report: Report
  /** Aborted when the agent ends in this very moment. */
  leaving: AbortSignal
  /** Calls that a former process of the agent left open on it. */
  lost: readonly LostCall[]
  /** What engines of one server have in common. */
  shared?: SharedServer
}

/**
 * `classes`: what is known about classes of programs. `report` hears of failures that no caller awaits: an engine that
 * broke, a child that died.
 */
export async function createFront(
  options: FrontOptions,
  events: EngineFrontEvents,
  classes: KnownClasses = new KnownClasses(),
  report: (message: string, error: unknown) => void = reportOnStderr,
  host: FrontHost | null = null,
): Promise<EngineFront> {
  switch (options.engine) {
    case 'emulated':
      return startEmulatedFront(options, events, report, classes.book)
    case 'scripted':
      return startScriptedFront(options, events, report, classes.book)
    case 'embedded':
      return ChildFront.start({ front: options, report, classes: () => classes.all() }, events)
    case 'vllm':
      if (host === null) throw new Error('a vLLM needs the agent that it is run by')
      return startVllm(options, events, report, host, classes)
    case 'openai':
      if (host === null) throw new Error('a server needs the agent that it is attached to')
      return startServer(options, events, report, host, classes)
  }
}

function startServer(
  options: FrontOptions,
  events: EngineFrontEvents,
  report: (message: string, error: unknown) => void,
  { report: told, shared = new SharedServer() }: FrontHost,
  classes: KnownClasses,
): Promise<EngineFront> {
  const { id, model_id, ordering = 'modelled', server: given, seats = null, context_tokens = null } = options
  if (given === undefined) throw new Error('--engine openai needs the address of its server')
  // What one of several models can do is not what the others can, and each would have to be loaded.
  const behaviour = async (facts: ServerFacts, model: string): Promise<Behaviour | null> =>
    facts.models.length > 1 ? null : shared.behaviour(() => probeServer(given, model, facts.reports_queue))
  const server = new AttachedServer({
    ...{ ...given, engine: id, model_id, seats, context_tokens, report: told },
    ...{ socket: null, order: 'fcfs', url_flag: '--url' },
    probe: given.probe ? behaviour : null,
  })
  // Nothing of one model's limits holds for another: each has a queue of its own.
  const own = given.limits_per === 'model'
  const specs = given.limits.filter(({ model = given.model }) => model === given.model)
  const queue = shared.queue(own ? given.model : null, () => {
    const key = { server: given.url, key_id: keyId(given), ...(own ? { model: given.model } : {}) }
    return queueOf(options, classes, new KeyLimits({ ...key, specs, report: told }))
  })
  const times = { hang_ms_max: SERVER_HANG_MS_MAX }
  return VllmFront.start({ id, model_id, kind: 'openai', ordering, server, queue, times, report }, events)
}

function startVllm(
  options: FrontOptions,
  events: EngineFrontEvents,
  report: (message: string, error: unknown) => void,
  { lost, ...host }: FrontHost,
  classes: KnownClasses,
): Promise<EngineFront> {
  const { id, model_id, ordering = 'modelled', policy, vllm } = options
  const server = createVllmServer(options, host)
  const learned = policy === 'learned' ? classes.book : null
  const queued = vllm?.mode === 'attached' && vllm.socket === null
  const queue = queued ? queueOf(options, classes) : null
  return VllmFront.start({ id, model_id, ordering, server, lost, classes: learned, queue, report }, events)
}

/** The queue before a server that does not order programs itself. */
function queueOf(
  { policy, ordering = 'modelled' }: FrontOptions,
  { book }: KnownClasses,
  limits: KeyLimits | null = null,
): ServerQueue {
  const order = createPolicy({ name: policy }, { reading: ordering, classes: book })
  return new ServerQueue({ policy: order, ordering, clock: monotonicUs, limits })
}

function reportOnStderr(message: string, error: unknown): void {
  console.error(message, error)
}
