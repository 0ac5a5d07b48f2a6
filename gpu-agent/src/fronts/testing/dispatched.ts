/** Dispatched calls for tests of fronts. */
import type { TicketClaims } from '../../../../src/protocol/index.ts'
import type { Dialect, DispatchedCall } from '../engine-front.ts'

let calls = 0

export function dispatched(
  epoch: string,
  body: Record<string, unknown>,
  { dialect = 'chat', ...claims }: Partial<TicketClaims> & { dialect?: Dialect } = {},
): DispatchedCall {
  calls += 1
  return {
    dialect,
    body,
    claims: {
      v: 2,
      tenant: 'tenant',
      program: 'program',
      run: 'run',
      thread: 'main',
      call: `call-${calls}`,
      lease: `lease-${calls}`,
      agent: 'agent',
      engine: 'agent-e0',
      epoch,
      region: 'us-east',
      model: 'model',
      class: 'class',
      tenant_weight: 1,
      objective: 'token_latency',
      sequence: null,
      settled_service_us: 0,
      open_elsewhere_us: 0,
      critical_path_us: 0,
      program_wait_us: 0,
      program_output_tokens: 0,
      cache_salt: 'salt',
      iat: 0,
      exp: 0,
      ...claims,
    },
  }
}

export const user = (content: string): { role: string; content: string }[] => [{ role: 'user', content }]
