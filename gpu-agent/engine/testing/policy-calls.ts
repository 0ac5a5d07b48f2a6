/** Builders for tests of policies: a call as a policy sees it, with its program, charged as the order would charge it. */
import type { Charge, Place, Policy, PolicyCall } from '../order/policy.ts'
import { type ProgramCall, ProgramSums } from '../order/program-table.ts'
import type { EngineCall } from '../types.ts'
import { engineCall } from './calls.ts'

export interface TestCall extends PolicyCall, ProgramCall {
  resident_tokens: number
  charged_us: number
  output_tokens: number
  readonly program: ProgramSums
}

export type Given = Partial<EngineCall> & { prompt_tokens?: number; resident_tokens?: number }

/** Without tokens of a prompt unless given. `program`: of a sibling that is open. */
export function policyCall(
  { prompt_tokens = 0, resident_tokens = 0, ...given }: Given = {},
  program = new ProgramSums('program'),
): TestCall {
  const call = engineCall({ lease: 'lease', program: program.program, ...given })
  const state = { call, prompt_tokens, resident_tokens, program, charged_us: 0, output_tokens: 0, path_before_us: 0 }
  program.arrived(state)
  return state
}

export function chargeOf(charge_us: number, wall_us = charge_us, output_tokens = 0): Charge {
  return { wall_us, charge_us, prefill_tokens: 0, output_tokens }
}

/** Charges the call and its program, and tells the policy. Returns whether the call moves. */
export function chargeCall(policy: Policy, call: TestCall, place: Place, charge: Charge, now_us = 0): boolean {
  call.charged_us += charge.charge_us
  call.output_tokens += charge.output_tokens
  call.program.charged(call, charge.charge_us, charge.output_tokens)
  return policy.charge(place, charge, now_us)
}
