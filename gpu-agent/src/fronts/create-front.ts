/** Makes the front of an engine by its kind. Ready when resolved; rejects when the engine cannot be started. */

import { KnownClasses } from '../classes/known-classes.ts'
import type { Report } from '../events.ts'
import type { LostCall } from '../outbox/lost-calls.ts'
import { ChildFront } from './child/child-front.ts'
import type { EngineFront, EngineFrontEvents } from './engine-front.ts'
import type { FrontOptions } from './front-options.ts'
import { startEmulatedFront } from './local/emulated-front.ts'
import { startScriptedFront } from './local/scripted/scripted-front.ts'
import { createVllmServer } from './vllm/process/create-server.ts'
import { VllmFront } from './vllm/vllm-front.ts'

/** The agent, as a vLLM sees it. */
export interface FrontHost {
  /** Hears what that vLLM does. */
  report: Report
  /** Aborted when the agent ends in this very moment. */
  leaving: AbortSignal
  /** Calls that a former process of the agent left open on it. */
  lost: readonly LostCall[]
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
  }
}

function startVllm(
  options: FrontOptions,
  events: EngineFrontEvents,
  report: (message: string, error: unknown) => void,
  { lost, ...host }: FrontHost,
  classes: KnownClasses,
): Promise<EngineFront> {
  const { id, model_id, ordering = 'modelled' } = options
  const server = createVllmServer(options, host)
  const learned = options.policy === 'learned' ? classes.book : null
  return VllmFront.start({ id, model_id, ordering, server, lost, classes: learned, report }, events)
}

function reportOnStderr(message: string, error: unknown): void {
  console.error(message, error)
}
