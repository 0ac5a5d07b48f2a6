/** What the API may ask of an application's actor. One object per tenant and application, named by `applicationActorName`. */
import type { ApplicationReport, Definition, NewApplication } from '../../core/application/application-state.ts'
import type { FilePart } from '../../core/batch/file-part.ts'

/** Results of a node so far, in the order of the input: the parts, and then `tail`. */
export interface NodeOutput {
  parts: FilePart[]
  tail: Uint8Array
}

export interface ApplicationRpc {
  /**
   * Begins it, or goes on with one of the same digest. Rejects if D1 does not take it; asking again is right. `files`: ids of
   * the nodes' outputs, where it begins.
   */
  start(application: NewApplication, definition: Definition, files: readonly string[]): Promise<ApplicationReport>
  /** Null: it has completed, and D1 has it. */
  describe(): Promise<ApplicationReport | null>
  /** As `describe`, after no more calls are started. */
  cancel(): Promise<ApplicationReport | null>
  /** `node`: its number. Null: as `describe`. */
  output(node: number): Promise<NodeOutput | null>
}

export function applicationActorName(tenant: string, application: string): string {
  return JSON.stringify([tenant, application])
}
