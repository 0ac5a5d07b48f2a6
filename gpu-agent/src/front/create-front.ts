/** Makes the front of an engine by its kind. Ready when resolved; rejects when the engine cannot be started. */
import type { EngineFront, EngineFrontEvents } from '../engine-front.ts'
import { ChildFront } from './child-front.ts'
import { startEmulatedFront } from './emulated-front.ts'
import type { FrontOptions } from './front-options.ts'

/** `report` hears of failures that nobody awaits: an engine that broke, a child that died. */
export async function createFront(
  options: FrontOptions,
  events: EngineFrontEvents,
  report: (message: string, error: unknown) => void = reportOnStderr,
): Promise<EngineFront> {
  switch (options.engine) {
    case 'emulated':
      return startEmulatedFront(options, events, report)
    case 'embedded':
      return ChildFront.start({ front: options, report }, events)
  }
}

function reportOnStderr(message: string, error: unknown): void {
  console.error(message, error)
}
