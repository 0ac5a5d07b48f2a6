/** Where an engine keeps the KV of a program for nothing: the program goes on elsewhere, or it has ended. */
import type { HandlingDecision } from '../../protocol/handling.ts'
import type { CallRecord } from '../../protocol/index.ts'

export interface LeftContext {
  tenant: string
  program: string
  run: string
  agent: string
  engine: string
  region: string
  model: string
}

export function leftContext({ tenant, program, run, agent, engine, region, model }: LeftContext): LeftContext {
  return { tenant, program, run, agent, engine, region, model }
}

/** Whether the engine keeps the program's KV until it comes back. */
export function isKept(handled: HandlingDecision | null): boolean {
  return handled !== null && handled.handling !== 'discard'
}

/** Of records that came after their run had ended: what they say is kept. */
export function keptAfterEnd(records: readonly CallRecord[]): LeftContext[] {
  return records.filter(({ handled }) => isKept(handled ?? null)).map(leftContext)
}
